package picks

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Hint is what the exclusive holder of a lane remembers of its last search. It
// saves work and never changes what is allowed: without a watermark a search
// walks over every dead index entry that a held snapshot keeps, without a
// cursor over every head that waits.
type Hint struct {
	holder protocol.Holder
	full   protocol.Time // when the lane was last searched from its beginning

	// Rows up to (Due, ID) were granted or run. Only unkeyed rows.
	Due protocol.Time
	ID  protocol.DeliveryID
	// The search of keyed heads goes on behind (Key, Handler).
	Key, Handler string
}

// FullEvery bounds how long a row that was committed late, below the
// watermark, waits to be seen.
const FullEvery = 2 * time.Second

// lateCommit is how far behind the clock a watermark stays when a search saw
// all there was: a row is due from the start of the transaction that published
// it, and is seen only after its commit. Longer ones wait for the full search.
const lateCommit = time.Second

// Hints are those of one client of a store, by lane. The zero value is ready.
type Hints struct {
	of map[protocol.LaneID]Hint
}

// For returns where a search of a lane begins.
func (h *Hints) For(holder protocol.Holder, id protocol.LaneID, now protocol.Time) Hint {
	hint, ok := h.of[id]
	if !ok || hint.holder != holder {
		return Hint{}
	}
	if now < hint.full || now.Sub(hint.full) > FullEvery {
		hint.Due, hint.ID = 0, 0
	}
	return hint
}

// Note remembers where the search of a lane ended, when it left something for
// the next one. A claim without room reads nothing, and the cursor stays where
// it was: begun anew each time, a busy worker would never come to the last keys.
func (h *Hints) Note(holder protocol.Holder, lane *Lane, s *Search, now protocol.Time) {
	if s.PerLane == 0 {
		return // nothing was read, so there is nothing to learn
	}
	l := s.of(lane.ID)
	next := l.from
	next.holder, next.Key, next.Handler = holder, "", ""
	if l.from.Due == 0 && l.from.ID == 0 {
		next.full = now
	}
	if l.heads >= s.PerLane {
		next.Key, next.Handler = l.last.key, l.last.handler
		cursorsMoved.Hit()
		if mutant.On("cursor-stands-still") {
			next.Key, next.Handler = l.from.Key, l.from.Handler
		}
	}
	if s.all {
		next.pass(l.found)
	}
	if most := lane.Clock.Add(-lateCommit); l.fresh < s.PerLane && next.Due > most {
		next.Due, next.ID = most, 0
	}
	if h.of == nil {
		h.of = map[protocol.LaneID]Hint{}
	}
	h.of[lane.ID] = next
}

// pass moves the watermark over the unkeyed rows that were granted, up to the
// first that was not. It goes no further than a suspect: others may stand behind
// it, which the search passed over.
func (h *Hint) pass(found []*Candidate) {
	unkeyed := slices.DeleteFunc(slices.Clone(found), func(c *Candidate) bool { return c.Key != "" })
	slices.SortFunc(unkeyed, ByDue)
	for _, c := range unkeyed {
		if !c.chosen {
			return
		}
		h.Due, h.ID = c.AvailableAt, c.ID
		if c.suspect() {
			return
		}
	}
}

// Forget drops the hint of a lane: after a failed claim nobody knows what was
// granted.
func (h *Hints) Forget(id protocol.LaneID) { delete(h.of, id) }

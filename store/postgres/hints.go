package postgres

import (
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// hint is what the exclusive holder of a lane remembers of its last search. It
// saves work and never changes what is allowed: without a watermark a search
// walks over every dead index entry that a held snapshot keeps, without a
// cursor over every head that waits.
type hint struct {
	holder protocol.Holder
	epoch  int64
	full   time.Time // when the lane was last searched from its beginning

	// Rows up to (due, id) were granted or run. Only unkeyed rows.
	due protocol.Time
	id  protocol.DeliveryID
	// The search of keyed heads goes on behind (key, handler).
	key, handler string
}

// fullEvery bounds how long a row that was committed late, below the
// watermark, waits to be seen.
const fullEvery = 2 * time.Second

// lateCommit is how far behind the clock a watermark stays when a search saw
// all there was: a row is due from the start of the transaction that published
// it, and is seen only after its commit. Longer ones wait for the full search.
const lateCommit = time.Second

// hintFor returns where a search of a lane begins.
func (s *Store) hintFor(holder protocol.Holder, id protocol.LaneID) hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.hints[id]
	if !ok || h.holder != holder {
		return hint{}
	}
	if time.Since(h.full) > fullEvery {
		h.due, h.id = 0, 0
	}
	return h
}

// note remembers where the search of a lane ended, when it left something for
// the next one.
func (s *Store) note(holder protocol.Holder, l *lane, f *search) {
	from := f.from[l.id]
	next := hint{holder: holder, epoch: l.epoch, full: from.full}
	if from.due == 0 && from.id == 0 {
		next.full = time.Now()
	}
	unkeyed := 0
	granted := f.all
	next.due, next.id = from.due, from.id
	for _, c := range f.found[l.id] {
		if c.key != "" {
			if f.heads[l.id] >= f.perLane {
				next.key, next.handler = c.key, c.handler
			}
			continue
		}
		unkeyed++
		if granted = granted && c.chosen; granted {
			next.due, next.id = c.due, c.id
		}
	}
	if most := l.clock.Add(-lateCommit); unkeyed < f.perLane && next.due > most {
		next.due, next.id = most, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hints[l.id] = next
}

// forget drops the hints of lanes: after a failed claim nobody knows what was
// granted.
func (s *Store) forget(lanes []engine.LaneEpoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		delete(s.hints, l.Lane)
	}
}

// forgetLeases is forget for the lanes of leases that were given back.
func (s *Store) forgetLeases(leases ...engine.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range leases {
		delete(s.hints, leases[i].Lane)
	}
}

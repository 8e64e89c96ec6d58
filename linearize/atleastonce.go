package linearize

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
)

// At least once, a model per delivery.
//
// Verified: a delivery whose publish committed stays pending or dead until it
// is completed, purged or swept by an operator, so a complete listing in
// between shows it; and nothing else is granted, completed, listed or brought
// back: not what was never committed, not a dead letter before its Requeue, not
// what was completed. Publishing an id again adds the handlers that never had a
// delivery, says Known only when there are none, says Mismatch exactly for
// another type or key, and never brings a completed delivery back while its
// event is kept. A delivery is not granted before it is due.
//
// Not verified: that a pending delivery is granted some day; which run ended
// it (effectively-once does); that the parts of one transaction commit
// together. What an operator's Purge or Unsubscribe took is not told by their
// answers, so after one a dead letter, or a pending delivery of that handler,
// may be missing.
type lifeRules struct {
	family Family
	of     *delivery
}

type lifeRow uint8

const (
	noRow lifeRow = iota // none since the event was published, if it was
	pendingRow
	deadRow
	goneRow
)

func (r lifeRow) String() string {
	return [...]string{"without a row", "pending", "dead", "gone"}[r]
}

// lifeState is the life of one delivery so far.
type lifeState struct {
	identity int // the event's type and key, 0: it is not there
	row      lifeRow
	id       engine.DeliveryID // 0: nobody saw it
	tenure   tenure
	past     former

	since *op // what last changed the row; no part of the key
}

// former are the deliveries that an event had before a Purge forgot it. A list
// is never changed, so that states may share it.
type former []engine.DeliveryID

// with adds a delivery; 0 is none.
func (f former) with(id engine.DeliveryID) former {
	if id == 0 || slices.Contains(f, id) {
		return f
	}
	return append(slices.Clip(f), id)
}

// repeats reports whether a completion is one of a delivery that is gone with
// its event: the lane may list its run for as long as its worker states it, and
// the row is not there, so that CompleteMany says Applied again.
func (f former) repeats(c *rowCall) bool {
	return c.kind == rowCompleted && slices.Contains(f, c.lease.Delivery)
}

func (f former) appendKey(b []byte) []byte {
	b = binary.AppendVarint(b, int64(len(f)))
	for _, id := range f {
		b = binary.AppendVarint(b, int64(id))
	}
	return b
}

// tenure says whose end of a run the store would accept.
type tenure struct {
	run   int   // the grant that counts; 0: none
	fence int32 // that the row has had since its last grant; -1: not known
}

// entitles reports whether a lease is the one that counts. A Snapshot store
// judges the completion of a plain handler by the fence of the row alone, which
// a release leaves as it is.
func (t tenure) entitles(f Family, c *rowCall) bool {
	if f == Snapshot && c.kind == rowCompleted {
		return t.fence == c.lease.Fence
	}
	return c.run != 0 && t.run == c.run
}

// requeued is the tenure after a Requeue, which writes the row and no lane: a
// run that was swept in the middle is still listed.
func (t tenure) requeued() tenure { return tenure{t.run, -1} }

// ended is the tenure after a write of the row.
func ended() tenure { return tenure{fence: -1} }

func (t tenure) appendKey(b []byte) []byte {
	b = binary.AppendVarint(b, int64(t.run))
	return binary.AppendVarint(b, int64(t.fence))
}

func (s lifeState) appendKey(b []byte) []byte {
	b = append(b, byte(s.identity), byte(s.row))
	b = binary.AppendVarint(b, int64(s.id))
	return s.tenure.appendKey(s.past.appendKey(b))
}

// String says what became of the delivery.
func (s lifeState) String() string {
	switch {
	case s.identity == 0:
		return "not published"
	case s.row == noRow:
		return "published, without a row for this handler"
	case s.id == 0 || s.row == goneRow:
		return s.row.String()
	}
	return fmt.Sprintf("#%d, %s", s.id, s.row)
}

func (lifeRules) start() lifeState { return lifeState{tenure: ended()} }

func one[S any](s S) []S { return []S{s} }

func (r lifeRules) settled(s lifeState, p *part[rowCall]) ([]lifeState, *misfit) {
	c := &p.in
	switch c.kind {
	case rowPublished:
		return r.published(s, p)
	case rowGranted:
		return r.granted(s, p)
	case rowCompleted, rowCommitted:
		if s.row == goneRow && c.kind == rowCompleted || s.past.repeats(c) {
			return one(s), nil // the retry of a completion whose answer was lost
		}
		return s.end(p, goneRow)
	case rowEnded:
		return s.end(p, pendingRow)
	case rowBuried:
		return s.end(p, deadRow)
	case rowReleased:
		if s.tenure.run == c.run {
			s.tenure.run = 0
		}
	case rowRequeued:
		if s.row != deadRow {
			return nil, mismatch(s.since, "it was %s, not dead", s.row)
		}
		return one(s.to(pendingRow, s.tenure.requeued(), p.op)), nil
	case rowNotRequeued:
		if s.row == deadRow {
			return nil, mismatch(s.since, "it was dead")
		}
	case rowListed:
		return s.listed(p)
	case rowAbsent:
		if s.row == pendingRow && c.notPending || s.row == deadRow && c.notDead {
			return nil, mismatch(s.since, "it was %s", s.row)
		}
	}
	return one(s), nil
}

// to is the state after the row became something.
func (s lifeState) to(row lifeRow, t tenure, by *op) lifeState {
	s.row, s.tenure, s.since = row, t, by
	return s
}

// end judges the end of a run by the row.
func (s lifeState) end(p *part[rowCall], row lifeRow) ([]lifeState, *misfit) {
	if s.row != pendingRow {
		return nil, mismatch(s.since, "it was %s, not pending", s.row)
	}
	return one(s.to(row, ended(), p.op)), nil
}

func (r lifeRules) published(s lifeState, p *part[rowCall]) ([]lifeState, *misfit) {
	c := &p.in
	same := s.identity == c.identity
	switch {
	case c.result == engine.Mismatch && s.identity == 0:
		return nil, mismatch(s.since, "nobody had published the id")
	case c.result == engine.Mismatch && same:
		return nil, mismatch(s.since, "the id was taken by an event of the same type and key")
	case c.result == engine.Mismatch:
		return one(s), nil
	case s.identity != 0 && !same:
		return nil, mismatch(s.since, "the id was taken by an event of another type or key")
	case c.result == engine.Known && s.identity == 0:
		return nil, mismatch(s.since, "nobody had published the id")
	case c.result == engine.Known && c.certain && s.row == noRow:
		return nil, mismatch(s.since, "the handler never had a delivery of the event and gets none now")
	case c.result == engine.Added && c.sole && s.row != noRow:
		return nil, mismatch(s.since, "the event was there and its only handler had its delivery")
	case c.result == engine.Known || s.row != noRow:
		return one(s), nil
	}
	s.identity = c.identity
	if !c.may {
		return one(s), nil
	}
	inserted := s.to(pendingRow, ended(), p.op)
	if c.certain {
		return one(inserted), nil
	}
	return []lifeState{inserted, s}, nil
}

func (r lifeRules) granted(s lifeState, p *part[rowCall]) ([]lifeState, *misfit) {
	c := &p.in
	switch {
	case p.wrong != "":
		return nil, mismatch(nil, "%s", p.wrong)
	case s.row != pendingRow:
		return nil, mismatch(s.since, "it was %s, not pending", lifeText(s))
	}
	if m := s.shown(c); m != nil {
		return nil, m
	}
	s.id = c.id
	s.tenure = tenure{c.run, c.lease.Fence}
	return one(s), nil
}

func lifeText(s lifeState) string {
	if s.identity == 0 {
		return "not published"
	}
	return s.row.String()
}

func (s lifeState) listed(p *part[rowCall]) ([]lifeState, *misfit) {
	c := &p.in
	want := pendingRow
	if c.dead {
		want = deadRow
	}
	if s.row != want {
		return nil, mismatch(s.since, "it was %s", lifeText(s))
	}
	if m := s.shown(c); m != nil {
		return nil, m
	}
	s.id = c.id
	return one(s), nil
}

// shown compares a row that somebody saw with what is known of it.
func (s lifeState) shown(c *rowCall) *misfit {
	if s.id != 0 && s.id != c.id {
		return mismatch(s.since, "its row is #%d, not #%d", s.id, c.id)
	}
	if key := c.identities[s.identity-1].key; key != c.key {
		return mismatch(s.since, "it was published with the key %q, not %q", key, c.key)
	}
	return nil
}

func (r lifeRules) effects(s lifeState, p, _ *part[rowCall]) []lifeState {
	c := &p.in
	switch c.kind {
	case rowPublished:
		if c.result == engine.Added && s.row == noRow {
			next, _ := r.published(s, p)
			return next
		}
	case rowCompleted, rowCommitted:
		if s.row == pendingRow && s.tenure.entitles(r.family, c) {
			return one(s.to(goneRow, ended(), p.op))
		}
	case rowBuried:
		if s.row == pendingRow && s.tenure.entitles(r.family, c) {
			return one(s.to(deadRow, ended(), p.op))
		}
	case rowRequeued:
		if s.row == deadRow {
			return one(s.to(pendingRow, s.tenure.requeued(), p.op))
		}
	case rowSwept:
		if s.row == pendingRow {
			return []lifeState{s.to(deadRow, s.tenure.requeued(), p.op), s.to(goneRow, ended(), p.op)}
		}
	case rowPurged:
		return s.purged(p.op)
	}
	return nil
}

// purged returns what a purge may leave: no dead letter, and then no event.
func (s lifeState) purged(by *op) []lifeState {
	forgotten := lifeState{tenure: ended(), past: s.past.with(s.id), since: by}
	switch {
	case s.row == deadRow:
		return []lifeState{s.to(goneRow, ended(), by), forgotten}
	case s.identity != 0 && s.row != pendingRow:
		return one(forgotten)
	}
	return nil
}

func (lifeRules) silent(lifeState) []lifeState { return nil }

// spent: an end of a run whose delivery is gone, with no way back.
func (r lifeRules) spent(s lifeState, p *part[rowCall]) bool {
	switch p.in.kind {
	case rowCompleted, rowCommitted, rowBuried:
		return s.row == goneRow && r.of.publishes < 2
	case rowEnded, rowReleased, rowUndone, rowEffect:
		return true // nothing that this model would notice
	}
	return false
}

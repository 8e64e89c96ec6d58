package simstore

import (
	"context"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// holds reports whether the lane is still as the token says.
func holds(l *protocol.Lane, t *protocol.Token) bool {
	return l != nil &&
		(l.Epoch == t.Epoch || mutant.On("complete-without-epoch-check")) &&
		(l.Holder == t.Holder || mutant.On("complete-without-holder-check") || mutant.On("epoch-alone-fences"))
}

// lists reports whether the lane lists the run.
func lists(l *protocol.Lane, lease *engine.Lease) bool {
	if mutant.On("complete-without-claim-check") || mutant.On("epoch-alone-fences") {
		return slices.ContainsFunc(l.InFlight, func(f protocol.InFlight) bool { return f.Delivery == lease.Delivery })
	}
	return slices.Contains(l.InFlight, lease.Entry()) || mutant.On("complete-without-inflight-check")
}

// accepts reports whether the lane accepts an end of the run, and counts why
// not.
func accepts(l *protocol.Lane, lease *engine.Lease) bool {
	switch {
	case !holds(l, &lease.Token):
		if otherHands.Hit(); l != nil && l.Epoch == lease.Epoch && !l.Holder.IsZero() {
			epochReissued.Hit()
		}
		return false
	case lists(l, lease):
		return true
	}
	if slices.ContainsFunc(l.InFlight, func(f protocol.InFlight) bool { return f.Delivery == lease.Delivery }) {
		otherClaim.Hit()
	} else {
		unlisted.Hit()
	}
	return false
}

// listsLease is the guard that Release needs: no row, no predecessor.
func listsLease(l *protocol.Lane, lease *engine.Lease) bool {
	return l.Epoch == lease.Epoch && l.Holder == lease.Holder && slices.Contains(l.InFlight, lease.Entry())
}

// heldBack reports whether the delivery before the lease's in its chain is
// pending, as the statement sees it.
func heldBack(st *stmt, lease *engine.Lease) bool {
	if lease.After == 0 || mutant.On("follower-completed-before-predecessor") {
		return false
	}
	before := read(st, st.tx.db.deliveries, lease.After)
	if before == nil || before.Status != protocol.Pending {
		return false
	}
	behindPending.Hit()
	return true
}

// Complete deletes the delivery inside the handler's transaction tx. On
// LeaseLost tx must be rolled back: a row that is gone was completed by
// somebody else.
//
// Finish.tla, action Complete. Locking: the lane FOR KEY SHARE, then the row
// FOR UPDATE. Snapshot: the lane is read, and the row conflicts.
func (s *Store) Complete(ctx context.Context, tx *Tx, in engine.CompleteInput) (engine.Verdict, error) {
	verdict := protocol.LeaseLost
	if err := s.mine(tx); err != nil {
		return verdict, err
	}
	err := tx.run(func() error {
		st, err := tx.statement(ctx, "complete")
		if err != nil {
			return err
		}
		e := &ending{lease: in.Lease}
		defer tx.waitAtMost(lockTimeoutOf(in.TTL))()
		if s.db.semantics == protocol.Snapshot {
			err = e.completeSnapshot(&st)
		} else {
			err = e.completeLocking(&st)
		}
		if err != nil {
			return err
		}
		if s.db.semantics == protocol.Locking {
			tx.allowIdle(in.TTL)
		}
		if verdict = e.verdict; verdict == protocol.LeaseLost {
			if e.judged != meanwhile {
				s.db.evaluated(protocol.Complete{Lease: in.Lease, Seen: seenAt(e.judged, s.db.pos+1)})
			}
			return nil
		}
		s.db.remember(tx, e.row, st.clock())
		tx.note(protocol.Complete{Lease: in.Lease, Verdict: verdict}, current)
		return nil
	})
	return verdict, err
}

// CompleteMany ends runs of handlers that own no transaction.
func (s *Store) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	reply := engine.CompleteManyReply{Ended: make([]engine.Ended, len(in.Leases))}
	err := s.serve(ctx, "CompleteMany", func(c *call) error {
		if c.db.semantics == protocol.Snapshot {
			return c.completeManySnapshot(in.Leases, reply.Ended)
		}
		return c.completeManyLocking(in.Leases, reply.Ended)
	})
	if err != nil {
		return engine.CompleteManyReply{}, err
	}
	reply.Now = s.db.sched.Now()
	return reply, nil
}

// ending is the end of one run at work.
type ending struct {
	lease   engine.Lease
	rest    []engine.Lease
	row     *protocol.Delivery // to end; nil when it is gone
	verdict protocol.Verdict
	judged  int64 // position at which a verdict of LeaseLost was read

	// apply returns the row after the end; text is the error to record.
	apply func(d protocol.Delivery, now protocol.Time, text string) protocol.Delivery
	// action describes the end.
	action func(e *ending, now protocol.Time, text string, refused bool) protocol.Action
	text   string
	stuck  bool // a row that the store refuses for good goes to the lane's stuck
}

// lost makes the verdict LeaseLost, as read at a position.
func (e *ending) lost(at int64) {
	e.verdict, e.judged = protocol.LeaseLost, at
}

// Reschedule ends a failed run: charged, due again after the delay.
func (s *Store) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	e := &ending{lease: in.Lease, rest: in.Rest, text: in.Error, stuck: true}
	e.apply = func(d protocol.Delivery, now protocol.Time, text string) protocol.Delivery {
		d.Attempts++
		d.AvailableAt = now.Add(in.Delay)
		d.LastError = text
		if mutant.On("takeovers-reset-on-failure") {
			d.Takeovers = 0
		}
		return d
	}
	e.action = func(e *ending, now protocol.Time, text string, refused bool) protocol.Action {
		return protocol.Reschedule{
			Lease: e.lease, Rest: e.rest, Delay: in.Delay, Error: text, Now: now, Verdict: e.verdict, Refused: refused,
		}
	}
	return s.end(ctx, "Reschedule", e, in.Settle)
}

// Snooze ends a run without a charge. With Settle it first waits for a handler
// transaction of the same delivery that may still be open.
func (s *Store) Snooze(ctx context.Context, in engine.SnoozeInput) (engine.EndReply, error) {
	e := &ending{lease: in.Lease, rest: in.Rest}
	e.apply = func(d protocol.Delivery, now protocol.Time, _ string) protocol.Delivery {
		d.AvailableAt = now.Add(in.Delay)
		return d
	}
	e.action = func(e *ending, now protocol.Time, _ string, refused bool) protocol.Action {
		return protocol.Snooze{Lease: e.lease, Rest: e.rest, Delay: in.Delay, Now: now, Verdict: e.verdict, Refused: refused}
	}
	return s.end(ctx, "Snooze", e, in.Settle)
}

// Bury ends a run for good.
func (s *Store) Bury(ctx context.Context, in engine.BuryInput) (engine.EndReply, error) {
	e := &ending{lease: in.Lease, rest: in.Rest, text: in.Error, stuck: true}
	e.apply = func(d protocol.Delivery, now protocol.Time, text string) protocol.Delivery {
		if in.Charge {
			d.Attempts++
		}
		d.Status, d.DiedAt, d.LastError = protocol.Dead, now, text
		return d
	}
	e.action = func(e *ending, now protocol.Time, text string, refused bool) protocol.Action {
		return protocol.Bury{
			Lease: e.lease, Rest: e.rest, Error: text, Charge: in.Charge, Now: now, Verdict: e.verdict, Refused: refused,
		}
	}
	return s.end(ctx, "Bury", e, false)
}

// end performs one end that keeps the row.
func (s *Store) end(ctx context.Context, name string, e *ending, settle bool) (engine.EndReply, error) {
	err := s.serve(ctx, name, func(c *call) error {
		if c.db.semantics == protocol.Snapshot {
			return c.endSnapshot(e)
		}
		if settle {
			if err := c.settle(e.lease.Delivery); err != nil {
				return err
			}
		}
		return c.endLocking(e)
	})
	if err != nil {
		return engine.EndReply{}, err
	}
	return engine.EndReply{Now: s.db.sched.Now(), Verdict: e.verdict}, nil
}

// left returns the lane without the run and the rest of its chain: released
// later, the rest could complete before its predecessor ran again.
func (e *ending) left(l *protocol.Lane, refused bool) *protocol.Lane {
	next := *l
	if len(e.rest) > 0 {
		restReleased.Hit()
	}
	next.InFlight = slices.DeleteFunc(slices.Clone(l.InFlight), func(f protocol.InFlight) bool {
		if f == e.lease.Entry() {
			return true
		}
		for i := range e.rest {
			r := &e.rest[i]
			if f == r.Entry() && r.Lane == e.lease.Lane && r.Epoch == e.lease.Epoch && r.Holder == e.lease.Holder {
				return true
			}
		}
		return false
	})
	if refused {
		endsRefused.Hit()
		next.Stuck = with(next.Stuck, e.lease.Delivery)
	}
	return &next
}

// cleaned returns an error text that any store can hold: short, valid UTF-8,
// without NUL.
func cleaned(text string) string {
	const most = 256
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Completion is a row of the completion history.
type Completion struct {
	Delivery protocol.Delivery
	At       protocol.Time
}

// remember appends a completion to the history, if it is kept.
func (db *database) remember(t *Tx, d *protocol.Delivery, at protocol.Time) {
	if !t.store.options.History || d == nil {
		return
	}
	db.sequence.history++
	insert(t, db.history, db.sequence.history, &Completion{Delivery: *d, At: at})
}

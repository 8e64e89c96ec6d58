package simstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Purge deletes old rows in bounded batches, each repeating its condition on
// the rows that it deletes, and sweeps again what was published meanwhile for
// handlers that were removed. When a later batch fails, what the earlier ones
// did stands, and the reply counts it.
//
// Operate.tla, action Purge.
func (s *Store) Purge(ctx context.Context, in engine.PurgeInput) (engine.PurgeReply, error) {
	var done engine.PurgeReply
	if in.DeadAfter < 0 || in.EventsAfter < 0 || in.HistoryAfter < 0 || in.Batch < 0 {
		return done, fmt.Errorf("simstore: purge: %w: negative age or batch: %+v", engine.ErrInvalid, in)
	}
	if in.Batch == 0 {
		in.Batch = engine.DefaultBatch
	}
	err := s.serve(ctx, "Purge", func(c *call) error {
		p := &purge{call: c, PurgeInput: in, done: &done}
		if mutant.On("purge-ages-swapped") {
			p.DeadAfter, p.HistoryAfter = p.HistoryAfter, p.DeadAfter
		}
		for _, part := range []func() error{p.sweepRemoved, p.dead, p.events, p.historyRows} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// purge is one Purge call at work.
type purge struct {
	*call
	engine.PurgeInput
	done *engine.PurgeReply
}

// batches runs one batch after another until one was not full.
func (p *purge) batches(after time.Duration, n *int, batch func() (int, error)) error {
	if after <= 0 {
		return nil
	}
	for {
		deleted, err := batch()
		*n += deleted
		if err != nil || deleted < p.Batch {
			return err
		}
	}
}

// sweepRemoved repeats the sweep of Unsubscribe: a publisher may have been
// open when the handler was removed. What it finds becomes dead letters.
func (p *purge) sweepRemoved() error {
	var removed []protocol.EventHandler
	err := p.look("read removed", func(st *stmt) error {
		for r := p.db.subscriptions.first; r != nil; r = r.after {
			if v := r.seen(st.tx, st.snap); v != nil && v.value.Removed && len(p.pendingOf(st, r.key, 1)) > 0 {
				removed = append(removed, r.key)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(removed, byEventAndHandler)
	for _, h := range removed {
		r := &removing{call: p.call, handler: h, bury: true, batch: p.Batch, again: true}
		if err := r.all(&p.done.Swept); err != nil {
			return err
		}
	}
	return nil
}

func (p *purge) dead() error {
	return p.batches(p.DeadAfter, &p.done.Dead, func() (int, error) {
		if p.db.semantics == protocol.Snapshot {
			return p.deadDocuments()
		}
		return p.deadRows()
	})
}

// diedBefore is the condition of a dead letter to go. Repeating it on the row
// that is deleted is what keeps a letter that was requeued meanwhile.
func diedBefore(to protocol.Time) func(*protocol.Delivery) bool {
	if mutant.On("purge-trusts-first-look") {
		return nil
	}
	return func(d *protocol.Delivery) bool { return d.Status == protocol.Dead && d.DiedAt < last(to) }
}

// last returns the instant before which a dead letter must have died to go.
func last(to protocol.Time) protocol.Time {
	if mutant.On("purge-at-the-age") {
		return to + 1
	}
	return to
}

// oldLetters returns a batch of the dead letters that the statement sees.
func (p *purge) oldLetters(st *stmt, to protocol.Time) []protocol.DeliveryID {
	var ids []protocol.DeliveryID
	for r := p.db.deliveries.first; r != nil && len(ids) < p.Batch; r = r.after {
		if v := r.seen(st.tx, st.snap); v != nil && v.value.Status == protocol.Dead && v.value.DiedAt < last(to) {
			ids = append(ids, r.key)
		}
	}
	slices.Sort(ids)
	return ids
}

// deadRows deletes a batch in a locking store.
func (p *purge) deadRows() (int, error) {
	a := protocol.Purge{}
	err := p.transact(false, 0, func(t *Tx) error {
		st, err := t.statement(p.ctx, "delete dead")
		if err != nil {
			return err
		}
		a.DiedTo = t.now.Add(-p.DeadAfter)
		ids := p.oldLetters(&st, a.DiedTo)
		if err := st.pause("lock dead"); err != nil {
			return err
		}
		for _, id := range ids {
			d, err := lockTarget(&st, p.db.deliveries, id, forUpdate, skipLocked, diedBefore(a.DiedTo))
			if err != nil {
				return err
			}
			if d != nil {
				erase(t, p.db.deliveries, id)
				a.Dead = append(a.Dead, id)
			} else if now := p.db.deliveries.rows[id].committed(); now != nil && now.Status == protocol.Pending {
				purgesSpared.Hit()
			}
		}
		p.note(t, a)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(a.Dead), nil
}

// note records a Purge that deleted something.
func (p *purge) note(t *Tx, a protocol.Purge) {
	if len(a.Dead)+len(a.Events) > 0 {
		t.note(a, current)
	}
}

// deadDocuments deletes a batch in a Snapshot store, each by one write.
func (p *purge) deadDocuments() (int, error) {
	var ids []protocol.DeliveryID
	var to protocol.Time
	err := p.look("find dead", func(st *stmt) error {
		to = st.tx.now.Add(-p.DeadAfter)
		ids = p.oldLetters(st, to)
		return nil
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, id := range ids {
		found, deleted, err := eraseAlone(p.call, "delete dead", p.db.deliveries, id, diedBefore(to), func(t *Tx, _ *protocol.Delivery) {
			p.note(t, protocol.Purge{Dead: []protocol.DeliveryID{id}, DiedTo: to})
		})
		if err != nil {
			return n, err
		}
		if deleted {
			n++
		} else if found != nil && found.Status == protocol.Pending {
			purgesSpared.Hit()
		}
	}
	return n, nil
}

func (p *purge) events() error {
	return p.batches(p.EventsAfter, &p.done.Events, func() (int, error) {
		if p.db.semantics == protocol.Snapshot {
			return p.eventDocuments()
		}
		return p.eventRows()
	})
}

// oldEvents returns a batch of the events without a delivery row that the
// statement sees.
func (p *purge) oldEvents(st *stmt, to protocol.Time) []string {
	var ids []string
	for r := p.db.events.first; r != nil && len(ids) < p.Batch; r = r.after {
		if v := r.seen(st.tx, st.snap); v != nil && v.value.PublishedAt < to && !p.hasDelivery(st, r.key) {
			ids = append(ids, r.key)
		}
	}
	slices.Sort(ids)
	return ids
}

// hasDelivery reports whether the statement sees a delivery row of the event.
func (p *purge) hasDelivery(st *stmt, event string) bool {
	for _, r := range p.db.index.byEvent[event] {
		if r.seen(st.tx, st.snap) != nil {
			return true
		}
	}
	return false
}

// eventRows deletes a batch in a locking store: it locks the events first and
// looks for deliveries in a later statement, because a locked row is read
// again but what the condition reads beside it is not.
func (p *purge) eventRows() (int, error) {
	a := protocol.Purge{}
	err := p.transact(false, 0, func(t *Tx) error {
		st, err := t.statement(p.ctx, "find events")
		if err != nil {
			return err
		}
		a.EventsTo = t.now.Add(-p.EventsAfter)
		ids := p.oldEvents(&st, a.EventsTo)
		if err := st.pause("lock events"); err != nil {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id string) bool {
			e, lockErr := lockTarget(&st, p.db.events, id, forUpdate, skipLocked, nil)
			if lockErr != nil {
				err = lockErr
			}
			return e == nil
		})
		if err != nil {
			return err
		}
		if st, err = t.statement(p.ctx, "delete events"); err != nil {
			return err
		}
		for _, id := range ids {
			if !p.hasDelivery(&st, id) || mutant.On("purge-trusts-first-look") {
				eventsPurged.Hit()
				erase(t, p.db.events, id)
				a.Events = append(a.Events, id)
			} else {
				purgesLate.Hit()
			}
		}
		p.note(t, a)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(a.Events), nil
}

// eventDocuments deletes a batch in a Snapshot store, each event in a
// transaction of its own: one that a publisher writes meanwhile conflicts and
// stays.
func (p *purge) eventDocuments() (int, error) {
	var ids []string
	var to protocol.Time
	err := p.look("find events", func(st *stmt) error {
		to = st.tx.now.Add(-p.EventsAfter)
		ids = p.oldEvents(st, to)
		return nil
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, id := range ids {
		deleted := false
		err := p.transact(false, 0, func(t *Tx) error {
			st, err := t.statement(p.ctx, "delete event")
			if err != nil {
				return err
			}
			if p.hasDelivery(&st, id) && !mutant.On("purge-trusts-first-look") {
				purgesLate.Hit()
				return nil
			}
			e, err := lockTarget(&st, p.db.events, id, forUpdate, wait, nil)
			if err != nil || e == nil {
				return err
			}
			erase(t, p.db.events, id)
			p.note(t, protocol.Purge{Events: []string{id}, EventsTo: to})
			deleted = true
			return nil
		})
		if err != nil && !errors.Is(err, engine.ErrRetryable) {
			return n, err
		}
		if err == nil && deleted {
			eventsPurged.Hit()
			n++
		}
	}
	return n, nil
}

// historyRows deletes old completions. They are nobody's business but the
// operator's, so this is no action of the protocol.
func (p *purge) historyRows() error {
	return p.batches(p.HistoryAfter, &p.done.History, func() (int, error) {
		n := 0
		err := p.transact(false, 0, func(t *Tx) error {
			st, err := t.statement(p.ctx, "delete history")
			if err != nil {
				return err
			}
			to := t.now.Add(-p.HistoryAfter)
			for r := p.db.history.first; r != nil && n < p.Batch; r = r.after {
				v := r.seen(t, st.snap)
				if v == nil || v.value.At >= to || !t.tryLock(&r.rowLock, forUpdate) {
					continue
				}
				r.write(t, nil, true)
				n++
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		return n, nil
	})
}

package simstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

var _ engine.Operator = (*Store)(nil)

// Requeue brings dead letters back to pending, due now, with nothing charged.
// By a filter it takes what is dead when it looks first, so that a delivery
// that dies again meanwhile is not requeued for ever. When a later batch fails,
// what the earlier ones did stands, and the reply counts it.
//
// Operate.tla, action Requeue.
func (s *Store) Requeue(ctx context.Context, in engine.RequeueInput) (engine.RequeueReply, error) {
	var reply engine.RequeueReply
	if err := checkRequeue(&in); err != nil {
		return reply, err
	}
	err := s.serve(ctx, "Requeue", func(c *call) error {
		q := &requeueing{call: c, in: &in, done: &reply.Requeued}
		ids, err := q.letters()
		for first := 0; first < len(ids) && err == nil && !q.full(); first += engine.DefaultBatch {
			err = q.batch(ids[first:min(first+engine.DefaultBatch, len(ids))])
		}
		return err
	})
	return reply, err
}

func checkRequeue(in *engine.RequeueInput) error {
	switch {
	case in.Limit < 0:
		return fmt.Errorf("simstore: requeue: %w: limit %d", engine.ErrInvalid, in.Limit)
	case len(in.IDs) == 0 && in.Filter == (engine.Filter{}) && !in.All:
		return fmt.Errorf("simstore: requeue: %w: a filter that selects everything needs All", engine.ErrInvalid)
	}
	return nil
}

// requeueing is one Requeue call at work.
type requeueing struct {
	*call
	in   *engine.RequeueInput
	done *int
}

func (q *requeueing) full() bool { return q.in.Limit > 0 && *q.done >= q.in.Limit }

// letters returns the ids asked for, ascending, or those that the filter
// selects now.
func (q *requeueing) letters() ([]protocol.DeliveryID, error) {
	ids := slices.Clone(q.in.IDs)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > 0 {
		return ids, nil
	}
	err := q.look("find letters", func(st *stmt) error {
		for r := q.db.deliveries.first; r != nil; r = r.after {
			v := r.seen(st.tx, st.snap)
			if v != nil && isDead(v.value) && selects(&q.in.Filter, v.value, read(st, q.db.events, v.value.Event)) {
				ids = append(ids, r.key)
			}
		}
		return nil
	})
	slices.Sort(ids)
	return ids, err
}

// asked is the condition that each requeued row is held to once more: dead,
// and within the bounds of the filter. What else a filter asks of a delivery
// never changes.
func (q *requeueing) asked(d *protocol.Delivery) bool {
	return isDead(d) && (len(q.in.IDs) > 0 || diedWithin(&q.in.Filter, d))
}

func (q *requeueing) batch(ids []protocol.DeliveryID) error {
	if q.db.semantics == protocol.Snapshot {
		return q.documents(ids)
	}
	return q.rows(ids)
}

// rows requeues a batch in a locking store: one transaction.
func (q *requeueing) rows(ids []protocol.DeliveryID) error {
	a := protocol.Requeue{IDs: ids}
	err := q.transact(false, q.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(q.ctx, "requeue")
		if err != nil {
			return err
		}
		a.Now = t.now
		if err := lockHomes(&st, ids); err != nil {
			return err
		}
		for _, id := range ids {
			if q.in.Limit > 0 && *q.done+len(a.Requeued) >= q.in.Limit {
				break
			}
			d, err := lockTarget(&st, q.db.deliveries, id, forNoKeyUpdate, wait, q.asked)
			if err != nil {
				return err
			}
			if d != nil {
				update(t, q.db.deliveries, id, t.requeued(d))
				a.Requeued = append(a.Requeued, id)
			}
		}
		t.note(a, current)
		return nil
	})
	if err == nil {
		*q.done += len(a.Requeued)
	}
	return err
}

// lockHomes locks the lanes of deliveries, ascending, ahead of the rows: a
// takeover charges the rows of some lanes before it comes to others, and passes
// over these. Snapshot stores know no locks to wait for.
func lockHomes(st *stmt, ids []protocol.DeliveryID) error {
	db := st.tx.db
	if db.semantics == protocol.Snapshot {
		return nil
	}
	var lanes []protocol.LaneID
	for _, id := range ids {
		if d := read(st, db.deliveries, id); d != nil {
			lanes = append(lanes, d.Lane)
		}
	}
	slices.Sort(lanes)
	for _, lane := range slices.Compact(lanes) {
		if _, err := lockTarget(st, db.lanes, lane, forKeyShare, wait, nil); err != nil {
			return err
		}
	}
	return nil
}

func isDead(d *protocol.Delivery) bool { return d.Status == protocol.Dead }

func (t *Tx) requeued(d *protocol.Delivery) *protocol.Delivery {
	next := *d
	next.Status, next.AvailableAt, next.DiedAt = protocol.Pending, t.now, 0
	next.Attempts, next.Takeovers = 0, 0
	requeues.Hit()
	if l := t.db.lanes.rows[d.Lane].committed(); l != nil &&
		slices.ContainsFunc(l.InFlight, func(f protocol.InFlight) bool { return f.Delivery == d.ID }) {
		requeuedListed.Hit()
	}
	t.bump(&next)
	return &next
}

// documents requeues a batch in a Snapshot store: one write per letter.
func (q *requeueing) documents(ids []protocol.DeliveryID) error {
	for _, id := range ids {
		if q.full() {
			return nil
		}
		err := alone(q.call, "requeue", q.db.deliveries, id, func(t *Tx, d *protocol.Delivery) *protocol.Delivery {
			if d == nil || !q.asked(d) {
				return nil
			}
			t.note(protocol.Requeue{IDs: []protocol.DeliveryID{id}, Requeued: []protocol.DeliveryID{id}, Now: t.now}, current)
			*q.done++
			return t.requeued(d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Unsubscribe marks a handler of an event type as removed and buries or
// deletes what is pending for it, in batches: when one fails, what the earlier
// ones did stands, and the reply counts it.
//
// Operate.tla, action Unsubscribe.
func (s *Store) Unsubscribe(ctx context.Context, in engine.UnsubscribeInput) (engine.UnsubscribeReply, error) {
	var reply engine.UnsubscribeReply
	err := s.serve(ctx, "Unsubscribe", func(c *call) error {
		r := &removing{call: c, handler: in.EventHandler, bury: in.Bury, batch: engine.DefaultBatch}
		return r.all(&reply.Swept)
	})
	return reply, err
}

// removing is the removal of one handler at work.
type removing struct {
	*call
	handler protocol.EventHandler
	bury    bool
	batch   int
	// again: the handler was seen to be removed already. One that was revived
	// since is left alone.
	again bool
}

// all sweeps one batch after another until one was not full. What was ended
// before it could be locked belongs to a batch too.
func (r *removing) all(swept *int) error {
	for {
		found, n, err := r.one()
		*swept += n
		if err != nil || found < r.batch {
			return err
		}
	}
}

// unsubscribed is the reason that a swept delivery died of.
const unsubscribed = "unsubscribed"

func isRemoved(s *protocol.Subscription) bool { return s.Removed }

// one marks the handler and sweeps one batch.
func (r *removing) one() (found, n int, err error) {
	c, h := r.call, r.handler
	a := protocol.Unsubscribe{EventHandler: h, Bury: r.bury, Reason: unsubscribed}
	var qual func(*protocol.Subscription) bool
	if r.again {
		qual = isRemoved
	}
	err = c.transact(false, c.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(c.ctx, "mark removed")
		if err != nil {
			return err
		}
		sub, err := lockTarget(&st, c.db.subscriptions, h, forNoKeyUpdate, wait, qual)
		if err != nil {
			return err
		}
		if sub == nil && r.again {
			return nil
		}
		if sub == nil {
			return fmt.Errorf("simstore: %w: no subscription of %q to %q", engine.ErrInvalid, h.Handler, h.Event)
		}
		removed := *sub
		removed.Removed = true
		update(t, c.db.subscriptions, h, &removed)
		if st, err = t.statement(c.ctx, "sweep"); err != nil {
			return err
		}
		a.Now = t.now
		if found, err = r.sweep(&st, &a); err != nil {
			return err
		}
		t.note(a, current)
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return found, len(a.Swept), nil
}

// sweep buries or deletes pending rows of a removed handler, and returns how
// many it found.
func (r *removing) sweep(st *stmt, a *protocol.Unsubscribe) (int, error) {
	ids := r.pendingOf(st, a.EventHandler, r.batch)
	if err := lockHomes(st, ids); err != nil {
		return 0, err
	}
	for _, id := range ids {
		d, err := lockTarget(st, r.db.deliveries, id, forUpdate, wait, func(d *protocol.Delivery) bool {
			return d.Status == protocol.Pending
		})
		if err != nil {
			return 0, err
		}
		if d == nil {
			continue
		}
		if swept.Hit(); r.again {
			sweptAgain.Hit()
		}
		a.Swept = append(a.Swept, id)
		if !a.Bury {
			erase(st.tx, r.db.deliveries, id)
			continue
		}
		next := *d
		next.Status, next.DiedAt, next.LastError = protocol.Dead, a.Now, a.Reason
		st.tx.bump(&next)
		update(st.tx, r.db.deliveries, id, &next)
	}
	return len(ids), nil
}

// pendingOf returns a batch of the pending deliveries of a handler, ascending.
func (c *call) pendingOf(st *stmt, h protocol.EventHandler, batch int) []protocol.DeliveryID {
	var ids []protocol.DeliveryID
	for r := c.db.deliveries.first; r != nil; r = r.after {
		v := r.seen(st.tx, st.snap)
		if v == nil || v.value.Handler != h.Handler || v.value.Status != protocol.Pending {
			continue
		}
		if e := read(st, c.db.events, v.value.Event); e != nil && e.Type == h.Event {
			ids = append(ids, r.key)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), batch)]
}

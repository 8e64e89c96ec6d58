package simstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Requeue brings dead letters back to pending, due now, with nothing charged,
// and returns how many of the ids were dead.
//
// Operate.tla, action Requeue.
func (s *Store) Requeue(ctx context.Context, ids []protocol.DeliveryID) (int, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	n := 0
	err := s.serve(ctx, "Requeue", func(c *call) error {
		if c.db.semantics == protocol.Snapshot {
			return c.requeueDocuments(ids, &n)
		}
		return c.transact(false, c.s.options.LockTimeout, func(t *Tx) error {
			st, err := t.statement(c.ctx, "requeue")
			if err != nil {
				return err
			}
			a := protocol.Requeue{IDs: ids, Now: t.now}
			for _, id := range ids {
				d, err := lockTarget(&st, c.db.deliveries, id, forNoKeyUpdate, wait, isDead)
				if err != nil {
					return err
				}
				if d != nil {
					update(t, c.db.deliveries, id, t.requeued(d))
					a.Requeued = append(a.Requeued, id)
				}
			}
			t.note(a, current)
			n = len(a.Requeued)
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func isDead(d *protocol.Delivery) bool { return d.Status == protocol.Dead }

func (t *Tx) requeued(d *protocol.Delivery) *protocol.Delivery {
	next := *d
	next.Status, next.AvailableAt, next.DiedAt = protocol.Pending, t.now, 0
	next.Attempts, next.Takeovers = 0, 0
	t.bump(&next)
	return &next
}

func (c *call) requeueDocuments(ids []protocol.DeliveryID, n *int) error {
	for _, id := range ids {
		err := alone(c, "requeue", c.db.deliveries, id, func(t *Tx, d *protocol.Delivery) *protocol.Delivery {
			if d == nil || d.Status != protocol.Dead {
				return nil
			}
			t.note(protocol.Requeue{IDs: []protocol.DeliveryID{id}, Requeued: []protocol.DeliveryID{id}, Now: t.now}, current)
			*n++
			return t.requeued(d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepBatch bounds how many rows one transaction of an operator writes.
const sweepBatch = 100

// Unsubscribe marks a handler of an event type as removed and buries or
// deletes what is pending for it. It returns how many deliveries it swept.
//
// Operate.tla, action Unsubscribe.
func (s *Store) Unsubscribe(ctx context.Context, h protocol.EventHandler, bury bool) (int, error) {
	swept := 0
	err := s.serve(ctx, "Unsubscribe", func(c *call) error {
		for {
			n, err := c.unsubscribe(h, bury)
			swept += n
			if err != nil || n < sweepBatch {
				return err
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return swept, nil
}

// unsubscribe marks and sweeps one batch.
func (c *call) unsubscribe(h protocol.EventHandler, bury bool) (int, error) {
	a := protocol.Unsubscribe{EventHandler: h, Bury: bury, Reason: "unsubscribed"}
	err := c.transact(false, c.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(c.ctx, "mark removed")
		if err != nil {
			return err
		}
		sub, err := lockTarget(&st, c.db.subscriptions, h, forNoKeyUpdate, wait, nil)
		if err != nil {
			return err
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
		if err := c.sweep(&st, &a); err != nil {
			return err
		}
		t.note(a, current)
		return nil
	})
	return len(a.Swept), err
}

// sweep buries or deletes pending rows of a removed handler.
func (c *call) sweep(st *stmt, a *protocol.Unsubscribe) error {
	for _, id := range c.pendingOf(st, a.EventHandler) {
		d, err := lockTarget(st, c.db.deliveries, id, forUpdate, wait, func(d *protocol.Delivery) bool {
			return d.Status == protocol.Pending
		})
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		a.Swept = append(a.Swept, id)
		if !a.Bury {
			erase(st.tx, c.db.deliveries, id)
			continue
		}
		next := *d
		next.Status, next.DiedAt, next.LastError = protocol.Dead, a.Now, a.Reason
		st.tx.bump(&next)
		update(st.tx, c.db.deliveries, id, &next)
	}
	return nil
}

// pendingOf returns a batch of the pending deliveries of a handler, ascending.
func (c *call) pendingOf(st *stmt, h protocol.EventHandler) []protocol.DeliveryID {
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
	return ids[:min(len(ids), sweepBatch)]
}

package simstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// groupCounter is the key of the counter that numbers groups.
const groupCounter = "groups"

// Subscribe writes the subscriptions of a bus and creates the lanes of its
// group when they are missing.
//
// Operate.tla, action Subscribe.
func (s *Store) Subscribe(ctx context.Context, in engine.SubscribeInput) (engine.SubscribeReply, error) {
	reply := engine.SubscribeReply{Lanes: s.options.Lanes}
	err := s.serve(ctx, "Subscribe", func(c *call) error {
		j := &joining{call: c, in: &in, reply: &reply, handlers: inOrder(in.Handlers)}
		refresh, err := j.onlyRefresh()
		switch {
		case err != nil:
			return err
		case refresh && c.db.semantics == protocol.Snapshot:
			return j.refreshDocuments()
		case refresh:
			return j.refresh()
		}
		return j.join()
	})
	if err != nil {
		return engine.SubscribeReply{}, err
	}
	reply.Now = s.db.sched.Now()
	return reply, nil
}

// joining is one Subscribe call at work.
type joining struct {
	*call
	in       *engine.SubscribeInput
	handlers []engine.EventHandler // sorted
	reply    *engine.SubscribeReply
}

func inOrder(handlers []engine.EventHandler) []engine.EventHandler {
	list := slices.Clone(handlers)
	slices.SortFunc(list, byEventAndHandler)
	return slices.Compact(list)
}

func byEventAndHandler(a, b protocol.EventHandler) int {
	if c := cmp.Compare(a.Event, b.Event); c != 0 {
		return c
	}
	return cmp.Compare(a.Handler, b.Handler)
}

// onlyRefresh reports whether group, lanes and subscriptions are all there.
func (j *joining) onlyRefresh() (bool, error) {
	refresh := true
	err := j.look("read subscriptions", func(st *stmt) error {
		group := read(st, j.db.groups, j.in.Group)
		if group == nil || len(j.missingLanes(st, *group)) > 0 {
			refresh = false
			return nil
		}
		j.reply.Group = *group
		for _, h := range j.handlers {
			sub := read(st, j.db.subscriptions, h)
			refresh = refresh && sub != nil && sub.Group == j.in.Group
		}
		return nil
	})
	return refresh, err
}

func (j *joining) missingLanes(st *stmt, group int32) []protocol.LaneID {
	var missing []protocol.LaneID
	n := j.s.options.Lanes
	for i := range n {
		if id := protocol.LaneID(group*n + i); read(st, j.db.lanes, id) == nil {
			missing = append(missing, id)
		}
	}
	return missing
}

// join creates what is missing. Starts that do so wait for each other at the
// counter of groups, so that no group gets two numbers and no handler two
// groups.
func (j *joining) join() error {
	return j.transact(false, 0, func(t *Tx) error {
		st, err := t.statement(j.ctx, "lock groups")
		if err != nil {
			return err
		}
		count, err := lockTarget(&st, j.db.counters, groupCounter, forUpdate, wait, nil)
		if err != nil {
			return err
		}
		if st, err = t.statement(j.ctx, "create group"); err != nil {
			return err
		}
		if err := j.sameGroup(&st); err != nil {
			return err
		}
		group := read(&st, j.db.groups, j.in.Group)
		if group == nil {
			number := int32(*count)
			next := *count + 1
			update(t, j.db.counters, groupCounter, &next)
			insert(t, j.db.groups, j.in.Group, &number)
			group = &number
		} else if j.db.semantics == protocol.Snapshot {
			update(t, j.db.counters, groupCounter, count) // conflicts with another start
		}
		j.reply.Group = *group
		lanes := j.missingLanes(&st, *group)
		for _, id := range lanes {
			insert(t, j.db.lanes, id, &protocol.Lane{ID: id})
		}
		return j.subscribe(&st, lanes)
	})
}

// sameGroup refuses a handler that belongs to another group: its pending rows
// would stay in the lanes of the old one.
func (j *joining) sameGroup(st *stmt) error {
	for r := j.db.subscriptions.first; r != nil; r = r.after {
		v := r.seen(st.tx, st.snap)
		if v == nil || v.value.Group == j.in.Group {
			continue
		}
		for _, h := range j.handlers {
			if h.Handler == v.value.Handler {
				return engine.Definite(fmt.Errorf("simstore: handler %q belongs to group %q, not %q",
					h.Handler, v.value.Group, j.in.Group))
			}
		}
	}
	return nil
}

// subscribe writes the subscriptions and records the action.
func (j *joining) subscribe(st *stmt, lanes []protocol.LaneID) error {
	t := st.tx
	for _, h := range j.handlers {
		if _, err := upsert(st, j.db.subscriptions, h, func(old *protocol.Subscription) *protocol.Subscription {
			return j.seen(h, old, t.now)
		}); err != nil {
			return err
		}
	}
	j.note(t, j.handlers, lanes)
	return nil
}

// seen returns the subscription as this start leaves it.
func (j *joining) seen(h engine.EventHandler, old *protocol.Subscription, now protocol.Time) *protocol.Subscription {
	next := protocol.Subscription{Event: h.Event, Handler: h.Handler, Group: j.in.Group}
	if old != nil {
		next = *old
	}
	if next.Removed && !j.in.Revive {
		j.reply.Removed = append(j.reply.Removed, h)
		return &next
	}
	next.Removed = false
	next.SeenAt = max(next.SeenAt, now)
	return &next
}

func (j *joining) note(t *Tx, handlers []engine.EventHandler, lanes []protocol.LaneID) {
	t.note(protocol.Subscribe{
		Group: j.in.Group, Handlers: handlers, Revive: j.in.Revive, Lanes: lanes, Now: t.now,
	}, current)
}

// refresh notes that the bus is still there.
func (j *joining) refresh() error {
	return j.transact(false, 0, func(t *Tx) error {
		st, err := t.statement(j.ctx, "refresh")
		if err != nil {
			return err
		}
		return j.subscribe(&st, nil)
	})
}

// refreshDocuments is refresh of a Snapshot store: one write per document, so
// that two buses that refresh at once do not conflict.
func (j *joining) refreshDocuments() error {
	for _, h := range j.handlers {
		err := alone(j.call, "refresh", j.db.subscriptions, h, func(t *Tx, old *protocol.Subscription) *protocol.Subscription {
			if old == nil {
				return nil
			}
			j.note(t, []engine.EventHandler{h}, nil)
			return j.seen(h, old, t.now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

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

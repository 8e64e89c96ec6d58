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
		staysRemoved.Hit()
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

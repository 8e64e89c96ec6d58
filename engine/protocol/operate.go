package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// Subscribe writes the subscriptions of one bus and creates the lanes of its
// group that are missing. A removed subscription stays removed unless the
// start asks to revive it.
//
// Operate.tla, action Subscribe. Guards: group, lanes.
func (s *State) Subscribe(a Subscribe) Outcome {
	if o := s.mayJoin(a); !o.OK() {
		return o
	}
	if o := s.mayHaveLanes(a); !s.guard("Subscribe.lanes", o.OK()) {
		return o
	}
	if _, ok := s.Group(a.Group); !ok {
		s.groups = append(s.groups, a.Group)
	}
	for _, id := range a.Lanes {
		s.addLane(id)
	}
	for _, h := range a.Handlers {
		s.subscribe(h, a)
	}
	return applied
}

// mayJoin checks that no handler moves to another group: its pending rows
// would stay in the lanes of the old one.
func (s *State) mayJoin(a Subscribe) Outcome {
	for _, sub := range s.subscriptions {
		if !s.guard("Subscribe.group", sub.Group == a.Group || !subscribes(a.Handlers, sub.Handler)) {
			return failed("group", sub.Handler+" in "+sub.Group, a.Group)
		}
	}
	return applied
}

func subscribes(handlers []EventHandler, handler string) bool {
	for i := range handlers {
		if handlers[i].Handler == handler {
			return true
		}
	}
	return false
}

// mayHaveLanes checks that the group's lanes are there, all of them and no
// others, before its first subscription is.
func (s *State) mayHaveLanes(a Subscribe) Outcome {
	group, ok := s.Group(a.Group)
	if !ok {
		group = int32(len(s.groups))
	}
	first := LaneID(group * s.modulus)
	for _, id := range a.Lanes {
		if id < first || id >= first+LaneID(s.modulus) {
			return failed("lanes", id, fmt.Sprintf("lanes of group %d", group))
		}
	}
	for id := first; id < first+LaneID(s.modulus); id++ {
		if s.lane(id) == nil && !slices.Contains(a.Lanes, id) {
			return failed("lanes", fmt.Sprintf("no lane %d", id), "every lane of the group")
		}
	}
	return applied
}

func (s *State) addLane(id LaneID) {
	i, ok := search(s.lanes, id, laneID)
	if !ok {
		s.lanes = insertAt(s.lanes, i, &Lane{ID: id})
	}
}

func (s *State) subscribe(h EventHandler, a Subscribe) {
	i, ok := s.subscriptionAt(h)
	if !ok {
		sub := &Subscription{Event: h.Event, Handler: h.Handler, Group: a.Group}
		s.subscriptions = insertAt(s.subscriptions, i, sub)
	}
	sub := s.subscriptions[i]
	if sub.Removed && s.rule("Subscribe.revive") && !a.Revive {
		return
	}
	sub.Removed = false
	sub.SeenAt = max(sub.SeenAt, a.Now)
}

// subscriptionAt returns the place of a subscription.
func (s *State) subscriptionAt(h EventHandler) (int, bool) {
	return slices.BinarySearchFunc(s.subscriptions, h, func(sub *Subscription, h EventHandler) int {
		if c := cmp.Compare(sub.Event, h.Event); c != 0 {
			return c
		}
		return cmp.Compare(sub.Handler, h.Handler)
	})
}

// Unsubscribe marks a subscription as removed and buries or deletes what is
// pending for it, in one or more batches. It writes no lane: a swept delivery
// that is in flight stays listed until its holder's next claim.
//
// Operate.tla, action Unsubscribe. Guards: subscribed, then per swept row:
// row, handler, pending, twice.
func (s *State) Unsubscribe(a Unsubscribe) Outcome {
	i, ok := s.subscriptionAt(a.EventHandler)
	if !ok {
		return failed("subscribed", "no subscription of "+a.Handler, "one of "+a.Event)
	}
	for i, id := range a.Swept {
		if o := s.maySweep(id, a.EventHandler); !o.OK() {
			return o
		}
		if o := once(a.Swept, i); !o.OK() {
			return o
		}
	}
	s.subscriptions[i].Removed = true
	for _, id := range a.Swept {
		s.sweep(s.row(id), a)
	}
	return applied
}

func (s *State) maySweep(id DeliveryID, h EventHandler) Outcome {
	r := s.row(id)
	switch {
	case r == nil:
		return failed("row", fmt.Sprintf("#%d is gone", id), "a row")
	case !s.guard("Unsubscribe.handler", r.Handler == h.Handler && r.event.Type == h.Event):
		return failed("handler", r.event.Type+"/"+r.Handler, h.Event+"/"+h.Handler)
	case !s.guard("Unsubscribe.pending", r.Status == Pending):
		return failed("pending", r.Status, Pending)
	}
	return applied
}

func (s *State) sweep(r *row, a Unsubscribe) {
	if !a.Bury {
		s.removeRow(r)
		return
	}
	s.die(r, a.Now, a.Reason)
}

// die turns a row into a dead letter.
func (s *State) die(r *row, now Time, why string) {
	s.setStatus(r, Dead)
	r.DiedAt = now
	r.LastError = why
	s.wrote(r)
}

// Requeue brings dead letters back: pending, due now, with nothing charged.
// Their position in their key is the old one, so a requeued delivery may find
// later ones of its key done.
//
// Operate.tla, action Requeue. Guards per requeued row: asked, dead, twice.
func (s *State) Requeue(a Requeue) Outcome {
	for i, id := range a.Requeued {
		if !slices.Contains(a.IDs, id) {
			return failed("asked", fmt.Sprintf("#%d", id), "one of the ids")
		}
		if r := s.row(id); r == nil || !s.guard("Requeue.dead", r.Status == Dead) {
			return failed("dead", statusOf(r), Dead)
		}
		if o := once(a.Requeued, i); !o.OK() {
			return o
		}
	}
	for _, id := range a.Requeued {
		s.requeue(s.row(id), a.Now)
	}
	return applied
}

func (s *State) requeue(r *row, now Time) {
	s.setStatus(r, Pending)
	r.AvailableAt, r.DiedAt = now, 0
	if s.rule("Requeue.reset") {
		r.Attempts, r.Takeovers = 0, 0
	}
	s.wrote(r)
}

// once checks that an action writes no row twice.
func once[T comparable](list []T, i int) Outcome {
	if slices.Contains(list[:i], list[i]) {
		return failed("twice", list[i], "each once")
	}
	return applied
}

// statusOf words a row's status; a row that is gone has none.
func statusOf(r *row) string {
	if r == nil {
		return "gone"
	}
	return r.Status.String()
}

// Purge deletes old dead letters and old events that no delivery needs.
//
// Operate.tla, action Purge. Guards per row: dead, died, twice; per event:
// event, published, deliveries, twice.
func (s *State) Purge(a Purge) Outcome {
	for i, id := range a.Dead {
		if o := s.mayPurge(s.row(id), a.DiedTo); !o.OK() {
			return o
		}
		if o := once(a.Dead, i); !o.OK() {
			return o
		}
	}
	for i, id := range a.Events {
		if o := s.mayForget(s.eventOf[id], a); !o.OK() {
			return o
		}
		if o := once(a.Events, i); !o.OK() {
			return o
		}
	}
	for _, id := range a.Dead {
		s.removeRow(s.row(id))
	}
	for _, id := range a.Events {
		s.forget(id)
	}
	return applied
}

func (s *State) mayPurge(r *row, diedTo Time) Outcome {
	switch {
	case r == nil || !s.guard("Purge.dead", r.Status == Dead):
		return failed("dead", statusOf(r), Dead)
	case !s.guard("Purge.died", r.DiedAt < diedTo):
		return failed("died", "dead since the bound or later", "before the bound")
	}
	return applied
}

// mayForget checks an event; rows that this very Purge deletes do not hold it.
func (s *State) mayForget(e *eventRow, a Purge) Outcome {
	switch {
	case e == nil:
		return failed("event", "no event", "one to delete")
	case !s.guard("Purge.published", e.PublishedAt < a.EventsTo):
		return failed("published", "at the bound or later", "before the bound")
	}
	left := e.rows
	for _, id := range a.Dead {
		if s.row(id).event == e {
			left--
		}
	}
	if !s.guard("Purge.deliveries", left == 0) {
		return failed("deliveries", left, "none left")
	}
	return applied
}

func (s *State) forget(id string) {
	i, _ := search(s.events, id, eventID)
	s.events = removeAt(s.events, i)
	delete(s.eventOf, id)
}

package protocol

import (
	"fmt"
	"slices"
)

// Publish writes events and a pending delivery per newly subscribed handler,
// as part of the caller's transaction. There is one outcome per event, valid
// until the next action; unless all are Applied nothing is written.
//
// Publish.tla, action Publish. Guards: event, subscribed, result, handlers,
// row, delivery, lane, sequence.
func (s *State) Publish(a Publish) []Outcome {
	s.outcomes = s.outcomes[:0]
	all := true
	for i := range a.Events {
		o := s.mayPublish(a.Events, i)
		all = all && o.OK()
		s.outcomes = append(s.outcomes, o)
	}
	if all {
		for i := range a.Events {
			s.publish(a.Now, &a.Events[i])
		}
	}
	return s.outcomes
}

func (s *State) mayPublish(events []PublishEvent, i int) Outcome {
	p := &events[i]
	known := s.eventOf[p.Event.ID]
	if p.Event.ID == "" || hasEvent(events[:i], p.Event.ID) {
		return failed("event", fmt.Sprintf("id %q", p.Event.ID), "an id, once per batch")
	}
	if o := s.maySubscribed(p); !o.OK() {
		return o
	}
	if want := publishResult(known, p); !s.guard("Publish.result", p.Result == want) {
		return failed("result", p.Result, want)
	}
	if o := mayInsert(known, p); !s.guard("Publish.handlers", o.OK()) {
		return o
	}
	for j := range p.Deliveries {
		if o := s.mayDeliver(events, i, &p.Deliveries[j]); !o.OK() {
			return o
		}
	}
	return applied
}

func hasEvent(events []PublishEvent, id string) bool {
	for i := range events {
		if events[i].Event.ID == id {
			return true
		}
	}
	return false
}

// maySubscribed checks that nobody gets a delivery who never subscribed. A
// removed subscription counts: the publisher may have read it before.
func (s *State) maySubscribed(p *PublishEvent) Outcome {
	for _, handler := range p.Subscribed {
		if _, ok := s.subscriptionAt(EventHandler{p.Event.Type, handler}); !ok {
			return failed("subscribed", "no subscription of "+handler, "one of "+p.Event.Type)
		}
	}
	return applied
}

// publishResult is what publishing must say, given the event that is there.
func publishResult(known *eventRow, p *PublishEvent) PublishResult {
	switch {
	case known == nil:
		return Added
	case known.Type != p.Event.Type || known.Key != p.Event.Key:
		return Mismatch
	case newHandlers(known, p) > 0:
		return Added
	default:
		return Known
	}
}

// newHandlers counts the subscribed handlers that the event never had a
// delivery for.
func newHandlers(known *eventRow, p *PublishEvent) int {
	if known == nil {
		return len(p.Subscribed)
	}
	n := 0
	for _, handler := range p.Subscribed {
		if !slices.Contains(known.Handlers, handler) {
			n++
		}
	}
	return n
}

// mayInsert checks that the inserted deliveries are exactly the new handlers'.
func mayInsert(known *eventRow, p *PublishEvent) Outcome {
	want := 0
	if p.Result == Added {
		want = newHandlers(known, p)
	}
	if len(p.Deliveries) != want {
		return failed("handlers", fmt.Sprint(len(p.Deliveries), " deliveries"), want)
	}
	for j := range p.Deliveries {
		handler := p.Deliveries[j].Handler
		switch {
		case !slices.Contains(p.Subscribed, handler):
			return failed("handlers", handler, "a subscribed handler")
		case known != nil && slices.Contains(known.Handlers, handler):
			return failed("handlers", handler+" had its delivery", "a new handler")
		case hasHandler(p.Deliveries[:j], handler):
			return failed("handlers", handler+" twice", "one delivery per handler")
		}
	}
	return applied
}

func hasHandler(deliveries []Delivery, handler string) bool {
	for i := range deliveries {
		if deliveries[i].Handler == handler {
			return true
		}
	}
	return false
}

// mayDeliver checks one delivery of event i.
func (s *State) mayDeliver(events []PublishEvent, i int, d *Delivery) Outcome {
	e := &events[i].Event
	if o := freshRow(e, d); !s.guard("Publish.row", o.OK()) {
		return o
	}
	if d.ID <= 0 || s.row(d.ID) != nil || drawnBefore(events[:i+1], d) {
		return failed("delivery", fmt.Sprintf("id %d", d.ID), "a new id")
	}
	if want := s.laneFor(e, d.Handler); !s.guard("Publish.lane", d.Lane == want && s.lane(want) != nil) {
		return failed("lane", d.Lane, fmt.Sprint("existing lane ", want))
	}
	if e.Key == "" && s.semantics == Snapshot {
		return applied
	}
	if last := s.lastSequence(events[:i], d); !s.guard("Publish.sequence", d.Sequence > last) {
		return failed("sequence", d.Sequence, fmt.Sprint("above ", last))
	}
	if s.semantics == Locking && d.Sequence != int64(d.ID) {
		return failed("sequence", d.Sequence, fmt.Sprint("the id ", d.ID))
	}
	return applied
}

// freshRow checks that a row says of itself what a new one must.
func freshRow(e *Event, d *Delivery) Outcome {
	switch {
	case d.Event != e.ID || d.Key != e.Key:
		return failed("row", d.Event+"/"+d.Key, e.ID+"/"+e.Key)
	case d.Status != Pending || d.DiedAt != 0:
		return failed("row", d.Status, Pending)
	case d.Attempts != 0 || d.Takeovers != 0 || d.Fence != 0 || d.LastError != "":
		return failed("row", "charged", "never run")
	}
	return applied
}

// drawnBefore reports whether the batch uses the id for another delivery.
func drawnBefore(events []PublishEvent, d *Delivery) bool {
	for i := range events {
		for j := range events[i].Deliveries {
			if other := &events[i].Deliveries[j]; other != d && other.ID == d.ID {
				return true
			}
		}
	}
	return false
}

// laneFor returns the lane that a delivery of the event must have.
func (s *State) laneFor(e *Event, handler string) LaneID {
	i, _ := s.subscriptionAt(EventHandler{e.Type, handler})
	group, _ := s.Group(s.subscriptions[i].Group)
	return LaneOf(group, s.modulus, e.Key, e.ID)
}

// lastSequence returns the sequence that a delivery must exceed: what its slot
// drew before this transaction, and what stands before it in its queue or in
// the batch.
func (s *State) lastSequence(before []PublishEvent, d *Delivery) int64 {
	if d.Key == "" {
		return 0
	}
	last := s.Slot(SlotOf(d.Key))
	if q := s.queueOf[handlerKey{d.Handler, d.Key}]; q != nil && len(q.pending) > 0 {
		last = max(last, q.pending[len(q.pending)-1].Sequence)
	}
	for i := len(before) - 1; i >= 0; i-- {
		if before[i].Event.Key != d.Key {
			continue
		}
		for j := range before[i].Deliveries {
			if other := &before[i].Deliveries[j]; other.Handler == d.Handler {
				return max(last, other.Sequence)
			}
		}
	}
	return last
}

func (s *State) publish(now Time, p *PublishEvent) {
	if p.Result == Mismatch {
		return
	}
	e := s.eventOf[p.Event.ID]
	if e == nil {
		e = s.addEvent(now, p)
	}
	if s.rule("Publish.remember") {
		e.remember(p.Deliveries)
	}
	for j := range p.Deliveries {
		d := &p.Deliveries[j]
		s.addRow(d)
		if d.Key != "" && s.semantics == Snapshot {
			s.draw(SlotOf(d.Key), d.Sequence)
		}
	}
}

func (s *State) addEvent(now Time, p *PublishEvent) *eventRow {
	e := s.newEvent.take()
	e.Event = p.Event
	e.Handlers, e.Due = nil, Due{}
	if e.PublishedAt == 0 {
		e.PublishedAt = now
	}
	i, _ := search(s.events, e.ID, eventID)
	s.events = insertAt(s.events, i, e)
	s.eventOf[e.ID] = e
	return e
}

// remember adds the handlers of new deliveries, sorted. The list is replaced
// and never changed, so that a Clone may share it.
func (e *eventRow) remember(deliveries []Delivery) {
	if len(deliveries) == 0 {
		return
	}
	all := make([]string, 0, len(e.Handlers)+len(deliveries))
	all = append(all, e.Handlers...)
	for i := range deliveries {
		all = append(all, deliveries[i].Handler)
	}
	slices.Sort(all)
	e.Handlers = all
}

// draw moves a slot's counter up to a sequence.
func (s *State) draw(number int32, sequence int64) {
	i, ok := search(s.slots, number, slotNumber)
	if !ok {
		s.slots = insertAt(s.slots, i, slot{number: number})
	}
	s.slots[i].last = max(s.slots[i].last, sequence)
}

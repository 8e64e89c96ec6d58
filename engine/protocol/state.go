package protocol

import (
	"iter"
	"slices"
)

// State is what a store holds, as a value: the same actions in the same order
// give the same State. Each action of the protocol is a method of that name;
// its guards decide in the order of the specification, and where the first
// fails nothing changes. A State is not safe for concurrent use.
type State struct {
	semantics Semantics
	modulus   int32
	without   []string // see Without

	events        []*eventRow // by id
	rows          []*row      // by id
	lanes         []*Lane     // by id
	slots         []slot      // by number; Snapshot only
	subscriptions []*Subscription
	groups        []string // by number: the order of first subscription

	// Lookup indexes beside the slices; never iterated.
	eventOf map[string]*eventRow
	queueOf map[handlerKey]*queue

	// Scratch space that actions return to their caller.
	outcomes []Outcome
	charged  []DeliveryID
	spare    []*row // rows of deliveries that are gone, to be used again
	newRows  slab[row]
	newEvent slab[eventRow]
}

// row is a delivery with what finds its neighbours.
type row struct {
	Delivery
	event *eventRow
	queue *queue // nil when the delivery has no key
}

// eventRow is an event with the number of its delivery rows, pending or dead.
type eventRow struct {
	Event
	rows int
}

// handlerKey is what an order of deliveries is promised for.
type handlerKey struct{ handler, key string }

// queue holds the pending rows of one (handler, key) in sequence order. Dead
// rows stand aside: a dead delivery does not block its key.
type queue struct{ pending []*row }

// slot is the sequence counter of one key slot.
type slot struct {
	number int32
	last   int64
}

// NewState returns an empty State. Lanes is the number of lanes of a group;
// 0 means [DefaultLanes].
func NewState(semantics Semantics, lanes int32) *State {
	if lanes == 0 {
		lanes = DefaultLanes
	}
	return &State{
		semantics: semantics,
		modulus:   lanes,
		eventOf:   map[string]*eventRow{},
		queueOf:   map[handlerKey]*queue{},
	}
}

// Semantics returns the family of stores whose rules the State follows.
func (s *State) Semantics() Semantics { return s.semantics }

// Modulus returns the number of lanes of a group.
func (s *State) Modulus() int32 { return s.modulus }

// Event returns the event of an id. Its slices belong to the State.
func (s *State) Event(id string) (Event, bool) {
	e := s.eventOf[id]
	if e == nil {
		return Event{}, false
	}
	return e.Event, true
}

// Delivery returns the row of an id: pending or dead. A completed delivery has
// none.
func (s *State) Delivery(id DeliveryID) (Delivery, bool) {
	r := s.row(id)
	if r == nil {
		return Delivery{}, false
	}
	return r.Delivery, true
}

// DeliveryOf returns the row of an event and a handler. It looks through all
// rows.
func (s *State) DeliveryOf(event, handler string) (Delivery, bool) {
	for _, r := range s.rows {
		if r.Event == event && r.Handler == handler {
			return r.Delivery, true
		}
	}
	return Delivery{}, false
}

// Lane returns the lane of an id. Its lists belong to the State and are valid
// until the next action.
func (s *State) Lane(id LaneID) (Lane, bool) {
	lane := s.lane(id)
	if lane == nil {
		return Lane{}, false
	}
	return *lane, true
}

// Slot returns the last sequence drawn from a key slot (Snapshot stores).
func (s *State) Slot(number int32) int64 {
	if i, ok := search(s.slots, number, slotNumber); ok {
		return s.slots[i].last
	}
	return 0
}

// Group returns the number of a group.
func (s *State) Group(name string) (int32, bool) {
	i := slices.Index(s.groups, name)
	return int32(max(i, 0)), i >= 0
}

// Subscription returns the subscription of a handler to an event type,
// removed or not.
func (s *State) Subscription(event, handler string) (Subscription, bool) {
	i, ok := s.subscriptionAt(EventHandler{event, handler})
	if !ok {
		return Subscription{}, false
	}
	return *s.subscriptions[i], true
}

// Events returns all events, by id.
func (s *State) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for _, e := range s.events {
			if !yield(e.Event) {
				return
			}
		}
	}
}

// Deliveries returns all delivery rows, by id.
func (s *State) Deliveries() iter.Seq[Delivery] {
	return func(yield func(Delivery) bool) {
		for _, r := range s.rows {
			if !yield(r.Delivery) {
				return
			}
		}
	}
}

// AllLanes returns all lanes, by id. As with [State.Lane] their lists are
// valid until the next action.
func (s *State) AllLanes() iter.Seq[Lane] {
	return func(yield func(Lane) bool) {
		for _, lane := range s.lanes {
			if !yield(*lane) {
				return
			}
		}
	}
}

// Subscriptions returns all subscriptions, by event type and handler.
func (s *State) Subscriptions() iter.Seq[Subscription] {
	return func(yield func(Subscription) bool) {
		for _, sub := range s.subscriptions {
			if !yield(*sub) {
				return
			}
		}
	}
}

// Len returns the number of delivery rows, pending or dead.
func (s *State) Len() int { return len(s.rows) }

func rowID(r **row) DeliveryID { return (*r).ID }

func laneID(l **Lane) LaneID { return (*l).ID }

func eventID(e **eventRow) string { return (*e).ID }

func slotNumber(s *slot) int32 { return s.number }

// row returns the row of a delivery, or nil when it is gone.
func (s *State) row(id DeliveryID) *row {
	i, ok := search(s.rows, id, rowID)
	if !ok {
		return nil
	}
	return s.rows[i]
}

// pendingRow returns the row of a delivery unless it is dead or gone.
func (s *State) pendingRow(id DeliveryID) *row {
	r := s.row(id)
	if r == nil || r.Status != Pending {
		return nil
	}
	return r
}

// lane returns a lane, or nil when its row is missing. Groups get their lanes
// in order, so the first guess is usually right.
func (s *State) lane(id LaneID) *Lane {
	if id >= 0 && int(id) < len(s.lanes) && s.lanes[id].ID == id {
		return s.lanes[id]
	}
	i, ok := search(s.lanes, id, laneID)
	if !ok {
		return nil
	}
	return s.lanes[i]
}

// addRow inserts a delivery and makes it known to its event and its queue.
func (s *State) addRow(d *Delivery) *row {
	r := s.newRow()
	r.Delivery = *d
	r.event = s.eventOf[d.Event]
	r.event.rows++
	if d.Key != "" {
		r.queue = s.queue(handlerKey{d.Handler, d.Key})
		r.queue.add(r)
	}
	i, _ := search(s.rows, d.ID, rowID)
	s.rows = insertAt(s.rows, i, r)
	return r
}

func (s *State) newRow() *row {
	if n := len(s.spare); n > 0 {
		r := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return r
	}
	return s.newRows.take()
}

// removeRow deletes a delivery.
func (s *State) removeRow(r *row) {
	if r.Status == Pending {
		r.queue.remove(r)
	}
	if r.event != nil { // purged before its rows, without Purge.deliveries
		r.event.rows--
	}
	i, _ := search(s.rows, r.ID, rowID)
	s.rows = removeAt(s.rows, i)
	*r = row{}
	s.spare = append(s.spare, r)
}

// setStatus moves a row between its queue and the dead letters.
func (s *State) setStatus(r *row, status Status) {
	if r.Status == status {
		return
	}
	r.Status = status
	if status == Dead {
		r.queue.remove(r)
		return
	}
	r.queue.add(r)
}

// wrote marks a write of the row. A Snapshot store's plain completions compare
// the fence instead of the lane, so it is never reset.
func (s *State) wrote(r *row) {
	if s.semantics == Snapshot {
		r.Fence++
	}
}

func (s *State) queue(of handlerKey) *queue {
	q := s.queueOf[of]
	if q == nil {
		q = &queue{}
		s.queueOf[of] = q
	}
	return q
}

func rowSequence(r **row) int64 { return (*r).Sequence }

func (q *queue) add(r *row) {
	if q == nil {
		return
	}
	i, _ := search(q.pending, r.Sequence, rowSequence)
	q.pending = insertAt(q.pending, i, r)
}

func (q *queue) remove(r *row) {
	if q == nil {
		return
	}
	i, ok := search(q.pending, r.Sequence, rowSequence)
	if !ok || q.pending[i] != r {
		panic("protocol: a pending row is missing from its queue, or two rows share a sequence")
	}
	q.pending = removeAt(q.pending, i)
}

// head returns the pending row with the smallest sequence, nil when none is.
func (q *queue) head() *row {
	if len(q.pending) == 0 {
		return nil
	}
	return q.pending[0]
}

// next returns the pending row behind the row with the given sequence.
func (q *queue) next(after int64) *row {
	i, ok := search(q.pending, after, rowSequence)
	if ok {
		i++
	}
	if i >= len(q.pending) {
		return nil
	}
	return q.pending[i]
}

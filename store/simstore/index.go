package simstore

import (
	"cmp"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// deliveryRow is a row of the deliveries table.
type deliveryRow = row[protocol.DeliveryID, protocol.Delivery]

// place is where the delivery indexes hold a row.
type place struct {
	event   string
	lane    *laneIndex
	chain   *chain // keyed rows
	due     protocol.Time
	pending bool // it stands in lane or chain
	sortKey int64
}

// deliveryIndex finds the rows that a claim looks for without a scan. A row
// stands in it while any of its versions is pending, so that every snapshot
// finds what it sees; the reader checks the version it sees.
type deliveryIndex struct {
	lanes   map[protocol.LaneID]*laneIndex
	byEvent map[string][]*deliveryRow
}

// laneIndex holds the pending rows of one lane.
type laneIndex struct {
	unkeyed sorted[*deliveryRow] // by due time and id
	chains  sorted[*chain]       // by key and handler; none is empty
	byName  map[chainName]*chain
}

type chainName struct{ key, handler string }

// chain is the pending rows of one (handler, key) in sequence order.
type chain struct {
	chainName
	rows sorted[*deliveryRow]
}

func newDeliveryIndex() deliveryIndex {
	return deliveryIndex{
		lanes:   map[protocol.LaneID]*laneIndex{},
		byEvent: map[string][]*deliveryRow{},
	}
}

func dueOrder(a, b *deliveryRow) bool {
	if a.place.due != b.place.due {
		return a.place.due < b.place.due
	}
	return a.key < b.key
}

func sequenceOrder(a, b *deliveryRow) bool {
	if a.place.sortKey != b.place.sortKey {
		return a.place.sortKey < b.place.sortKey
	}
	return a.key < b.key
}

func nameOrder(a, b *chain) bool {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.handler, b.handler)) < 0
}

func (x *deliveryIndex) lane(id protocol.LaneID) *laneIndex {
	l := x.lanes[id]
	if l == nil {
		l = &laneIndex{byName: map[chainName]*chain{}}
		l.unkeyed.less, l.chains.less = dueOrder, nameOrder
		x.lanes[id] = l
	}
	return l
}

// changed puts a row where its versions say it belongs. Lane, key, handler,
// event and sequence of a row never change.
func (x *deliveryIndex) changed(r *deliveryRow) {
	pending, due, any := false, protocol.Time(0), (*protocol.Delivery)(nil)
	for v := r.head; v != nil; v = v.prev {
		if v.value == nil {
			continue
		}
		any = v.value
		if v.value.Status != protocol.Pending && !mutant.On("dead-claimable") {
			continue
		}
		if !pending || v.value.AvailableAt < due {
			due = v.value.AvailableAt
		}
		pending = true
	}
	p := &r.place
	if any != nil && p.lane == nil {
		p.lane, p.event, p.sortKey = x.lane(any.Lane), any.Event, any.Sequence
		x.byEvent[p.event] = append(x.byEvent[p.event], r)
	}
	if p.pending && (!pending || any.Key == "" && due != p.due) {
		x.takeOut(r)
	}
	if pending && !p.pending {
		p.due = due
		x.putIn(r, any)
	}
	if any == nil && p.lane != nil {
		x.forgetEvent(r)
		p.lane = nil
	}
}

func (x *deliveryIndex) putIn(r *deliveryRow, d *protocol.Delivery) {
	p := &r.place
	p.pending = true
	if d.Key == "" {
		p.lane.unkeyed.insert(r)
		return
	}
	name := chainName{d.Key, d.Handler}
	p.chain = p.lane.byName[name]
	if p.chain == nil {
		p.chain = &chain{chainName: name}
		p.chain.rows.less = sequenceOrder
		p.lane.byName[name] = p.chain
		p.lane.chains.insert(p.chain)
	}
	p.chain.rows.insert(r)
}

func (x *deliveryIndex) takeOut(r *deliveryRow) {
	p := &r.place
	p.pending = false
	if p.chain == nil {
		p.lane.unkeyed.remove(r)
		return
	}
	p.chain.rows.remove(r)
	if len(p.chain.rows.items) == 0 {
		p.lane.chains.remove(p.chain)
		delete(p.lane.byName, p.chain.chainName)
	}
	p.chain = nil
}

func (x *deliveryIndex) forgetEvent(r *deliveryRow) {
	rows := x.byEvent[r.place.event]
	for i := range rows {
		if rows[i] == r {
			rows = append(rows[:i], rows[i+1:]...)
			break
		}
	}
	if len(rows) == 0 {
		delete(x.byEvent, r.place.event)
	} else {
		x.byEvent[r.place.event] = rows
	}
}

// subscriptionRow is a row of the subscriptions table.
type subscriptionRow = row[protocol.EventHandler, protocol.Subscription]

// subscriptionIndex finds the subscriptions of an event type, sorted by
// handler.
type subscriptionIndex struct {
	byEvent map[string]*sorted[*subscriptionRow]
}

func (x *subscriptionIndex) changed(r *subscriptionRow) {
	list := x.byEvent[r.key.Event]
	if list == nil {
		list = &sorted[*subscriptionRow]{less: func(a, b *subscriptionRow) bool {
			return a.key.Handler < b.key.Handler
		}}
		x.byEvent[r.key.Event] = list
	}
	i := list.search(r)
	there := i < len(list.items) && list.items[i] == r
	switch {
	case r.head == nil && there:
		list.remove(r)
	case r.head != nil && !there:
		list.insert(r)
	}
}

package simstore

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Contents is what a store holds: committed rows, sorted, copied.
type Contents struct {
	Position      int64
	Events        []protocol.Event        // by id
	Deliveries    []protocol.Delivery     // by id
	Lanes         []protocol.Lane         // by id
	Subscriptions []protocol.Subscription // by event type and handler
	Groups        []string                // by number
	Completions   []Completion            // in commit order; only with Options.History
	Rows          []Row                   // of user tables, by table and key
}

// Snapshot returns what the store holds now.
func (s *Store) Snapshot() Contents {
	s.db.sched.Enter()
	defer s.db.sched.Leave()
	db := &s.db
	c := Contents{
		Position:      db.pos,
		Events:        all(db.events),
		Deliveries:    all(db.deliveries),
		Lanes:         all(db.lanes),
		Subscriptions: all(db.subscriptions),
		Completions:   all(db.history),
	}
	slices.SortFunc(c.Events, func(a, b protocol.Event) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(c.Deliveries, func(a, b protocol.Delivery) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(c.Lanes, func(a, b protocol.Lane) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(c.Subscriptions, func(a, b protocol.Subscription) int {
		return byEventAndHandler(protocol.EventHandler{Event: a.Event, Handler: a.Handler}, protocol.EventHandler{Event: b.Event, Handler: b.Handler})
	})
	for i := range c.Events {
		c.Events[i].Payload = bytes.Clone(c.Events[i].Payload)
	}
	c.Groups = db.groupNames()
	c.Rows = db.userRows()
	return c
}

// all returns the committed values of a table in its order.
func all[K comparable, V any](t *table[K, V]) []V {
	var list []V
	for r := t.first; r != nil; r = r.after {
		if v := r.committed(); v != nil {
			list = append(list, *v)
		}
	}
	return list
}

func (db *database) groupNames() []string {
	names := make([]string, len(db.groups.rows))
	n := 0
	for r := db.groups.first; r != nil; r = r.after {
		if number := r.committed(); number != nil {
			names[*number] = r.key
			n++
		}
	}
	return names[:n]
}

func (db *database) userRows() []Row {
	var rows []Row
	for r := db.user.first; r != nil; r = r.after {
		if v := r.committed(); v != nil {
			rows = append(rows, Row{Table: r.key.table, Key: r.key.key, Value: bytes.Clone(*v)})
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if c := cmp.Compare(a.Table, b.Table); c != 0 {
			return c
		}
		return cmp.Compare(a.Key, b.Key)
	})
	return rows
}

// Delivery returns the committed row of a delivery: pending or dead. A
// completed delivery has none.
func (s *Store) Delivery(id protocol.DeliveryID) (protocol.Delivery, bool) {
	return one(s, s.db.deliveries, id)
}

// Lane returns the committed row of a lane.
func (s *Store) Lane(id protocol.LaneID) (protocol.Lane, bool) { return one(s, s.db.lanes, id) }

func one[K comparable, V any](s *Store, t *table[K, V], key K) (V, bool) {
	s.db.sched.Enter()
	defer s.db.sched.Leave()
	if v := t.rows[key].committed(); v != nil {
		return *v, true
	}
	var none V
	return none, false
}

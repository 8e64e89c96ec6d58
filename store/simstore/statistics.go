package simstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Statistics counts what the store holds, in one snapshot.
func (s *Store) Statistics(ctx context.Context) (engine.Statistics, error) {
	var k *counting
	err := s.serve(ctx, "Statistics", func(c *call) error {
		return c.look("count", func(st *stmt) error {
			k = &counting{st: st, db: c.db, flying: inFlight(st)}
			k.Now = st.tx.now
			k.count()
			return nil
		})
	})
	if err != nil {
		return engine.Statistics{}, err
	}
	return k.Statistics, nil
}

// counting is one Statistics call at work.
type counting struct {
	engine.Statistics
	st     *stmt
	db     *database
	flying map[protocol.DeliveryID]*protocol.Lane
}

// inFlight finds the lane that lists each delivery.
func inFlight(st *stmt) map[protocol.DeliveryID]*protocol.Lane {
	flying := map[protocol.DeliveryID]*protocol.Lane{}
	eachRow(st, st.tx.db.lanes, func(_ protocol.LaneID, l *protocol.Lane) {
		for _, f := range l.InFlight {
			flying[f.Delivery] = l
		}
	})
	return flying
}

// eachRow visits the rows of a table that a statement sees, in the table's order.
func eachRow[K comparable, V any](st *stmt, tab *table[K, V], visit func(K, *V)) {
	for r := tab.first; r != nil; r = r.after {
		if v := r.seen(st.tx, st.snap); v != nil {
			visit(r.key, v.value)
		}
	}
}

func isLive(l *protocol.Lane, now protocol.Time) bool {
	return !l.Holder.IsZero() && l.ExpiresAt >= now
}

func (k *counting) count() {
	eachRow(k.st, k.db.events, func(string, *protocol.Event) { k.Events++ })
	eachRow(k.st, k.db.history, func(int64, *Completion) { k.Completed++ })
	eachRow(k.st, k.db.subscriptions, func(_ protocol.EventHandler, sub *protocol.Subscription) { k.subscription(sub) })
	eachRow(k.st, k.db.deliveries, func(_ protocol.DeliveryID, d *protocol.Delivery) { k.delivery(d) })
	eachRow(k.st, k.db.lanes, func(_ protocol.LaneID, l *protocol.Lane) { k.lane(l) })
}

// handler returns the entry of a handler; the list is sorted by name.
func (k *counting) handler(name string) *engine.HandlerStatistics {
	i, found := slices.BinarySearchFunc(k.Handlers, name, func(h engine.HandlerStatistics, name string) int {
		return cmp.Compare(h.Handler, name)
	})
	if !found {
		k.Handlers = slices.Insert(k.Handlers, i, engine.HandlerStatistics{Handler: name})
	}
	return &k.Handlers[i]
}

func (k *counting) subscription(sub *protocol.Subscription) {
	h := k.handler(sub.Handler)
	h.SeenAt = max(h.SeenAt, sub.SeenAt)
	h.Subscribed = h.Subscribed || !sub.Removed
	h.Removed = h.Removed || sub.Removed
}

func (k *counting) delivery(d *protocol.Delivery) {
	h := k.handler(d.Handler)
	if d.Status == protocol.Dead {
		k.Dead++
		h.Dead++
		return
	}
	k.Pending++
	h.Pending++
	if d.AvailableAt > k.Now || k.flying[d.ID] != nil {
		return
	}
	k.Due++
	h.Due++
	if k.OldestDue == 0 || d.AvailableAt < k.OldestDue {
		k.OldestDue = d.AvailableAt
	}
}

func (k *counting) lane(l *protocol.Lane) {
	k.Stuck += len(l.Stuck)
	switch {
	case l.Holder.IsZero():
		return
	case !isLive(l, k.Now):
		k.Expired++
		return
	}
	k.Held++
	first := map[chainName]bool{}
	for _, f := range l.InFlight {
		d := read(k.st, k.db.deliveries, f.Delivery)
		if d == nil || d.Status != protocol.Pending {
			continue
		}
		name := chainName{d.Key, d.Handler}
		if d.Key != "" && first[name] {
			k.Waiting++
			continue
		}
		first[name] = true
		k.Running++
	}
}

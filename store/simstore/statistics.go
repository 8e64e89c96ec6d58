package simstore

import (
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Statistics counts what a store holds.
type Statistics struct {
	Events  int
	Pending int // deliveries that are not dead, in flight or not
	Due     int // pending, due, and not in flight
	Running int // in flight under a live lease, first of its chain
	Waiting int // in flight under a live lease, behind another of its chain
	Dead    int
	Stuck   int // deliveries whose charge or end the store refused
	Held    int // lanes with a live lease
	Expired int // lanes whose lease ran out and that nobody took over yet
}

// Statistics counts what the store holds now.
func (s *Store) Statistics() Statistics {
	c, now := s.Snapshot(), s.db.sched.Now()
	rows := make(map[protocol.DeliveryID]*protocol.Delivery, len(c.Deliveries))
	stats := Statistics{Events: len(c.Events)}
	for i := range c.Deliveries {
		d := &c.Deliveries[i]
		if d.Status == protocol.Dead {
			stats.Dead++
			continue
		}
		rows[d.ID] = d
		stats.Pending++
		if d.AvailableAt <= now {
			stats.Due++
		}
	}
	for i := range c.Lanes {
		stats.countLane(&c.Lanes[i], rows, now)
	}
	return stats
}

func (s *Statistics) countLane(l *protocol.Lane, rows map[protocol.DeliveryID]*protocol.Delivery, now protocol.Time) {
	s.Stuck += len(l.Stuck)
	live := !l.Holder.IsZero() && l.ExpiresAt >= now
	switch {
	case live:
		s.Held++
	case !l.Holder.IsZero():
		s.Expired++
	}
	first := map[chainName]bool{}
	for _, f := range l.InFlight {
		d := rows[f.Delivery]
		if d == nil {
			continue
		}
		if d.AvailableAt <= now {
			s.Due--
		}
		if !live {
			continue
		}
		name := chainName{d.Key, d.Handler}
		if d.Key != "" && first[name] {
			s.Waiting++
			continue
		}
		first[name] = true
		s.Running++
	}
}

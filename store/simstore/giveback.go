package simstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// ExtendLease renews lanes without picking from them.
func (s *Store) ExtendLease(ctx context.Context, in engine.ExtendLeaseInput) (engine.ExtendLeaseReply, error) {
	reply := engine.ExtendLeaseReply{Verdicts: make([]engine.Verdict, len(in.Lanes))}
	err := s.serve(ctx, "ExtendLease", func(c *call) error {
		if c.db.semantics == protocol.Snapshot {
			return c.extendSnapshot(&in, reply.Verdicts)
		}
		return c.extendLocking(&in, reply.Verdicts)
	})
	if err != nil {
		return engine.ExtendLeaseReply{}, err
	}
	reply.Now = s.db.sched.Now()
	return reply, nil
}

// ascending returns the indexes of the lanes in the order of their ids.
func ascending(lanes []protocol.LaneEpoch) []int {
	order := make([]int, len(lanes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lanes[a].Lane, lanes[b].Lane) })
	return order
}

// extendable is the guard of the action ExtendLease. It does not look at the
// expiry: nobody took the lane over yet.
func extendable(l *protocol.Lane, id protocol.LaneEpoch, holder protocol.Holder) bool {
	return (l.Holder == holder && l.Epoch == id.Epoch) || mutant.On("renewal-by-former-owner")
}

func extended(l *protocol.Lane, ttl time.Duration, now, clock protocol.Time) *protocol.Lane {
	next := *l
	next.ExpiresAt = min(max(l.ExpiresAt, now.Add(ttl)), clock.Add(ttl))
	return &next
}

func extendAction(in *engine.ExtendLeaseInput, i int, v protocol.Verdict, now, clock protocol.Time) protocol.Action {
	return protocol.ExtendLease{
		Lane: in.Lanes[i].Lane, Epoch: in.Lanes[i].Epoch, Holder: in.Holder, TTL: in.TTL,
		Now: now, Clock: clock, Verdict: v,
	}
}

// Release gives back deliveries that were not run to an end.
func (s *Store) Release(ctx context.Context, in engine.ReleaseInput) (engine.ReleaseReply, error) {
	reply := engine.ReleaseReply{Verdicts: make([]engine.Verdict, len(in.Leases))}
	err := s.serve(ctx, "Release", func(c *call) error {
		if c.db.semantics == protocol.Snapshot {
			return c.releaseSnapshot(in.Leases, reply.Verdicts)
		}
		return c.releaseLocking(in.Leases, reply.Verdicts)
	})
	if err != nil {
		return engine.ReleaseReply{}, err
	}
	reply.Now = s.db.sched.Now()
	return reply, nil
}

// lanesOf returns the lanes of the leases, ascending.
func lanesOf(leases []engine.Lease) []protocol.LaneID {
	ids := make([]protocol.LaneID, len(leases))
	for i := range leases {
		ids[i] = leases[i].Lane
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// released judges the leases of one lane, and returns the lane without those
// that it lists; nil when it lists none.
func released(l *protocol.Lane, id protocol.LaneID, leases []engine.Lease, verdicts []engine.Verdict) *protocol.Lane {
	if l == nil {
		return nil
	}
	next := *l
	changed := false
	for i := range leases {
		lease := &leases[i]
		if lease.Lane != id || !listsLease(&next, lease) {
			continue
		}
		next.InFlight = slices.DeleteFunc(slices.Clone(next.InFlight), func(f protocol.InFlight) bool { return f == lease.Entry() })
		verdicts[i] = protocol.Applied
		changed = true
	}
	if !changed {
		return nil
	}
	return &next
}

// givingBack is one Relinquish call at work.
type givingBack struct {
	*call
	in    *engine.RelinquishInput
	reply engine.RelinquishReply
}

// Relinquish gives lanes back.
func (s *Store) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	var g *givingBack
	err := s.serve(ctx, "Relinquish", func(c *call) error {
		g = &givingBack{call: c, in: &in}
		if c.db.semantics == protocol.Snapshot {
			return g.snapshot()
		}
		return g.locking()
	})
	if err != nil {
		return engine.RelinquishReply{}, err
	}
	g.reply.Now = s.db.sched.Now()
	return g.reply, nil
}

// lanes returns the lanes that the call means, ascending: with none named,
// those the statement sees to be the holder's (epoch 0).
func (g *givingBack) lanes(st *stmt) []protocol.LaneEpoch {
	named := slices.Clone(g.in.Lanes)
	if len(named) == 0 {
		n := g.s.options.Lanes
		for i := range n {
			id := protocol.LaneID(g.in.Group*n + i)
			if l := read(st, g.db.lanes, id); l != nil && l.Holder == g.in.Holder {
				named = append(named, protocol.LaneEpoch{Lane: id})
			}
		}
	}
	named = slices.DeleteFunc(named, func(id protocol.LaneEpoch) bool { return slices.Contains(g.in.Keep, id.Lane) })
	slices.SortFunc(named, func(a, b protocol.LaneEpoch) int { return cmp.Compare(a.Lane, b.Lane) })
	return named
}

// mayGoBack is the guard of the action Relinquish.
func (g *givingBack) mayGoBack(l *protocol.Lane, id protocol.LaneEpoch) bool {
	if l.Holder != g.in.Holder || g.in.Holder.IsZero() {
		return false
	}
	ordered := (id.Epoch == 0 || l.Epoch == id.Epoch) && g.in.Number > l.Claim
	if !ordered && !mutant.On("relinquish-without-epoch-or-order") {
		return false
	}
	for i := range g.in.Running {
		if slices.Contains(l.InFlight, g.in.Running[i].InFlight) && !mutant.On("relinquish-with-work-in-flight") {
			return false
		}
	}
	return true
}

func (g *givingBack) note(t *Tx, id protocol.LaneEpoch, ok bool) {
	v := protocol.LeaseLost
	if ok {
		v = protocol.Applied
		g.reply.Lanes = append(g.reply.Lanes, id.Lane)
	}
	t.note(protocol.Relinquish{
		Lane: id.Lane, Holder: g.in.Holder, Number: g.in.Number, Epoch: id.Epoch,
		Running: g.in.Running, Verdict: v,
	}, current)
}

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
	for i := range reply.Verdicts {
		if mutant.On("refused-renewal-reported") {
			reply.Verdicts[i] = engine.Applied
		}
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

func noteRenewal(l *protocol.Lane, clock protocol.Time) {
	if l.ExpiresAt < clock {
		renewedLate.Hit()
	}
}

func extendAction(in *engine.ExtendLeaseInput, i int, v protocol.Verdict, now, clock protocol.Time) protocol.Action {
	return protocol.ExtendLease{
		Lane: in.Lanes[i].Lane, Epoch: in.Lanes[i].Epoch, Holder: in.Holder, TTL: in.TTL,
		Now: now, Clock: clock, Verdict: v,
	}
}

// extendLocking is ExtendLease of a locking store: one transaction.
//
// Lease.tla, action ExtendLease. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (c *call) extendLocking(in *engine.ExtendLeaseInput, verdicts []engine.Verdict) error {
	return c.transact(c.s.options.AsyncClaims, lockTimeoutOf(in.TTL), func(t *Tx) error {
		st, err := t.statement(c.ctx, "extend")
		if err != nil {
			return err
		}
		for _, i := range ascending(in.Lanes) {
			id := in.Lanes[i]
			l, err := lockTarget(&st, c.db.lanes, id.Lane, forNoKeyUpdate, wait, nil)
			if err != nil {
				return err
			}
			clock := st.clock()
			if tooLate(clock, in.NotAfter) {
				return ErrTooLate
			}
			if l != nil && extendable(l, id, in.Holder) {
				noteRenewal(l, clock)
				update(t, c.db.lanes, id.Lane, extended(l, in.TTL, t.now, clock))
				verdicts[i] = protocol.Applied
			} else {
				renewalsRefused.Hit()
			}
			t.note(extendAction(in, i, verdicts[i], t.now, clock), current)
		}
		return nil
	})
}

// extendSnapshot is ExtendLease of a Snapshot store: one write per lane.
func (c *call) extendSnapshot(in *engine.ExtendLeaseInput, verdicts []engine.Verdict) error {
	for _, i := range ascending(in.Lanes) {
		late := false
		err := alone(c, "extend", c.db.lanes, in.Lanes[i].Lane, func(t *Tx, l *protocol.Lane) *protocol.Lane {
			if late = tooLate(t.now, in.NotAfter); late {
				return nil
			}
			if l == nil || !extendable(l, in.Lanes[i], in.Holder) {
				renewalsRefused.Hit()
				t.note(extendAction(in, i, protocol.LeaseLost, t.now, t.now), current)
				return nil
			}
			verdicts[i] = protocol.Applied
			noteRenewal(l, t.now)
			t.note(extendAction(in, i, protocol.Applied, t.now, t.now), current)
			return extended(l, in.TTL, t.now, t.now)
		})
		if err == nil && late {
			err = ErrTooLate
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Release gives back deliveries that were not run to an end.
func (s *Store) Release(ctx context.Context, in engine.ReleaseInput) (engine.ReleaseReply, error) {
	reply := engine.ReleaseReply{Verdicts: make([]engine.Verdict, len(in.Leases))}
	err := s.serve(ctx, "Release", func(c *call) error {
		for i := range in.Leases {
			s.hintsOf(in.Leases[i].Holder).Forget(in.Leases[i].Lane)
		}
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
		if lease.Lane != id {
			continue
		}
		if !listsLease(&next, lease) {
			releasesRefused.Hit()
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

// releaseLocking is Release of a locking store: one transaction.
//
// Lease.tla, action Release. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (c *call) releaseLocking(leases []engine.Lease, verdicts []engine.Verdict) error {
	return c.transact(false, c.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(c.ctx, "release")
		if err != nil {
			return err
		}
		for _, id := range lanesOf(leases) {
			l, err := lockTarget(&st, c.db.lanes, id, forNoKeyUpdate, wait, nil)
			if err != nil {
				return err
			}
			if next := released(l, id, leases, verdicts); next != nil {
				update(t, c.db.lanes, id, next)
			}
		}
		t.note(protocol.Release{Leases: leases, Verdicts: slices.Clone(verdicts)}, current)
		return nil
	})
}

// releaseSnapshot is Release of a Snapshot store: one write per lane.
func (c *call) releaseSnapshot(leases []engine.Lease, verdicts []engine.Verdict) error {
	for _, id := range lanesOf(leases) {
		err := alone(c, "release", c.db.lanes, id, func(t *Tx, l *protocol.Lane) *protocol.Lane {
			next := released(l, id, leases, verdicts)
			a := protocol.Release{}
			for i := range leases {
				if leases[i].Lane == id {
					a.Leases = append(a.Leases, leases[i])
					a.Verdicts = append(a.Verdicts, verdicts[i])
				}
			}
			t.note(a, current)
			return next
		})
		if err != nil {
			return err
		}
	}
	return nil
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
	if !ordered {
		relinquishLate.Hit()
	}
	if !ordered && !mutant.On("relinquish-without-epoch-or-order") {
		return false
	}
	for i := range g.in.Running {
		if slices.Contains(l.InFlight, g.in.Running[i].InFlight) && !mutant.On("relinquish-with-work-in-flight") {
			relinquishBusy.Hit()
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

// locking is Relinquish of a locking store: one transaction.
//
// Lease.tla, action Relinquish. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (g *givingBack) locking() error {
	return g.transact(false, g.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(g.ctx, "relinquish")
		if err != nil {
			return err
		}
		for _, id := range g.lanes(&st) {
			l, err := lockTarget(&st, g.db.lanes, id.Lane, forNoKeyUpdate, wait, nil)
			if err != nil {
				return err
			}
			if tooLate(st.clock(), g.in.NotAfter) {
				return ErrTooLate
			}
			ok := l != nil && g.mayGoBack(l, id)
			if ok {
				update(t, g.db.lanes, id.Lane, relinquished(l, g.in.Holder, g.in.Number))
			}
			g.note(t, id, ok)
		}
		return nil
	})
}

// snapshot is Relinquish of a Snapshot store: one write per lane.
func (g *givingBack) snapshot() error {
	var ids []protocol.LaneEpoch
	if err := g.look("read lanes", func(st *stmt) error {
		ids = g.lanes(st)
		return nil
	}); err != nil {
		return err
	}
	for _, id := range ids {
		late := false
		err := alone(g.call, "relinquish", g.db.lanes, id.Lane, func(t *Tx, l *protocol.Lane) *protocol.Lane {
			if late = tooLate(t.now, g.in.NotAfter); late {
				return nil
			}
			ok := l != nil && g.mayGoBack(l, id)
			g.note(t, id, ok)
			if !ok {
				return nil
			}
			return relinquished(l, g.in.Holder, g.in.Number)
		})
		if err == nil && late {
			err = ErrTooLate
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package postgres

import (
	"context"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// ExtendLease renews lanes without picking from them. It does not look at the
// expiry: while nobody took a lane over, it is the holder's.
//
// Lease.tla, action ExtendLease. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (s *Store) ExtendLease(ctx context.Context, in engine.ExtendLeaseInput) (engine.ExtendLeaseReply, error) {
	reply := engine.ExtendLeaseReply{Verdicts: make([]engine.Verdict, len(in.Lanes))}
	err := s.transact(ctx, "extend lease", true, lockWait(in.TTL), func(w *work) error {
		lanes, err := w.lock(ctx, in.Holder, lanesIn(in.Lanes))
		if err != nil {
			return err
		}
		clock := latest(lanes)
		if tooLate(clock, in.NotAfter) {
			return ErrTooLate
		}
		reply.Now = clock
		var good []*lane
		for _, l := range lanes {
			for i, id := range in.Lanes {
				if id.Lane == l.id && id.Epoch == l.epoch {
					reply.Verdicts[i] = protocol.Applied
					good = append(good, l)
				}
			}
		}
		if len(good) > 0 {
			w.later("extend_lease", nil, ids(good), interval(in.TTL), clock.Std())
		}
		return nil
	})
	return reply, s.withClock(ctx, &reply.Now, err)
}

// lock locks lanes of a holder.
func (w *work) lock(ctx context.Context, holder protocol.Holder, named []protocol.LaneID) ([]*lane, error) {
	var lanes []*lane
	w.later("lock_lanes", scanLanes(&lanes), named, uuid(holder))
	return lanes, w.send(ctx)
}

func lanesIn(named []protocol.LaneEpoch) []protocol.LaneID {
	list := make([]protocol.LaneID, len(named))
	for i, l := range named {
		list[i] = l.Lane
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func lanesOfLeases(leases []engine.Lease) []protocol.LaneID {
	list := make([]protocol.LaneID, len(leases))
	for i := range leases {
		list[i] = leases[i].Lane
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Release gives back deliveries that were not run to an end.
//
// Lease.tla, action Release. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (s *Store) Release(ctx context.Context, in engine.ReleaseInput) (engine.ReleaseReply, error) {
	reply := engine.ReleaseReply{Verdicts: make([]engine.Verdict, len(in.Leases))}
	err := s.transact(ctx, "release", false, mostWait, func(w *work) error {
		for _, holder := range holdersOf(in.Leases) {
			if err := w.release(ctx, holder, in.Leases, &reply); err != nil {
				return err
			}
		}
		return nil
	})
	s.forgetLeases(in.Leases...)
	return reply, s.withClock(ctx, &reply.Now, err)
}

// holdersOf returns the holders of leases: one, but for a test.
func holdersOf(leases []engine.Lease) []protocol.Holder {
	var holders []protocol.Holder
	for i := range leases {
		if h := leases[i].Holder; !slices.Contains(holders, h) {
			holders = append(holders, h)
		}
	}
	return holders
}

func (w *work) release(ctx context.Context, holder protocol.Holder, leases []engine.Lease, reply *engine.ReleaseReply) error {
	lanes, err := w.lock(ctx, holder, lanesOfLeases(leases))
	if err != nil {
		return err
	}
	reply.Now = max(reply.Now, latest(lanes))
	var stay entries
	var changed []*lane
	for _, l := range lanes {
		if l.release(holder, leases, reply.Verdicts) {
			changed = append(changed, l)
			for _, f := range l.inFlight {
				stay.add(l.id, f)
			}
		}
	}
	if len(changed) > 0 {
		w.later("release", nil, ids(changed), stay.lanes, stay.ids, stay.claims)
	}
	return nil
}

// release takes leases off the lane's list and reports whether it listed any.
func (l *lane) release(holder protocol.Holder, leases []engine.Lease, verdicts []engine.Verdict) bool {
	changed := false
	for i := range leases {
		lease := &leases[i]
		if lease.Lane != l.id || lease.Holder != holder || !l.lists(lease) {
			continue
		}
		l.inFlight = slices.DeleteFunc(l.inFlight, func(f protocol.InFlight) bool { return f == lease.Entry() })
		verdicts[i] = protocol.Applied
		changed = true
	}
	return changed
}

// Relinquish gives lanes back.
//
// Lease.tla, action Relinquish. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (s *Store) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	var reply engine.RelinquishReply
	err := s.transact(ctx, "relinquish", false, mostWait, func(w *work) error {
		named := lanesIn(in.Lanes)
		if len(in.Lanes) == 0 {
			var err error
			if named, err = w.lanesOf(ctx, in.Group, in.Holder); err != nil {
				return err
			}
		}
		lanes, err := w.lock(ctx, in.Holder, named)
		if err != nil {
			return err
		}
		if tooLate(latest(lanes), in.NotAfter) {
			return ErrTooLate
		}
		reply.Now = latest(lanes)
		lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return !l.mayGoBack(&in) })
		reply.Lanes = laneIDs(lanes)
		if len(lanes) > 0 {
			w.later("relinquish", nil, ids(lanes), uuid(in.Holder), in.Number)
		}
		return nil
	})
	return reply, s.withClock(ctx, &reply.Now, err)
}

// mayGoBack is the guard of the action Relinquish.
func (l *lane) mayGoBack(in *engine.RelinquishInput) bool {
	for _, id := range in.Lanes {
		if id.Lane == l.id && id.Epoch != 0 && id.Epoch != l.epoch {
			return false
		}
	}
	if in.Number <= l.claim || slices.Contains(in.Keep, l.id) {
		return false
	}
	for i := range in.Running {
		if slices.Contains(l.inFlight, in.Running[i].InFlight) {
			return false
		}
	}
	return true
}

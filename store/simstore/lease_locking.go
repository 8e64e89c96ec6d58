package simstore

import (
	"cmp"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// locking is Claim of a locking store: one transaction.
func (k *claiming) locking() error {
	return k.transact(k.s.options.AsyncClaims, lockTimeoutOf(k.in.TTL), func(t *Tx) error {
		if len(k.in.Held) > 0 || len(k.in.LetExpire) > 0 || k.in.AllMine {
			if err := k.claimHeld(t); err != nil {
				return err
			}
		}
		return k.takeOverSome(t)
	})
}

// claimHeld claims from the lanes that the call names: it locks the lane rows,
// takes what they list from the locked rows, and picks in a later statement. A
// snapshot from before the lock would show what a late end of a run deleted in
// between, one that the worker states no longer because its acknowledged first
// try was lost in a failover.
//
// Lease.tla, action Claim. Locks: the lanes FOR NO KEY UPDATE, ascending.
func (k *claiming) claimHeld(t *Tx) error {
	st, err := t.statement(k.ctx, "claim held lanes")
	if err != nil {
		return err
	}
	ids := k.named(&st)
	if len(ids) == 0 {
		return nil
	}
	lanes, err := k.lockHeld(&st, ids)
	if err != nil {
		return err
	}
	clock := st.clock()
	if k.late(clock) {
		return ErrTooLate
	}
	picking, err := k.afterLock(t, "pick from held lanes")
	if err != nil {
		return err
	}
	for _, w := range lanes {
		w.read = picking.snap
	}
	k.pick(&picking, lanes)
	for _, w := range lanes {
		if err := k.retryStuck(&picking, w); err != nil {
			return err
		}
		l := k.claimed(w, w.lane, t.now, clock)
		update(t, k.db.lanes, w.id, l)
		k.noteClaim(t, w, l, t.now, clock)
	}
	return nil
}

// lockHeld locks the named lanes that are the holder's.
func (k *claiming) lockHeld(st *stmt, ids []protocol.LaneID) ([]*work, error) {
	if err := st.pause("lock held lanes"); err != nil {
		return nil, err
	}
	var lanes []*work
	for _, id := range ids {
		if r := k.db.lanes.rows[id]; r != nil && !r.free(st.tx, forNoKeyUpdate) {
			claimWaits.Hit()
		}
		l, err := lockTarget(st, k.db.lanes, id, forNoKeyUpdate, wait, k.mine)
		if err != nil {
			return nil, err
		}
		if l == nil {
			k.refused(st, id)
			continue
		}
		lanes = append(lanes, k.prepare(l))
	}
	return lanes, nil
}

// refused notes a named lane that is not the holder's, or that a newer claim
// has reached.
func (k *claiming) refused(st *stmt, id protocol.LaneID) {
	if l := k.db.lanes.rows[id].committed(); l != nil && l.Holder == k.in.Holder {
		lateClaims.Hit()
	}
	k.reply.Gone = append(k.reply.Gone, id)
}

// retryStuck tries the writes again that the store refused. The list does not
// say what they were, so a row that takes a write now is charged an attempt
// and a takeover.
func (k *claiming) retryStuck(st *stmt, w *work) error {
	if !k.in.RetryStuck {
		return nil
	}
	t := st.tx
	for _, id := range w.stuck {
		d, err := lockTarget(st, k.db.deliveries, id, forNoKeyUpdate, wait, nil)
		if err != nil {
			return err
		}
		if d != nil && d.Status == protocol.Pending {
			next := *d
			next.Attempts++
			next.Takeovers++
			t.bump(&next)
			err := behindSavepoint(t, func() error {
				if err := st.pauseAt("retry stuck", w.id, id); err != nil {
					return err
				}
				update(t, k.db.deliveries, id, &next)
				return nil
			})
			if engine.IsDefinite(err) {
				continue
			}
			if err != nil {
				return err
			}
			unstuck.Hit()
		} else {
			stuckGone.Hit()
		}
		w.unstuck = append(w.unstuck, id)
	}
	return nil
}

// takeOverSome takes free and expired lanes over, a few at a time, until there
// is enough to do.
func (k *claiming) takeOverSome(t *Tx) error {
	for few := 4; ; few *= 2 {
		want := min(few, k.in.MaxLanes-k.taken)
		if want <= 0 || k.picker.Full() {
			return nil
		}
		lanes, err := k.lockLanes(t, want)
		if err != nil || len(lanes) == 0 {
			return err
		}
		if err := k.chargeAndPick(t, lanes); err != nil {
			return err
		}
		if len(lanes) < want {
			return nil
		}
	}
}

// found is a lane that a takeover has locked.
type found struct {
	before *protocol.Lane
	after  *protocol.Lane
	clock  protocol.Time
}

// lockLanes locks free or expired lanes and makes them the holder's. It takes
// UPDATE strength before it writes: FOR KEY SHARE does not look again at a row
// that a plain update changed, so a completion on its way would be let in
// under the old epoch.
//
// Lease.tla, action TakeOver. Locks: the lanes FOR UPDATE SKIP LOCKED.
func (k *claiming) lockLanes(t *Tx, want int) ([]found, error) {
	st, err := t.statement(k.ctx, "find lanes")
	if err != nil {
		return nil, err
	}
	var ids []protocol.LaneID
	k.eachLane(k.start, func(id protocol.LaneID) bool {
		if k.candidate(&st, id) {
			ids = append(ids, id)
		}
		return len(ids) < 2*want
	})
	if len(ids) == 0 {
		return nil, nil
	}
	if err := st.pause("lock free lanes"); err != nil {
		return nil, err
	}
	strength := forUpdate
	if mutant.On("takeover-by-plain-update") {
		strength = forNoKeyUpdate
	}
	var lanes []found
	for _, id := range ids {
		if len(lanes) == want {
			break
		}
		if r := k.db.lanes.rows[id]; r != nil && !r.free(t, strength) {
			takeoverSkips.Hit()
		}
		l, err := lockTarget(&st, k.db.lanes, id, strength, skipLocked, func(l *protocol.Lane) bool {
			return k.takeable(l, t.now)
		})
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		clock := st.clock()
		if k.late(clock) {
			return nil, ErrTooLate
		}
		next := k.overtaken(l, clock)
		update(t, k.db.lanes, id, next)
		lanes = append(lanes, found{l, next, clock})
	}
	k.taken += len(lanes)
	slices.SortFunc(lanes, func(a, b found) int { return cmp.Compare(a.after.ID, b.after.ID) })
	return lanes, nil
}

// chargeAndPick charges what the lanes had in flight and picks from them, in a
// statement after the one that locked them: a snapshot from before the lock
// would show deliveries that were completed in between, and they would run
// again. A lane that gives nothing goes back.
func (k *claiming) chargeAndPick(t *Tx, lanes []found) error {
	st, err := k.afterLock(t, "charge and pick")
	if err != nil {
		return err
	}
	if err := k.lockInFlight(&st, lanes); err != nil {
		return err
	}
	var all []*work
	for i := range lanes {
		f := &lanes[i]
		c, err := lockListed(&st, f.after.ID, f.before.InFlight)
		if err != nil {
			return err
		}
		if err := c.chargeTakenOver(&st); err != nil {
			return err
		}
		for _, id := range c.refused {
			next := *f.after
			next.Stuck = with(next.Stuck, id)
			f.after = &next
		}
		if !f.before.Holder.IsZero() {
			takeovers.Hit()
		}
		k.noteTakeOver(t, f.after.ID, t.now, f.clock, c)
		w := k.prepare(f.after)
		w.takenOver, w.read = true, st.snap
		w.renew, w.picksFrom = true, true
		all = append(all, w)
	}
	k.pick(&st, all)
	for i, w := range all {
		if err := k.retryStuck(&st, w); err != nil {
			return err
		}
		if len(w.granted) == 0 && len(w.unstuck) == 0 {
			update(t, k.db.lanes, w.id, relinquished(w.lane, k.in.Holder, k.in.Number))
			k.noteGivenBack(t, w.lane)
			continue
		}
		// The clock as it was above the lock of the lane, where not-after was
		// checked.
		l := k.claimed(w, w.lane, t.now, lanes[i].clock)
		update(t, k.db.lanes, w.id, l)
		k.noteClaim(t, w, l, t.now, lanes[i].clock)
	}
	return nil
}

// lockInFlight locks what all the lanes had in flight, in the order of ids.
func (k *claiming) lockInFlight(st *stmt, lanes []found) error {
	var list []protocol.InFlight
	for i := range lanes {
		list = append(list, lanes[i].before.InFlight...)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, byDelivery)
	for _, f := range list {
		if _, err := lockTarget(st, k.db.deliveries, f.Delivery, forNoKeyUpdate, wait, nil); err != nil {
			return err
		}
	}
	return nil
}

// afterLock begins the statement that picks from lanes that are locked.
func (k *claiming) afterLock(t *Tx, step string) (stmt, error) {
	if mutant.On("picks-before-lane-lock") {
		return stmt{ctx: k.ctx, tx: t, step: step, snap: t.snap}, nil
	}
	return t.statement(k.ctx, step)
}

// chargeTakenOver is charge with the planted bugs of takeovers.
func (c *charging) chargeTakenOver(st *stmt) error {
	if mutant.On("takeover-forgets-charge") {
		return nil
	}
	if err := c.charge(st); err != nil || !mutant.On("takeover-charges-twice") {
		return err
	}
	for i, d := range c.rows {
		c.rows[i] = read(st, st.tx.db.deliveries, d.ID)
	}
	return c.charge(st)
}

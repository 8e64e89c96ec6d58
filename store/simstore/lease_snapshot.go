package simstore

import (
	"errors"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// snapshot is Claim of a Snapshot store: the lanes held first, then as many
// others as there is room for.
func (k *claiming) snapshot() error {
	if len(k.in.Held) > 0 || len(k.in.LetExpire) > 0 || k.in.AllMine {
		if err := k.claimHeldSnapshot(); err != nil {
			return err
		}
	}
	for few := 4; ; few *= 2 {
		want := min(few, k.in.MaxLanes-k.taken)
		if want <= 0 || k.picker.Full() {
			return nil
		}
		lanes, err := k.takeOverSnapshot(want)
		if err != nil || len(lanes) == 0 {
			return err
		}
		if err := k.claimSnapshot(lanes, true); err != nil {
			return err
		}
		if len(lanes) < want {
			return nil
		}
	}
}

func (k *claiming) claimHeldSnapshot() error {
	var ids, lost []protocol.LaneID
	err := k.look("read held lanes", func(st *stmt) error {
		ids = k.named(st)
		for _, id := range ids {
			if l := read(st, k.db.lanes, id); l != nil && l.Holder == k.in.Holder && uncharged(l) {
				lost = append(lost, id)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range lost {
		if err := k.chargeOrLeave(id); err != nil {
			return err
		}
	}
	return k.claimSnapshot(ids, false)
}

// uncharged reports whether the lane has losses to charge. Until that is done
// nothing of it can be claimed.
func uncharged(l *protocol.Lane) bool {
	return len(l.Lost) > 0 && !mutant.On("lost-not-charged")
}

// takeOverSnapshot takes lanes over, each by one conditional write, and
// charges what they lost.
//
// Lease.tla, action TakeOver. Conflicts: on the lane document.
func (k *claiming) takeOverSnapshot(want int) ([]protocol.LaneID, error) {
	var ids, lanes []protocol.LaneID
	err := k.look("find lanes", func(st *stmt) error {
		k.eachLane(k.start, func(id protocol.LaneID) bool {
			if k.candidate(st, id) {
				ids = append(ids, id)
			}
			return len(ids) < 2*want
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if len(lanes) == want {
			break
		}
		taken, lost, err := k.takeOverOne(id)
		if err != nil {
			return nil, err
		}
		if !taken {
			continue
		}
		k.taken++
		lanes = append(lanes, id)
		if lost {
			if err := k.chargeOrLeave(id); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(lanes)
	return lanes, nil
}

// takeOverOne is the action TakeOver on one lane document.
func (k *claiming) takeOverOne(id protocol.LaneID) (taken, lost bool, err error) {
	late := false
	err = alone(k.call, "take over", k.db.lanes, id, func(t *Tx, l *protocol.Lane) *protocol.Lane {
		if late = k.late(t.now); late || l == nil || !k.takeable(l, t.now) {
			return nil
		}
		if !l.Holder.IsZero() {
			takeovers.Hit()
		}
		next := k.overtaken(l, t.now)
		k.noteTakeOver(t, id, t.now, t.now, nil)
		taken, lost = true, uncharged(next)
		return next
	})
	if err == nil && late {
		err = ErrTooLate
	}
	return taken, lost, err
}

// chargeOrLeave is chargeLost; after a conflict it is left for the next claim.
func (k *claiming) chargeOrLeave(id protocol.LaneID) error {
	err := k.chargeLost(id)
	if errors.Is(err, engine.ErrRetryable) {
		chargeConflicts.Hit()
		return nil
	}
	return err
}

// chargeLost charges what takeovers of the lane found in flight: one
// transaction that writes every lost row, so that a completion from an older
// snapshot conflicts with it whichever row it deletes. A row that the store
// refuses for good fails the transaction; the next try leaves it out.
//
// Lease.tla, action ChargeLost. Conflicts: on the lane and on each delivery.
func (k *claiming) chargeLost(id protocol.LaneID) error {
	c := &charging{}
	for {
		known := len(c.refused)
		err := k.transact(false, 0, func(t *Tx) error {
			st, err := t.statement(k.ctx, "charge lost")
			if err != nil {
				return err
			}
			return k.chargeLane(&st, id, c)
		})
		if !engine.IsDefinite(err) || len(c.refused) == known {
			return err
		}
	}
}

func (k *claiming) chargeLane(st *stmt, id protocol.LaneID, c *charging) error {
	l, err := lockTarget(st, k.db.lanes, id, forUpdate, wait, uncharged)
	if err != nil || l == nil {
		return err
	}
	list := l.Lost
	if mutant.On("charge-only-first-lost") {
		list = list[:1]
	}
	locked, err := lockListed(st, id, list)
	if err != nil {
		return err
	}
	c.rows, c.charged = locked.rows, nil
	known := len(c.refused)
	if err := c.charge(st); err != nil {
		return err
	}
	if len(c.refused) > known {
		return engine.Definite(errRefused)
	}
	next := *l
	next.Lost = nil
	a := protocol.ChargeLost{Lane: id, Charged: c.charged}
	for _, d := range c.rows {
		if slices.Contains(c.refused, d.ID) {
			next.Stuck = with(next.Stuck, d.ID)
			a.Refused = append(a.Refused, d.ID)
		}
	}
	update(st.tx, k.db.lanes, id, &next)
	st.tx.note(a, current)
	return nil
}

var errRefused = errors.New("simstore: a row was refused")

// claimSnapshot claims from lanes that the holder should hold: candidates,
// their predecessors and followers are read in one snapshot, after takeovers
// and charges were acknowledged; then each lane is one conditional write.
//
// Lease.tla, action Claim. Conflicts: on the lane document.
func (k *claiming) claimSnapshot(ids []protocol.LaneID, takenOver bool) error {
	var lanes []*work
	err := k.look("read candidates", func(st *stmt) error {
		for _, id := range ids {
			l := read(st, k.db.lanes, id)
			if l == nil || l.Holder != k.in.Holder {
				k.refused(st, id)
				continue
			}
			w := k.prepare(l)
			w.takenOver, w.read = takenOver, st.snap
			w.picksFrom = w.picksFrom && !uncharged(l)
			lanes = append(lanes, w)
		}
		k.pick(st, lanes)
		return nil
	})
	if err != nil {
		return err
	}
	for _, w := range lanes {
		if err := k.write(w); err != nil {
			return err
		}
	}
	return nil
}

// write ends the work on one lane: it is claimed, or given back when it was
// taken over and gave nothing.
func (k *claiming) write(w *work) error {
	switch {
	case k.in.RetryStuck && len(w.stuck) > 0:
		return k.claimWithStuck(w)
	case w.takenOver && len(w.granted) == 0 && !uncharged(w.lane):
		return k.giveBack(w)
	}
	return k.claimLane(w)
}

// claimLane is the action Claim on one lane document.
func (k *claiming) claimLane(w *work) error {
	late := false
	err := alone(k.call, "claim", k.db.lanes, w.id, func(t *Tx, l *protocol.Lane) *protocol.Lane {
		if late = k.late(t.now); late {
			return nil
		}
		return k.claimDocument(t, w, l)
	})
	if err == nil && late {
		err = ErrTooLate
	}
	return err
}

// claimDocument applies the claim's filter and pipeline to the document.
func (k *claiming) claimDocument(t *Tx, w *work, l *protocol.Lane) *protocol.Lane {
	switch {
	case l == nil || !k.mine(l):
		if l != nil && l.Holder == k.in.Holder {
			lateClaims.Hit()
		}
		k.reply.Gone = append(k.reply.Gone, w.id)
		return nil
	case uncharged(l) || l.Epoch != w.lane.Epoch:
		// Ours, but not to be claimed from: the charge is still to come, or
		// the lane changed hands twice since its candidates were read.
		if uncharged(l) {
			unchargedLanes.Hit()
		}
		w.granted = nil
		k.answer(w, l)
		return nil
	}
	next := k.claimed(w, l, t.now, t.now)
	k.noteClaim(t, w, next, t.now, t.now)
	return next
}

// claimWithStuck is claimLane in a transaction that also tries to write the
// stuck rows again.
func (k *claiming) claimWithStuck(w *work) error {
	err := k.transact(false, 0, func(t *Tx) error {
		st, err := t.statement(k.ctx, "claim with stuck")
		if err != nil {
			return err
		}
		if k.late(t.now) {
			return ErrTooLate
		}
		l, err := lockTarget(&st, k.db.lanes, w.id, forUpdate, wait, nil)
		if err != nil {
			return err
		}
		if l == nil || !k.mine(l) || uncharged(l) || l.Epoch != w.lane.Epoch {
			k.claimDocument(t, w, l)
			return nil
		}
		// An older claim of this holder may have had more luck since the
		// candidates were read: its rows must not be charged again.
		w.stuck = l.Stuck
		if err := k.retryStuck(&st, w); err != nil {
			return err
		}
		update(t, k.db.lanes, w.id, k.claimDocument(t, w, l))
		return nil
	})
	return err
}

// giveBack is the action Relinquish on a lane taken over in this call.
func (k *claiming) giveBack(w *work) error {
	return alone(k.call, "give back", k.db.lanes, w.id, func(t *Tx, l *protocol.Lane) *protocol.Lane {
		if l == nil || l.Holder != k.in.Holder || l.Epoch != w.lane.Epoch || k.in.Number <= l.Claim {
			return nil
		}
		k.noteGivenBack(t, l)
		return relinquished(l, k.in.Holder, k.in.Number)
	})
}

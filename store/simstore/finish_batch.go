package simstore

import (
	"cmp"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// completeManyLocking is CompleteMany of a locking store: one transaction for
// all rows, and when one of them is bad, another that takes them one by one
// behind savepoints.
func (c *call) completeManyLocking(leases []engine.Lease, ended []engine.Ended) error {
	err := c.completeBatch(leases, ended, false)
	if engine.IsDefinite(err) {
		oneByOne.Hit()
		err = c.completeBatch(leases, ended, true)
	}
	return err
}

func (c *call) completeBatch(leases []engine.Lease, ended []engine.Ended, oneByOne bool) error {
	b := &batch{call: c, leases: leases, ended: ended, oneByOne: oneByOne, ends: make([]ending, len(leases))}
	return c.transact(false, c.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(c.ctx, "complete")
		if err != nil {
			return err
		}
		if err := b.lock(&st); err != nil {
			return err
		}
		for i := range b.ends {
			if err := b.complete(&st, i); err != nil {
				return err
			}
		}
		if err := b.lookAgain(t); err != nil {
			return err
		}
		b.conclude()
		t.beforeCommit = func() { b.note(t) }
		return nil
	})
}

// batch is one transaction of CompleteMany.
type batch struct {
	*call
	leases   []engine.Lease
	ends     []ending
	ended    []engine.Ended
	oneByOne bool
	later    []int // leases to judge by what a second statement sees
	snap     int64 // position that the statement reads
}

// lock takes the locks: lanes ascending, then rows ascending.
//
// Finish.tla, action CompleteMany. Locks: the lanes FOR KEY SHARE, then the
// rows FOR UPDATE.
func (b *batch) lock(st *stmt) error {
	if err := st.pause("lock lanes"); err != nil {
		return err
	}
	b.snap = st.snap
	for i := range b.leases {
		b.ends[i] = ending{lease: b.leases[i], verdict: protocol.Applied}
		b.ended[i] = engine.Ended{}
	}
	for _, id := range lanesOf(b.leases) {
		l, err := lockLane(st, id)
		if err != nil {
			return err
		}
		for i := range b.ends {
			if b.leases[i].Lane == id {
				b.ends[i].fenced(st, l)
			}
		}
	}
	order := make([]int, 0, len(b.ends))
	for i := range b.ends {
		if b.ends[i].verdict == protocol.Applied {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(b.leases[i].Delivery, b.leases[j].Delivery) })
	for _, i := range order {
		if err := b.ends[i].lockRow(st); err != nil {
			return err
		}
	}
	return nil
}

// complete judges and deletes row i.
func (b *batch) complete(st *stmt, i int) error {
	e := &b.ends[i]
	if e.verdict != protocol.Applied {
		return nil
	}
	if e.row == nil || b.waitsForLater(i) {
		b.later = append(b.later, i)
		return nil
	}
	return b.completeAt(st, i)
}

// waitsForLater reports whether the predecessor of lease i is not judged yet.
// This statement may still see it pending.
func (b *batch) waitsForLater(i int) bool {
	return b.leases[i].After != 0 && slices.Contains(b.later, predecessorOf(b.leases, i))
}

// completeAt deletes row i, unless its chain is broken.
func (b *batch) completeAt(st *stmt, i int) error {
	e := &b.ends[i]
	if b.refusedBefore(i) || heldBack(st, &e.lease) {
		e.lost(st.snap)
		return nil
	}
	err := b.delete(st, e)
	if engine.IsDefinite(err) && b.oneByOne {
		b.ended[i].Err = err
		return nil
	}
	return err
}

func (b *batch) delete(st *stmt, e *ending) error {
	erasing := func() error {
		if err := st.pauseAt("delete", e.lease.Lane, e.lease.Delivery); err != nil {
			return err
		}
		erase(st.tx, b.db.deliveries, e.lease.Delivery)
		b.db.remember(st.tx, e.row, st.clock())
		return nil
	}
	if b.oneByOne {
		return behindSavepoint(st.tx, erasing)
	}
	return erasing()
}

// refusedBefore reports whether the predecessor of lease i stands before it in
// the call and was not Applied.
func (b *batch) refusedBefore(i int) bool {
	if b.leases[i].After == 0 || mutant.On("follower-completed-before-predecessor") {
		return false
	}
	j := predecessorOf(b.leases, i)
	refused := j >= 0 && (b.ended[j].Err != nil || b.ends[j].verdict == protocol.LeaseLost || mutant.On("follower-refused-for-nothing"))
	if refused {
		behindRefused.Hit()
	}
	return refused
}

// lookAgain judges the leases whose row is gone by the lane as it is after the
// row was seen to be gone: what it lists still is Applied, so that a retry of
// an unknown outcome is safe. What follows such a row in its chain is completed
// here too: the first statement began before the row was gone.
func (b *batch) lookAgain(t *Tx) error {
	if len(b.later) == 0 {
		return nil
	}
	st, err := t.statement(b.ctx, "look at lanes again")
	if err != nil {
		return err
	}
	for _, i := range b.later {
		e := &b.ends[i]
		if e.row != nil {
			if err := b.completeAt(&st, i); err != nil {
				return err
			}
			continue
		}
		l := read(&st, b.db.lanes, e.lease.Lane)
		if !accepts(l, &e.lease) || b.refusedBefore(i) || heldBack(&st, &e.lease) {
			e.lost(st.snap)
		} else {
			goneApplied.Hit()
		}
	}
	return nil
}

// conclude puts the verdicts into the reply.
func (b *batch) conclude() {
	for i := range b.ends {
		if mutant.On("partial-batch-reported-whole") && b.ended[i].Err == nil {
			b.ends[i].verdict = protocol.Applied
		}
		if b.ended[i].Err == nil {
			b.ended[i].Verdict = b.ends[i].verdict
		}
	}
}

// note records what the call did, when it commits: every lease, in the caller's
// order. What was judged on an earlier state than the one it commits on was
// right somewhere from the statement's snapshot on.
func (b *batch) note(t *Tx) {
	a := protocol.CompleteMany{Leases: b.leases}
	seen := int64(current)
	for i := range b.ends {
		e := &b.ends[i]
		a.Verdicts = append(a.Verdicts, e.verdict)
		switch {
		case b.ended[i].Err != nil:
			a.Verdicts[i] = protocol.LeaseLost
			a.Refused = append(a.Refused, e.lease.Delivery)
		case e.verdict == protocol.LeaseLost && e.judged != current:
			seen = b.snap
		case e.verdict == protocol.Applied && !b.listed(e):
			listReplaced.Hit()
			a.Unlisted = append(a.Unlisted, e.lease.Delivery)
			seen = b.snap
		}
	}
	t.note(a, seen)
}

// listed reports whether the lane still lists the run. A newer claim of the
// same holder may have dropped it since the snapshot, or its Relinquish the
// lane: FOR KEY SHARE neither waits for that nor reads it.
func (b *batch) listed(e *ending) bool {
	l := b.db.lanes.rows[e.lease.Lane].committed()
	return holds(l, &e.lease.Token) && lists(l, &e.lease)
}

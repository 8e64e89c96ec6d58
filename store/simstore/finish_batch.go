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
	gone     []int // leases whose row is gone
	snap     int64 // position that the statement reads
	looked   int64 // position at which the lanes of rows that are gone were read
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
	if e.row == nil {
		b.gone = append(b.gone, i)
		return nil
	}
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
	after := b.leases[i].After
	if after == 0 || mutant.On("follower-completed-before-predecessor") {
		return false
	}
	for j := range i {
		if b.leases[j].Delivery == after && (b.ended[j].Err != nil || b.ends[j].verdict == protocol.LeaseLost) {
			behindRefused.Hit()
			return true
		}
	}
	return false
}

// lookAgain judges the leases whose row is gone by the lane as it is after the
// row was seen to be gone: what it lists still is Applied, so that a retry of
// an unknown outcome is safe.
func (b *batch) lookAgain(t *Tx) error {
	if len(b.gone) == 0 {
		return nil
	}
	st, err := t.statement(b.ctx, "look at lanes again")
	if err != nil {
		return err
	}
	for _, i := range b.gone {
		e := &b.ends[i]
		l := read(&st, b.db.lanes, e.lease.Lane)
		if !accepts(l, &e.lease) || b.refusedBefore(i) || heldBack(&st, &e.lease) {
			e.lost(st.snap)
		} else {
			goneApplied.Hit()
		}
		if !b.followsHere(i) {
			b.db.evaluated(protocol.CompleteMany{Leases: []engine.Lease{e.lease}, Verdicts: []protocol.Verdict{e.verdict}})
		}
	}
	b.looked = st.snap
	return nil
}

// followsHere reports whether the predecessor of lease i is completed by this
// very call: what is said of i then holds from the commit on.
func (b *batch) followsHere(i int) bool {
	return slices.ContainsFunc(b.leases[:i], func(l engine.Lease) bool { return l.Delivery == b.leases[i].After })
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

// note records what the transaction did, when it commits: together, and apart
// from each other where the verdicts were read at different positions.
func (b *batch) note(t *Tx) {
	together := protocol.CompleteMany{}
	var gone []protocol.CompleteMany // behind what they may follow in a chain
	apart := b.anyUnlisted()
	for i := range b.ends {
		e := &b.ends[i]
		one := protocol.CompleteMany{Leases: []engine.Lease{e.lease}, Verdicts: []protocol.Verdict{e.verdict}}
		switch {
		case slices.Contains(b.gone, i):
			if b.followsHere(i) {
				gone = append(gone, one)
			}
		case b.ended[i].Err != nil:
			together.Refused = append(together.Refused, e.lease.Delivery)
			together.Leases = append(together.Leases, e.lease)
			together.Verdicts = append(together.Verdicts, protocol.LeaseLost)
		case e.verdict == protocol.LeaseLost && e.judged == meanwhile:
		case e.verdict == protocol.LeaseLost && e.judged != current:
			t.note(one, e.judged)
		case e.verdict == protocol.Applied && !b.listed(e):
			listReplaced.Hit()
			t.note(one, b.snap)
		case apart:
			t.note(one, current)
		default:
			together.Leases = append(together.Leases, e.lease)
			together.Verdicts = append(together.Verdicts, e.verdict)
		}
	}
	if len(together.Leases) > 0 {
		t.note(together, current)
	}
	for _, one := range gone {
		t.note(one, b.looked)
	}
}

// listed reports whether the lane still lists the run. A newer claim of the
// same holder may have dropped it since the snapshot: FOR KEY SHARE neither
// waits for that nor reads it.
func (b *batch) listed(e *ending) bool {
	l := b.db.lanes.rows[e.lease.Lane].committed()
	return l != nil && lists(l, &e.lease)
}

func (b *batch) anyUnlisted() bool {
	for i := range b.ends {
		if b.ends[i].verdict == protocol.Applied && b.ended[i].Err == nil && !b.listed(&b.ends[i]) {
			return true
		}
	}
	return false
}

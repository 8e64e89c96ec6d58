package simstore

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// lockLane locks the lane of a completion. KEY SHARE, because it must stand
// against a takeover's FOR UPDATE but must not wait for the owner's own claims
// and renewals. What it returns is the lane as the statement's snapshot has
// it, unless a takeover changed it since.
func lockLane(st *stmt, id protocol.LaneID) (*protocol.Lane, error) {
	db := st.tx.db
	if mutant.On("no-lock-between-completion-and-takeover") {
		return read(st, db.lanes, id), nil
	}
	r := db.lanes.rows[id]
	if r != nil && !r.free(st.tx, forKeyShare) {
		completionWaits.Hit()
	}
	return lockTarget(st, db.lanes, id, forKeyShare, wait, nil)
}

// fenced checks the lease against its lane. A verdict of LeaseLost was read at
// the snapshot, unless the lane was taken over since.
func (e *ending) fenced(st *stmt, l *protocol.Lane) bool {
	if holds(l, &e.lease.Token) && lists(l, &e.lease) {
		return true
	}
	at := st.snap
	if seen := read(st, st.tx.db.lanes, e.lease.Lane); seen != l {
		completionsFenced.Hit()
		at = current
	}
	e.lost(at)
	return false
}

// lockRow locks the delivery of an end and judges it. A row that somebody
// wrote after the statement's snapshot was ended, charged or swept since: the
// run is over, even if the lane, which FOR KEY SHARE does not read again,
// still lists it.
func (e *ending) lockRow(st *stmt) error {
	db := st.tx.db
	seen := read(st, db.deliveries, e.lease.Delivery)
	d, err := lockTarget(st, db.deliveries, e.lease.Delivery, forUpdate, wait, nil)
	if err != nil {
		return err
	}
	e.row, e.verdict = d, protocol.Applied
	switch {
	case d == nil:
	case d.Lane != e.lease.Lane:
		e.lost(st.snap)
	case d != seen || d.Status != protocol.Pending:
		e.lost(current)
	}
	return nil
}

// completeLocking is the action Complete of a locking store.
func (e *ending) completeLocking(st *stmt) error {
	if err := st.pauseAt("lock lane", e.lease.Lane, 0); err != nil {
		return err
	}
	l, err := lockLane(st, e.lease.Lane)
	if err != nil || !e.fenced(st, l) {
		return err
	}
	if err := e.lockRow(st); err != nil {
		return err
	}
	if e.row == nil {
		// Gone already: this transaction did not delete it, so its effects
		// must not commit.
		if e.lost(current); mutant.On("complete-gone-row-applied") {
			e.verdict = protocol.Applied
		}
		return nil
	}
	if e.verdict == protocol.Applied && heldBack(st, &e.lease) {
		e.lost(st.snap)
	}
	if e.verdict == protocol.LeaseLost {
		return nil
	}
	if err := st.pauseAt("delete", e.lease.Lane, e.lease.Delivery); err != nil {
		return err
	}
	erase(st.tx, st.tx.db.deliveries, e.lease.Delivery)
	return nil
}

// completeManyLocking is CompleteMany of a locking store: one transaction for
// all rows, and when one of them is bad, another that takes them one by one
// behind savepoints.
func (c *call) completeManyLocking(leases []engine.Lease, ended []engine.Ended) error {
	err := c.completeBatch(leases, ended, false)
	if engine.IsDefinite(err) {
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
	slices.SortStableFunc(order, func(i, j int) int { return int(b.leases[i].Delivery - b.leases[j].Delivery) })
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
		if !holds(l, &e.lease.Token) || !lists(l, &e.lease) || b.refusedBefore(i) || heldBack(&st, &e.lease) {
			e.lost(st.snap)
		}
		b.db.evaluated(protocol.CompleteMany{Leases: []engine.Lease{e.lease}, Verdicts: []protocol.Verdict{e.verdict}})
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

// note records what the transaction did, when it commits: together, and apart
// from each other where the verdicts were read at different positions.
func (b *batch) note(t *Tx) {
	together := protocol.CompleteMany{}
	apart := b.anyUnlisted()
	for i := range b.ends {
		e := &b.ends[i]
		one := protocol.CompleteMany{Leases: []engine.Lease{e.lease}, Verdicts: []protocol.Verdict{e.verdict}}
		switch {
		case slices.Contains(b.gone, i):
		case b.ended[i].Err != nil:
			together.Refused = append(together.Refused, e.lease.Delivery)
			together.Leases = append(together.Leases, e.lease)
			together.Verdicts = append(together.Verdicts, protocol.LeaseLost)
		case e.verdict == protocol.LeaseLost && e.judged != current:
			t.note(one, e.judged)
		case e.verdict == protocol.Applied && !b.listed(e):
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

// settle waits for a handler transaction that may still be open: it holds the
// row that it deleted. No lane lock is held meanwhile.
func (c *call) settle(id protocol.DeliveryID) error {
	return c.transact(false, c.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(c.ctx, "settle")
		if err != nil {
			return err
		}
		if r := c.db.deliveries.rows[id]; r != nil && !r.free(t, forKeyShare) {
			settleWaits.Hit()
		}
		_, err = lockTarget(&st, c.db.deliveries, id, forKeyShare, wait, nil)
		return err
	})
}

// endLocking performs one end that keeps the row, in one transaction.
//
// Finish.tla, actions Reschedule, Snooze and Bury. Locks: the lane FOR NO KEY
// UPDATE, then the row.
func (c *call) endLocking(e *ending) error {
	var refused error
	err := c.transact(false, c.s.options.LockTimeout, func(t *Tx) error {
		st, err := t.statement(c.ctx, "end")
		if err != nil {
			return err
		}
		if err := st.pauseAt("lock lane", e.lease.Lane, 0); err != nil {
			return err
		}
		l, err := lockTarget(&st, c.db.lanes, e.lease.Lane, forNoKeyUpdate, wait, nil)
		if err != nil {
			return err
		}
		if err := e.judge(&st, l); err != nil {
			return err
		}
		if e.verdict == protocol.LeaseLost {
			t.note(e.action(e, t.now, e.text, false), e.judged)
			return nil
		}
		now := st.clock()
		text, err := e.write(&st, now)
		if engine.IsDefinite(err) && e.stuck {
			refused, err = err, nil
		}
		if err != nil {
			return err
		}
		update(t, c.db.lanes, l.ID, e.left(l, refused != nil))
		t.note(e.action(e, now, text, refused != nil), current)
		return nil
	})
	if err == nil {
		err = refused
	}
	return err
}

// judge checks the guards on the locked lane and row.
func (e *ending) judge(st *stmt, l *protocol.Lane) error {
	if !holds(l, &e.lease.Token) || !lists(l, &e.lease) {
		e.lost(current)
		return nil
	}
	d, err := lockTarget(st, st.tx.db.deliveries, e.lease.Delivery, forNoKeyUpdate, wait, nil)
	if err != nil {
		return err
	}
	e.row, e.verdict = d, protocol.Applied
	switch {
	case d == nil || d.Lane != e.lease.Lane || d.Status != protocol.Pending && !mutant.On("dead-revived-by-reschedule"):
		e.lost(current)
	case heldBack(st, &e.lease):
		e.lost(st.snap)
	}
	return nil
}

// write writes the row; when the store refuses it, again with a cleaned text.
// It returns the text that was written.
func (e *ending) write(st *stmt, now protocol.Time) (string, error) {
	text := e.text
	err := e.writeRow(st, now, text)
	if engine.IsDefinite(err) && e.stuck {
		text = cleaned(text)
		err = e.writeRow(st, now, text)
	}
	return text, err
}

func (e *ending) writeRow(st *stmt, now protocol.Time, text string) error {
	t := st.tx
	return behindSavepoint(t, func() error {
		if err := st.pauseAt("write row", e.lease.Lane, e.lease.Delivery); err != nil {
			return err
		}
		next := e.apply(*e.row, now, text)
		if mutant.On("dead-revived-by-reschedule") && e.row.Status == protocol.Dead {
			next.Status = protocol.Pending
		}
		t.bump(&next)
		update(t, t.db.deliveries, next.ID, &next)
		return nil
	})
}

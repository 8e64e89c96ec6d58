package simstore

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// completeSnapshot is the action Complete of a Snapshot store. The lane is
// only read, so that completions of one lane do not conflict; its snapshot may
// be older than a takeover, and then the write conflict on the delivery, which
// ChargeLost has written, is what protects it.
func (e *ending) completeSnapshot(st *stmt) error {
	t, db := st.tx, st.tx.db
	l := read(st, db.lanes, e.lease.Lane)
	d := read(st, db.deliveries, e.lease.Delivery)
	e.row, e.verdict = d, protocol.Applied
	switch {
	case !accepts(l, &e.lease), d != nil && d.Lane != e.lease.Lane, heldBack(st, &e.lease):
		e.lost(st.snap)
		return nil
	case d == nil:
		goneInTx.Hit()
		if e.lost(st.snap); mutant.On("complete-gone-row-applied") {
			e.verdict = protocol.Applied
		}
		return nil
	case d.Status != protocol.Pending || d.Fence != e.lease.Fence && !mutant.On("complete-without-epoch-check"):
		fences.Hit()
		e.lost(st.snap)
		return nil
	}
	if err := st.pauseAt("delete", e.lease.Lane, e.lease.Delivery); err != nil {
		return err
	}
	r := db.deliveries.rows[d.ID]
	if err := own(t, r); err != nil && !(mutant.On("snapshot-completion-ignores-conflict") && r.heldBy(t) == forUpdate) {
		return err
	}
	erase(t, db.deliveries, d.ID)
	return nil
}

// completeManySnapshot is CompleteMany of a Snapshot store: each row is one
// write, fenced by the row itself, in the order of the call, so that the
// members of a chain never share an unordered command.
//
// Finish.tla, action CompleteMany. Conflicts: on the delivery document.
func (c *call) completeManySnapshot(leases []engine.Lease, ended []engine.Ended) error {
	began := c.db.pos
	for i := range leases {
		lease := &leases[i]
		if predecessorFailed(leases, ended, i) {
			behindRefused.Hit()
			ended[i].Verdict = protocol.LeaseLost
			c.brokenChain(leases, ended, i, began)
			continue
		}
		found, err := c.deleteFenced(lease, &ended[i])
		if engine.IsDefinite(err) {
			ended[i].Err = err
			continue
		}
		if err == nil && !found {
			err = c.judgeGone(lease, &ended[i])
		}
		if err != nil {
			return err
		}
	}
	if mutant.On("partial-batch-reported-whole") {
		for i := range ended {
			ended[i].Verdict = protocol.Applied
		}
	}
	return nil
}

// predecessorFailed reports whether the predecessor of lease i stands before it
// in the call and was not Applied.
func predecessorFailed(leases []engine.Lease, ended []engine.Ended, i int) bool {
	if leases[i].After == 0 || mutant.On("follower-completed-before-predecessor") {
		return false
	}
	j := predecessorOf(leases, i)
	return j >= 0 && (ended[j].Err != nil || ended[j].Verdict == protocol.LeaseLost || mutant.On("follower-refused-for-nothing"))
}

// predecessorOf returns where the predecessor of lease i stands before it in
// the call, -1 when it does not.
func predecessorOf(leases []engine.Lease, i int) int {
	return slices.IndexFunc(leases[:i], func(l engine.Lease) bool { return l.Delivery == leases[i].After })
}

// brokenChain records that lease i was refused together with what stands before
// it in its chain, down to the one that was refused for a reason of its own.
func (c *call) brokenChain(leases []engine.Lease, ended []engine.Ended, i int, began int64) {
	a := protocol.CompleteMany{Seen: seenAt(began, c.db.pos+1)}
	for ; ; i = predecessorOf(leases, i) {
		a.Leases = append(a.Leases, leases[i])
		a.Verdicts = append(a.Verdicts, protocol.LeaseLost)
		if ended[i].Err != nil {
			a.Refused = append(a.Refused, leases[i].Delivery)
		}
		if !predecessorFailed(leases, ended, i) {
			break
		}
	}
	slices.Reverse(a.Leases)
	c.db.evaluated(a)
}

// verdict records a verdict that changed nothing.
func (c *call) verdict(lease *engine.Lease, ended *engine.Ended, v protocol.Verdict) {
	ended.Verdict = v
	c.db.evaluated(protocol.CompleteMany{Leases: []engine.Lease{*lease}, Verdicts: []protocol.Verdict{v}})
}

// deleteFenced deletes the row if its fence is the lease's: whatever took the
// run away has written the row. It reports whether there was a row.
func (c *call) deleteFenced(lease *engine.Lease, ended *engine.Ended) (found bool, err error) {
	filter := func(d *protocol.Delivery) bool {
		fence := d.Fence == lease.Fence || mutant.On("complete-without-epoch-check")
		return d.Lane == lease.Lane && fence && d.Status == protocol.Pending && !c.pendingNow(lease.After)
	}
	d, deleted, err := eraseAlone(c, "delete", c.db.deliveries, lease.Delivery, filter, func(t *Tx, d *protocol.Delivery) {
		c.db.remember(t, d, c.now())
		ended.Verdict = protocol.Applied
		t.note(protocol.CompleteMany{Leases: []engine.Lease{*lease}, Verdicts: []protocol.Verdict{protocol.Applied}}, current)
	})
	if d != nil && !deleted {
		if d.Fence != lease.Fence {
			fences.Hit()
		}
		c.verdict(lease, ended, protocol.LeaseLost)
	}
	return d != nil, err
}

// pendingNow reports whether a predecessor is pending as committed now.
func (c *call) pendingNow(id protocol.DeliveryID) bool {
	if id == 0 || mutant.On("follower-completed-before-predecessor") {
		return false
	}
	d := c.db.deliveries.rows[id].committed()
	if d == nil || d.Status != protocol.Pending {
		return false
	}
	behindPending.Hit()
	return true
}

// judgeGone reads the lane after the row was seen to be gone.
func (c *call) judgeGone(lease *engine.Lease, ended *engine.Ended) error {
	return c.look("read lane", func(st *stmt) error {
		l := read(st, c.db.lanes, lease.Lane)
		v := protocol.LeaseLost
		if accepts(l, lease) && !heldBack(st, lease) {
			goneApplied.Hit()
			v = protocol.Applied
		}
		c.verdict(lease, ended, v)
		return nil
	})
}

// endSnapshot performs one end that keeps the row: a transaction that writes
// lane and delivery, so that it conflicts with whatever else does. A row that
// the store refuses fails the transaction; the next one writes a cleaned text,
// and the one after it the lane alone.
//
// Finish.tla, actions Reschedule, Snooze and Bury.
func (c *call) endSnapshot(e *ending) error {
	err := c.tryEnd(e, e.text, false)
	if engine.IsDefinite(err) && e.stuck {
		err = c.tryEnd(e, cleaned(e.text), false)
	}
	if !engine.IsDefinite(err) || !e.stuck {
		return err
	}
	refused := err
	if err := c.tryEnd(e, e.text, true); err != nil || e.verdict == protocol.LeaseLost {
		return err
	}
	return refused
}

func (c *call) tryEnd(e *ending, text string, refused bool) error {
	return c.transact(false, 0, func(t *Tx) error {
		st, err := t.statement(c.ctx, "end")
		if err != nil {
			return err
		}
		l := read(&st, c.db.lanes, e.lease.Lane)
		d := read(&st, c.db.deliveries, e.lease.Delivery)
		dead := d != nil && d.Status != protocol.Pending && !mutant.On("dead-revived-by-reschedule")
		if dead {
			rowsDead.Hit()
		}
		if !accepts(l, &e.lease) || d == nil || d.Lane != e.lease.Lane || dead || heldBack(&st, &e.lease) {
			e.lost(st.snap)
			t.note(e.action(e, t.now, text, false), e.judged)
			return nil
		}
		e.row, e.verdict = d, protocol.Applied
		if err := st.pauseAt("write lane", l.ID, 0); err != nil {
			return err
		}
		if err := own(t, c.db.lanes.rows[l.ID]); err != nil {
			return err
		}
		update(t, c.db.lanes, l.ID, e.left(l, refused))
		if !refused {
			if err := own(t, c.db.deliveries.rows[d.ID]); err != nil {
				return err
			}
			if err := e.writeRow(&st, t.now, text); err != nil {
				return err
			}
		}
		t.note(e.action(e, t.now, text, refused), current)
		return nil
	})
}

package simstore

import (
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
	if accepts(l, &e.lease) {
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
	case d.Status != protocol.Pending:
		rowsDead.Hit()
		e.lost(current)
	case d != seen && seen != nil && seen.Status != protocol.Pending:
		e.lost(st.snap)
	case d != seen:
		rowsChanged.Hit()
		if !mutant.On("complete-what-was-written-meanwhile") {
			e.lost(meanwhile)
		}
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
		goneInTx.Hit()
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
	if !accepts(l, &e.lease) {
		e.lost(current)
		return nil
	}
	d, err := lockTarget(st, st.tx.db.deliveries, e.lease.Delivery, forNoKeyUpdate, wait, nil)
	if err != nil {
		return err
	}
	e.row, e.verdict = d, protocol.Applied
	if d != nil && d.Status != protocol.Pending {
		rowsDead.Hit()
	}
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

package simstore

import (
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// read returns the value of a row as the statement's snapshot sees it.
func read[K comparable, V any](st *stmt, tab *table[K, V], key K) *V {
	if v := tab.rows[key].seen(st.tx, st.snap); v != nil {
		return v.value
	}
	return nil
}

// lockTarget locks one target row of a statement and returns the value that
// the statement works on; nil when the row is not there, does not satisfy qual
// or, under SKIP LOCKED, is not free.
//
// A locking store looks the row up in the statement's snapshot, locks it, and
// when it changed since then evaluates qual again on the latest version, while
// everything else the statement reads stays at its snapshot. FOR KEY SHARE
// takes only a change under UPDATE strength for a change. REPEATABLE READ
// answers a change with an error.
//
// A Snapshot store fails at once when another transaction wrote the row after
// the snapshot.
func lockTarget[K comparable, V any](st *stmt, tab *table[K, V], key K, mode strength, p patience, qual func(*V) bool) (*V, error) {
	t, r := st.tx, tab.rows[key]
	v := r.seen(t, st.snap)
	if v == nil || qual != nil && !qual(v.value) {
		return nil, nil
	}
	if t.db.semantics == protocol.Snapshot {
		return v.value, own(t, r)
	}
	if !t.tryLock(&r.rowLock, mode) {
		err := t.acquire(st.ctx, &r.rowLock, mode, p, st.at(key))
		if err == errRowLocked && p == skipLocked {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	now := r.latest(t)
	switch {
	case now == v, mode == forKeyShare && !r.rewrittenSince(v):
		return v.value, nil
	case t.oneSnapshot():
		serializations.Hit()
		return nil, ErrSerialization
	case now == nil, qual != nil && !qual(now.value):
		return nil, nil
	}
	return now.value, nil
}

// own makes the transaction of a Snapshot store the row's writer, unless
// somebody else wrote it first.
func own[K comparable, V any](t *Tx, r *row[K, V]) error {
	if !t.tryLock(&r.rowLock, forUpdate) || r.head != nil && r.head.writer == nil && r.head.pos > t.snap {
		writeConflicts.Hit()
		return ErrWriteConflict
	}
	return nil
}

// upsert inserts a row or updates the one that is there, as INSERT … ON
// CONFLICT DO UPDATE: change gets the latest version (nil: none) and returns
// the new one (nil: leave it). A locking store waits for another transaction
// that inserted or updated the row, a Snapshot store fails.
func upsert[K comparable, V any](st *stmt, tab *table[K, V], key K, change func(old *V) *V) (*V, error) {
	t := st.tx
	for {
		r := tab.rows[key]
		if r == nil {
			r = tab.add(key)
		}
		if t.db.semantics == protocol.Snapshot {
			if err := own(t, r); err != nil {
				return nil, err
			}
		} else if err := t.acquire(st.ctx, &r.rowLock, forNoKeyUpdate, wait, st.at(key)); err != nil {
			return nil, err
		}
		if tab.rows[key] != r {
			continue // its insert was rolled back while we waited
		}
		old := r.latest(t)
		if old != nil && old.writer != t && t.oneSnapshot() && old.pos > st.snap {
			serializations.Hit()
			return nil, ErrSerialization
		}
		return put(t, r, old, change), nil
	}
}

// put writes what change makes of the row's version old.
func put[K comparable, V any](t *Tx, r *row[K, V], old *version[V], change func(*V) *V) *V {
	var value *V
	if old == nil {
		t.tryLock(&r.rowLock, forUpdate)
		value = change(nil)
	} else {
		value = change(old.value)
	}
	switch {
	case value != nil:
		r.write(t, value, r.heldBy(t) == forUpdate)
	case r.head == nil:
		r.table.remove(r)
	}
	return value
}

// update writes a row that the transaction has locked.
func update[K comparable, V any](t *Tx, tab *table[K, V], key K, value *V) {
	if r := tab.rows[key]; r != nil {
		r.write(t, value, r.heldBy(t) == forUpdate)
	}
}

// erase deletes a row that the transaction has locked.
func erase[K comparable, V any](t *Tx, tab *table[K, V], key K) {
	if r := tab.rows[key]; r != nil {
		t.tryLock(&r.rowLock, forUpdate)
		r.write(t, nil, true)
	}
}

// insert adds a row whose key nobody else can have.
func insert[K comparable, V any](t *Tx, tab *table[K, V], key K, value *V) {
	r := tab.rows[key]
	if r == nil {
		r = tab.add(key)
	}
	t.tryLock(&r.rowLock, forUpdate)
	r.write(t, value, true)
}

// at names the row that a statement waits for.
func (st *stmt) at(key any) Point { return pointAt(st.tx.call, st.step, key) }

// pointAt names a step that is about one row.
func pointAt(call, step string, key any) Point {
	p := Point{Call: call, Step: step}
	switch key := key.(type) {
	case protocol.LaneID:
		p.Lane = key
	case protocol.DeliveryID:
		p.Delivery = key
	}
	return p
}

package simstore

import "math"

// version is one state of a row. Values are never modified: a write makes a
// new value and a new version.
type version[V any] struct {
	value  *V    // nil: the row is deleted
	pos    int64 // position of the commit that wrote it; 0 while writer is open
	writer *Tx   // the open transaction that wrote it; nil once committed
	// strong: the writer held UPDATE strength on the row, so that FOR KEY
	// SHARE sees the change as a conflict.
	strong bool
	prev   *version[V]
}

// row is the chain of versions of one key, newest first. Only one transaction
// at a time can write a row, so uncommitted versions stand together on top.
type row[K comparable, V any] struct {
	rowLock
	table       *table[K, V]
	key         K
	head        *version[V]
	after, back *row[K, V] // the table's order
	place       place      // where the delivery indexes hold this row
}

// table holds the rows of one kind. The list gives an order that does not
// depend on the map, which is never ranged over.
type table[K comparable, V any] struct {
	db          *database
	rows        map[K]*row[K, V]
	first, last *row[K, V]
	// changed keeps indexes: it is called whenever a chain of versions changed.
	changed func(*row[K, V])
}

func newTable[K comparable, V any](db *database) *table[K, V] {
	return &table[K, V]{db: db, rows: map[K]*row[K, V]{}}
}

// add puts an empty row at the end of the table.
func (t *table[K, V]) add(key K) *row[K, V] {
	r := &row[K, V]{table: t, key: key, back: t.last}
	if t.last == nil {
		t.first = r
	} else {
		t.last.after = r
	}
	t.last = r
	t.rows[key] = r
	return r
}

// remove takes a row out of the table and its indexes.
func (t *table[K, V]) remove(r *row[K, V]) {
	if t.rows[r.key] != r {
		return
	}
	r.head = nil
	r.touched()
	if r.back == nil {
		t.first = r.after
	} else {
		r.back.after = r.after
	}
	if r.after == nil {
		t.last = r.back
	} else {
		r.after.back = r.back
	}
	delete(t.rows, r.key)
}

// seed puts a committed row into the table that no transaction wrote.
func (t *table[K, V]) seed(key K, value *V) *row[K, V] {
	r := t.add(key)
	r.head = &version[V]{value: value}
	r.touched()
	return r
}

func (r *row[K, V]) touched() {
	if r.table.changed != nil {
		r.table.changed(r)
	}
}

// seen returns the version that a transaction sees at a snapshot: its own
// latest, else the newest committed by then. It returns nil for a row that is
// not there.
func (r *row[K, V]) seen(t *Tx, snap int64) *version[V] {
	if r == nil {
		return nil
	}
	for v := r.head; v != nil; v = v.prev {
		if v.writer == t && t != nil || v.writer == nil && v.pos <= snap {
			if v.value == nil {
				return nil
			}
			return v
		}
	}
	return nil
}

// latest returns the newest version as a lock holder sees it: committed, or
// its own. The caller holds a lock that keeps other writers out.
func (r *row[K, V]) latest(t *Tx) *version[V] { return r.seen(t, math.MaxInt64) }

// committed returns the newest committed value.
func (r *row[K, V]) committed() *V {
	if v := r.seen(nil, math.MaxInt64); v != nil {
		return v.value
	}
	return nil
}

// rewrittenSince reports whether a version above v was written under UPDATE
// strength: the only change that FOR KEY SHARE takes for a conflict.
func (r *row[K, V]) rewrittenSince(v *version[V]) bool {
	for w := r.head; w != nil && w != v; w = w.prev {
		if w.strong && w.writer == nil {
			return true
		}
	}
	return false
}

// write puts a new version on top. The caller holds the row's lock.
func (r *row[K, V]) write(t *Tx, value *V, strong bool) {
	r.head = &version[V]{value: value, writer: t, strong: strong, prev: r.head}
	t.writes = append(t.writes, r)
	r.touched()
}

// undoWrite takes the transaction's topmost version off again.
func (r *row[K, V]) undoWrite(t *Tx) {
	if r.head == nil || r.head.writer != t {
		return
	}
	r.head = r.head.prev
	r.touched()
	if r.head == nil {
		r.table.remove(r)
	}
}

// commit makes the transaction's versions one committed version and returns
// how to take it back. Only the first call per row and transaction does
// something.
func (r *row[K, V]) commit(t *Tx, pos int64) undo {
	top := r.head
	if top == nil || top.writer != t {
		return nil
	}
	older := top.prev
	for older != nil && older.writer == t {
		top.strong = top.strong || older.strong
		older = older.prev
	}
	top.pos, top.writer, top.prev = pos, nil, older
	u := before[K, V]{table: r.table, key: r.key}
	if older != nil {
		u.value, u.pos = older.value, older.pos
	}
	return u
}

// prune drops the versions that no snapshot from oldest on can see.
func (r *row[K, V]) prune(oldest int64) {
	for v := r.head; v != nil; v = v.prev {
		if v.writer != nil || v.pos > oldest {
			continue
		}
		if v.value == nil && v == r.head {
			r.table.remove(r)
		} else if v.prev != nil {
			v.prev = nil
			r.touched()
		}
		return
	}
}

// written is a row of any table, as transactions and the commit log hold it.
type written interface {
	undoWrite(t *Tx)
	commit(t *Tx, pos int64) undo
	prune(oldest int64)
}

// undo takes one committed write back. It is used when no transaction is open
// and every later write was taken back before.
type undo interface{ revert() }

// before is the state of a row before a commit wrote it.
type before[K comparable, V any] struct {
	table *table[K, V]
	key   K
	value *V
	pos   int64
}

func (b before[K, V]) revert() {
	r := b.table.rows[b.key]
	if b.value == nil {
		if r != nil {
			b.table.remove(r)
		}
		return
	}
	if r == nil {
		r = b.table.add(b.key)
	}
	r.head = &version[V]{value: b.value, pos: b.pos}
	r.touched()
}

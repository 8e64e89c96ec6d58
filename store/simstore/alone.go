package simstore

import "github.com/relaybus-go/relaybus/engine"

// lone begins a write of one document outside a transaction: it waits for a
// transaction that has written the document, and returns its latest version,
// nil for none. The clock is read when the command begins, before any waiting.
func lone[K comparable, V any](c *call, t *Tx, step string, tab *table[K, V], key K) (*row[K, V], *V, error) {
	st, err := t.statementAt(c.ctx, pointAt(c.name, step, key))
	if err != nil {
		return nil, nil, err
	}
	t.lifeEnds = 0 // no transaction, no limit of its life
	r := tab.rows[key]
	if r == nil {
		return nil, nil, nil
	}
	if !r.free(t, forUpdate) {
		loneWaits.Hit()
	}
	if err := t.acquire(c.ctx, &r.rowLock, forUpdate, wait, st.at(key)); err != nil {
		return nil, nil, err
	}
	if v := r.latest(t); v != nil {
		return r, v.value, nil
	}
	return r, nil, nil
}

// alone updates one document outside a transaction. Change gets the latest
// version and returns the new one, or nil when its filter does not match. What
// it notes is recorded with the write.
func alone[K comparable, V any](c *call, step string, tab *table[K, V], key K, change func(t *Tx, old *V) *V) error {
	t := c.begin()
	defer t.end(ErrConnectionLost)
	r, old, err := lone(c, t, step, tab, key)
	if err != nil {
		return err
	}
	if next := change(t, old); next != nil && r != nil {
		r.write(t, next, true)
	}
	t.commitNow(false)
	return nil
}

// eraseAlone deletes one document outside a transaction if its latest version
// satisfies the filter, and calls done before it commits. It returns the
// version that it found.
func eraseAlone[K comparable, V any](c *call, step string, tab *table[K, V], key K, filter func(*V) bool, done func(t *Tx, old *V)) (found *V, erased bool, err error) {
	t := c.begin()
	defer t.end(ErrConnectionLost)
	r, old, err := lone(c, t, step, tab, key)
	if err != nil || old == nil || filter != nil && !filter(old) {
		return old, false, err
	}
	r.write(t, nil, true)
	done(t, old)
	t.commitNow(false)
	return old, true, nil
}

// look runs body on a snapshot.
func (c *call) look(step string, body func(st *stmt) error) error {
	t := c.begin()
	defer t.end(engine.ErrTxDone)
	st, err := t.statement(c.ctx, step)
	if err != nil {
		return err
	}
	return body(&st)
}

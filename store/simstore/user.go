package simstore

import (
	"bytes"
	"context"
	"sort"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// userKey names a row of a user table.
type userKey struct{ table, key string }

// Row is a row of a user table.
type Row struct {
	Table string
	Key   string
	Value []byte
}

// Get returns the value of a key in a user table, and whether it is there.
func (t *Tx) Get(ctx context.Context, table, key string) ([]byte, bool, error) {
	var value *[]byte
	err := t.run(func() error {
		st, err := t.statement(ctx, "get")
		if err == nil {
			value = read(&st, t.db.user, userKey{table, key})
		}
		return err
	})
	if value == nil {
		return nil, false, err
	}
	return bytes.Clone(*value), true, err
}

// GetForUpdate is Get that keeps others from changing the row until the
// transaction ends. In a Snapshot store, which has no row locks, it writes the
// row with its own value, so that a second writer fails.
func (t *Tx) GetForUpdate(ctx context.Context, table, key string) ([]byte, bool, error) {
	var value *[]byte
	err := t.run(func() error {
		st, err := t.statement(ctx, "get for update")
		if err != nil {
			return err
		}
		k := userKey{table, key}
		value, err = lockTarget(&st, t.db.user, k, forUpdate, wait, nil)
		if err == nil && value != nil && t.db.semantics == protocol.Snapshot {
			update(t, t.db.user, k, value)
		}
		return err
	})
	if value == nil {
		return nil, false, err
	}
	return bytes.Clone(*value), true, err
}

// Put sets the value of a key in a user table.
func (t *Tx) Put(ctx context.Context, table, key string, value []byte) error {
	value = bytes.Clone(value)
	return t.run(func() error {
		st, err := t.statement(ctx, "put")
		if err != nil {
			return err
		}
		_, err = upsert(&st, t.db.user, userKey{table, key}, func(*[]byte) *[]byte { return &value })
		return err
	})
}

// Delete removes a key from a user table; a key that is not there is no error.
func (t *Tx) Delete(ctx context.Context, table, key string) error {
	return t.run(func() error {
		st, err := t.statement(ctx, "delete")
		if err != nil {
			return err
		}
		k := userKey{table, key}
		value, err := lockTarget(&st, t.db.user, k, forUpdate, wait, nil)
		if err == nil && value != nil {
			erase(t, t.db.user, k)
		}
		return err
	})
}

// List returns the rows of a user table that the transaction sees, sorted by
// key.
func (t *Tx) List(ctx context.Context, table string) ([]Row, error) {
	var rows []Row
	err := t.run(func() error {
		st, err := t.statement(ctx, "list")
		if err != nil {
			return err
		}
		for r := t.db.user.first; r != nil; r = r.after {
			if v := r.seen(t, st.snap); r.key.table == table && v != nil {
				rows = append(rows, Row{table, r.key.key, bytes.Clone(*v.value)})
			}
		}
		return nil
	})
	sort.Slice(rows, func(i, j int) bool { return rows[i].Key < rows[j].Key })
	return rows, err
}

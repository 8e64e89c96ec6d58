package simstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// level is a way to run a transaction: one column of the table of anomalies.
type level struct {
	name      string
	semantics protocol.Semantics
	isolation Isolation
}

var levels = []level{
	{"locking read committed", protocol.Locking, ReadCommitted},
	{"locking repeatable read", protocol.Locking, RepeatableRead},
	{"locking serializable", protocol.Locking, Serializable},
	{"snapshot", protocol.Snapshot, ReadCommitted},
}

// pair is two transactions of one level, and a third hand that acts outside.
type pair struct {
	*bench
	one, two *Tx
}

func newPair(t *testing.T, l level) *pair {
	p := &pair{bench: newBench(t, l.semantics)}
	p.put(p.begin(l), "x", "old")
	p.one, p.two = p.begin(l), p.begin(l)
	return p
}

func (p *pair) begin(l level) *Tx { return must(p.BeginTx(ctx, l.isolation))(p) }

// put writes and commits.
func (p *pair) put(tx *Tx, key, value string) {
	p.Helper()
	if err := tx.Put(ctx, "t", key, []byte(value)); err != nil {
		p.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		p.Fatal(err)
	}
}

func (p *pair) get(tx *Tx, key string) string {
	p.Helper()
	value, _, err := tx.Get(ctx, "t", key)
	if err != nil {
		p.Fatal(err)
	}
	return string(value)
}

// outcome words what an anomaly's script observed.
func outcome(err error, otherwise string) string {
	switch {
	case errors.Is(err, ErrSerialization):
		return "40001"
	case errors.Is(err, ErrWriteConflict):
		return "write conflict"
	case errors.Is(err, ErrDeadlock):
		return "deadlock"
	case err != nil:
		return err.Error()
	}
	return otherwise
}

// TestAnomalies is the table of what each level allows. The columns are in the
// order of levels; PostgreSQL gives the same but for its true SERIALIZABLE.
func TestAnomalies(t *testing.T) {
	for _, a := range []struct {
		name string
		says string
		want [4]string
		run  func(p *pair) string
	}{
		{
			name: "dirty read",
			says: "no level shows what is not committed",
			want: [4]string{"old", "old", "old", "old"},
			run: func(p *pair) string {
				p.one.Put(ctx, "t", "x", []byte("new"))
				return p.get(p.two, "x")
			},
		}, {
			name: "own writes",
			says: "a transaction sees what it wrote",
			want: [4]string{"new", "new", "new", "new"},
			run: func(p *pair) string {
				p.one.Put(ctx, "t", "x", []byte("new"))
				return p.get(p.one, "x")
			},
		}, {
			name: "unrepeatable read",
			says: "READ COMMITTED takes a snapshot per statement, the others one",
			want: [4]string{"new", "old", "old", "old"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.put(p.one, "x", "new")
				return p.get(p.two, "x")
			},
		}, {
			name: "snapshot at the first statement",
			says: "the snapshot is taken by the first statement, not by Begin",
			want: [4]string{"new", "new", "new", "new"},
			run: func(p *pair) string {
				p.put(p.one, "x", "new")
				return p.get(p.two, "x")
			},
		}, {
			name: "phantom",
			says: "a list shows rows that came meanwhile only under READ COMMITTED",
			want: [4]string{"2 rows", "1 rows", "1 rows", "1 rows"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.put(p.one, "y", "new")
				return fmt.Sprint(len(must(p.two.List(ctx, "t"))(p)), " rows")
			},
		}, {
			name: "lost update",
			says: "READ COMMITTED writes over what it did not see; the others notice",
			want: [4]string{"overwritten", "40001", "40001", "write conflict"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.put(p.one, "x", "new")
				return outcome(p.two.Put(ctx, "t", "x", []byte("from old")), "overwritten")
			},
		}, {
			name: "locked read",
			says: "FOR UPDATE reads the latest version under READ COMMITTED",
			want: [4]string{"new", "40001", "40001", "write conflict"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.put(p.one, "x", "new")
				value, _, err := p.two.GetForUpdate(ctx, "t", "x")
				return outcome(err, string(value))
			},
		}, {
			name: "write against an open write",
			says: "a locking store waits and then sees the commit; a Snapshot store fails at once",
			want: [4]string{"overwritten", "40001", "40001", "write conflict"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.one.Put(ctx, "t", "x", []byte("new"))
				p.script.block = func(Point) error { return p.one.Commit(ctx) }
				return outcome(p.two.Put(ctx, "t", "x", []byte("from old")), "overwritten")
			},
		}, {
			name: "write against an undone write",
			says: "a rolled back write is no change",
			want: [4]string{"written", "written", "written", "write conflict"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.one.Put(ctx, "t", "x", []byte("new"))
				p.script.block = func(Point) error { return p.one.Rollback() }
				return outcome(p.two.Put(ctx, "t", "x", []byte("from old")), "written")
			},
		}, {
			name: "delete against an update",
			says: "a delete finds the row's latest version",
			want: [4]string{"deleted", "40001", "40001", "write conflict"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.one.Put(ctx, "t", "x", []byte("new"))
				p.script.block = func(Point) error { return p.one.Commit(ctx) }
				return outcome(p.two.Delete(ctx, "t", "x"), "deleted")
			},
		}, {
			name: "insert of the same key",
			says: "the second insert waits, and then updates the row under READ COMMITTED",
			want: [4]string{"updated", "40001", "40001", "write conflict"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.one.Put(ctx, "t", "new key", []byte("1"))
				p.script.block = func(Point) error { return p.one.Commit(ctx) }
				return outcome(p.two.Put(ctx, "t", "new key", []byte("2")), "updated")
			},
		}, {
			name: "insert of a key whose insert was undone",
			says: "the second insert waits, and then inserts",
			want: [4]string{"inserted", "inserted", "inserted", "write conflict"},
			run: func(p *pair) string {
				p.get(p.two, "x")
				p.one.Put(ctx, "t", "new key", []byte("1"))
				p.script.block = func(Point) error { return p.one.Rollback() }
				return outcome(p.two.Put(ctx, "t", "new key", []byte("2")), "inserted")
			},
		}, {
			name: "write skew",
			says: "each reads what the other writes: only PostgreSQL's true SERIALIZABLE would refuse one, and nothing here relies on that",
			want: [4]string{"both", "both", "both", "both"},
			run: func(p *pair) string {
				p.get(p.one, "y")
				p.get(p.two, "x")
				p.put(p.one, "x", "one")
				p.put(p.two, "y", "two")
				return "both"
			},
		}, {
			name: "deadlock",
			says: "who would close the circle gets the error; a Snapshot store never waits",
			want: [4]string{"deadlock", "deadlock", "deadlock", "write conflict"},
			run: func(p *pair) string {
				p.one.Put(ctx, "t", "x", []byte("1"))
				p.two.Put(ctx, "t", "y", []byte("2"))
				var inner error
				p.script.block = func(Point) error {
					inner = p.two.Put(ctx, "t", "x", []byte("2"))
					return p.two.Rollback()
				}
				if err := p.one.Put(ctx, "t", "y", []byte("1")); err != nil {
					return outcome(err, "")
				}
				return outcome(inner, "no deadlock")
			},
		},
	} {
		for i, l := range levels {
			t.Run(a.name+"/"+l.name, func(t *testing.T) {
				if got := a.run(newPair(t, l)); got != a.want[i] {
					t.Errorf("%s: got %q, want %q", a.says, got, a.want[i])
				}
			})
		}
	}
}

// TestTargetRowAlone: after a wait a statement sees the latest version of the
// row it locked, and its own snapshot of every other row. This is why a
// takeover must not pick in the statement that locks the lane.
func TestTargetRowAlone(t *testing.T) {
	p := newPair(t, levels[0])
	p.put(p.begin(levels[0]), "beside", "old")
	p.one.Put(ctx, "t", "x", []byte("new"))
	p.one.Put(ctx, "t", "beside", []byte("new"))
	p.script.block = func(Point) error { return p.one.Commit(ctx) }
	st := must(p.two.statement(ctx, "test"))(t)
	target := must(lockTarget(&st, p.db.user, userKey{"t", "x"}, forNoKeyUpdate, wait, nil))(t)
	beside := read(&st, p.db.user, userKey{"t", "beside"})
	if string(*target) != "new" || string(*beside) != "old" {
		t.Fatalf("target %q, beside %q: want the new target and the old rest", *target, *beside)
	}
}

// TestConditionReadAgain: the condition is judged on the snapshot first, and
// again on the latest version of the row; a row that only now satisfies it is
// not found.
func TestConditionReadAgain(t *testing.T) {
	is := func(want string) func(*[]byte) bool {
		return func(v *[]byte) bool { return string(*v) == want }
	}
	for _, c := range []struct {
		says  string
		qual  func(*[]byte) bool
		found bool
	}{
		{"it held before and does not now", is("old"), false},
		{"it holds now and did not before", is("new"), false},
		{"it holds before and now", func(*[]byte) bool { return true }, true},
	} {
		p := newPair(t, levels[0])
		p.one.Put(ctx, "t", "x", []byte("new"))
		p.script.block = func(Point) error { return p.one.Commit(ctx) }
		st := must(p.two.statement(ctx, "test"))(t)
		v := must(lockTarget(&st, p.db.user, userKey{"t", "x"}, forNoKeyUpdate, wait, c.qual))(t)
		if (v != nil) != c.found {
			t.Errorf("%s: found %v", c.says, v != nil)
		}
	}
}

// TestSavepoint: going back to a savepoint undoes writes and gives back the
// locks taken since.
func TestSavepoint(t *testing.T) {
	p := newPair(t, levels[0])
	p.one.Put(ctx, "t", "a", []byte("before"))
	s := p.one.savepoint()
	p.one.Put(ctx, "t", "a", []byte("after"))
	p.one.Put(ctx, "t", "x", []byte("after"))
	p.one.rollbackTo(s)
	if a, x := p.get(p.one, "a"), p.get(p.one, "x"); a != "before" || x != "old" {
		t.Fatalf("a is %q and x is %q after the savepoint", a, x)
	}
	p.put(p.two, "x", "free again")
	if err := p.one.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestTxDone: a finished transaction takes no statement.
func TestTxDone(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		b := newBench(t, mode)
		tx := must(b.Begin(ctx))(t)
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := tx.Put(ctx, "t", "x", nil); !errors.Is(err, engine.ErrTxDone) {
			t.Errorf("put after commit: %v", err)
		}
		if _, err := b.Publish(ctx, tx, events("a")); !errors.Is(err, engine.ErrTxDone) {
			t.Errorf("publish after commit: %v", err)
		}
		if err := tx.Rollback(); !errors.Is(err, engine.ErrTxDone) {
			t.Errorf("rollback after commit: %v", err)
		}
		if err := tx.Commit(ctx); !errors.Is(err, engine.ErrTxDone) {
			t.Errorf("commit after commit: %v", err)
		}
		if _, err := b.Publish(ctx, nil, events("a")); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("publish without a transaction: %v", err)
		}
	})
}

// TestCommitUnknown: only what happens once COMMIT was sent is unknown.
func TestCommitUnknown(t *testing.T) {
	lost := errors.New("connection reset")
	for _, c := range []struct {
		step      string
		err       error
		unknown   bool
		committed bool
	}{
		{"put", lost, false, false},
		{"commit", engine.ErrRetryable, false, false},
		{"commit", lost, true, false},
		{"reply", lost, true, true},
		{"reply", engine.ErrRetryable, true, true},
	} {
		both(t, func(t *testing.T, mode protocol.Semantics) {
			b := newBench(t, mode)
			b.script.fail("Tx", c.step, 0, c.err)
			err := b.InTx(ctx, func(ctx context.Context, tx *Tx) error { return tx.Put(ctx, "t", "x", nil) })
			if err == nil || errors.Is(err, engine.ErrCommitUnknown) != c.unknown {
				t.Errorf("%s fails: %v, want unknown %v", c.step, err, c.unknown)
			}
			if c.unknown && errors.Is(err, engine.ErrRetryable) {
				t.Errorf("%s fails: an unknown outcome claims that nothing was applied", c.step)
			}
			if committed := len(b.Snapshot().Rows) == 1; committed != c.committed {
				t.Errorf("%s fails: committed %v", c.step, committed)
			}
		})
	}
}

package simstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// TestLockConflicts is PostgreSQL's table of row-level lock conflicts, FOR
// SHARE left out.
func TestLockConflicts(t *testing.T) {
	modes := []struct {
		name string
		mode strength
	}{{"KEY SHARE", forKeyShare}, {"NO KEY UPDATE", forNoKeyUpdate}, {"UPDATE", forUpdate}}
	conflict := [3][3]bool{
		{false, false, true},
		{false, true, true},
		{true, true, true},
	}
	for i, held := range modes {
		for j, asked := range modes {
			p := newPair(t, levels[0])
			lock := func(tx *Tx, mode strength, how patience) error {
				st := must(tx.statement(ctx, "lock"))(t)
				_, err := lockTarget(&st, p.db.user, userKey{"t", "x"}, mode, how, nil)
				return err
			}
			if err := lock(p.one, held.mode, wait); err != nil {
				t.Fatal(err)
			}
			err := lock(p.two, asked.mode, noWait)
			if got := errors.Is(err, errRowLocked); got != conflict[i][j] {
				t.Errorf("%s held, %s asked: conflict %v, want %v", held.name, asked.name, got, conflict[i][j])
			}
		}
	}
}

// TestKeyShare: FOR KEY SHARE does not read a row again that a plain update
// changed after the snapshot, not even after waiting for nothing; it does when
// the writer held UPDATE strength, or deleted the row. So a takeover must lock
// FOR UPDATE before it updates.
func TestKeyShare(t *testing.T) {
	strong := func(p *pair, tx *Tx) {
		if _, _, err := tx.GetForUpdate(ctx, "t", "x"); err != nil {
			p.Fatal(err)
		}
		p.put(tx, "x", "new")
	}
	for _, c := range []struct {
		says   string
		change func(p *pair)
		want   [2]string // READ COMMITTED, REPEATABLE READ
	}{
		{"a plain update is not seen", func(p *pair) { p.put(p.one, "x", "new") }, [2]string{"old", "old"}},
		{"an update under UPDATE strength is", func(p *pair) { strong(p, p.one) }, [2]string{"new", "40001"}},
		{"so is one below a later plain update", func(p *pair) {
			strong(p, p.one)
			p.put(p.begin(levels[0]), "x", "newer")
		}, [2]string{"newer", "40001"}},
		{"so is one above an earlier plain update", func(p *pair) {
			p.put(p.one, "x", "new")
			strong(p, p.begin(levels[0]))
		}, [2]string{"new", "40001"}},
		{"a delete is seen", func(p *pair) {
			if err := errors.Join(p.one.Delete(ctx, "t", "x"), p.one.Commit(ctx)); err != nil {
				p.Fatal(err)
			}
		}, [2]string{"gone", "40001"}},
	} {
		for i, l := range levels[:2] {
			p := newPair(t, l)
			st := must(p.two.statement(ctx, "lock"))(t)
			c.change(p)
			v, err := lockTarget(&st, p.db.user, userKey{"t", "x"}, forKeyShare, wait, nil)
			got := "gone"
			if v != nil {
				got = string(*v)
			}
			if got = outcome(err, got); got != c.want[i] {
				t.Errorf("%s (%s): got %q, want %q", c.says, l.name, got, c.want[i])
			}
		}
	}
}

// TestKeyShareBesideOpenUpdate: the owner's own open claim does not hold up a
// completion.
func TestKeyShareBesideOpenUpdate(t *testing.T) {
	p := newPair(t, levels[0])
	if err := p.one.Put(ctx, "t", "x", []byte("new")); err != nil {
		t.Fatal(err)
	}
	st := must(p.two.statement(ctx, "lock"))(t)
	v := must(lockTarget(&st, p.db.user, userKey{"t", "x"}, forKeyShare, noWait, nil))(t)
	if string(*v) != "old" {
		t.Fatalf("saw %q of an open update", *v)
	}
}

// TestSkipLocked: a locked row is passed over, in silence.
func TestSkipLocked(t *testing.T) {
	p := newPair(t, levels[0])
	p.one.Put(ctx, "t", "x", []byte("new"))
	st := must(p.two.statement(ctx, "lock"))(t)
	v, err := lockTarget(&st, p.db.user, userKey{"t", "x"}, forUpdate, skipLocked, nil)
	if v != nil || err != nil {
		t.Fatalf("got %v, %v", v, err)
	}
}

// TestLockTimeout: a wait ends at the transaction's lock timeout.
func TestLockTimeout(t *testing.T) {
	p := newPair(t, levels[0])
	p.one.Put(ctx, "t", "x", []byte("new"))
	p.two.lockTimeout = time.Second
	before := p.script.now
	if err := p.two.Put(ctx, "t", "x", []byte("late")); !errors.Is(err, ErrLockTimeout) {
		t.Fatal(err)
	}
	if waited := p.script.now.Sub(before); waited != time.Second {
		t.Fatalf("waited %v", waited)
	}
}

// TestThreeInACircle: the circle is found however long it is, and by the one
// who would close it.
func TestThreeInACircle(t *testing.T) {
	p := newPair(t, levels[0])
	three := p.begin(levels[0])
	for key, tx := range []*Tx{p.one, p.two, three} {
		if err := tx.Put(ctx, "t", string(rune('a'+key)), nil); err != nil {
			t.Fatal(err)
		}
	}
	var last error
	p.script.block = func(Point) error { // one waits for two
		p.script.block = func(Point) error { // two waits for three
			last = three.Put(ctx, "t", "a", nil)
			return nil
		}
		return p.two.Put(ctx, "t", "c", nil)
	}
	if err := p.one.Put(ctx, "t", "b", nil); !errors.Is(err, errStuck) && err != nil {
		t.Fatal(err)
	}
	if !errors.Is(last, ErrDeadlock) {
		t.Fatalf("the third got %v", last)
	}
}

// TestIdleTransactionEnds: a transaction that is left alone for longer than
// its timeout gives its locks to whoever waits for them.
func TestIdleTransactionEnds(t *testing.T) {
	p := newPair(t, levels[0])
	p.one.allowIdle(5 * time.Second)
	p.one.allowIdle(time.Hour) // does not raise it
	p.one.Put(ctx, "t", "x", []byte("idle"))
	p.pass(4 * time.Second)
	if err := p.one.Put(ctx, "t", "y", nil); err != nil {
		t.Fatalf("not idle for long enough, but %v", err)
	}
	p.put(p.two, "x", "taken") // waits until the deadline
	if err := p.one.Put(ctx, "t", "x", nil); !errors.Is(err, ErrIdleTimeout) {
		t.Fatalf("the idle transaction goes on: %v", err)
	}
}

// TestOutsideWriteWaits: in a Snapshot store a write outside a transaction
// waits for the transaction that wrote its row, and judges its filter on the
// version that it finds then.
func TestOutsideWriteWaits(t *testing.T) {
	for _, commit := range []bool{true, false} {
		p := newPair(t, levels[3])
		p.one.Put(ctx, "t", "x", []byte("new"))
		p.script.block = func(Point) error {
			if commit {
				return p.one.Commit(ctx)
			}
			return p.one.Rollback()
		}
		c := &call{ctx: ctx, s: p.Store, db: &p.db, name: "test"}
		var seen []byte
		err := alone(c, "write", p.db.user, userKey{"t", "x"}, func(_ *Tx, v *[]byte) *[]byte {
			seen = *v
			return nil
		})
		if want := map[bool]string{true: "new", false: "old"}[commit]; err != nil || string(seen) != want {
			t.Errorf("commit %v: the filter saw %q, want %q (%v)", commit, seen, want, err)
		}
	}
}

// TestTransactionLifetime: a Snapshot store ends a transaction after a minute,
// so that an orphan does not block its rows for ever.
func TestTransactionLifetime(t *testing.T) {
	b := newBench(t, protocol.Snapshot)
	tx := must(b.Begin(ctx))(t)
	if err := tx.Put(ctx, "t", "x", nil); err != nil {
		t.Fatal(err)
	}
	b.pass(61 * time.Second)
	if err := b.InTx(ctx, func(ctx context.Context, tx *Tx) error { return tx.Put(ctx, "t", "x", nil) }); err != nil {
		t.Fatalf("the orphan still holds the row: %v", err)
	}
	if err := tx.Commit(ctx); err == nil {
		t.Fatal("the orphan committed")
	}
}

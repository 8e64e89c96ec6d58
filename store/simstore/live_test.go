package simstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// TestLiveWorkers drains a backlog with goroutines: each event must be counted
// once per handler, in the same transaction as its completion.
func TestLiveWorkers(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		const publishers, events, workers = 4, 25, 3
		s := NewWith(Options{Semantics: mode, Lanes: 8})
		if _, err := s.Subscribe(ctx, engine.SubscribeInput{Group: "g", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}}); err != nil {
			t.Fatal(err)
		}
		// FOR UPDATE locks no row that is not there, so the counter must be.
		must(struct{}{}, s.InTx(ctx, func(ctx context.Context, tx *Tx) error { return tx.Put(ctx, "t", "n", make([]byte, 4)) }))(t)
		var wg sync.WaitGroup
		for p := range publishers {
			wg.Go(func() {
				for i := range events {
					retry(t, func() error {
						return s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
							e := protocol.Event{ID: fmt.Sprint(p, "-", i), Type: "e", Key: fmt.Sprint("key", i%3)}
							_, err := s.Publish(ctx, tx, []protocol.Event{e})
							return err
						})
					})
				}
			})
		}
		for n := range workers {
			wg.Go(func() { drain(t, s, byte(n+1), publishers*events) })
		}
		wg.Wait()
		if c := s.Snapshot(); len(c.Deliveries) != 0 || len(c.Rows) != 1 || binary.LittleEndian.Uint32(c.Rows[0].Value) != publishers*events {
			t.Fatalf("%d deliveries left, rows %v", len(c.Deliveries), c.Rows)
		}
	})
}

// retry tries again as long as nothing was applied.
func retry(t *testing.T, try func() error) {
	for range 10_000 {
		err := try()
		if err == nil {
			return
		}
		if !errors.Is(err, engine.ErrRetryable) {
			t.Error(err)
			return
		}
		time.Sleep(time.Microsecond)
	}
	t.Error("never succeeded")
}

// drain is a worker that counts what it runs, until all is done.
func drain(t *testing.T, s *Store, name byte, total uint32) {
	var held []protocol.LaneEpoch
	var n int64
	holder := protocol.Holder{name}
	for began := time.Now(); !counted(s, total) && !t.Failed(); {
		if time.Since(began) > 20*time.Second {
			t.Errorf("does not drain: %+v", s.Snapshot())
		}
		n += 2
		reply, err := s.Claim(ctx, engine.ClaimInput{
			Holder: holder, Number: n, TTL: time.Minute, Held: held, AllMine: true, Room: 5, Limit: 5, MaxLanes: 2,
			Handlers: []engine.HandlerRoom{{Name: "h", Room: 5}},
		})
		if err != nil {
			if !errors.Is(err, engine.ErrRetryable) {
				t.Error(err)
			}
			continue
		}
		held = held[:0]
		for _, l := range reply.Lanes {
			held = append(held, l.LaneEpoch)
		}
		for _, p := range reply.Picks {
			retry(t, func() error { return count(s, p.Lease) })
		}
		n++
		if _, err := s.Relinquish(ctx, engine.RelinquishInput{Holder: holder, Number: n}); err != nil && !errors.Is(err, engine.ErrRetryable) {
			t.Error(err)
		}
	}
}

func counted(s *Store, total uint32) bool {
	c := s.Snapshot()
	return len(c.Deliveries) == 0 && len(c.Rows) == 1 && binary.LittleEndian.Uint32(c.Rows[0].Value) == total
}

func count(s *Store, lease engine.Lease) error {
	return s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		value, _, err := tx.GetForUpdate(ctx, "t", "n")
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(value, binary.LittleEndian.Uint32(value)+1)
		if err := tx.Put(ctx, "t", "n", value); err != nil {
			return err
		}
		v, err := s.Complete(ctx, tx, engine.CompleteInput{Lease: lease, TTL: time.Minute})
		if err == nil && v == engine.LeaseLost {
			err = fmt.Errorf("lease %v lost", lease)
		}
		return err
	})
}

// TestLiveLockWait: a waiting call goes on when the lock is released, gives up
// when its context ends, and gives up at its lock timeout.
func TestLiveLockWait(t *testing.T) {
	s := New()
	holder, err := s.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	put := func(ctx context.Context, tx *Tx) error { return tx.Put(ctx, "t", "k", []byte("x")) }
	if err := put(ctx, holder); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := s.InTx(short, put); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a cancelled wait returned %v", err)
	}
	done := make(chan error)
	go func() { done <- s.InTx(ctx, put) }()
	time.Sleep(5 * time.Millisecond)
	if err := holder.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("the waiting transaction failed: %v", err)
	}
	other, _ := s.Begin(ctx)
	other.allowIdle(10 * time.Millisecond)
	if err := put(ctx, other); err != nil {
		t.Fatal(err)
	}
	if err := s.InTx(ctx, put); err != nil {
		t.Fatalf("an idle transaction kept its lock: %v", err)
	}
	if err := put(ctx, other); !errors.Is(err, ErrIdleTimeout) {
		t.Fatalf("the idle transaction goes on: %v", err)
	}
}

// TestLiveContext: when the context of a transaction ends, its locks are free
// although its body hangs, and nothing that the body does later counts.
func TestLiveContext(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		s := NewWith(Options{Semantics: mode})
		put := func(ctx context.Context, tx *Tx) error { return tx.Put(ctx, "t", "k", []byte("x")) }
		reason := errors.New("retired")
		cancelled, cancel := context.WithCancelCause(ctx)
		wrote, hung, over := make(chan struct{}), make(chan struct{}), make(chan error)
		var late error
		go func() {
			over <- s.InTx(cancelled, func(_ context.Context, tx *Tx) error {
				if err := put(ctx, tx); err != nil {
					return err
				}
				close(wrote)
				<-hung
				late = put(ctx, tx)
				return nil
			})
		}()
		<-wrote
		cancel(reason)
		retry(t, func() error { return s.InTx(ctx, put) })
		close(hung)
		if err := <-over; !errors.Is(err, reason) || !errors.Is(late, reason) || errors.Is(err, engine.ErrCommitUnknown) {
			t.Errorf("the body's last statement: %v; InTx: %v", late, err)
		}
		s.db.sched.Enter()
		defer s.db.sched.Leave()
		if len(s.db.open) != 0 || s.db.pos != 1 {
			t.Errorf("%d transactions are open, %d committed", len(s.db.open), s.db.pos)
		}
	})
}

// TestLiveContextWaiting: a body that waits for a lock under a context of its
// own goes on when that of its transaction ends.
func TestLiveContextWaiting(t *testing.T) {
	s := New()
	put := func(tx *Tx) error { return tx.Put(ctx, "t", "k", []byte("x")) }
	other := must(s.Begin(ctx))(t)
	if err := put(other); err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	cancelled, cancel := context.WithCancel(ctx)
	time.AfterFunc(5*time.Millisecond, cancel)
	err := s.InTx(cancelled, func(_ context.Context, tx *Tx) error { return put(tx) })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLiveBus runs whole buses on a live store: per key, every event is
// counted once and in the order of its commit.
func TestLiveBus(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		const buses, keys, perKey = 3, 4, 15
		s := NewWith(Options{Semantics: mode, Lanes: 8})
		var all []*engine.Bus[*Tx]
		for range buses {
			bus, err := engine.New(s, engine.Config{Lease: time.Second, Concurrency: 4})
			if err != nil {
				t.Fatal(err)
			}
			err = engine.HandleTx(bus, engine.Handler{Event: "n", Name: "append"},
				func(ctx context.Context, tx *Tx, e engine.Event[int]) error {
					had, _, err := tx.GetForUpdate(ctx, "t", e.Key)
					if err != nil {
						return err
					}
					return tx.Put(ctx, "t", e.Key, append(had, byte(e.Payload)))
				})
			if err == nil {
				err = bus.Start(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, bus)
		}
		var wg sync.WaitGroup
		for k := range keys {
			wg.Go(func() {
				for i := range perKey {
					m := engine.Message{Type: "n", Key: fmt.Sprint("k", k), Payload: i}
					retry(t, func() error { return all[k%buses].PublishNow(ctx, m) })
				}
			})
		}
		wg.Wait()
		for range 1000 {
			if len(s.Snapshot().Deliveries) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, bus := range all {
			if err := bus.Stop(ctx); err != nil {
				t.Error(err)
			}
		}
		rows := s.Snapshot().Rows
		if len(rows) != keys {
			t.Fatalf("rows %v; statistics %+v", rows, s.Snapshot())
		}
		for _, r := range rows {
			for i, n := range r.Value {
				if int(n) != i || len(r.Value) != perKey {
					t.Fatalf("%s: counted %v", r.Key, r.Value)
				}
			}
		}
	})
}

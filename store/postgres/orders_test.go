package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
	"github.com/relaybus-go/relaybus/store/storetest"
)

// ended is what became of an end.
type ended struct {
	verdict engine.Verdict
	err     error
}

// enders are the ways to end a run. attempts is what the delivery is charged
// when the end is applied; point is where its statement can be paused.
var enders = []struct {
	name     string
	point    storetest.Point
	gone     bool // the row goes
	attempts int32
	end      func(ctx context.Context, s *opened, l engine.Lease) ended
}{
	{"CompleteMany", storetest.CompleteBegan, true, 0, func(ctx context.Context, s *opened, l engine.Lease) ended {
		reply, err := s.store.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{l}})
		if err != nil {
			return ended{err: err}
		}
		return ended{reply.Ended[0].Verdict, reply.Ended[0].Err}
	}},
	{"Complete, read committed", "", true, 0, completeAt(pgx.ReadCommitted)},
	{"Complete, repeatable read", "", true, 0, completeAt(pgx.RepeatableRead)},
	{"Complete, serializable", "", true, 0, completeAt(pgx.Serializable)},
	{"Reschedule", storetest.EndBegan, false, 1, func(ctx context.Context, s *opened, l engine.Lease) ended {
		reply, err := s.store.Reschedule(ctx, engine.RescheduleInput{Lease: l, Error: "it failed"})
		return ended{reply.Verdict, err}
	}},
	{"Snooze", storetest.EndBegan, false, 0, func(ctx context.Context, s *opened, l engine.Lease) ended {
		reply, err := s.store.Snooze(ctx, engine.SnoozeInput{Lease: l})
		return ended{reply.Verdict, err}
	}},
	{"Bury", storetest.EndBegan, false, 1, func(ctx context.Context, s *opened, l engine.Lease) ended {
		reply, err := s.store.Bury(ctx, engine.BuryInput{Lease: l, Error: "no more", Charge: true})
		return ended{reply.Verdict, err}
	}},
}

var errLost = errors.New("the lease is lost")

// completeAt completes in a transaction that took its snapshot before.
func completeAt(level pgx.TxIsoLevel) func(context.Context, *opened, engine.Lease) ended {
	return func(ctx context.Context, s *opened, l engine.Lease) (e ended) {
		err := s.store.InTxWith(ctx, pgx.TxOptions{IsoLevel: level}, func(ctx context.Context, tx pgx.Tx) (err error) {
			if _, err := tx.Exec(ctx, "insert into "+s.schema+".effects values ('a', '')"); err != nil {
				return err
			}
			s.pauses.reached(ctx, "test", "snapshot taken")
			e.verdict, err = s.store.Complete(ctx, tx, engine.CompleteInput{Lease: l, TTL: time.Hour})
			if err == nil && e.verdict == engine.LeaseLost {
				return errLost
			}
			return err
		})
		if !errors.Is(err, errLost) {
			e.err = err
		}
		return e
	}
}

// race is one run of a delivery that one worker ends and another takes over.
type race struct {
	*opened
	t        testing.TB
	lease    engine.Lease
	two      *worker
	takeover pgx.Tx
}

func newRace(t *testing.T) *race {
	s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e"})
	r := &race{opened: s, t: t, lease: newWorker(t, s, 1).claim().Picks[0].Lease, two: newWorker(t, s, 2)}
	if err := s.expire(context.Background(), r.lease.Lane); err != nil {
		t.Fatal(err)
	}
	return r
}

// lock is the first half of a takeover, charge the second.
func (r *race) lock() {
	tx, err := r.pool.BeginTx(context.Background(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		r.t.Fatal(err)
	}
	r.takeover = tx
	r.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	takeOver(r.t, tx, r.sql(r.t, "take_over"), r.two)
}

func (r *race) charge() {
	id := []int64{int64(r.lease.Delivery)}
	if _, err := r.takeover.Exec(context.Background(), r.sql(r.t, "charge"), id, []int32{int32(r.lease.Lane)}, id); err != nil {
		r.t.Fatal(err)
	}
}

func (r *race) commit() {
	r.charge()
	if err := r.takeover.Commit(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// row returns the delivery, nil when it is gone.
func (r *race) row() *engine.Delivery {
	list, err := r.store.List(context.Background(), engine.ListInput{})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(list.Deliveries) == 0 {
		return nil
	}
	return &list.Deliveries[0].Delivery
}

// The orders in which an end and a takeover of its lane can meet. The delivery
// is charged by exactly one of them, and an end is accepted only when the
// takeover saw it, or did not happen.
func TestEndsAgainstTakeover(t *testing.T) {
	for _, e := range enders {
		for _, order := range []struct {
			name  string
			won   bool // the end is accepted
			point bool // the end must be paused inside of its statement
			play  func(r *race, end func() <-chan ended) ended
		}{
			{"takeover first", false, false, func(r *race, end func() <-chan ended) ended {
				r.lock()
				r.commit()
				return <-end()
			}},
			{"end first", true, false, func(r *race, end func() <-chan ended) ended {
				got := <-end()
				r.lock()
				r.commit()
				return got
			}},
			{"end waits for a takeover that commits", false, false, func(r *race, end func() <-chan ended) ended {
				r.lock()
				got := end()
				r.waitUntilBlocked(r.t)
				r.commit()
				return <-got
			}},
			{"end waits for a takeover that charged", false, false, func(r *race, end func() <-chan ended) ended {
				r.lock()
				r.charge()
				got := end()
				r.waitUntilBlocked(r.t)
				if err := r.takeover.Commit(context.Background()); err != nil {
					r.t.Fatal(err)
				}
				return <-got
			}},
			{"end waits for a takeover that is undone", true, false, func(r *race, end func() <-chan ended) ended {
				r.lock()
				got := end()
				r.waitUntilBlocked(r.t)
				if err := r.takeover.Rollback(context.Background()); err != nil {
					r.t.Fatal(err)
				}
				return <-got
			}},
			{"takeover between snapshot and lock of the end", false, true, func(r *race, end func() <-chan ended) ended {
				over := func() { r.lock(); r.commit() }
				if !r.pauseAt(r.t, e.point, over) {
					r.pauses.set("test/snapshot taken", over)
				}
				return <-end()
			}},
		} {
			t.Run(e.name+"/"+order.name, func(t *testing.T) {
				t.Parallel()
				r := newRace(t)
				got := order.play(r, func() <-chan ended {
					out := make(chan ended, 1)
					go func() { out <- e.end(context.Background(), r.opened, r.lease) }()
					return out
				})
				r.judge(t, got, order.won, e.gone, e.attempts)
			})
		}
	}
}

func (r *race) judge(t *testing.T, got ended, won, gone bool, attempts int32) {
	t.Helper()
	row := r.row()
	if !won {
		// A snapshot of the caller's own may be too old to look: it tries again.
		if got.err != nil && !errors.Is(got.err, engine.ErrRetryable) || got.err == nil && got.verdict != engine.LeaseLost {
			t.Errorf("%v, %v, want LeaseLost: another worker runs it", got.verdict, got.err)
		}
		if row == nil || row.Attempts != 1 || row.Takeovers != 1 || row.Status != protocol.Pending {
			t.Errorf("%+v, want it pending and charged once, by the takeover", row)
		}
		return
	}
	if got.err != nil || got.verdict != engine.Applied {
		t.Fatalf("%v, %v, want Applied", got.verdict, got.err)
	}
	if gone != (row == nil) {
		t.Errorf("%+v", row)
	}
	if row != nil && row.Attempts != attempts+row.Takeovers {
		t.Errorf("%d attempts, want %d and %d of takeovers", row.Attempts, attempts, row.Takeovers)
	}
}

// A lane on which a completion is under way is passed over, and can be taken
// when the transaction has ended, either way.
func TestTakeoverPassesOverAnOpenCompletion(t *testing.T) {
	for _, how := range []string{"commit", "rollback"} {
		t.Run(how, func(t *testing.T) {
			r := newRace(t)
			ctx := context.Background()
			tx, err := r.pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(ctx)
			if v, err := r.store.Complete(ctx, tx, engine.CompleteInput{Lease: r.lease, TTL: time.Hour}); v != engine.Applied || err != nil {
				t.Fatal(v, err)
			}
			if reply := r.two.claim(); len(reply.Lanes) > 0 {
				t.Fatalf("taken over while its completion may still commit: %+v", reply.Lanes)
			}
			want := 1
			if how == "commit" {
				want, err = 0, tx.Commit(ctx)
			} else {
				err = tx.Rollback(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			if reply := r.two.claim(); len(reply.Picks) != want {
				t.Errorf("%d picks, want %d", len(reply.Picks), want)
			}
		})
	}
}

// A client that vanishes after Complete keeps the lane no longer than the time
// that the engine gives the transaction.
func TestOrphanTransaction(t *testing.T) {
	r := newRace(t)
	ctx := context.Background()
	conn, err := pgx.ConnectConfig(ctx, r.pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := r.store.Complete(ctx, tx, engine.CompleteInput{Lease: r.lease, TTL: 300 * time.Millisecond}); v != engine.Applied || err != nil {
		t.Fatal(v, err)
	}
	for len(r.two.claim().Picks) == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	if err := tx.Commit(ctx); err == nil {
		t.Error("the orphan committed: its delivery runs twice")
	}
	if row := r.row(); row == nil || row.Attempts != 1 {
		t.Errorf("%+v, want it pending and charged once", row)
	}
}

// A completion whose row another try of it deletes between snapshot and lock is
// Applied like a repeated one, and so is what follows in its chain.
func TestCompletionTwiceAtOnce(t *testing.T) {
	s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e", Key: "k"}, protocol.Event{ID: "b", Type: "e", Key: "k"})
	ctx := context.Background()
	var leases []engine.Lease
	for _, p := range newWorker(t, s, 1).claim().Picks {
		leases = append(leases, p.Lease)
	}
	complete := func() []engine.Ended {
		reply, err := s.store.CompleteMany(ctx, engine.CompleteManyInput{Leases: leases})
		if err != nil {
			t.Error(err)
		}
		return reply.Ended
	}
	s.pauseAt(t, storetest.CompleteBegan, func() { complete() })
	for i, e := range complete() {
		if e.Verdict != engine.Applied || e.Err != nil {
			t.Errorf("lease %d: %v, %v", i, e.Verdict, e.Err)
		}
	}
}

// A head whose row is gone is judged by its lane as it is afterwards, and what
// follows it in the call by what became of the head: here a newer claim drops
// the head in between.
func TestFollowerOfALostHead(t *testing.T) {
	s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e", Key: "k"}, protocol.Event{ID: "b", Type: "e", Key: "k"})
	ctx := context.Background()
	w := newWorker(t, s, 1)
	picks := w.claim().Picks
	head, follower := picks[0].Lease, picks[1].Lease
	if err := s.exec(ctx, "delete from %s.deliveries where id = $1", int64(head.Delivery)); err != nil {
		t.Fatal(err)
	}
	s.pauses.set("complete/complete", func() { // before the first statement
		s.pauses.set("complete/complete", func() { // and before the second
			w.number += 2
			_, err := s.store.Claim(ctx, engine.ClaimInput{
				Holder: w.holder, Number: w.number, TTL: time.Hour, Held: []engine.LaneEpoch{{Lane: head.Lane, Epoch: head.Epoch}},
				Running: []engine.Running{{InFlight: follower.Entry(), Lane: follower.Lane, Handler: "h", Key: "k"}},
			})
			if err != nil {
				t.Error(err)
			}
		})
	})
	reply, err := s.store.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{head, follower}})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range reply.Ended {
		if e.Verdict != engine.LeaseLost {
			t.Errorf("lease %d: %v", i, e.Verdict)
		}
	}
}

// Publishers whose ids and keys overlap in opposite order wait for each other
// and do not deadlock, as long as each publishes once.
func TestPublishInOppositeOrder(t *testing.T) {
	s := seeded(t, postgres.Options{})
	var wait sync.WaitGroup
	for n := range 2 {
		wait.Go(func() {
			for round := range 60 {
				var events []protocol.Event
				for i := range 20 {
					j := i
					if n == 1 {
						j = 19 - i
					}
					events = append(events, protocol.Event{ID: fmt.Sprint("shared ", round/2, " ", j), Type: "e", Key: fmt.Sprint("k", 100-j)},
						protocol.Event{ID: fmt.Sprint("own ", n, " ", round, " ", i), Type: "e", Key: fmt.Sprint("k", j)})
				}
				err := s.store.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
					_, err := s.store.Publish(ctx, tx, events)
					return err
				})
				if err != nil {
					t.Errorf("round %d of publisher %d: %v", round, n, err)
				}
			}
		})
	}
	wait.Wait()
}

// Two publishes in one transaction may deadlock with another application. One
// of the two is told to try again.
func TestPublishTwiceDeadlocks(t *testing.T) {
	for _, what := range []string{"ids", "keys"} {
		t.Run(what, func(t *testing.T) {
			s := seeded(t, postgres.Options{})
			var both sync.WaitGroup
			both.Add(2)
			outcome := make(chan error, 2)
			for n := range 2 {
				go func() {
					first, second := []string{"x", "y"}[n], []string{"y", "x"}[n]
					outcome <- s.store.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
						for i, name := range []string{first, second} {
							e := protocol.Event{ID: name, Type: "e"}
							if what == "keys" {
								e = protocol.Event{ID: fmt.Sprint(name, " of ", n), Type: "e", Key: name}
							}
							if _, err := s.store.Publish(ctx, tx, []protocol.Event{e}); err != nil {
								return err
							}
							if i == 0 {
								both.Done()
								both.Wait()
							}
						}
						return nil
					})
				}()
			}
			one, other := <-outcome, <-outcome
			if one == nil {
				one, other = other, one
			}
			if !errors.Is(one, engine.ErrRetryable) || other != nil {
				t.Errorf("%v and %v, want one retryable error", one, other)
			}
		})
	}
}

// A delivery whose event row is gone is granted without an event, so that the
// engine can bury it: an inner join would hide it, and block its key for good.
func TestDamagedRowIsSeen(t *testing.T) {
	s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e", Key: "k"})
	if err := s.exec(context.Background(), "delete from %s.events"); err != nil {
		t.Fatal(err)
	}
	picks := newWorker(t, s, 1).claim().Picks
	if len(picks) != 1 || picks[0].Event != nil {
		t.Errorf("%+v, want the delivery without an event", picks)
	}
	found, err := s.store.Verify(context.Background())
	if err != nil || len(found.Findings) != 1 || found.Findings[0].Check != "event missing" {
		t.Errorf("verify: %+v, %v", found.Findings, err)
	}
}

// A call waits for a lane no longer than a fifth of its time, so that there is
// some left to try again before the lease runs out, and is told that it may.
func TestLockWaitLeavesTimeToTryAgain(t *testing.T) {
	r := newRace(t)
	r.lock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, e := range enders {
		if e.point == "" {
			continue // the caller's transaction: it is the TTL that counts
		}
		if got := e.end(ctx, r.opened, r.lease); !errors.Is(got.err, engine.ErrRetryable) {
			t.Errorf("%s: %v, %v, want a retryable error", e.name, got.verdict, got.err)
		}
	}
	_, err := r.store.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: r.lease.Holder, Lanes: []engine.LaneEpoch{{Lane: r.lease.Lane}}, TTL: time.Second})
	if !errors.Is(err, engine.ErrRetryable) || ctx.Err() != nil {
		t.Errorf("extend: %v, %v, want a retryable error within the call's time", err, ctx.Err())
	}
}

// A client that vanishes in the middle of a claim, with its lanes locked, loses
// them when the time of the call is over.
func TestVanishedClaimFreesItsLanes(t *testing.T) {
	r := newRace(t)
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	r.pauses.set("claim/find lanes", func() { // the lane it holds is locked
		if reply := r.two.claim(); len(reply.Picks) > 0 {
			t.Error("the lane was taken from under a claim")
		}
		for len(r.two.claim().Picks) == 0 {
			time.Sleep(20 * time.Millisecond)
		}
	})
	_, err := r.store.Claim(ctx, engine.ClaimInput{
		Holder: r.lease.Holder, Number: 100, TTL: time.Hour, Held: []engine.LaneEpoch{{Lane: r.lease.Lane, Epoch: r.lease.Epoch}},
		Handlers: []engine.HandlerRoom{{Name: "h", Room: 10}}, Room: 10, Limit: 10, MaxLanes: 10,
		Running: []engine.Running{{InFlight: r.lease.Entry(), Lane: r.lease.Lane, Handler: "h"}},
	})
	if err == nil || errors.Is(err, engine.ErrRetryable) {
		t.Errorf("%v, want an error of a connection that ended", err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the lanes were free after %v; the call had half a second", took)
	}
}

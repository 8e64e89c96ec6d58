package linearize_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/linearize"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// rough is a store behind a bad network: calls come late or not at all, answers
// are lost, and it can be cut off.
type rough struct {
	engine.TxStore[*simstore.Tx]
	mu   sync.Mutex
	rand *rand.Rand
	away atomic.Bool
}

var errNetwork = errors.New("network: connection reset")

func (s *rough) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func through[In, Out any](s *rough, ctx context.Context, in In, method func(context.Context, In) (Out, error)) (Out, error) {
	var none Out
	if s.away.Load() {
		return none, errNetwork
	}
	switch s.roll(40) {
	case 0:
		return none, errNetwork
	case 1: // the answer is lost
		method(ctx, in)
		return none, errNetwork
	case 2: // late: the caller has given up when it arrives
		late := context.WithoutCancel(ctx)
		go func() {
			time.Sleep(time.Duration(s.roll(80)) * time.Millisecond)
			method(late, in)
		}()
		return none, errNetwork
	}
	return method(ctx, in)
}

func (s *rough) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	return through(s, ctx, in, s.TxStore.Claim)
}

func (s *rough) ExtendLease(ctx context.Context, in engine.ExtendLeaseInput) (engine.ExtendLeaseReply, error) {
	return through(s, ctx, in, s.TxStore.ExtendLease)
}

func (s *rough) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	return through(s, ctx, in, s.TxStore.CompleteMany)
}

func (s *rough) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	return through(s, ctx, in, s.TxStore.Reschedule)
}

func (s *rough) Snooze(ctx context.Context, in engine.SnoozeInput) (engine.EndReply, error) {
	return through(s, ctx, in, s.TxStore.Snooze)
}

func (s *rough) Bury(ctx context.Context, in engine.BuryInput) (engine.EndReply, error) {
	return through(s, ctx, in, s.TxStore.Bury)
}

func (s *rough) Release(ctx context.Context, in engine.ReleaseInput) (engine.ReleaseReply, error) {
	return through(s, ctx, in, s.TxStore.Release)
}

func (s *rough) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	return through(s, ctx, in, s.TxStore.Relinquish)
}

func (s *rough) InTx(ctx context.Context, fn func(ctx context.Context, tx *simstore.Tx) error) error {
	if s.away.Load() {
		return errNetwork
	}
	err := s.TxStore.InTx(ctx, fn)
	if err == nil && s.roll(20) == 0 {
		return fmt.Errorf("commit: %w: %w", engine.ErrCommitUnknown, errNetwork)
	}
	return err
}

func TestLive(t *testing.T) {
	for _, family := range []linearize.Family{linearize.Locking, linearize.Snapshot} {
		t.Run(family.String(), func(t *testing.T) { live(t, family) })
	}
}

func live(t *testing.T, family linearize.Family) {
	options := simstore.Options{Lanes: 4}
	if family == linearize.Snapshot {
		options.Semantics = 1
	}
	store := simstore.NewWith(options)
	history := linearize.NewHistory(family)
	began := time.Now()
	now := func() int64 { return int64(time.Since(began)) }
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for client := 1; client <= 3; client++ {
		group.Add(1)
		go func() {
			defer group.Done()
			network := &rough{TxStore: store, rand: rand.New(rand.NewPCG(uint64(client), 7))}
			for ctx.Err() == nil {
				network.away.Store(false)
				worker(ctx, t, linearize.Observe[*simstore.Tx](network, history, client, now), network)
			}
		}()
	}
	group.Add(1)
	go func() {
		defer group.Done()
		publisher(ctx, t, linearize.Observe[*simstore.Tx](store, history, 0, now))
	}()
	admin := linearize.ObserveOperator(store, history, 4, now)
	operator(ctx, admin)
	group.Wait()
	admin.List(context.Background(), engine.ListInput{Limit: engine.MaxList})
	report := linearize.Check(history, time.Minute)
	t.Logf("\n%s", report)
	if !report.OK() {
		t.Error("the history of a correct store was not accepted")
		if f, err := os.CreateTemp("", "linearize-*.html"); err == nil {
			t.Log(f.Name(), linearize.WriteHTML(f, report))
		}
	}
}

// worker runs a bus for a while, sometimes cut off at the end.
func worker(ctx context.Context, t *testing.T, store engine.TxStore[*simstore.Tx], network *rough) {
	bus, err := engine.New(store, engine.Config{
		Lease: 100 * time.Millisecond, Poll: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		StopTimeout: 200 * time.Millisecond,
	})
	if err != nil {
		t.Error(err)
		return
	}
	retry := engine.Exponential{Base: 10 * time.Millisecond, Cap: 20 * time.Millisecond}
	engine.Handle(bus, engine.Handler{Event: "e", Name: "plain", MaxAttempts: 4, Retry: retry}, func(ctx context.Context, e engine.Event[struct{}]) error {
		time.Sleep(time.Duration(network.roll(10)) * time.Millisecond)
		if network.roll(10) == 0 {
			return errors.New("no")
		}
		return nil
	})
	engine.HandleTx(bus, engine.Handler{Event: "e", Name: "tx", MaxAttempts: 4, Retry: retry}, func(ctx context.Context, tx *simstore.Tx, e engine.Event[struct{}]) error {
		linearize.NoteEffect(ctx, linearize.Name{Event: e.ID, Handler: "tx"})
		if network.roll(10) == 0 {
			return errors.New("no")
		}
		return tx.Put(ctx, "effects", fmt.Sprint(e.ID, "/", network.roll(1<<30)), nil)
	})
	runFor, stop := context.WithTimeout(ctx, time.Duration(100+network.roll(400))*time.Millisecond)
	defer stop()
	if err := bus.Start(runFor); err != nil {
		return
	}
	<-runFor.Done()
	network.away.Store(network.roll(2) == 0)
	bus.Stop(context.Background())
}

func publisher(ctx context.Context, t *testing.T, store engine.TxStore[*simstore.Tx]) {
	bus, err := engine.New(store, engine.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Error(err)
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(3 * time.Millisecond)
		m := engine.Message{ID: fmt.Sprint("e", i-i%7*3), Type: "e", Payload: []byte("{}")}
		if i%3 != 0 {
			m.Key = fmt.Sprint("k", i%5)
		}
		bus.PublishNow(context.Background(), m)
	}
}

// operator looks at the rows and brings dead letters back.
func operator(ctx context.Context, store engine.Operator) {
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		list, err := store.List(context.Background(), engine.ListInput{Limit: engine.MaxList})
		if err != nil {
			continue
		}
		var dead []engine.DeliveryID
		for _, d := range list.Deliveries {
			if d.Delivery.Status.String() == "dead" {
				dead = append(dead, d.Delivery.ID)
			}
		}
		if len(dead) > 0 {
			store.Requeue(context.Background(), engine.RequeueInput{IDs: dead})
		}
	}
}

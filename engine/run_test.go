package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// These tests run the real Dispatcher in a bubble of synctest: time is fake,
// and a goroutine that is left over fails the test.

// startBus starts a bus whose only handler is fn, for "h" of "e".
func startBus(t *testing.T, cfg Config, h Handler, fn func(context.Context, Event[[]byte]) error) (*Bus[*fakeTx], *fakeStore) {
	t.Helper()
	bus, store := newTestBus(t, cfg)
	h.Event, h.Name = "e", "h"
	must(t, Handle(bus, h, fn))
	must(t, bus.Start(context.Background()))
	return bus, store
}

// give hands deliveries 1 to n to the bus and lets everything settle.
func give(bus *Bus[*fakeTx], store *fakeStore, n int) {
	for id := range n {
		store.grant(DeliveryID(id+1), "e", "h", "{}")
	}
	bus.Wake()
	settle()
}

// settle lets a moment pass, longer than any completion window in use.
func settle() {
	synctest.Wait()
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
}

func TestRunHandlesAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		bus, store := startBus(t, Config{}, Handler{}, func(_ context.Context, e Event[[]byte]) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, e.ID)
			return nil
		})
		give(bus, store, 3)
		must(t, bus.Stop(t.Context()))
		completed := 0
		for _, c := range callsOf[CompleteManyInput](store) {
			completed += len(c.Leases)
		}
		if len(got) != 3 || completed != 3 {
			t.Errorf("%d handled, %d completed, of 3", len(got), completed)
		}
		if count[RelinquishInput](store) == 0 {
			t.Error("the lanes were not given back: others wait for the lease to expire")
		}
	})
}

func TestRunUntilCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := newTestBus(t, Config{})
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() { result <- bus.Run(ctx) }()
		settle()
		give(bus, store, 1)
		cancel()
		if err := <-result; err != nil || count[CompleteManyInput](store) != 1 {
			t.Errorf("Run: %v, %d completions", err, count[CompleteManyInput](store))
		}
	})
}

// What a handler finished is not lost in the window when the context of the
// start is cancelled.
func TestRunCancelKeepsBufferedCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := newTestBus(t, Config{Window: time.Second})
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, func(_ context.Context, e Event[[]byte]) error {
			if e.ID == "e2" {
				time.Sleep(10 * time.Second) // keeps the window open
			}
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		must(t, bus.Start(ctx))
		give(bus, store, 2)
		if count[CompleteManyInput](store) != 0 {
			t.Fatal("the completion was not buffered: the test shows nothing")
		}
		cancel()
		synctest.Wait()
		if n := count[CompleteManyInput](store); n != 1 {
			t.Errorf("%d completions stored after the cancellation", n)
		}
		must(t, bus.Stop(t.Context()))
		if n := count[CompleteManyInput](store); n != 2 {
			t.Errorf("the handler under way was not waited for: %d completions", n)
		}
	})
}

func TestStartWaitsForTheSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := newTestBus(t, Config{})
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
		store.away = true
		time.AfterFunc(5*time.Second, func() { store.mu.Lock(); store.away = false; store.mu.Unlock() })
		began := time.Now()
		must(t, bus.Start(t.Context()))
		if took := time.Since(began); took < 5*time.Second || took > 15*time.Second {
			t.Errorf("Start returned after %v", took)
		}
		must(t, bus.Stop(t.Context()))
	})
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := newTestBus(t, Config{})
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
		store.away = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := bus.Start(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrShutdown) {
			t.Errorf("Start without a store: %v", err)
		}
		store.away = false
		must(t, bus.Start(t.Context()))
		must(t, bus.Stop(t.Context()))
	})
}

func TestStopBeforeStartHasFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := newTestBus(t, Config{})
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
		store.away = true
		result := make(chan error)
		go func() { result <- bus.Start(context.Background()) }()
		settle()
		must(t, bus.Stop(t.Context()))
		if err := <-result; !errors.Is(err, ErrShutdown) {
			t.Errorf("Start: %v", err)
		}
	})
}

func TestStartAndStopInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := newTestBus(t, Config{})
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
		must(t, bus.Stop(t.Context()))
		bus.Wake() // harmless
		must(t, bus.Start(t.Context()))
		if err := bus.Start(t.Context()); !errors.Is(err, ErrStarted) {
			t.Errorf("second Start: %v", err)
		}
		if err := bus.Run(t.Context()); !errors.Is(err, ErrStarted) {
			t.Errorf("Run of a started bus: %v", err)
		}
		if err := Handle(bus, Handler{Event: "e", Name: "late"}, nothing); !errors.Is(err, ErrStarted) {
			t.Errorf("registration on a started bus: %v", err)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := bus.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		must(t, bus.Stop(t.Context()))
		must(t, bus.Start(t.Context()))
		give(bus, store, 1)
		must(t, bus.Stop(t.Context()))
		holders := map[Holder]bool{}
		for _, c := range callsOf[ClaimInput](store) {
			holders[c.Holder] = true
		}
		if len(holders) != 2 {
			t.Errorf("two lives of a bus used %d holders", len(holders))
		}
	})
}

// A handler that listens to its context is released uncharged.
func TestStopCancelsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		bus, store := startBus(t, Config{StopTimeout: 8 * time.Second}, Handler{}, func(ctx context.Context, _ Event[[]byte]) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		give(bus, store, 1)
		began := time.Now()
		must(t, bus.Stop(t.Context()))
		if took := time.Since(began); took < 6*time.Second || took > 8*time.Second {
			t.Errorf("the handler had %v of 6s", took)
		}
		if !errors.Is(cause, ErrShutdown) {
			t.Errorf("cause: %v", cause)
		}
		if count[ReleaseInput](store) != 1 || count[RescheduleInput](store) != 0 {
			t.Errorf("%d releases, %d charged", count[ReleaseInput](store), count[RescheduleInput](store))
		}
	})
}

// A handler that ignores everything must not keep the process alive.
func TestStopLeavesAStuckHandlerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		bus, store := startBus(t, Config{}, Handler{}, func(context.Context, Event[[]byte]) error {
			<-release
			return nil
		})
		give(bus, store, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := bus.Stop(ctx)
		if err == nil || time.Since(began) > time.Second {
			t.Fatalf("Stop took %v: %v", time.Since(began), err)
		}
		wantText(t, err.Error(), "1 handlers")
		close(release)
		synctest.Wait()
		if count[CompleteManyInput](store) != 0 {
			t.Error("a run that was left behind completed after the stop")
		}
		must(t, bus.Stop(t.Context()))
	})
}

func TestStopIsCutOffWhenTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := startBus(t, Config{StopTimeout: 4 * time.Second}, Handler{}, nothing)
		give(bus, store, 1)
		store.mu.Lock()
		store.hang = true
		store.mu.Unlock()
		began := time.Now()
		err := bus.Stop(t.Context())
		if err == nil || time.Since(began) != 4*time.Second {
			t.Errorf("Stop took %v: %v", time.Since(began), err)
		}
	})
}

func TestStopWithACancelledContextGoesOnByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := startBus(t, Config{Window: time.Second}, Handler{}, func(context.Context, Event[[]byte]) error {
			time.Sleep(5 * time.Second)
			return nil
		})
		give(bus, store, 1)
		for _, end := range []time.Duration{0, -time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), end)
			if err := bus.Stop(ctx); err == nil {
				t.Error("Stop claims to have stopped")
			}
			cancel()
		}
		must(t, bus.Stop(t.Context()))
		if count[CompleteManyInput](store) != 1 {
			t.Error("the completion was lost")
		}
	})
}

func TestStopWithASoonerDeadlineHastens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := startBus(t, Config{}, Handler{}, func(ctx context.Context, _ Event[[]byte]) error {
			<-ctx.Done()
			return ctx.Err()
		})
		give(bus, store, 1)
		began := time.Now()
		first := make(chan error)
		go func() { first <- bus.Stop(context.Background()) }()
		settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := bus.Stop(ctx)
		if err := <-first; err != nil || second != nil || time.Since(began) > time.Second {
			t.Errorf("two stops took %v: %v, %v", time.Since(began), err, second)
		}
	})
}

func TestHandlerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := startBus(t, Config{}, Handler{Timeout: time.Minute}, func(ctx context.Context, _ Event[[]byte]) error {
			if _, ok := ctx.Deadline(); ok {
				t.Error("the timeout is the Dispatcher's, not the context's")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		give(bus, store, 1)
		time.Sleep(time.Minute)
		settle()
		ends := callsOf[RescheduleInput](store)
		if len(ends) != 1 {
			t.Fatalf("%d failed attempts", len(ends))
		}
		wantText(t, ends[0].Error, "handler timed out")
		must(t, bus.Stop(t.Context()))
	})
}

func TestHungHandlerIsRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		bus, store := startBus(t, Config{}, Handler{Timeout: time.Minute, Grace: time.Second}, func(context.Context, Event[[]byte]) error {
			<-release
			return nil
		})
		give(bus, store, 1)
		time.Sleep(62 * time.Second)
		settle()
		if n := count[RescheduleInput](store); n != 1 {
			t.Errorf("%d failed attempts recorded for a hung handler", n)
		}
		close(release)
		settle()
		must(t, bus.Stop(t.Context()))
		if count[CompleteManyInput](store) != 0 {
			t.Error("a retired run sent an end of its own")
		}
	})
}

// testing.T.FailNow in a handler ends the goroutine without a panic.
func TestHandlerThatExitsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := startBus(t, Config{}, Handler{}, func(context.Context, Event[[]byte]) error {
			runtime.Goexit()
			return nil
		})
		give(bus, store, 1)
		must(t, bus.Stop(t.Context()))
		ends := callsOf[RescheduleInput](store)
		if len(ends) != 1 {
			t.Fatalf("%d failed attempts: the delivery would hang until its timeout", len(ends))
		}
		wantText(t, ends[0].Error, "runtime.Goexit")
	})
}

// deafStore ignores the contexts of Subscribe until it is told to answer.
type deafStore struct {
	fakeStore
	answer chan struct{}
}

func (s *deafStore) Subscribe(ctx context.Context, in SubscribeInput) (SubscribeReply, error) {
	reply, err := s.fakeStore.Subscribe(context.WithoutCancel(ctx), in)
	<-s.answer
	return reply, err
}

func TestCallIsGivenUpThoughTheStoreIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deafStore{answer: make(chan struct{})}
		bus, err := New(store, Config{Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
		started := make(chan error)
		go func() { started <- bus.Start(context.Background()) }()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if n := count[SubscribeInput](&store.fakeStore); n < 2 {
			t.Errorf("%d calls in 25s with a timeout of 10s", n)
		}
		close(store.answer)
		must(t, <-started)
		must(t, bus.Stop(t.Context()))
	})
}

type ctxKey struct{}

func TestHandlersGetTheValuesOfTheBaseContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "value"))
		cancel()
		var got any
		var ended error
		bus, store := startBus(t, Config{BaseContext: func() context.Context { return base }}, Handler{}, func(ctx context.Context, _ Event[[]byte]) error {
			got, ended = ctx.Value(ctxKey{}), ctx.Err()
			return nil
		})
		give(bus, store, 1)
		must(t, bus.Stop(t.Context()))
		if got != "value" || ended != nil {
			t.Errorf("value %v, cancelled %v", got, ended)
		}
	})
}

// What is published in this process starts without waiting for the poll.
func TestPublishingWakesTheBus(t *testing.T) {
	for name, publish := range map[string]func(bus *Bus[*fakeTx]) error{
		"PublishNow": func(bus *Bus[*fakeTx]) error {
			return bus.PublishNow(context.Background(), Message{Type: "e"})
		},
		"InTx": func(bus *Bus[*fakeTx]) error {
			return bus.InTx(context.Background(), func(ctx context.Context, tx *fakeTx) error {
				return bus.Publish(ctx, tx, Message{Type: "e"})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, store := newTestBus(t, Config{})
				must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
				must(t, bus.Start(context.Background()))
				settle()
				before := count[ClaimInput](store)
				must(t, publish(bus))
				synctest.Wait()
				if n := count[ClaimInput](store) - before; n != 1 {
					t.Errorf("%d claims at once after publishing", n)
				}
				must(t, bus.Stop(context.Background()))
			})
		})
	}
}

// So does what a transactional handler publishes, once it is committed; the
// worker has long found that nothing else is due.
func TestPublishingInATransactionalHandlerWakesTheBus(t *testing.T) {
	for _, publish := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			bus, store := newTestBus(t, Config{})
			before := 0
			must(t, HandleTx(bus, Handler{Event: "e", Name: "h"}, func(ctx context.Context, tx *fakeTx, _ Event[[]byte]) error {
				time.Sleep(5300 * time.Millisecond)
				before = count[ClaimInput](store)
				if !publish {
					return nil
				}
				return bus.Publish(ctx, tx, Message{Type: "e"})
			}))
			must(t, bus.Start(context.Background()))
			give(bus, store, 1)
			time.Sleep(5250 * time.Millisecond)
			synctest.Wait()
			if woken := count[ClaimInput](store) > before; woken != publish {
				t.Errorf("published %v, looked for work at once %v", publish, woken)
			}
			must(t, bus.Stop(context.Background()))
		})
	}
}

// hintingStore is a store with wake-ups whose first connections break.
type hintingStore struct {
	fakeStore
	broken int
	hint   chan struct{}
	groups []string
}

func (s *hintingStore) Listen(ctx context.Context, group string, wake func()) error {
	s.groups = append(s.groups, group)
	if len(s.groups) <= s.broken {
		return errors.New("connection reset")
	}
	for {
		select {
		case <-s.hint:
			wake()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestHintsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &hintingStore{broken: 3, hint: make(chan struct{})}
		bus, err := New(store, Config{Group: "g", Lease: time.Hour, Poll: 3 * time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
		must(t, bus.Start(context.Background()))
		time.Sleep(10 * time.Second)
		before := count[ClaimInput](&store.fakeStore)
		store.hint <- struct{}{}
		synctest.Wait()
		if n := count[ClaimInput](&store.fakeStore); n != before+1 {
			t.Errorf("a hint led to %d claims", n-before)
		}
		must(t, bus.Stop(context.Background()))
		if len(store.groups) != 4 || store.groups[0] != "g" {
			t.Errorf("listened %d times, for %q", len(store.groups), store.groups[0])
		}
		if n := strings.Count(log.String(), "no wake-ups from the store"); n != 1 {
			t.Errorf("one interruption was reported %d times:\n%s", n, log.String())
		}
	})
}

func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		bus, store := startBus(t, Config{Owner: "worker-1", Logger: slog.New(slog.NewTextHandler(&log, nil))}, Handler{MaxAttempts: 1},
			func(context.Context, Event[[]byte]) error { return errPlain })
		give(bus, store, 1)
		must(t, bus.Stop(t.Context()))
		wantText(t, log.String(), `level=WARN msg="relaybus: handler failed" owner=worker-1 group=default handler=h delivery=1 event=e1 attempt=1 max_attempts=1 err="mail server said 451"`,
			`level=WARN msg="relaybus: buried"`)
	})
}

func TestObservedLevels(t *testing.T) {
	var log bytes.Buffer
	r := &runner{log: slog.New(slog.NewTextHandler(&log, nil))}
	r.observe(Observed{Event: ObservedCompleted, Handler: "h"})
	if log.Len() != 0 {
		t.Errorf("every completion is logged: %s", log.String())
	}
	lease := Lease{Delivery: 5, Token: Token{Lane: 3, Epoch: 4, Claim: 6}}
	run := &Run{Picked: Picked{Lease: lease, Delivery: Delivery{Event: "e5", Attempts: 1}}}
	r.observe(Observed{Event: ObservedLeaseLost, Handler: "h", Lane: 3, Run: run})
	r.observe(Observed{Event: ObservedStoreAway, Err: errPlain})
	wantText(t, log.String(),
		`level=WARN msg="relaybus: lease lost" handler=h delivery=5 event=e5 attempt=2 token=3:4:6@00000000 lane=3`,
		`level=WARN msg="relaybus: store away" err="mail server said 451"`)
}

func TestHandlerGrace(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		30 * time.Second: 25 * time.Second, 8 * time.Second: 6 * time.Second, time.Hour: time.Hour - 5*time.Second,
	} {
		if got := handlerGrace(limit); got != want {
			t.Errorf("of a stop of %v handlers get %v, want %v", limit, got, want)
		}
	}
}

// A hundred ends that wait for the store ask for it together, not each on a
// timer of its own, and all follow once it answers.
func TestAnOutageIsSharedByAllEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := startBus(t, Config{}, Handler{}, func(context.Context, Event[[]byte]) error {
			time.Sleep(20 * time.Millisecond)
			return errPlain
		})
		setAway := func(away bool) { store.mu.Lock(); store.away = away; store.mu.Unlock() }
		for id := range 100 {
			store.grant(DeliveryID(id+1), "e", "h", "{}")
		}
		bus.Wake()
		time.Sleep(10 * time.Millisecond)
		setAway(true)
		time.Sleep(time.Minute)
		if n := count[RescheduleInput](store); n > 30 {
			t.Errorf("%d calls asked for a store that was away for a minute", n)
		}
		setAway(false)
		before := count[RescheduleInput](store)
		time.Sleep(10 * time.Second) // a quarter of the lease and some
		if n := count[RescheduleInput](store) - before; n != 100 {
			t.Errorf("%d calls ended 100 deliveries once the store was back", n)
		}
		must(t, bus.Stop(t.Context()))
	})
}

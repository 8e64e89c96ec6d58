package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// These tests hold a bus to what it costs: calls while idle, calls while the
// store is away, log lines.

// made returns how many store calls were made so far.
func (s *fakeStore) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func (s *fakeStore) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = err
}

func (s *fakeStore) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func TestAnIdleBusMakesAtMostTwoCallsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, store := startBus(t, Config{}, Handler{}, nothing)
		for _, when := range []string{"new", "after work, holding a lane", "after giving it back"} {
			before := store.made()
			time.Sleep(time.Minute)
			if n := store.made() - before; n > 120 {
				t.Errorf("%s: %d calls in a minute", when, n)
			}
			if when == "new" {
				give(bus, store, 1)
			}
		}
		must(t, bus.Stop(t.Context()))
	})
}

// Whatever a bus was about when the store went away, it asks seldom, says so
// once, and goes on when the store is back.
func TestAStoreThatIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		deliveries int
		err        error // of the handlers
	}{
		"idle":                      {0, nil},
		"with completions to store": {100, nil},
		"with failures to store":    {100, errPlain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				bus, store := startBus(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, Handler{},
					func(context.Context, Event[[]byte]) error { time.Sleep(time.Second); return c.err })
				give(bus, store, c.deliveries)
				store.setAway(true)
				before := store.made()
				time.Sleep(10 * time.Minute)
				perSecond := float64(store.made()-before) / 600
				t.Logf("%.2f calls a second", perSecond)
				if limit := 2 + float64(c.deliveries)/5; perSecond > limit {
					t.Errorf("%.1f calls a second while the store is away, at most %.1f", perSecond, limit)
				}
				store.setAway(false)
				time.Sleep(time.Minute)
				must(t, bus.Stop(t.Context()))
				ends := count[RescheduleInput](store)
				for _, in := range callsOf[CompleteManyInput](store) {
					ends += len(in.Leases)
				}
				if ends < c.deliveries {
					t.Errorf("%d of %d ends were sent", ends, c.deliveries)
				}
				for line, want := range map[string]int{"level=WARN msg=\"relaybus: store away\"": 1, "level=INFO msg=\"relaybus: store back\"": 1} {
					if n := strings.Count(log.String(), line); n != want {
						t.Errorf("%d lines of %s", n, line)
					}
				}
			})
		})
	}
}

// A store that refuses the subscriptions for good would refuse them for ever:
// who starts the bus must hear of it, and may start it again once it is mended.
func TestSubscriptionsRefusedForGood(t *testing.T) {
	refusal := Definite(errors.New("schema of another release"))
	for name, start := range map[string]func(*Bus[*fakeTx], context.Context) error{"Start": (*Bus[*fakeTx]).Start, "Run": (*Bus[*fakeTx]).Run} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, store := newTestBus(t, Config{})
				must(t, Handle(bus, Handler{Event: "e", Name: "h"}, nothing))
				store.refuse(refusal)
				hour, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := start(bus, hour); !errors.Is(err, refusal) || errors.Is(err, ErrShutdown) {
					t.Fatalf("want the store's refusal alone, got %v", err)
				}
				if n := count[SubscribeInput](store); n != 1 {
					t.Errorf("%d tries, want one", n)
				}
				store.refuse(nil)
				must(t, bus.Start(t.Context()))
				store.refuse(refusal) // a bus that runs goes on
				time.Sleep(10 * time.Minute)
				give(bus, store, 1)
				must(t, bus.Stop(t.Context()))
				if len(callsOf[CompleteManyInput](store)) != 1 {
					t.Error("the bus that ran did not complete what it was given")
				}
			})
		})
	}
}

// Every way out leaves no goroutine behind: synctest fails when one is left.
func TestNothingIsLeftAfterAStop(t *testing.T) {
	obeys := func(ctx context.Context, _ Event[[]byte]) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, leave := range map[string]func(t *testing.T, bus *Bus[*fakeTx], store *fakeStore, cancel func()){
		"stopped": func(t *testing.T, bus *Bus[*fakeTx], _ *fakeStore, _ func()) {
			must(t, bus.Stop(context.Background()))
		},
		"stopped by two at once": func(t *testing.T, bus *Bus[*fakeTx], _ *fakeStore, _ func()) {
			var both sync.WaitGroup
			both.Go(func() { must(t, bus.Stop(context.Background())) })
			both.Go(func() { must(t, bus.Stop(context.Background())) })
			both.Wait()
		},
		"context cancelled": func(t *testing.T, bus *Bus[*fakeTx], _ *fakeStore, cancel func()) {
			cancel()
		},
		"stopped with little time": func(t *testing.T, bus *Bus[*fakeTx], _ *fakeStore, _ func()) {
			ctx, done := context.WithTimeout(context.Background(), time.Millisecond)
			defer done()
			_ = bus.Stop(ctx)
		},
		"stopped while the store is away": func(t *testing.T, bus *Bus[*fakeTx], store *fakeStore, _ func()) {
			store.setAway(true)
			_ = bus.Stop(context.Background())
		},
		"stopped while the store hangs": func(t *testing.T, bus *Bus[*fakeTx], store *fakeStore, _ func()) {
			store.mu.Lock()
			store.hang = true
			store.mu.Unlock()
			_ = bus.Stop(context.Background())
		},
		"started again": func(t *testing.T, bus *Bus[*fakeTx], _ *fakeStore, _ func()) {
			must(t, bus.Stop(context.Background()))
			must(t, bus.Start(context.Background()))
			must(t, bus.Stop(context.Background()))
		},
	} {
		for _, handler := range []string{"idle", "obeys its context"} {
			t.Run(fmt.Sprint(name, "/", handler), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bus, store := newTestBus(t, Config{Observer: &recorder{}})
					must(t, Handle(bus, Handler{Event: "e", Name: "h"}, obeys))
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					must(t, bus.Start(ctx))
					if handler != "idle" {
						give(bus, store, 3)
					}
					leave(t, bus, store, cancel)
					time.Sleep(time.Minute) // what goes on by itself ends within its time
				})
			})
		}
	}
}

package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// TestRetention: a bus that is told to deletes old dead letters and the events
// that nothing keeps any more, and what is young stays.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := simstore.New()
		bus, err := engine.New(store, engine.Config{
			Logger: slog.New(slog.DiscardHandler), Lease: time.Hour, Poll: 3 * time.Minute,
			Retention: engine.Retention{DeadAfter: time.Hour, EventsAfter: 2 * time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Handle(bus, engine.Handler{Event: "e", Name: "h"}, func(_ context.Context, e engine.Event[bool]) error {
			if e.Payload {
				return engine.Cancel(errors.New("bad"))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if err := bus.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []bool{true, false} {
			if err := bus.PublishNow(ctx, engine.Message{Type: "e", Payload: bad}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(after time.Duration, dead, events int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			s, err := store.Statistics(ctx)
			if err != nil || s.Dead != dead || s.Events != events {
				t.Errorf("%d dead letters and %d events, %v; want %d and %d", s.Dead, s.Events, err, dead, events)
			}
		}
		want(50*time.Minute, 1, 2)
		want(40*time.Minute, 0, 2)
		want(time.Hour, 0, 0)
		if err := bus.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRetentionIsOffByDefault: nothing is deleted that nobody asked to delete.
func TestRetentionIsOffByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := simstore.New()
		bus, err := engine.New(store, engine.Config{Logger: slog.New(slog.DiscardHandler), Lease: time.Hour, Poll: 3 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Handle(bus, engine.Handler{Event: "e", Name: "h"}, func(context.Context, engine.Event[int]) error { return nil }); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if err := bus.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := bus.PublishNow(ctx, engine.Message{Type: "e", Payload: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if s, err := store.Statistics(ctx); err != nil || s.Events != 1 {
			t.Errorf("%d events after a day, %v; want 1", s.Events, err)
		}
		if err := bus.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// bare is a store without the operator's methods.
type bare struct{ engine.TxStore[*simstore.Tx] }

func TestRetentionThatCannotWork(t *testing.T) {
	hour := time.Hour
	for name, r := range map[string]engine.Retention{
		"a second":  {DeadAfter: time.Second},
		"negative":  {EventsAfter: -hour},
		"too often": {HistoryAfter: hour, Every: time.Millisecond},
		"too late":  {HistoryAfter: hour, Every: 48 * hour},
	} {
		if _, err := engine.New(simstore.New(), engine.Config{Retention: r}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	_, err := engine.New(bare{simstore.New()}, engine.Config{Retention: engine.Retention{DeadAfter: hour}})
	if !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a store that cannot purge: got %v, want ErrInvalid", err)
	}
}

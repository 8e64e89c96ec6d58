package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// patience is for what must happen; nothing here takes long.
const patience = 2 * time.Minute

// receive waits for something that must come.
func receive[V any](t *testing.T, from <-chan V, what string) V {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
	}
	panic("not reached")
}

func busOn(t *testing.T, store *postgres.Store, cfg engine.Config) *engine.Bus[pgx.Tx] {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	bus, err := engine.New[pgx.Tx](store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return bus
}

// listeners returns the server processes that listen for this schema.
func (s *opened) listeners(t *testing.T) []int {
	t.Helper()
	rows, err := s.pool.Query(context.Background(),
		"select pid from pg_stat_activity where query = 'listen ' || quote_ident($1) or query = $2", s.schema, `listen "`+s.schema+`"`)
	if err != nil {
		t.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// TestNotifyWakesAnotherProcess: every way to publish through a bus reaches a
// listener with a pool of its own, and a rolled back transaction does not.
func TestNotifyWakesAnotherProcess(t *testing.T) {
	s := seeded(t, postgres.Options{Notify: true})
	publisher := busOn(t, s.store, engine.Config{})
	woken := s.listen(t)
	ctx := context.Background()

	failed := errors.New("no")
	if err := publisher.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(publisher.Publish(ctx, tx, engine.Message{Type: "e"}), failed)
	}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if err := publisher.InTx(ctx, func(context.Context, pgx.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name string
		do   func() error
	}{
		{"PublishNow", func() error { return publisher.PublishNow(ctx, engine.Message{Type: "e"}) }},
		{"InTx", func() error {
			return publisher.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				return publisher.Publish(ctx, tx, engine.Message{Type: "e"})
			})
		}},
		{"a transaction of the caller's own", func() error {
			tx, err := s.pool.Begin(ctx)
			if err != nil {
				return err
			}
			if err := publisher.Publish(ctx, tx, engine.Message{Type: "e"}); err != nil {
				return err
			}
			if err := tx.Commit(ctx); err != nil {
				return err
			}
			publisher.Wake()
			return nil
		}},
	} {
		if len(woken) > 0 {
			t.Fatalf("woken before %s: by a transaction that published nothing", way.name)
		}
		if err := way.do(); err != nil {
			t.Fatal(err)
		}
		receive(t, woken, "hint after "+way.name)
	}
}

// listen listens with another store, and returns after the hint that comes
// with the start.
func (s *opened) listen(t *testing.T) <-chan struct{} {
	t.Helper()
	other, err := postgres.NewWith(s.pool, postgres.Options{Schema: s.schema, Notify: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	woken, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- other.Listen(ctx, "default", func() { woken <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Listen ended with %v, want the end of its context", err)
		}
	})
	receive(t, woken, "first hint")
	return woken
}

// TestWorkerOfAnotherProcessRunsAtOnce: the whole way, with a poll interval
// that is longer than the test's patience.
func TestWorkerOfAnotherProcessRunsAtOnce(t *testing.T) {
	s := seeded(t, postgres.Options{Notify: true})
	worker := busOn(t, s.store, engine.Config{Lease: time.Hour, Poll: 3 * time.Minute})
	handled := make(chan string, 100)
	if err := engine.Handle(worker, engine.Handler{Event: "e", Name: "h"},
		func(_ context.Context, e engine.Event[int]) error {
			handled <- e.ID
			return nil
		}); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := worker.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Stop(ctx) }()
	other, err := postgres.NewWith(s.pool, postgres.Options{Schema: s.schema, Notify: true})
	if err != nil {
		t.Fatal(err)
	}
	publisher := busOn(t, other, engine.Config{})
	for _, id := range []string{"a", "b"} {
		for len(s.listeners(t)) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if err := publisher.PublishNow(ctx, engine.Message{Type: "e", ID: id, Payload: 1}); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, handled, "delivery of "+id); got != id {
			t.Errorf("handled %s, want %s", got, id)
		}
		// The listening connection dies; the bus listens again.
		dead := s.listeners(t)
		for _, pid := range dead {
			if _, err := s.pool.Exec(ctx, "select pg_terminate_backend($1)", pid); err != nil {
				t.Fatal(err)
			}
		}
		for again := dead; len(again) == 0 || again[0] == dead[0]; again = s.listeners(t) {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestNotifyIsOffByDefault: behind a transaction pooler nothing that needs a
// session may happen unasked.
func TestNotifyIsOffByDefault(t *testing.T) {
	s := seeded(t, postgres.Options{})
	bus := busOn(t, s.store, engine.Config{})
	if err := engine.Handle(bus, engine.Handler{Event: "e", Name: "h"},
		func(context.Context, engine.Event[int]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	woken := s.listen(t)
	before := len(s.listeners(t))
	ctx := context.Background()
	if err := bus.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := bus.PublishNow(ctx, engine.Message{Type: "e", Payload: 1}); err != nil {
		t.Fatal(err)
	}
	if err := bus.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(s.listeners(t)); n != before {
		t.Errorf("%d connections listen, want %d", n, before)
	}
	if len(woken) > 0 {
		t.Error("a hint was sent")
	}
}

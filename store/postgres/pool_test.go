package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// crowded is a bus with pgx's smallest default pool and a hundred runs at once,
// whose deliveries die of the first charge.
type crowded struct {
	*opened
	app   *pgxpool.Pool
	store *postgres.Store
	bus   *engine.Bus[pgx.Tx]
	log   saidLog
	runs  atomic.Int32
	taken []*pgxpool.Conn
}

const crowd = 100

// crowdedLease is long enough for a machine that is busy with other tests.
const crowdedLease = 2 * time.Second

func newCrowded(t *testing.T, register func(c *crowded, h engine.Handler) error) *crowded {
	c := &crowded{opened: open(t, postgres.Options{})}
	c.app, c.store = c.again(t, func(config *pgxpool.Config) { config.MaxConns = 4 })
	var err error
	if c.bus, err = engine.New[pgx.Tx](c.store, engine.Config{Lease: crowdedLease, Concurrency: crowd, Logger: slog.New(&c.log)}); err != nil {
		t.Fatal(err)
	}
	// A run that waits for a connection is over before the lease is.
	if err := register(c, engine.Handler{Event: "e", Name: "h", MaxAttempts: 1, Timeout: crowdedLease / 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.store.Subscribe(t.Context(), engine.SubscribeInput{Group: "default", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *crowded) start(t *testing.T) {
	t.Helper()
	if err := c.bus.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.bus.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// publish publishes through another pool than the bus's.
func (c *crowded) publish(t *testing.T) {
	t.Helper()
	other, err := engine.New[pgx.Tx](c.opened.store, engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var list []engine.Message
	for i := range crowd {
		list = append(list, engine.Message{ID: fmt.Sprint("e", i), Type: "e", Key: fmt.Sprint("k", i%40), Payload: []byte("x")})
	}
	if err := other.PublishNow(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
}

// takeAll takes every connection of the bus's pool.
func (c *crowded) takeAll(t *testing.T) {
	t.Helper()
	for range c.app.Config().MaxConns {
		conn, err := c.app.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		c.taken = append(c.taken, conn)
	}
}

func (c *crowded) giveBackAll() {
	for _, conn := range c.taken {
		conn.Release()
	}
	c.taken = nil
}

func (c *crowded) left(t *testing.T, condition string) (n int) {
	t.Helper()
	err := c.pool.QueryRow(context.Background(), fmt.Sprintf("select count(*) from %s.deliveries where %s", c.schema, condition)).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// drained waits until every delivery has completed, and holds that none was
// charged and no lease was lost.
func (c *crowded) drained(t *testing.T) {
	t.Helper()
	for c.left(t, "true") > 0 {
		if n := c.left(t, "attempts > 0 or died_at is not null"); n > 0 {
			t.Fatalf("%d deliveries were charged:\n%s", n, c.log.text())
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, lost := range []string{"relaybus: lease expired", "relaybus: lane lost", "relaybus: lease lost", "relaybus: handler failed"} {
		if n := c.log.count(slog.LevelWarn, lost); n > 0 {
			t.Errorf("%d times %q:\n%s", n, lost, c.log.text())
		}
	}
}

// A transaction that does not begin costs its delivery nothing: others have the
// pool for longer than a run may take, and than a lease.
func TestPoolUsedUpBeforeTransactionsBegin(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, func(c *crowded, h engine.Handler) error {
		return engine.HandleTx(c.bus, h, func(context.Context, pgx.Tx, engine.Event[[]byte]) error {
			c.runs.Add(1)
			return nil
		})
	})
	c.start(t) // needs a connection to subscribe with
	c.takeAll(t)
	c.publish(t)
	time.Sleep(crowdedLease * 5 / 2)
	if n := c.log.count(slog.LevelWarn, "relaybus: transaction did not begin"); n != 1 {
		t.Errorf("said %d times that no transaction begins, want once:\n%s", n, c.log.text())
	}
	c.giveBackAll()
	c.drained(t)
	if n := c.runs.Load(); n != crowd {
		t.Errorf("%d runs for %d deliveries", n, crowd)
	}
}

// An end that has no connection was not sent: its lane is renewed until it can
// be, and the delivery, which has run, does not run again.
func TestPoolUsedUpBeforeEndsAreSent(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, func(c *crowded, h engine.Handler) error {
		return engine.Handle(c.bus, h, func(context.Context, engine.Event[[]byte]) error {
			c.runs.Add(1)
			return nil
		})
	})
	c.start(t)
	c.takeAll(t)
	c.publish(t)
	time.Sleep(crowdedLease * 3)
	c.giveBackAll()
	c.drained(t)
	if n := c.runs.Load(); n != crowd {
		t.Errorf("%d runs for %d deliveries", n, crowd)
	}
}

// A bus that stops while its pool is used up gives back what it holds.
func TestPoolUsedUpAtStop(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, func(c *crowded, h engine.Handler) error {
		return engine.HandleTx(c.bus, h, func(context.Context, pgx.Tx, engine.Event[[]byte]) error { return nil })
	})
	c.start(t)
	c.takeAll(t)
	c.publish(t)
	for c.log.count(slog.LevelWarn, "relaybus: transaction did not begin") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if err := c.bus.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	var held int
	if err := c.pool.QueryRow(context.Background(), "select count(*) from "+c.schema+".lanes where holder is not null").Scan(&held); err != nil {
		t.Fatal(err)
	}
	if held > 0 {
		t.Errorf("%d lanes are still held", held)
	}
	if n := c.left(t, "attempts = 0 and died_at is null"); n != crowd {
		t.Errorf("%d of %d deliveries are as they were", n, crowd)
	}
	c.giveBackAll()
}

// Handlers that hang keep no connections: a few of them would use the pool up
// for good.
func TestHungHandlersLeaveThePool(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	c := newCrowded(t, func(c *crowded, h engine.Handler) error {
		h.Grace, h.MaxAttempts, h.Retry = crowdedLease/8, 1000, every20ms
		return engine.HandleTx(c.bus, h, func(context.Context, pgx.Tx, engine.Event[[]byte]) error {
			if c.runs.Add(1) <= c.app.Config().MaxConns {
				<-hang
			}
			return nil
		})
	})
	c.start(t)
	t.Cleanup(func() { close(hang) })
	c.publish(t)
	for c.left(t, "died_at is null") > 0 {
		time.Sleep(20 * time.Millisecond)
	}
	if n := c.left(t, "true"); n > 0 {
		t.Errorf("%d deliveries are dead", n)
	}
}

// What had no connection was not sent, however that came; only a pool that was
// closed says no such thing, because it never has one again.
func TestNotSent(t *testing.T) {
	t.Parallel()
	c := newCrowded(t, func(c *crowded, h engine.Handler) error {
		return engine.Handle(c.bus, h, func(context.Context, engine.Event[[]byte]) error { return nil })
	})
	_, nowhereStore := c.again(t, func(config *pgxpool.Config) {
		config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.Fallbacks = "127.0.0.1", 1, nil
	})
	closed, closedStore := c.again(t, func(*pgxpool.Config) {})
	closed.Close()
	c.takeAll(t)
	defer c.giveBackAll()
	in := engine.Lease{}
	for name, store := range map[string]*postgres.Store{"used up": c.store, "no server": nowhereStore, "closed": closedStore} {
		want := name != "closed"
		entered := false
		for call, do := range map[string]func(ctx context.Context) error{
			"in tx": func(ctx context.Context) error {
				return store.InTx(ctx, func(context.Context, pgx.Tx) error { entered = true; return nil })
			},
			"snooze": func(ctx context.Context) error {
				_, err := store.Snooze(ctx, engine.SnoozeInput{Lease: in})
				return err
			},
			"settle": func(ctx context.Context) error {
				_, err := store.Snooze(ctx, engine.SnoozeInput{Lease: in, Settle: true})
				return err
			},
			"complete": func(ctx context.Context) error {
				_, err := store.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{in}})
				return err
			},
			"subscribe": func(ctx context.Context) error {
				_, err := store.Subscribe(ctx, engine.SubscribeInput{Group: "default"})
				return err
			},
			"list":       func(ctx context.Context) error { _, err := store.List(ctx, engine.ListInput{}); return err },
			"statistics": func(ctx context.Context) error { _, err := store.Statistics(ctx); return err },
			"purge":      func(ctx context.Context) error { _, err := store.Purge(ctx, engine.PurgeInput{}); return err },
			"requeue": func(ctx context.Context) error {
				_, err := store.Requeue(ctx, engine.RequeueInput{All: true})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err := do(ctx)
			cancel()
			if err == nil || errors.Is(err, engine.ErrNotSent) != want || errors.Is(err, engine.ErrRetryable) != want {
				t.Errorf("%s, %s: %v, want not sent: %v", name, call, err, want)
			}
		}
		if entered {
			t.Errorf("%s: a transaction began", name)
		}
	}
}

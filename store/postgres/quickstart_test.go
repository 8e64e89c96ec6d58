package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// The README's quick start, line by line: internal/lint compares them.

func quickStart(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool, postgres.Options{}); err != nil {
		return err
	}
	store, err := postgres.New(pool)
	if err != nil {
		return err
	}
	bus, err := engine.New(store, engine.Config{}) // the zero Config works
	if err != nil {
		return err
	}
	err = engine.HandleTx(bus, engine.Handler{Event: "order.placed", Name: "ledger"},
		func(ctx context.Context, tx pgx.Tx, e engine.Event[Order]) error { // commits with the completion: once
			_, err := tx.Exec(ctx, "insert into ledger (order_id, item) values ($1, $2)", e.Payload.ID, e.Payload.Item)
			return err
		})
	if err != nil {
		return err
	}
	if err := bus.Start(ctx); err != nil {
		return err
	}
	err = bus.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		order := Order{ID: "o-1", Item: "tea"}
		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", order.ID); err != nil {
			return err
		}
		return bus.Publish(ctx, tx, engine.Message{Type: "order.placed", Key: order.ID, Payload: order})
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return bus.Stop(context.Background())
}

type Order struct{ ID, Item string }

// TestQuickStart runs it in a database of its own, since it leaves the schema
// at its default.
func TestQuickStart(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	where := database(t, "quick_start")
	admin, err := pgxpool.New(ctx, where)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, "create table orders (id text primary key); create table ledger (order_id text, item text)"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- quickStart(ctx, where) }()
	for posted := 0; posted == 0; {
		select {
		case err := <-done:
			t.Fatalf("the quick start ended early: %v", err)
		default:
		}
		if err := admin.QueryRow(ctx, "select count(*) from ledger where order_id = 'o-1' and item = 'tea'").Scan(&posted); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// database makes an empty database and returns its URL.
func database(t *testing.T, name string) string {
	t.Helper()
	ctx := context.Background()
	server := testdb.Postgres(t, testdb.Local).URL
	pool, err := pgxpool.New(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	name = fmt.Sprintf("%s_%d", name, os.Getpid())
	if _, err := pool.Exec(ctx, "create database "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := pool.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
		if err == nil {
			_, err = pool.Exec(ctx, "drop database "+name)
		}
		if err != nil {
			t.Error(err)
		}
	})
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/" + name
	return at.String()
}

package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
)

var write = flag.Bool("write", false, "write schema.txt anew")

var madeSchemas atomic.Int64

// emptySchema names a schema of the test's own that does not exist yet.
func emptySchema(t *testing.T, like string) (*pgxpool.Pool, postgres.Options) {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), testdb.Postgres(t, testdb.Local).URL)
	if err != nil {
		t.Fatal(err)
	}
	o := postgres.Options{Schema: fmt.Sprintf("%s %d %d", like, os.Getpid(), madeSchemas.Add(1))}
	t.Cleanup(func() {
		run(t, pool, "drop schema if exists "+pgx.Identifier{o.Schema}.Sanitize()+" cascade")
		pool.Close()
	})
	return pool, o
}

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// in fills a schema's quoted name into a statement.
func in(o postgres.Options, sql string) string {
	return strings.ReplaceAll(sql, "SCHEMA", pgx.Identifier{o.Schema}.Sanitize())
}

func migrated(t *testing.T, like string) (*pgxpool.Pool, postgres.Options) {
	t.Helper()
	pool, o := emptySchema(t, like)
	if err := postgres.Migrate(context.Background(), pool, o); err != nil {
		t.Fatal(err)
	}
	return pool, o
}

func wantValid(t *testing.T, pool *pgxpool.Pool, o postgres.Options) {
	t.Helper()
	differences, err := postgres.ValidateSchema(context.Background(), pool, o)
	if err != nil || len(differences) > 0 {
		t.Fatalf("validate: %v\n%s", err, strings.Join(differences, "\n"))
	}
}

func publish(t *testing.T, store *postgres.Store, events ...protocol.Event) {
	t.Helper()
	err := store.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := store.Publish(ctx, tx, events)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// schema.txt is what ValidateSchema expects: it must be what the migrations
// make. go test ./store/postgres -run SchemaText -write writes it anew.
func TestSchemaText(t *testing.T) {
	pool, o := migrated(t, "text")
	made, err := postgres.CatalogText(context.Background(), pool, o)
	if err != nil {
		t.Fatal(err)
	}
	if *write {
		if err := os.WriteFile("schema.txt", []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("schema.txt")
	if err != nil {
		t.Fatal(err)
	}
	if made != withoutNewer(t, pool, string(want)) {
		t.Fatalf("schema.txt is not what the migrations make:\n%s", made)
	}
}

// withoutNewer leaves out of schema.txt what a server of version 12 does not
// know.
func withoutNewer(t *testing.T, pool *pgxpool.Pool, text string) string {
	t.Helper()
	var version int
	if err := pool.QueryRow(context.Background(), "select current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version >= 130000 {
		return text
	}
	return strings.Replace(text, "storage parameter deliveries.autovacuum_vacuum_insert_scale_factor: 0.1\n", "", 1)
}

// A user who starts many processes of a new release at once would lose all but
// one of them at the first step.
func TestManyMigrateAtOnce(t *testing.T) {
	pool, o := emptySchema(t, "at once")
	const processes = 8
	errs := make([]error, processes)
	var wait sync.WaitGroup
	for i := range processes {
		wait.Go(func() { errs[i] = postgres.Migrate(context.Background(), pool, o) })
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	wantValid(t, pool, o)
}

// The names that people give to schemas: each must work for the whole life of
// a delivery, and must not reach beyond its quotes.
func TestOddSchemaNames(t *testing.T) {
	for _, like := range []string{"Upper Case", `quo"ted`, "it's", `both"'`, "relaybus.events", "名前", "; drop table x --", "$1"} {
		t.Run(like, func(t *testing.T) {
			pool, o := migrated(t, like)
			wantValid(t, pool, o)
			store, err := postgres.NewWith(pool, o)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			subscribe := engine.SubscribeInput{Group: "g", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}}
			if _, err := store.Subscribe(ctx, subscribe); err != nil {
				t.Fatal(err)
			}
			publish(t, store, protocol.Event{ID: "1", Type: "e", Key: "k", Payload: []byte("p")})
			reply, err := store.List(ctx, engine.ListInput{})
			if err != nil || len(reply.Deliveries) != 1 {
				t.Fatalf("%+v, %v", reply, err)
			}
			if err := postgres.MigrateDown(ctx, pool, o, 0); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, name := range []string{"pg_relaybus", "a\x00b", "a\nb", "\xff", strings.Repeat("x", 64)} {
		if _, err := postgres.NewWith(mustPool(t), postgres.Options{Schema: name}); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("schema %q: %v", name, err)
		}
	}
}

// What print-sql prints must make the very schema that Migrate makes, or people
// who run it by hand have another one.
func TestMigrationSQL(t *testing.T) {
	pool, o := emptySchema(t, `by "hand`)
	ctx := context.Background()
	up, err := postgres.MigrationSQL(o, 0, postgres.Latest())
	if err != nil {
		t.Fatal(err)
	}
	run(t, pool, up)
	wantValid(t, pool, o)
	if err := postgres.Migrate(ctx, pool, o); err != nil {
		t.Fatal(err)
	}
	wantValid(t, pool, o)
	down, err := postgres.MigrationSQL(o, postgres.Latest(), 0)
	if err != nil {
		t.Fatal(err)
	}
	run(t, pool, down)
	list, err := postgres.Migrations(ctx, pool, o)
	if err != nil || slices.ContainsFunc(list, func(m postgres.Migration) bool { return m.Applied }) {
		t.Fatalf("after down by hand: %+v, %v", list, err)
	}
	if err := postgres.Migrate(ctx, pool, o); err != nil {
		t.Fatal(err)
	}
	wantValid(t, pool, o)
	if _, err := postgres.MigrationSQL(o, 0, postgres.Latest()+1); !errors.Is(err, engine.ErrInvalid) {
		t.Fatalf("to a version that is not there: %v", err)
	}
}

// Each thing that somebody may have changed by hand is named.
func TestValidateSaysEachDifference(t *testing.T) {
	changes := []struct{ sql, says string }{
		{"drop table SCHEMA.completions", "table completions: missing"},
		{"drop index SCHEMA.deliveries_due", "index deliveries_due of deliveries: missing"},
		{"alter table SCHEMA.deliveries drop column takeovers", "column deliveries.takeovers: missing"},
		{"alter table SCHEMA.deliveries alter column attempts type bigint", "column deliveries.attempts: is bigint not null default 0, want integer"},
		{"alter table SCHEMA.deliveries alter column handler drop not null", `column deliveries.handler: is text collate "C", want text collate "C" not null`},
		{"alter table SCHEMA.lanes reset (toast_tuple_target)", "storage parameter lanes.toast_tuple_target: missing, want 512"},
		{"alter table SCHEMA.lanes set (fillfactor = 90)", "storage parameter lanes.fillfactor: is 90, want 10"},
		{"alter sequence SCHEMA.delivery_ids cache 50", "sequence delivery_ids: is bigint increment 1 cache 50, want bigint increment 1 cache 1"},
		{"create index extra on SCHEMA.deliveries (handler)", "index extra of deliveries: not of relaybus"},
		{"delete from SCHEMA.slots where slot = 7", "table slots: holds 65535 of 65536 slots"},
		{"delete from SCHEMA.subscriptions_version", "table subscriptions_version: is empty"},
		{"drop trigger row_changed on SCHEMA.subscriptions", "trigger row_changed of subscriptions: missing"},
		{"alter table SCHEMA.subscriptions drop constraint subscriptions_group_number_fkey", "constraint subscriptions_group_number_fkey of subscriptions: missing"},
		{"create trigger t before update on SCHEMA.deliveries for each row execute function suppress_redundant_updates_trigger()", "trigger t of deliveries: not of relaybus"},
	}
	pool, o := migrated(t, "differs")
	for _, c := range changes {
		run(t, pool, in(o, c.sql))
	}
	differences, err := postgres.ValidateSchema(context.Background(), pool, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if !slices.ContainsFunc(differences, func(d string) bool { return strings.HasPrefix(d, c.says) }) {
			t.Errorf("%s: want %q, got\n%s", c.sql, c.says, strings.Join(differences, "\n"))
		}
	}
}

// A migration that is cut off at any moment leaves one version or the next, and
// the lock goes with its connection.
func TestMigrationCutOff(t *testing.T) {
	pool, o := emptySchema(t, "cut")
	ctx := context.Background()
	config := pool.Config()
	config.ConnConfig.RuntimeParams["application_name"] = o.Schema
	doomed, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer doomed.Close()
	failed := 0
	for i := range 8 {
		done := make(chan error, 1)
		go func() { done <- postgres.Migrate(ctx, doomed, o) }()
		time.Sleep(time.Duration(i) * 40 * time.Millisecond)
		for cut := true; cut; {
			select {
			case err := <-done:
				cut = false
				if err != nil {
					failed++
				}
			default:
				run(t, pool, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '"+o.Schema+"' and state <> 'idle'")
			}
		}
	}
	if failed == 0 {
		t.Fatal("no migration was cut off: the test shows nothing")
	}
	if err := postgres.Migrate(ctx, pool, o); err != nil {
		t.Fatal(err)
	}
	wantValid(t, pool, o)
}

// A bus on the wrong schema must say at its start what to run, not fail at
// some later statement.
func TestWrongSchemaAtStart(t *testing.T) {
	newer := fmt.Sprintf("insert into SCHEMA.relaybus_migrations (version_id, is_applied) values (%d, true)", postgres.Latest()+1)
	for _, c := range []struct {
		name, sql string
		migrate   bool
		says      string
	}{
		{"missing", "select 1", false, "run relaybus migrate up"},
		{"empty", "create schema SCHEMA", false, "run relaybus migrate up"},
		{"newer", newer, true, "made by a newer release"},
		{"taken back", "", true, "run relaybus migrate up"},
		{"foreign", "create schema SCHEMA; create table SCHEMA.events (id int)", false, `holds a table "events" that is not of relaybus`},
		{"foreign versions", "create schema SCHEMA; create table SCHEMA.relaybus_migrations (id int)", false, "relaybus_migrations is not of relaybus"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, o := emptySchema(t, "wrong")
			ctx := context.Background()
			if c.migrate {
				if err := postgres.Migrate(ctx, pool, o); err != nil {
					t.Fatal(err)
				}
			}
			if c.name == "taken back" {
				if err := postgres.MigrateDown(ctx, pool, o, 0); err != nil {
					t.Fatal(err)
				}
			} else {
				run(t, pool, in(o, c.sql))
			}
			store, err := postgres.NewWith(pool, o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Subscribe(ctx, engine.SubscribeInput{Group: "g", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}})
			if !errors.Is(err, postgres.ErrSchema) || !engine.IsDefinite(err) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("want a definite ErrSchema with %q, got %v", c.says, err)
			}
			if c.says != "run relaybus migrate up" {
				if err := postgres.Migrate(ctx, pool, o); !errors.Is(err, postgres.ErrSchema) {
					t.Fatalf("migrate must refuse it: %v", err)
				}
				return
			}
			if err := postgres.Migrate(ctx, pool, o); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Subscribe(ctx, engine.SubscribeInput{Group: "g", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}}); err != nil {
				t.Fatalf("the same store after migrate: %v", err)
			}
		})
	}
}

func mustPool(t *testing.T) *pgxpool.Pool {
	pool, err := pgxpool.New(context.Background(), testdb.Postgres(t, testdb.Local).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Which release is the older one decides what to do.
func TestVersionError(t *testing.T) {
	for _, c := range []struct {
		version, latest int64
		says            string
	}{
		{3, 4, `schema "s" is at version 3, this release works with 4: run relaybus migrate up`},
		{5, 4, `schema "s" is at version 5, made by a newer release than this one, which works with 4: run the newer release`},
		{0, 4, `there is no schema "s" with the tables of relaybus in this database: run relaybus migrate up`},
		{4, 4, ""},
	} {
		err := postgres.VersionError(c.version, c.latest)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, postgres.ErrSchema) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("version %d for %d: %v", c.version, c.latest, err)
		}
	}
}

// A bus on the wrong schema does not start, and does not wait for it either.
func TestBusOnWrongSchema(t *testing.T) {
	pool, o := emptySchema(t, "bus")
	store, err := postgres.NewWith(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := engine.New[pgx.Tx](store, engine.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	handler := func(context.Context, engine.Event[[]byte]) error { return nil }
	if err := engine.Handle(bus, engine.Handler{Event: "e", Name: "h"}, handler); err != nil {
		t.Fatal(err)
	}
	if err := bus.Start(context.Background()); !errors.Is(err, postgres.ErrSchema) {
		t.Fatalf("start: %v", err)
	}
}

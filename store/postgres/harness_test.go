package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
	"github.com/relaybus-go/relaybus/store/storetest"
)

// place is a migrated schema with a pool of connections, which know its
// statements already. Tests use places one after another.
type place struct {
	version testdb.Version
	pool    *pgxpool.Pool
	schema  string
	gate    int64 // advisory lock that pauses wait at; the one below it is the turn
}

// placesAtOnce keeps the connections of parallel tests below the server's limit,
// whatever number of processors there is.
var placesAtOnce = make(chan struct{}, 8)

// places are those that no test uses.
var places struct {
	sync.Mutex
	free []*place
	made int
}

// freePlace takes a free place on a server, nil when there is none. The caller
// holds the lock.
func freePlace(version testdb.Version) *place {
	for i, p := range places.free {
		if p.version == version {
			places.free = slices.Delete(places.free, i, i+1)
			return p
		}
	}
	return nil
}

func TestMain(m *testing.M) {
	if url := os.Getenv(chaosVariable); url != "" {
		if err := beWorker(url); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	for _, p := range places.free {
		_ = p.exec(context.Background(), "drop schema %s cascade") // on a server that is not ours
		p.pool.Close()
	}
	os.Exit(code)
}

// opened is a store in a schema that nobody else uses.
type opened struct {
	*place
	store  *postgres.Store
	pauses pauses
	pooled bool // behind a pooler: sessions cannot be told apart, and none is paused
}

// again opens the same tables through a pool of its own, whose configuration is
// changed first.
func (s *opened) again(t testing.TB, change func(*pgxpool.Config)) (*pgxpool.Pool, *postgres.Store) {
	t.Helper()
	config := s.pool.Config()
	change(config)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := postgres.NewWith(pool, postgres.Options{Schema: s.schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return pool, store
}

// open returns an empty store on the machine's server.
func open(t testing.TB, o postgres.Options) *opened {
	t.Helper()
	return openOn(t, testdb.Local, o)
}

func openOn(t testing.TB, version testdb.Version, o postgres.Options) *opened {
	t.Helper()
	s := &opened{place: takePlace(t, version), pauses: pauses{at: map[string]func(){}}}
	o.Schema = s.schema
	o.Hook = s.pauses.reached
	store, err := postgres.NewWith(s.pool, o)
	if err != nil {
		t.Fatal(err)
	}
	s.store = store
	t.Cleanup(store.Close)
	return s
}

// takePlace returns a place that is empty, and takes it back when t is over.
func takePlace(t testing.TB, version testdb.Version) *place {
	t.Helper()
	placesAtOnce <- struct{}{}
	t.Cleanup(func() { <-placesAtOnce })
	ctx := context.Background()
	places.Lock()
	p := freePlace(version)
	places.made++
	number := places.made
	places.Unlock()
	if p == nil {
		p = newPlace(t, testdb.Postgres(t, version).URL, fmt.Sprintf("test_%d_%d", os.Getpid(), number))
		p.version = version
	} else if err := p.empty(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.giveBack)
	return p
}

// newPlace makes a schema on a server.
func newPlace(t testing.TB, url, schema string) *place {
	t.Helper()
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 20
	config.ConnConfig.RuntimeParams["application_name"] = schema
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{pool: pool, schema: schema}
	if err := postgres.Migrate(ctx, pool, postgres.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	if err := p.exec(ctx, strings.ReplaceAll(helpers, "%", "%%"), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(ctx, "select 2 * oid::bigint from pg_namespace where nspname = $1", schema).Scan(&p.gate); err != nil {
		t.Fatal(err)
	}
	return p
}

// helpers are what tests need in a schema beside the store's tables. A session
// that calls pause_at waits when a test has put a pause there; only the first
// one does.
const helpers = `
create table relaybus.effects (key text, value text);
create table relaybus.refused (id bigint primary key);
create function relaybus.refuse() returns trigger language plpgsql as $$
begin
  if exists (select from relaybus.refused r where r.id = old.id) then
    raise check_violation using message = 'the test refuses to write this row';
  end if;
  return case when tg_op = 'DELETE' then old else new end;
end $$;
create table relaybus.pauses (gate bigint primary key);
create function relaybus.pause_at() returns int language plpgsql as $$
declare g bigint;
begin
  select gate into g from relaybus.pauses;
  if g is not null and pg_try_advisory_lock(g - 1) then
    perform pg_advisory_lock_shared(g);
    perform pg_advisory_unlock_shared(g), pg_advisory_unlock(g - 1);
  end if;
  return 0;
end $$`

// exec runs a statement whose tables are named relaybus.name or %s.name.
func (p *place) exec(ctx context.Context, sql string, args ...any) error {
	if strings.Contains(sql, "%") {
		sql = fmt.Sprintf(sql, p.schema)
	}
	_, err := p.pool.Exec(ctx, strings.ReplaceAll(sql, "relaybus.", p.schema+"."), args...)
	return err
}

// empty makes the schema as it was at first. Deleting is faster than TRUNCATE,
// which makes files anew.
func (p *place) empty(ctx context.Context) error {
	return p.exec(ctx, `drop trigger if exists refuse on relaybus.deliveries;
		delete from relaybus.events; delete from relaybus.deliveries; delete from relaybus.lanes;
		delete from relaybus.subscriptions; delete from relaybus.groups; delete from relaybus.completions;
		delete from relaybus.effects; delete from relaybus.refused; delete from relaybus.pauses;
		select setval('relaybus.delivery_ids', 1, false)`, pgx.QueryExecModeSimpleProtocol)
}

// giveBack lets the next test have the place, unless a call that a test gave up
// is still at work in it.
func (p *place) giveBack() {
	for range 500 {
		if p.pool.Stat().AcquiredConns() == 0 {
			places.Lock()
			defer places.Unlock()
			places.free = append(places.free, p)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.pool.Close()
}

// pauses runs what a test puts at a step of a call, as "call/step", once.
type pauses struct {
	mu sync.Mutex
	at map[string]func()
}

func (p *pauses) set(step string, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[step] = do
}

func (p *pauses) reached(_ context.Context, call, step string) {
	p.mu.Lock()
	do := p.at[call+"/"+step]
	delete(p.at, call+"/"+step)
	p.mu.Unlock()
	if do != nil {
		do()
	}
}

// inside are the pause points that lie inside a statement, between its snapshot
// and its first lock: a part of the statement that is evaluated there, and the
// same with a call of pause_at.
var inside = map[storetest.Point]map[string][2]string{
	storetest.LanesFound: {"take_over": {"from c cross join lateral", "from (select c.*, relaybus.pause_at() as p from c offset 0) c cross join lateral"}},
	storetest.CompleteBegan: {
		"complete_many":  {"(select $1::int[])", "(select $1::int[] from (select relaybus.pause_at()) p)"},
		"complete_alone": {"(select $1::int[])", "(select $1::int[] from (select relaybus.pause_at()) p)"},
	},
	storetest.EndBegan: {
		"reschedule": {"x.lane = $1", "x.lane = (select $1::int + relaybus.pause_at())"},
		"snooze":     {"x.lane = $1", "x.lane = (select $1::int + relaybus.pause_at())"},
		"bury":       {"x.lane = $1", "x.lane = (select $1::int + relaybus.pause_at())"},
	},
	storetest.SubscriptionsRead: {"publish": {"select version = $7 as holds", "select version = $7 and relaybus.pause_at() = 0 as holds"}},
	storetest.DeadFound:         {"purge_dead": {"died_at < now()", "died_at < now() + relaybus.pause_at() * interval '1 s'"}},
}

// pauseAt arranges that do runs once while a call waits at a point.
func (s *opened) pauseAt(t testing.TB, p storetest.Point, do func()) bool {
	if s.pooled {
		return false
	}
	t.Helper()
	if p == storetest.EventsFound {
		s.pauses.set("purge/purge_events", do)
		return true
	}
	statements := inside[p]
	for name, parts := range statements {
		if !s.store.Rewrite(name, parts[0], strings.ReplaceAll(parts[1], "relaybus.", s.schema+".")) {
			t.Fatalf("%s.sql does not say %q any more", name, parts[0])
		}
	}
	if len(statements) > 0 {
		s.atGate(t, do)
	}
	return len(statements) > 0
}

// atGate runs do when a session waits in pause_at, and then lets it go on.
func (s *opened) atGate(t testing.TB, do func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", s.gate); err != nil {
		t.Fatal(err)
	}
	if err := s.exec(ctx, "insert into relaybus.pauses values ($1)", s.gate); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() { cancel(); <-over })
	go func() {
		defer close(over)
		defer conn.Release()
		defer func() { // even when do has failed the test
			_ = s.exec(context.Background(), "delete from relaybus.pauses")
			_, _ = conn.Exec(context.Background(), "select pg_advisory_unlock($1)", s.gate)
		}()
		if s.waitsAtGate(ctx) {
			do()
		}
	}()
}

// waitsAtGate returns when a session waits, or false when ctx ends before.
func (s *opened) waitsAtGate(ctx context.Context) bool {
	for waits := false; !waits; time.Sleep(2 * time.Millisecond) {
		err := s.pool.QueryRow(ctx, `select exists (select from pg_locks where locktype = 'advisory' and not granted
			and (classid::bigint << 32) + objid::bigint = $1)`, s.gate).Scan(&waits)
		if err != nil {
			return false
		}
	}
	return true
}

package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
	"github.com/relaybus-go/relaybus/store/storetest"
)

// TestConformance runs the suite on the machine's server and on the newest
// that can be had, side by side.
func TestConformance(t *testing.T) {
	for _, version := range []testdb.Version{testdb.Local, testdb.Newest} {
		t.Run(string(version), func(t *testing.T) {
			if version == testdb.Newest && testing.Short() {
				t.Log("-short: the newest PostgreSQL is left out")
				return
			}
			t.Parallel()
			storetest.Run(t, harness(version))
		})
	}
}

// made counts the stores that were opened on a server: the first one makes the
// schema.
var made = map[testdb.Version]*atomic.Int64{testdb.Local: {}, testdb.Newest: {}}

// opened is a store in a schema of its own.
type opened struct {
	pool   *pgxpool.Pool
	schema string
	store  *postgres.Store
	pauses pauses
}

func open(t testing.TB, o postgres.Options) *opened {
	t.Helper()
	return openOn(t, testdb.Local, o)
}

func openOn(t testing.TB, version testdb.Version, o postgres.Options) *opened {
	t.Helper()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, testdb.Postgres(t, version).URL)
	if err != nil {
		t.Fatal(err)
	}
	s := &opened{pool: pool, schema: fmt.Sprintf("test_%d", os.Getpid()), pauses: pauses{at: map[string]func(){}}}
	o.Schema = s.schema
	o.Hook = s.pauses.reached
	t.Cleanup(pool.Close)
	if err := s.reset(ctx, version, o); err != nil {
		t.Fatal(err)
	}
	if s.store, err = postgres.NewWith(pool, o); err != nil {
		t.Fatal(err)
	}
	return s
}

// reset empties the schema of this process; the first time it makes it.
func (s *opened) reset(ctx context.Context, version testdb.Version, o postgres.Options) error {
	if made[version].Add(1) == 1 {
		if err := postgres.Migrate(ctx, s.pool, o); err != nil {
			return err
		}
		return s.exec(ctx, "create table %s.effects (key text, value text)")
	}
	_, err := s.pool.Exec(ctx, "truncate "+s.schema+".events, "+s.schema+".deliveries, "+s.schema+".lanes, "+s.schema+".groups, "+
		s.schema+".subscriptions, "+s.schema+".completions, "+s.schema+".effects restart identity cascade;"+
		"alter sequence "+s.schema+".delivery_ids restart")
	return err
}

func harness(version testdb.Version) storetest.Harness[pgx.Tx] {
	return harnessOf(func(t testing.TB) *opened { return openOn(t, version, postgres.Options{}) })
}

func harnessOf(open func(t testing.TB) *opened) storetest.Harness[pgx.Tx] {
	return storetest.Harness[pgx.Tx]{
		Semantics: protocol.Locking,
		Open: func(t testing.TB) *storetest.Opened[pgx.Tx] {
			s := open(t)
			return &storetest.Opened[pgx.Tx]{
				Store: s.store, Expire: s.expire, MakeDue: s.makeDue, Put: s.put, Count: s.count,
				Pause: func(p storetest.Point, do func()) bool { return s.pauses.set(steps[p], do) },
				Levels: []storetest.Level[pgx.Tx]{
					{Name: "repeatable read", InTx: s.inTx(pgx.RepeatableRead)},
					{Name: "serializable", InTx: s.inTx(pgx.Serializable)},
				},
			}
		},
	}
}

func (s *opened) exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.pool.Exec(ctx, fmt.Sprintf(sql, s.schema), args...)
	return err
}

func (s *opened) expire(ctx context.Context, lane engine.LaneID) error {
	return s.exec(ctx, "update %s.lanes set lease_expires_at = clock_timestamp() - interval '1 second' where lane = $1", lane)
}

func (s *opened) makeDue(ctx context.Context, id engine.DeliveryID) error {
	return s.exec(ctx, "update %s.deliveries set available_at = clock_timestamp() - interval '1 second' where id = $1", id)
}

func (s *opened) put(ctx context.Context, tx pgx.Tx, key, value string) error {
	_, err := tx.Exec(ctx, "insert into "+s.schema+".effects values ($1, $2)", key, value)
	return err
}

func (s *opened) count(ctx context.Context, key string) (n int, err error) {
	err = s.pool.QueryRow(ctx, "select count(*) from "+s.schema+".effects where key = $1", key).Scan(&n)
	return n, err
}

func (s *opened) inTx(level pgx.TxIsoLevel) func(context.Context, func(context.Context, pgx.Tx) error) error {
	return func(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
		return s.store.InTxWith(ctx, pgx.TxOptions{IsoLevel: level}, fn)
	}
}

// steps are where the pause points stand, as "call/step".
var steps = map[storetest.Point]string{
	storetest.LanesFound: "",
}

// pauses runs what a case puts at a step, once.
type pauses struct {
	mu sync.Mutex
	at map[string]func()
}

func (p *pauses) set(step string, do func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[step] = do
	return step != ""
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

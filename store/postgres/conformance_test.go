package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

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

func harness(version testdb.Version) storetest.Harness[pgx.Tx] {
	return harnessOf(func(t testing.TB) *opened { return openOn(t, version, postgres.Options{}) })
}

func harnessOf(open func(t testing.TB) *opened) storetest.Harness[pgx.Tx] {
	return storetest.Harness[pgx.Tx]{
		Semantics: protocol.Locking,
		Parallel:  true,
		Open: func(t testing.TB) *storetest.Opened[pgx.Tx] {
			s := open(t)
			return &storetest.Opened[pgx.Tx]{
				Store: s.store, Expire: s.expire, MakeDue: s.makeDue, Put: s.put, Count: s.count, Refuse: s.refuse,
				Pause: func(p storetest.Point, do func()) bool { return s.pauseAt(t, p, do) },
				Levels: []storetest.Level[pgx.Tx]{
					{Name: "repeatable read", InTx: s.inTx(pgx.RepeatableRead)},
					{Name: "serializable", InTx: s.inTx(pgx.Serializable)},
				},
			}
		},
	}
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

// refuse makes the server refuse to write a row, or heals it.
func (s *opened) refuse(ctx context.Context, id engine.DeliveryID, refuse bool) error {
	if !refuse {
		return s.exec(ctx, "delete from %s.refused where id = $1", id)
	}
	if err := s.exec(ctx, "insert into %s.refused values ($1) on conflict do nothing", id); err != nil {
		return err
	}
	return s.exec(ctx, `drop trigger if exists refuse on relaybus.deliveries;
		create trigger refuse before update or delete on relaybus.deliveries
		for each row execute function relaybus.refuse()`, pgx.QueryExecModeSimpleProtocol)
}

func (s *opened) inTx(level pgx.TxIsoLevel) func(context.Context, func(context.Context, pgx.Tx) error) error {
	return func(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
		return s.store.InTxWith(ctx, pgx.TxOptions{IsoLevel: level}, fn)
	}
}

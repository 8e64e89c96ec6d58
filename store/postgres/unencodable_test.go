package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// TestUnencodableArgument: what the driver cannot encode was not sent, in
// whatever mode it works, and whether COMMIT would have gone with it or not. An
// unknown outcome would be settled, and met again, for ever.
func TestUnencodableArgument(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			s := open(t, postgres.Options{})
			config := s.pool.Config()
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(context.Background(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if s.store, err = postgres.NewWith(pool, postgres.Options{Schema: s.schema}); err != nil {
				t.Fatal(err)
			}
			s.judgeUnencodable(t)
		})
	}
}

func (s *opened) judgeUnencodable(t *testing.T) {
	ctx := context.Background()
	for _, withCommit := range []bool{false, true} {
		for range 2 { // the statements are known to the connection the second time
			err := s.store.SendWith(ctx, make(chan int), withCommit)
			if !engine.IsDefinite(err) || errors.Is(err, engine.ErrRetryable) {
				t.Errorf("with COMMIT %v: %v, want a definite error", withCommit, err)
			}
		}
		if n, err := s.count(ctx, "a"); n != 0 || err != nil {
			t.Errorf("with COMMIT %v: %d effects, %v", withCommit, n, err)
		}
	}
	if err := s.store.SendWith(ctx, int64(1), true); err != nil {
		t.Errorf("a good call behind the bad ones: %v", err)
	}
}

package postgres_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/store/postgres"
)

// A transaction whose context ends just when its function returns leaves no
// connection in the pool whose socket is closed: whoever got it next took the
// store for away.
func TestEndedTransactionLeavesNoDeadConnection(t *testing.T) {
	pool, store := open(t, postgres.Options{}).again(t, func(c *pgxpool.Config) { c.MaxConns, c.MinConns = 1, 0 })
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what ends with the context runs when this waits
	for i := range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		_ = store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_ = tx.Rollback(ctx) // and InTx has nothing to roll back
			cancel()
			return context.Canceled
		})
		if _, err := pool.Exec(context.Background(), "select 1"); err != nil {
			t.Fatalf("the next use of the pool, round %d: %v", i, err)
		}
	}
}

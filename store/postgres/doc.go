// Package postgres keeps the delivery protocol in PostgreSQL, version 12 and
// newer, through pgx.
//
//	pool, err := pgxpool.New(ctx, url)
//	err = postgres.Migrate(ctx, pool, postgres.Options{})   // once, or: relaybus migrate up
//	store, err := postgres.New(pool)
//	defer store.Close()
//	bus, err := engine.New(store, engine.Config{})
//
// Events are published inside the caller's pgx.Tx at any isolation level;
// 40001 and 40P01 surface as [engine.ErrRetryable]. The store's own
// transactions are READ COMMITTED, set explicitly, and keep no session state,
// so that a transaction pooler may stand between; a pooler without support for
// prepared statements needs pgx.QueryExecModeExec in the pool's configuration.
//
// # How it works
//
// Each action of the protocol is a file of sql/, whose header says which locks
// it takes and why it is safe alone. Lanes are locked first and deliveries
// read in a later statement of the same transaction; what a claim grants is
// chosen in Go between the two (internal/picks). A delivery is written once, when it
// is published, and deleted when it completes: on the happy path no delivery
// row is updated, and every lane update is HOT.
//
// # What is assumed
//
// The server's clock moves forward. A transaction that was acknowledged with
// synchronous_commit on survives; claims, takeovers and renewals commit with
// it off unless [Options.SynchronousClaims] is set, and losing one of those
// costs a repeated run at most. Asynchronous replication may lose acknowledged
// publishes and completions at failover.
//
// # What is not done
//
// The store does not open, size or close the pool (it has two connections of
// its own beside it, see [Store.Close]), and does not create its
// tables behind anybody's back: see [Migrate].
package postgres

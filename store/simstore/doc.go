// Package simstore is an in-memory transactional store with the behaviour of
// either family of real stores: row locks and READ COMMITTED as in PostgreSQL
// ([protocol.Locking]), or snapshot transactions in which the first updater
// wins as in MongoDB ([protocol.Snapshot]). It serves examples and unit tests
// live, and the simulator, which interleaves and crashes calls between any two
// of their statements through a [Scheduler].
//
// What is guaranteed: every call is straight-line code that calls the
// Scheduler before each statement, lock wait, commit and reply. Given the same
// calls and the same decisions of the Scheduler the store does the same,
// bit for bit: it reads no clock, starts no goroutine and never ranges over a
// map. live.go is the one file with a mutex, a condition variable and a clock.
//
// What is assumed: callers pass values that the engine has validated; a nil or
// absurd input gives an error or an empty reply, never a panic.
//
// What is not done: nothing is written to disk. Durability is modelled:
// every commit has a position, [Store.Durable] is the position that a crash of
// the store cannot take back, and [Store.Crash] goes back to a prefix.
//
// # Where it differs from a real store
//
// SERIALIZABLE is REPEATABLE READ: write skew goes unnoticed. A locking store
// needs no savepoint of the caller's, and an error ends the transaction at
// once. A Snapshot store has one member: what it commits a majority has, so a
// failover ends open transactions and loses nothing. Lock queues have no
// order: whoever the Scheduler lets look first gets the lock.
//
// # Layers
//
// table.go, rows.go, db.go, tx.go and locks.go are a small multi-version store
// that knows nothing of deliveries, user.go what callers do with it; alone.go
// writes outside a transaction. index.go finds deliveries per lane and per key,
// picks.go reads what internal/picks chooses among. publish.go, lease*.go, charge.go, finish*.go,
// subscribe.go, operate.go and purge.go are the actions of the protocol, once
// per family where the families differ. contents.go, statistics.go and hash.go
// read what is there.
package simstore

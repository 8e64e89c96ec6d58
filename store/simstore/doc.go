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
// # Layers
//
// table.go, db.go, tx.go and locks.go are a small multi-version store that
// knows nothing of deliveries; index.go finds deliveries per lane and per key;
// publish.go, lease*.go, finish*.go and operate.go are the actions of the
// protocol, once per family where the families differ.
package simstore

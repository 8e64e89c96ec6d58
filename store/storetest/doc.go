// Package storetest is the conformance suite that every store of the engine
// runs: small cases, each with an explanation of what a user would lose, and
// then long random sequences of calls whose replies are compared with
// [protocol.State], stepped beside the store, and last several clients at once,
// whose history of calls is judged by package linearize.
//
// # Testing a new store
//
// A store's own test is one call:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness[pgx.Tx]{
//			Semantics: protocol.Locking,
//			Parallel:  true,
//			Open: func(t testing.TB) *storetest.Opened[pgx.Tx] {
//				schema := newSchema(t) // created, migrated, and dropped by t.Cleanup
//				return &storetest.Opened[pgx.Tx]{
//					Store: schema.store, Expire: schema.expire, MakeDue: schema.makeDue,
//					Put: schema.put, Count: schema.count,
//				}
//			},
//		})
//	}
//
// [Opened] says what each function does. Expire and MakeDue stand in for time:
// the clock of a server cannot be set, so the suite takes leases of an hour and
// writes the one date when something is to run out or to be due; only the
// clients that call at once take leases of a tenth of a second, which really run
// out. They are plain
// writes beside the store, not calls of it. Put and Count are the user's own
// table, to see whether an effect was committed with its completion. The rest
// is optional, and what needs it is skipped with a reason: a store is finished
// when go test -v skips nothing but the cases of the other family and the pause
// points that it cannot have.
//
// Run the suite in this order while writing a store; each part needs those
// before it: Subscribe and Publish (cases of publish_cases.go), Claim and
// CompleteMany (lease_cases.go, finish_cases.go), Complete and InTx
// (isolation_cases.go), chains (chain_cases.go), the Operator
// (operate_cases.go), bad rows (stuck_cases.go), interleavings
// (attack_cases.go), load, random commands, histories. go test -run names one case.
//
// # What a store must do that the interfaces do not say
//
//   - Groups are numbered 0, 1, 2 … in the order of their first subscription,
//     without gaps; a failed Subscribe uses no number up. Lane i of a group is
//     number·lanes + i, and every group has the same number of lanes.
//   - Delivery ids are positive and never issued twice. Nothing else is asked of
//     them: gaps and blocks are fine. Sequences rise per key in commit order.
//   - Errors are told apart: wrapped [engine.ErrRetryable] for conflicts,
//     deadlocks and lock timeouts, [engine.Definite] for what will never succeed.
//     A call that had no connection, because none was free before its context
//     ended or none could be made, wraps [engine.ErrNotSent]; of InTx only when
//     its function was not entered. The suite has no way to bring that about: a
//     test of the store's own has to. Claim, ExtendLease, Release and Relinquish
//     need connections that handlers cannot use up.
//     The suite tries retryable calls again, some 200 times within seconds, and
//     takes any other error for a failure.
//   - Which due rows a claim picks, how many, and whether followers come with a
//     head is the store's choice, as far as the protocol allows. That everything
//     comes in the end is asked.
//   - Where the search for lanes to take over begins is
//     [engine.ClaimInput.SearchFrom]. A store may begin elsewhere, but not always
//     at the same lane: one that fails would keep it from all others.
//   - Lock waits end: a lock timeout well under 20 s, which bounds a case.
//
// # What the suite needs of the test's server
//
// Stores of different cases share nothing. One store serves ten calls at once
// and holds three transactions open beside them: a pool of sixteen connections
// is enough, one of four is not. Few lanes make the suite faster; it needs at
// least two, sixteen are plenty. The server's clock must not jump back; how far
// it is from the test's own does not matter. Each case ends within 20 s,
// rolling back the transaction of a context that ended within 10 s.
//
// The number of random sequences is rapid's flag -rapid.checks (100, and a fifth
// of it with -short); a failure prints the calls and the seed that repeats it, as long as
// the store itself is deterministic. Each sequence opens a store.
//
// # Pause points
//
// A [Point] lies within one call, after its first read and before its first
// lock or write. A store that has several statements there calls a hook between
// them, which only its tests can set. Where the call is one statement the point
// can be made by a lock that the harness takes in front of it, or does not
// exist: the simulator covers it on the in-memory store.
//
// # What is not done
//
// Nothing here kills a server or cuts a connection; the simulator and the tests
// of each store do. Damage that Verify must find needs the store's own means
// and is tested there. Nothing is measured.
package storetest

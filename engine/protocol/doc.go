// Package protocol is the delivery protocol of relaybus as a pure value.
//
// [State] is what a store holds: events, deliveries, lanes, key slots and
// subscriptions. [Ledger] is ghost history that no store keeps: which runs a
// lane granted, what completed, what was charged. Every action of the protocol
// is one type (its arguments) and one method of State (its guards, in the
// order the specification gives them, then its effect). The same names stand
// in spec/tla, in the stores, in SQL files and in traces.
//
// Start with action.go for what can happen, then [State.Claim] and
// [State.TakeOver] in lease.go. [Step] performs an action that a store
// committed on a State and a Ledger and says what was not allowed (a
// [Refusal]) or what it broke (a [Violation]); [Check] looks at everything.
// [Invariants] lists the promises. testdata tells the attacks that shaped the
// rules, as stories.
//
// What is guaranteed: the package has no clock, no randomness, no goroutine
// and no iteration over a map, so the same actions in the same order give the
// same State and the same [State.Hash] on every machine.
//
// What is not done here: nothing is stored, sent or retried. Stores realise
// the actions, the engine decides which to call, and the simulator steps a
// State beside the store and compares.
//
// The vocabulary (ids, tokens, leases, verdicts) is stable. State, Ledger and
// the action types follow the specification and may change with it.
package protocol

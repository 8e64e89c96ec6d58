// Package storetest is the conformance suite that every store of the engine
// runs: small cases, each with an explanation of what a user would lose, and
// then long random sequences of calls whose replies are compared with
// [protocol.State], stepped beside the store, and last several clients at once,
// whose history of calls is judged by package linearize.
//
// A store's own test is one call:
//
//	func TestConformance(t *testing.T) { storetest.Run(t, harness) }
//
// What is assumed: the store keeps its clock and leases last; the suite takes
// leases of an hour and lets time pass through [Opened.Expire] and
// [Opened.MakeDue] alone, but for the clients that call at once, whose leases
// of a tenth of a second really run out. Cases run one after another, each on a store of its
// own.
//
// What is not done: nothing here kills a server or cuts a connection; the
// simulator and the tests of each store do. Damage that Verify must find needs
// the store's own means and is tested there.
package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Subject is a store under test. Tx is the driver's transaction type.
type Subject[Tx any] interface {
	engine.TxStore[Tx]
	engine.Operator
}

// Harness says how to test a store.
type Harness[Tx any] struct {
	// Semantics is the family whose rules the store follows.
	Semantics protocol.Semantics
	// Open returns a fresh, empty store. It is called once per case and once
	// per random sequence; what it opens it closes with t.Cleanup.
	Open func(t testing.TB) *Opened[Tx]
}

// Opened is a fresh store and what a test needs beside its methods.
type Opened[Tx any] struct {
	Store Subject[Tx]
	// Expire writes the row of a lane so that its lease has run out.
	Expire func(ctx context.Context, lane engine.LaneID) error
	// MakeDue writes the row of a pending delivery so that it is due.
	MakeDue func(ctx context.Context, id engine.DeliveryID) error
	// Put adds a row of the user's own inside tx; two Puts of one key are two
	// rows. Count counts the committed rows of a key.
	Put   func(ctx context.Context, tx Tx, key, value string) error
	Count func(ctx context.Context, key string) (int, error)
	// Levels are isolation levels, other than that of InTx, under which
	// callers may publish and complete. Optional.
	Levels []Level[Tx]
	// Pause arranges that do runs once, the next time that a call reaches the
	// point, while that call waits. It returns false when the store has no
	// such point; a nil Pause has none.
	Pause func(p Point, do func()) bool
	// Crash ends the store as a power cut would, and brings it back: open
	// transactions are gone, what was committed is there. Optional.
	Crash func(ctx context.Context) error
}

// Level is an isolation level of callers' transactions.
type Level[Tx any] struct {
	Name string
	// InTx is [engine.TxStore.InTx] at this level.
	InTx func(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
}

// Point names a place within a call at which a store can be paused.
type Point string

// The pause points. A store offers those that it has.
const (
	// LanesFound: a Claim has read which lanes it may take over, and has
	// neither locked nor written any.
	LanesFound Point = "lanes found"
	// CandidatesRead: a Claim has read what it will pick from a lane, and has
	// not written the lane. A store that locks the lane before has no such
	// point.
	CandidatesRead Point = "candidates read"
	// CompleteBegan: a CompleteMany has taken its snapshot, and has neither
	// locked nor written anything.
	CompleteBegan Point = "complete began"
	// EndBegan: a Reschedule, Snooze or Bury has read, and has neither locked
	// nor written anything.
	EndBegan Point = "end began"
	// DeadFound: a Purge has read which dead letters are old, and has deleted
	// none.
	DeadFound Point = "dead found"
	// EventsFound: a Purge has read which events are old, and has deleted none.
	EventsFound Point = "events found"
	// SubscriptionsRead: a Publish has read who wants its events, and has
	// written nothing.
	SubscriptionsRead Point = "subscriptions read"
)

// kase is one case of the suite.
type kase struct {
	name string
	// why says what a user would lose if the case failed.
	why string
	// only names the family that the case is for; "" is both.
	only string
	run  func(b *bench)
}

func allCases() []kase {
	var all []kase
	for _, list := range [][]kase{
		publishCases, leaseCases, finishCases, operateCases, chainCases, attackCases, isolationCases, loadCases,
	} {
		all = append(all, list...)
	}
	return all
}

// Run runs the whole suite against a store.
func Run[Tx any](t *testing.T, h Harness[Tx]) {
	for _, c := range allCases() {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) { h.play(t, c) })
	}
	t.Run("random_commands", func(t *testing.T) { h.random(t) })
	t.Run("histories", func(t *testing.T) { h.histories(t) })
}

// play runs one case on a store of its own.
func (h Harness[Tx]) play(t testing.TB, c kase) {
	t.Helper()
	if c.only != "" && c.only != h.Semantics.String() {
		t.Skipf("this case is about %s stores", c.only)
	}
	b := newBench(t, h.Semantics, adapt(h.Open(t)))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what a user would lose: %s", c.why)
		}
	})
	c.run(b)
	b.verify("at the end")
}

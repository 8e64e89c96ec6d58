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
	// Open returns a fresh, empty store: migrated, without groups, events or
	// rows. It is called once per case and once per random sequence. What it
	// opens it closes with t.Cleanup, which runs when the case or the sequence
	// is over, so that connections do not pile up. It may fail or skip t.
	Open func(t testing.TB) *Opened[Tx]
	// Parallel runs the cases at once, as go test's -parallel allows. Open is
	// then called from many goroutines, and its stores must not see each other:
	// a schema or a database each.
	Parallel bool
}

// Opened is a fresh store and what a test needs beside its methods.
type Opened[Tx any] struct {
	Store Subject[Tx]
	// Expire writes the row of a lane so that its lease has run out by the
	// store's clock (before now, not at now), and leaves the rest of it as it
	// is. A lane without a lease is left alone or gets an old date: both will do.
	// It must not wait for a completion that has locked the lane FOR KEY SHARE:
	// in PostgreSQL a plain UPDATE of the one column.
	Expire func(ctx context.Context, lane engine.LaneID) error
	// MakeDue writes the row of a pending delivery so that it is due by the
	// store's clock, and leaves the rest of it as it is, the fence too.
	MakeDue func(ctx context.Context, id engine.DeliveryID) error
	// Put adds a row of the user's own inside tx; two Puts of one key are two
	// rows, so the table has a key of its own. Count counts the committed rows of
	// a key, outside of any transaction.
	Put   func(ctx context.Context, tx Tx, key, value string) error
	Count func(ctx context.Context, key string) (int, error)
	// Levels are isolation levels, other than that of InTx, under which
	// callers may publish and complete. Optional.
	Levels []Level[Tx]
	// Pause arranges that do runs once, the next time that a call reaches the
	// point, while that call waits. It returns false when the store has no
	// such point; a nil Pause has none, and the cases that need one are skipped.
	// do calls the store, and may itself reach the point, which then does
	// nothing.
	Pause func(p Point, do func()) bool
	// Refuse makes every write of one delivery's row fail with an error that the
	// store takes as definite, an UPDATE and a DELETE by whatever call, or heals
	// the row. Other rows, and the lane, stay writable. In PostgreSQL: a trigger
	// BEFORE UPDATE OR DELETE that looks the id up in a table and raises
	// check_violation. Optional.
	Refuse func(ctx context.Context, id engine.DeliveryID, refuse bool) error
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
		publishCases, leaseCases, finishCases, stuckCases, operateCases, chainCases, attackCases, isolationCases, loadCases,
	} {
		all = append(all, list...)
	}
	return all
}

// Run runs the whole suite against a store.
func Run[Tx any](t *testing.T, h Harness[Tx]) {
	for _, c := range allCases() {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if h.Parallel {
				t.Parallel()
			}
			h.play(t, c)
		})
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

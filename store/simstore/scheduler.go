package simstore

import (
	"context"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Point names a place at which a store may be interrupted: before a statement,
// before a commit, before a reply, and within a statement between its snapshot
// and its locks. The steps of each call, in order; a step marked * names the
// row that it writes, and "a, b" are steps of several transactions or
// statements that may be left out or repeated:
//
//	Tx (both)        get, get for update, put, delete, list
//	                 read subscriptions, lock slots, insert events
//	                 (snapshot) read subscriptions, insert events, lock slots
//	                 complete, lock lane* (locking), delete*
//	Claim (locking)  claim held lanes, lock held lanes, pick from held lanes,
//	                 retry stuck*, find lanes, lock free lanes, charge and pick, charge*
//	Claim (snapshot) read held lanes, charge lost, charge*, read candidates,
//	                 claim*, claim with stuck, retry stuck*,
//	                 find lanes, take over*, give back*
//	CompleteMany     complete, lock lanes, delete*, look at lanes again
//	                 (snapshot) delete*, read lane
//	Reschedule, Snooze, Bury
//	                 settle, end, lock lane*, write row*
//	                 (snapshot) end, write lane*, write row*
//	ExtendLease      extend (snapshot: *)
//	Release          release (snapshot: *)
//	Relinquish       relinquish; (snapshot) read lanes, relinquish*
//	Subscribe        read subscriptions, lock groups, create group; or refresh
//	Requeue          find letters, requeue (snapshot: *)
//	Statistics       count
//	List             list
//	Verify           verify
//	Rewrite          expire lane*, make due*
//	Unsubscribe      mark removed, sweep
//	Purge            read removed, mark removed, sweep, delete dead (snapshot:
//	                 find dead, delete dead*), lock dead, find events, lock
//	                 events, delete events (snapshot: delete event), delete
//	                 history
//
// Transactions end with "commit", calls with "reply". A single write outside a
// transaction of a Snapshot store commits with its statement.
type Point struct {
	// Call is the store method or "Tx" for statements of a caller's own.
	Call string
	// Step is the statement within it, e.g. "lock lanes", "pick", "commit",
	// "reply".
	Step string
	// Delivery is set where the statement writes one delivery row, Lane where
	// it writes one lane.
	Delivery protocol.DeliveryID
	Lane     protocol.LaneID
}

// Scheduler decides when the next statement of a call runs. The live scheduler
// is a mutex with a condition variable; the simulator's suspends the current
// task. simstore itself starts no goroutine and reads no clock.
type Scheduler interface {
	// Now is the store's clock.
	Now() protocol.Time
	// Pause is called before each statement, commit and reply, and may let
	// other callers run. An error from it is raised by the statement: wrapped
	// engine.ErrRetryable for a conflict, engine.Definite for a bad row,
	// anything else for a failure of the statement. The transaction then
	// aborts (behind a savepoint: the statement alone is undone).
	Pause(ctx context.Context, p Point) error
	// Block suspends the caller, which waits for a lock, until Wake is called
	// or the store's clock reaches deadline (0: no deadline). It returns nil
	// after a Wake (the caller looks again), context.DeadlineExceeded at the
	// deadline, and the context's error when the context ends.
	Block(ctx context.Context, p Point, deadline protocol.Time) error
	// Wake lets every blocked caller look again. It is called when locks were
	// released.
	Wake()
	// Enter and Leave bracket every call into the store; between them, except
	// within Pause and Block, the caller has the store for itself.
	Enter()
	Leave()
}

// Committed is what a transaction did, told to an [Observer] at its commit.
type Committed struct {
	// Position is the commit's place in the log, starting at 1.
	Position int64
	// Async: acknowledged before it is durable; a store crash may lose it and
	// everything after it, up to the next durable commit.
	Async bool
	// Actions are the protocol actions of the transaction, in order.
	Actions []protocol.Action
}

// Observer is told of every commit while the store is locked, and of
// evaluated calls that changed nothing (Position 0).
type Observer func(Committed)

package engine

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Store is what the engine needs of a database, without transactions of the
// caller. Methods block, honour the context and may be called from many
// goroutines.
//
// Errors come in three kinds. [ErrRetryable] (wrapped): nothing was applied,
// try again. [Definite]: nothing was applied and nothing will be. Anything
// else, a context error among them: the outcome is unknown, and the request
// may even be applied later. A store never returns an error for a lost lease;
// that is a [Verdict].
//
// A call that waited for a connection until its context ended, or could not
// make one, is of the first kind and wraps [ErrNotSent]. A store that leaves
// the mark out is safe and slower: an end of which nobody knows whether it was
// applied costs its lane after a lease.
//
// Every reply carries Now, the store's clock while it served the call.
type Store interface {
	// Subscribe writes the subscriptions of a bus and creates the lanes of
	// its group when they are missing. It is called at start and then once a
	// minute, and returns the group's number, its lanes, and which handlers
	// of the group other buses serve.
	Subscribe(ctx context.Context, in SubscribeInput) (SubscribeReply, error)
	// Claim performs, in this order and as far as asked: the actions TakeOver
	// (and ChargeLost) for lanes that are free or expired, Claim for the lanes
	// held, and Relinquish for lanes taken over that gave nothing.
	Claim(ctx context.Context, in ClaimInput) (ClaimReply, error)
	// ExtendLease renews lanes without picking from them.
	ExtendLease(ctx context.Context, in ExtendLeaseInput) (ExtendLeaseReply, error)
	// CompleteMany ends runs of handlers that own no transaction. A follower
	// of a chain stands behind its predecessor in Leases, or the predecessor
	// is already gone.
	CompleteMany(ctx context.Context, in CompleteManyInput) (CompleteManyReply, error)
	// Reschedule ends a failed run: charged, due again after Delay.
	Reschedule(ctx context.Context, in RescheduleInput) (EndReply, error)
	// Snooze ends a run without a charge. With Settle it first waits for a
	// handler transaction of the same delivery that may still be open.
	Snooze(ctx context.Context, in SnoozeInput) (EndReply, error)
	// Bury ends a run for good.
	Bury(ctx context.Context, in BuryInput) (EndReply, error)
	// Release gives back deliveries that were not run to an end. Nothing is
	// charged.
	Release(ctx context.Context, in ReleaseInput) (ReleaseReply, error)
	// Relinquish gives lanes back.
	Relinquish(ctx context.Context, in RelinquishInput) (RelinquishReply, error)
}

// TxStore is a Store whose transactions the caller's own writes can join. Tx
// is the driver's transaction type.
type TxStore[Tx any] interface {
	Store
	// InTx runs fn in a transaction of the store's choosing and commits it
	// when fn returns nil. When ctx ends while fn is still at work the
	// transaction is rolled back at once: the locks of a handler that hangs
	// must not outlive its run. When the answer to COMMIT was lost the error wraps
	// [ErrCommitUnknown]; any other error means that nothing was committed. An
	// error before fn was entered charges the delivery nothing.
	InTx(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// Publish writes events and a delivery per subscribed handler inside tx.
	// The results are in the order of the events. New deliveries are due at
	// Event.Due.From of the store's clock; Due itself is not kept.
	Publish(ctx context.Context, tx Tx, events []protocol.Event) ([]PublishResult, error)
	// Complete deletes the delivery inside tx. It is the last statement
	// before COMMIT; on LeaseLost tx must be rolled back.
	Complete(ctx context.Context, tx Tx, in CompleteInput) (Verdict, error)
}

// SubscribeInput is the input of [Store.Subscribe].
type SubscribeInput struct {
	Group    string
	Handlers []EventHandler
	Revive   bool // bring back a subscription that was removed
}

// SubscribeReply is the reply of [Store.Subscribe].
type SubscribeReply struct {
	Now   StoreTime
	Group int32 // the group's number
	Lanes int32 // lanes per group (the modulus)
	// Removed are handlers of the input whose subscription stays removed.
	Removed []EventHandler
}

// HandlerRoom says how many more deliveries of a handler a worker can start.
// A handler the worker has is listed even with Room 0: a handler that is not
// listed is one the worker lacks.
type HandlerRoom struct {
	Name string
	Room int
}

// ClaimInput is the input of [Store.Claim].
type ClaimInput struct {
	Holder Holder
	Owner  string
	Group  int32
	// Number is the claim number of the Claim actions of this call; its
	// takeovers use Number−1.
	Number int64
	TTL    time.Duration
	// NotAfter is the store time after which the call must change nothing.
	NotAfter StoreTime
	// Held are the lanes to claim from and renew. With AllMine the store
	// finds every lane of the group whose holder is Holder instead: after a
	// claim was abandoned its reply may have named lanes we never heard of.
	Held    []LaneEpoch
	AllMine bool
	// LetExpire are held lanes that are neither renewed nor picked from, but
	// stated so that their lists can shrink.
	LetExpire []LaneID
	// Draining are held lanes from which nothing is picked because they hold
	// work this worker cannot run; they are renewed.
	Draining []LaneID
	// Running is everything this instance has started, plans to start, or has
	// not settled: sorted by delivery. What a lane lists beyond it drops out.
	Running []Running
	// SuspectRunning: a delivery with takeovers > 0 is in flight already, or
	// may be by an abandoned claim, so none may be picked.
	SuspectRunning bool
	// Handlers are all handlers of this worker with the room left.
	Handlers []HandlerRoom
	// Room bounds the chains of this call, a delivery that comes alone
	// counting as one: what the worker can start at once.
	Room int
	// Limit bounds the deliveries of this call.
	Limit int
	// MaxLanes bounds the lanes taken over by this call; 0: none.
	MaxLanes int
	// Behind is the lane behind which the search for those begins, going round
	// all of the group, so that each gets its turn. 0: not where the last call
	// began, since a lane there may have made it fail.
	Behind LaneID
	// Avoid are free lanes that this worker gave back because it lacks the
	// handlers of their work; they are no candidates while the epoch stands.
	Avoid []LaneEpoch
	// RetryStuck asks the store to try the ends and charges it refused again,
	// of the lanes named and of free ones, which are candidates for it.
	RetryStuck bool
}

// SearchFrom returns the lane at which a store begins its search for lanes to
// take over, counted from the first of a group of so many.
func (in *ClaimInput) SearchFrom(lanes int) int {
	if in.Behind != 0 {
		return (int(in.Behind) + 1) % lanes
	}
	// A claim takes two numbers: halved, or it would begin at every other lane only.
	return int((uint64(binary.LittleEndian.Uint32(in.Holder[:])) + uint64(in.Number)/2) % uint64(lanes))
}

// Picked is a delivery that a claim granted, with its event.
type Picked struct {
	Lease    Lease
	Delivery Delivery
	// Event is nil when the event row is missing: the row is damaged and the
	// engine buries the delivery.
	Event *protocol.Event
}

// ClaimedLane is a lane that the holder holds after a Claim.
type ClaimedLane struct {
	LaneEpoch
	ExpiresAt StoreTime
	TakenOver bool
	// Lacking: while picking, rows of handlers this worker lacks (and others
	// serve) were met.
	Lacking bool
}

// ClaimReply is the reply of [Store.Claim].
type ClaimReply struct {
	Now StoreTime
	// Lanes are the lanes held now, among those named or taken over.
	Lanes []ClaimedLane
	// Picks are in running order: a chain's members stand one after another.
	Picks []Picked
	// Gone are lanes that were named but are not held by this holder, and
	// lanes refused because a newer claim was applied.
	Gone []LaneID
	// LeaseLost are the running deliveries that their lane no longer lists.
	LeaseLost []Running
	// GivenBack are lanes taken over and relinquished in the same call.
	GivenBack []LaneEpoch
	// Stuck counts the ids that the lanes hold as stuck.
	Stuck int
}

// ExtendLeaseInput is the input of [Store.ExtendLease].
type ExtendLeaseInput struct {
	Holder   Holder
	Lanes    []LaneEpoch
	TTL      time.Duration
	NotAfter StoreTime
}

// ExtendLeaseReply is the reply of [Store.ExtendLease]: one verdict per lane.
type ExtendLeaseReply struct {
	Now      StoreTime
	Verdicts []Verdict
}

// CompleteManyInput is the input of [Store.CompleteMany].
type CompleteManyInput struct {
	Leases []Lease
}

// Ended is what became of one lease in a call over many.
type Ended struct {
	Verdict Verdict
	// Err, when set, is a definite error that the store raised for this row
	// alone; Verdict then says nothing.
	Err error
}

// CompleteManyReply is the reply of [Store.CompleteMany], in input order.
type CompleteManyReply struct {
	Now   StoreTime
	Ended []Ended
}

// CompleteInput is the input of [TxStore.Complete].
type CompleteInput struct {
	Lease Lease
	// TTL bounds how long the transaction may stay open and idle after this
	// statement, so that a vanished client does not hold the lane.
	TTL time.Duration
}

// RescheduleInput is the input of [Store.Reschedule].
type RescheduleInput struct {
	Lease Lease
	Rest  []Lease // later members of the chain, released by the same write
	Delay time.Duration
	Error string
	// Settle as in [SnoozeInput].
	Settle bool
}

// SnoozeInput is the input of [Store.Snooze].
type SnoozeInput struct {
	Lease Lease
	Rest  []Lease
	Delay time.Duration
	// Settle: COMMIT of a handler transaction of this lease was sent and its
	// outcome is unknown.
	Settle bool
}

// BuryInput is the input of [Store.Bury].
type BuryInput struct {
	Lease  Lease
	Rest   []Lease
	Error  string
	Charge bool
}

// EndReply is the reply of calls that end one run.
type EndReply struct {
	Now     StoreTime
	Verdict Verdict
}

// ReleaseInput is the input of [Store.Release].
type ReleaseInput struct {
	Leases []Lease
}

// ReleaseReply is the reply of [Store.Release], in input order.
type ReleaseReply struct {
	Now      StoreTime
	Verdicts []Verdict
}

// RelinquishInput is the input of [Store.Relinquish].
type RelinquishInput struct {
	Holder Holder
	Group  int32
	Number int64
	// Lanes to give back; empty means every lane of this holder.
	Lanes []LaneEpoch
	// Running: a lane that still lists one of these is kept.
	Running []Running
	// Keep are lanes with an unsettled end: never given back.
	Keep []LaneID
	// NotAfter is the store time after which the call must change nothing.
	NotAfter StoreTime
}

// RelinquishReply is the reply of [Store.Relinquish]: the lanes given back.
type RelinquishReply struct {
	Now   StoreTime
	Lanes []LaneID
}

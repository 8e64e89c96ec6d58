package protocol

import "time"

// Action is one operation that a store committed (or, for a verdict of
// LeaseLost, evaluated): its arguments, the choices the store made, and the
// verdict it returned. The concrete types are the actions of the protocol;
// [Step] applies one to a State and a Ledger.
type Action interface {
	// Name is the action's name in the specification.
	Name() string
}

// Publish is the publishing part of a caller's transaction.
type Publish struct {
	Now    Time
	Events []PublishEvent
}

// PublishEvent is one event of a Publish, ids de-duplicated, in input order.
type PublishEvent struct {
	Event Event // Handlers is ignored: the added ones are those of Deliveries
	// Subscribed are the handlers of the event's type as the statement read
	// them, sorted, with the group and lane modulus folded into Deliveries.
	Subscribed []string
	// Deliveries are the rows the store inserted, with the ids and sequences
	// it drew.
	Deliveries []Delivery
	Result     PublishResult
}

// PublishResult says what publishing one event did.
type PublishResult uint8

// The results of publishing an event.
const (
	// Added: the event is new, or at least one handler was added to it.
	Added PublishResult = iota
	// Known: the id was there with every subscribed handler.
	Known
	// Mismatch: the id is known with another type or key; nothing was added.
	Mismatch
)

// String returns the result's name.
func (r PublishResult) String() string {
	return [...]string{"Added", "Known", "Mismatch"}[r]
}

// Running is what a worker says it still runs.
type Running struct {
	InFlight
	Lane    LaneID
	Handler string
	Key     string
}

// Picked is a delivery that a claim granted.
type Picked struct {
	Delivery DeliveryID
	After    DeliveryID // the delivery before it in its chain; 0 for a head
	Fence    int32
}

// Claim grants deliveries of one lane to its holder and renews the lease.
type Claim struct {
	Lane     LaneID
	Holder   Holder
	Number   int64
	Handlers []string  // the handlers the worker has room for
	Running  []Running // of the whole worker, sorted by delivery
	Picks    []Picked
	// SuspectRunning: the worker runs a delivery that had takeovers > 0 when it
	// was granted; its row may be gone by now.
	SuspectRunning bool
	Renew          bool // false for a lane named in LetExpire: no renewal, no picks
	TTL            time.Duration
	Now            Time // start of the store's transaction
	Clock          Time // after any waiting
	NotAfter       Time
	// Unstuck are ids that leave the lane's stuck list, sorted: the write that
	// the store had refused succeeded now (a row still pending is charged an
	// attempt and a takeover, since the list does not say which it was), or
	// the row has disappeared.
	Unstuck []DeliveryID
	// Seen is the store's commit position when the picks were read, 0 when
	// that equals the position of this action. Picks are judged there: between
	// reading and committing only Requeue, Purge and Unsubscribe can change
	// what they rest on, and the protocol allows that.
	Seen int64
}

// TakeOver gives a lane that is free or whose lease ran out to another holder
// of its group.
type TakeOver struct {
	Lane     LaneID
	Group    int32 // the number of the worker's group
	Holder   Holder
	Owner    string
	Number   int64 // n − 1 of the call that performs it
	TTL      time.Duration
	Now      Time
	Clock    Time
	NotAfter Time
	Refused  []DeliveryID // Locking: ids whose charge the store refused for good
	Charged  []DeliveryID // Locking: ids whose attempts rose, sorted
}

// ChargeLost charges what a Snapshot store's takeover found in flight.
type ChargeLost struct {
	Lane    LaneID
	Refused []DeliveryID
	Charged []DeliveryID
}

// ExtendLease renews one lane.
type ExtendLease struct {
	Lane    LaneID
	Epoch   int64
	Holder  Holder
	TTL     time.Duration
	Now     Time
	Clock   Time
	Verdict Verdict
}

// CompleteMany ends runs of handlers that own no transaction.
type CompleteMany struct {
	Leases   []Lease
	Verdicts []Verdict
	Refused  []DeliveryID // definite errors: neither Applied nor LeaseLost
	// Unlisted are those Applied though a newer call of the same holder has
	// taken them off the lane's list since the statement read it: FOR KEY SHARE
	// does not read a lane again (docs/adr, 11). Locking stores only.
	Unlisted []DeliveryID
	// Seen is the position that the call read, 0 when that is the one it stands
	// on. A verdict of LeaseLost, and one of what is Unlisted, was right at some
	// position from there on: a store with row locks judges some leases where it
	// read, others where it locked or looked again.
	Seen int64
}

// Complete ends a run inside the handler's own transaction. It is recorded
// when that transaction commits.
type Complete struct {
	Lease   Lease
	Verdict Verdict
	Seen    int64 // as Claim.Seen, for a verdict of LeaseLost
}

// Reschedule ends a run that failed: charged, due again after Delay.
type Reschedule struct {
	Lease   Lease
	Rest    []Lease // later members of the chain, released in the same write
	Delay   time.Duration
	Error   string
	Now     Time
	Verdict Verdict
	Seen    int64
	// Refused: the store refused the delivery row for good, even with a
	// cleaned text. Only the lane was written: the delivery and the rest of
	// its chain leave in_flight, and its id goes to stuck.
	Refused bool
}

// Snooze ends a run without a charge: due again after Delay.
type Snooze struct {
	Lease   Lease
	Rest    []Lease
	Delay   time.Duration
	Now     Time
	Verdict Verdict
	Seen    int64
	// Refused: the store refused the delivery row for good, even with a
	// cleaned text. Only the lane was written: the delivery and the rest of
	// its chain leave in_flight, and its id goes to stuck.
	Refused bool
}

// Bury ends a run for good: the delivery becomes a dead letter.
type Bury struct {
	Lease   Lease
	Rest    []Lease
	Error   string
	Charge  bool
	Now     Time
	Verdict Verdict
	Seen    int64
	// Refused: the store refused the delivery row for good, even with a
	// cleaned text. Only the lane was written: the delivery and the rest of
	// its chain leave in_flight, and its id goes to stuck.
	Refused bool
}

// Release gives deliveries back that were not run, or whose run the worker
// itself cancelled.
type Release struct {
	Leases   []Lease
	Verdicts []Verdict
	Seen     int64
}

// Relinquish gives a lane back.
//
// Unlike Claim and TakeOver it has no not-after, here as in Lease.tla: behind a
// newer claim its number refuses it, and where no newer claim came it may give
// the lane back at any time, since nothing was granted after what it states.
// The call has one, by which a worker knows that an abandoned one is over
// (docs/adr, 10). The store refuses such a call as a whole, before any action,
// as Calls.tla does in RelinquishBy; the conformance suite and the histories of
// calls (linearize) hold it to that.
type Relinquish struct {
	Lane    LaneID
	Holder  Holder
	Number  int64
	Epoch   int64 // 0: any (the call named no lanes)
	Running []Running
	Verdict Verdict
}

// Requeue brings dead letters back to pending.
type Requeue struct {
	IDs      []DeliveryID
	Requeued []DeliveryID // those that were dead
	Now      Time
}

// Purge deletes old rows. Each list holds what one transaction deleted.
type Purge struct {
	Dead     []DeliveryID
	DiedTo   Time // dead since before
	Events   []string
	EventsTo Time // published before, no delivery row left
}

// Subscribe writes the subscriptions of one bus. It also creates the group's
// lanes when they are missing.
type Subscribe struct {
	Group    string
	Handlers []EventHandler
	Revive   bool // bring back a subscription that was removed
	Lanes    []LaneID
	Now      Time
}

// EventHandler pairs an event type with a handler's name.
type EventHandler struct {
	Event   string
	Handler string
}

// Unsubscribe marks a handler of an event type as removed and sweeps what is
// pending for it.
type Unsubscribe struct {
	EventHandler
	Bury   bool         // dead letters instead of deletion
	Swept  []DeliveryID // pending rows buried or deleted
	Reason string
	Now    Time
}

// Name implements [Action].
func (Publish) Name() string { return "Publish" }

// Name implements [Action].
func (Claim) Name() string { return "Claim" }

// Name implements [Action].
func (TakeOver) Name() string { return "TakeOver" }

// Name implements [Action].
func (ChargeLost) Name() string { return "ChargeLost" }

// Name implements [Action].
func (ExtendLease) Name() string { return "ExtendLease" }

// Name implements [Action].
func (CompleteMany) Name() string { return "CompleteMany" }

// Name implements [Action].
func (Complete) Name() string { return "Complete" }

// Name implements [Action].
func (Reschedule) Name() string { return "Reschedule" }

// Name implements [Action].
func (Snooze) Name() string { return "Snooze" }

// Name implements [Action].
func (Bury) Name() string { return "Bury" }

// Name implements [Action].
func (Release) Name() string { return "Release" }

// Name implements [Action].
func (Relinquish) Name() string { return "Relinquish" }

// Name implements [Action].
func (Requeue) Name() string { return "Requeue" }

// Name implements [Action].
func (Purge) Name() string { return "Purge" }

// Name implements [Action].
func (Subscribe) Name() string { return "Subscribe" }

// Name implements [Action].
func (Unsubscribe) Name() string { return "Unsubscribe" }

package protocol

import (
	"math"
	"time"
)

// Time is a reading of the store's clock in nanoseconds since the Unix epoch.
// Only the store's clock decides due times and expiry; it is therefore a type
// of its own and never mixed with a worker's clock. Zero means "never" where a
// field is optional.
type Time int64

// Add returns t+d, saturating instead of wrapping, so that an absurd duration
// means "far away" and not "long ago".
func (t Time) Add(d time.Duration) Time {
	sum := t + Time(d)
	if d > 0 && sum < t {
		return math.MaxInt64
	}
	if d < 0 && sum > t {
		return math.MinInt64
	}
	return sum
}

// Sub returns the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Std returns t as a time.Time in UTC.
func (t Time) Std() time.Time { return time.Unix(0, int64(t)).UTC() }

// DeliveryID names a delivery row. Ids start at 1; 0 means "no delivery".
// A store that loses commits may issue an id again to another row.
type DeliveryID int64

// LaneID names a lane: group × modulus + hash of the key (see [LaneOf]).
// To the protocol a lane is an opaque integer.
type LaneID int32

// Semantics is how a store decides conflicts: the two families of section
// "How each store realises it" of the protocol.
type Semantics uint8

// The two families of stores.
const (
	// Locking is PostgreSQL: row locks, READ COMMITTED, the target row is
	// re-evaluated after a wait. Takeover charges in its own transaction.
	Locking Semantics = iota
	// Snapshot is MongoDB: snapshot transactions, the first updater wins.
	// Takeover moves what was in flight to lost; ChargeLost charges it.
	Snapshot
)

// String returns "locking" or "snapshot".
func (s Semantics) String() string {
	if s == Snapshot {
		return "snapshot"
	}
	return "locking"
}

// Status is what a delivery row says of itself. A completed delivery has no
// row, and "running" is never written on one.
type Status uint8

// The statuses of a delivery row.
const (
	Pending Status = iota
	Dead
)

// String returns "pending" or "dead".
func (s Status) String() string {
	if s == Dead {
		return "dead"
	}
	return "pending"
}

// Header is one name and value that travel with an event.
type Header struct {
	Name  string
	Value string
}

// Event is what a publisher wrote. It outlives its deliveries, and Handlers
// remembers every handler that ever had one, so that publishing the same id
// again never re-runs a completed handler.
type Event struct {
	ID          string
	Type        string
	Key         string // "" means no key: no order is promised
	Payload     []byte // kept byte-exact
	Headers     []Header
	PublishedAt Time
	Handlers    []string
	Due         Due // an input of Publish; stores do not keep it
}

// Delivery is one (event, handler) that has not completed.
type Delivery struct {
	ID          DeliveryID
	Event       string
	Handler     string
	Lane        LaneID
	Key         string
	Sequence    int64 // position in the key's commit order; Locking: equal to ID
	Status      Status
	AvailableAt Time
	Attempts    int32
	Takeovers   int32 // times it was in flight when its worker was taken for dead; only Requeue resets it
	Fence       int32 // Snapshot stores only: bumped by every write of the row
	LastError   string
	DiedAt      Time
}

// InFlight is an entry of a lane's list: a delivery and the number of the
// claim that granted it.
type InFlight struct {
	Delivery DeliveryID
	Claim    int64
}

// Lane is the only row a claim writes.
type Lane struct {
	ID         LaneID
	Epoch      int64  // raised by every TakeOver
	Holder     Holder // zero: the lane is free
	LastHolder Holder // who relinquished it; zero after a TakeOver
	Owner      string // human-readable name beside Holder
	Claim      int64  // last claim number applied for this (or, when free, the last) holder
	ExpiresAt  Time
	InFlight   []InFlight   // ids are unique within a lane
	Stuck      []DeliveryID // charge or end refused by the store; out of picks
	Lost       []InFlight   // Snapshot only: taken over but not charged yet
}

// Subscription says that a handler wants a type of event.
type Subscription struct {
	Event   string
	Handler string
	Group   string
	SeenAt  Time
	Removed bool
}

// LaneEpoch names a lane as a holder knows it.
type LaneEpoch struct {
	Lane  LaneID
	Epoch int64
}

// Verdict is the store's answer to an ending call, one per lease. Losing a
// lease is normal protocol life and therefore a value; when the store could
// not say, the call returns an error instead.
type Verdict uint8

// The verdicts.
const (
	// LeaseLost: this call changed nothing. An earlier try of it may have.
	LeaseLost Verdict = iota
	// Applied: the effect stands, from this call or an earlier try of it.
	Applied
)

// String returns "Applied" or "LeaseLost".
func (v Verdict) String() string {
	if v == Applied {
		return "Applied"
	}
	return "LeaseLost"
}

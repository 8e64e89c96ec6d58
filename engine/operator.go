package engine

import (
	"context"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Operator is what an administrator does with a store. The bus calls Purge, when
// [Config.Retention] says so, and nothing else of it. Errors come in the kinds
// of [Store]; input outside its limits is refused with [ErrInvalid] before
// anything is done.
type Operator interface {
	// Requeue brings dead letters back to pending, due now, with nothing
	// charged. To its neighbours a requeued delivery is a new one: requeue a
	// delivery that kills its worker only after its handler was mended.
	Requeue(ctx context.Context, in RequeueInput) (RequeueReply, error)
	// Purge deletes what is old enough, in bounded batches that each repeat
	// the condition on the row they delete.
	Purge(ctx context.Context, in PurgeInput) (PurgeReply, error)
	// Unsubscribe removes a handler of an event type for good. What is
	// pending for it is buried or deleted; what a publisher adds meanwhile,
	// Purge sweeps. A bus that starts with the handler does not bring the
	// subscription back unless its Config says Revive.
	Unsubscribe(ctx context.Context, in UnsubscribeInput) (UnsubscribeReply, error)
	// Statistics counts what the store holds.
	Statistics(ctx context.Context) (Statistics, error)
	// List returns deliveries by id, a page at a time.
	List(ctx context.Context, in ListInput) (ListReply, error)
	// Verify reads one snapshot and reports what no interleaving can excuse.
	Verify(ctx context.Context) (VerifyReply, error)
}

// Filter selects deliveries; empty fields select everything.
type Filter struct {
	Handler   string // the handler's name
	Key       string // the event's key; one without a key cannot be selected by that
	EventType string
	EventID   string
	// Status selects pending or dead deliveries; nil selects both. Requeue
	// looks at dead ones only.
	Status *protocol.Status
	// DiedSince and DiedUntil bound the time of death (Until exclusive); zero
	// means no bound.
	DiedSince, DiedUntil StoreTime
}

// Limits of the operator's calls.
const (
	// MaxList bounds a page of List; a Limit of 0 means DefaultList.
	MaxList = 10_000
	// DefaultList is the page of List when the caller names none.
	DefaultList = 100
	// DefaultBatch is how many rows one transaction of Purge, Requeue or
	// Unsubscribe writes when the caller names none.
	DefaultBatch = 1000
)

// RequeueInput is the input of [Operator.Requeue]: ids, or a filter when there
// are none.
type RequeueInput struct {
	IDs    []DeliveryID
	Filter Filter
	// All must be set to requeue by a filter that selects everything.
	All bool
	// Limit bounds how many are requeued; 0 means no bound.
	Limit int
}

// RequeueReply is the reply of [Operator.Requeue].
type RequeueReply struct {
	Requeued int
}

// PurgeInput is the input of [Operator.Purge]. A zero age keeps that kind for
// ever.
type PurgeInput struct {
	// DeadAfter is the age from which dead letters go, since their death.
	DeadAfter time.Duration
	// EventsAfter is the age from which events go that have no delivery left,
	// since publishing. It must exceed the time within which the same id may
	// be published again plus the longest publishing transaction.
	EventsAfter time.Duration
	// HistoryAfter is the age from which completions go.
	HistoryAfter time.Duration
	// Batch bounds the rows of one transaction; 0 means DefaultBatch.
	Batch int
	// Yield makes the call return early when another one that yields is at
	// work, so that many may call and one works. A store where two do no harm
	// may ignore it.
	Yield bool
}

// PurgeReply is the reply of [Operator.Purge]: how many rows went.
type PurgeReply struct {
	Dead, Events, History int
	// Swept are pending deliveries of removed handlers, buried.
	Swept int
}

// UnsubscribeInput is the input of [Operator.Unsubscribe].
type UnsubscribeInput struct {
	EventHandler
	// Bury makes dead letters of what is pending; otherwise it is deleted.
	Bury bool
}

// UnsubscribeReply is the reply of [Operator.Unsubscribe].
type UnsubscribeReply struct {
	Swept int
}

// Statistics counts what a store holds.
type Statistics struct {
	Now       StoreTime
	Events    int
	Pending   int       // deliveries that are not dead, in flight or not
	Due       int       // pending, due, and not in flight
	OldestDue StoreTime // when the longest waiting of them became due; 0: none
	Running   int       // in flight under a live lease, first of its chain
	Waiting   int       // in flight under a live lease, behind another of its chain
	Dead      int
	Stuck     int // deliveries whose charge or end the store refused
	Completed int // rows of the completion history; 0 when it is off
	Held      int // lanes with a live lease
	Expired   int // lanes whose lease ran out and that nobody took over yet
	Handlers  []HandlerStatistics
}

// HandlerStatistics counts the deliveries of one handler.
type HandlerStatistics struct {
	Handler             string
	Pending, Due, Dead  int
	SeenAt              StoreTime // when a bus with the handler last said so
	Subscribed, Removed bool
}

// ListInput is the input of [Operator.List].
type ListInput struct {
	Filter Filter
	// After continues behind the last delivery of the page before.
	After DeliveryID
	// Limit bounds the page; 0 means DefaultList, at most MaxList.
	Limit int
}

// Listed is a delivery with its event.
type Listed struct {
	Delivery Delivery
	Event    *protocol.Event // nil when the row is missing: see Verify
	// Running: it is in flight under a live lease; Owner says whose.
	Running bool
	Owner   string
}

// ListReply is the reply of [Operator.List], by id.
type ListReply struct {
	Now        StoreTime
	Deliveries []Listed
	// Next is the After of the next page; 0 when this was the last.
	Next DeliveryID
}

// Finding is one thing that Verify found wrong.
type Finding struct {
	// Check is the name of what was checked, e.g. "event missing".
	Check    string
	Delivery DeliveryID // 0 when it is not about a delivery
	Lane     LaneID     // meaningful when Delivery is 0 and Check is about a lane
	Detail   string
}

// VerifyReply is the reply of [Operator.Verify]; no findings means clean.
type VerifyReply struct {
	Now        StoreTime
	Deliveries int // looked at
	Lanes      int
	Findings   []Finding
}

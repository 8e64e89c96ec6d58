package engine

import "github.com/relaybus-go/relaybus/engine/protocol"

// The protocol's vocabulary, as users and stores read it.
type (
	// DeliveryID names a delivery row.
	DeliveryID = protocol.DeliveryID
	// LaneID names a lane.
	LaneID = protocol.LaneID
	// LaneEpoch names a lane as a holder knows it.
	LaneEpoch = protocol.LaneEpoch
	// Holder identifies one bus instance.
	Holder = protocol.Holder
	// Token is the proof that a lane was granted.
	Token = protocol.Token
	// Lease is a delivery as one run of it was granted.
	Lease = protocol.Lease
	// Verdict is the store's answer to an ending call.
	Verdict = protocol.Verdict
	// Delivery is one (event, handler) that has not completed.
	Delivery = protocol.Delivery
	// Header is one name and value that travel with an event.
	Header = protocol.Header
	// StoreTime is a reading of the store's clock.
	StoreTime = protocol.Time
	// Running is what a worker says it still runs.
	Running = protocol.Running
	// EventHandler pairs an event type with a handler's name.
	EventHandler = protocol.EventHandler
	// Due says when the deliveries of an event become due.
	Due = protocol.Due
	// PublishResult says what publishing one event did.
	PublishResult = protocol.PublishResult
)

// The verdicts, re-exported.
const (
	// Applied: the effect stands.
	Applied = protocol.Applied
	// LeaseLost: the call changed nothing.
	LeaseLost = protocol.LeaseLost
)

// The results of publishing an event, re-exported.
const (
	// Added: the event is new, or at least one handler was added to it.
	Added = protocol.Added
	// Known: the id was there already, with every subscribed handler.
	Known = protocol.Known
	// Mismatch: the id is taken by an event of another type or key; nothing
	// was added.
	Mismatch = protocol.Mismatch
)

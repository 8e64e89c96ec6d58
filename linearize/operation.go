package linearize

import (
	"cmp"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
)

// Family is the kind of store that a history comes from.
type Family uint8

// The families of stores.
const (
	// Locking is PostgreSQL and what behaves like it: the actions of one call
	// commit together, and a takeover charges what it found in flight.
	Locking Family = iota
	// Snapshot is MongoDB and what behaves like it: one write per action, a
	// takeover moves what was in flight to a list that is charged later, and
	// plain completions are fenced by the delivery itself.
	Snapshot
)

// String returns "locking" or "snapshot".
func (f Family) String() string {
	if f == Snapshot {
		return "snapshot"
	}
	return "locking"
}

// Outcome is what the caller knows of a call.
type Outcome uint8

// The outcomes of a call.
const (
	// Open: there was no answer, or an error that says nothing. The call may
	// take effect at any time from its beginning on, or never.
	Open Outcome = iota
	// Returned: the answer is known.
	Returned
	// Retryable: an error that promises that nothing was applied. Calls that
	// are several writes in a [Snapshot] store may have done some of them.
	Retryable
	// Definite: an error that promises that nothing was applied and nothing
	// will be. A failed run may have left its lane all the same, as stuck.
	Definite
	// Lost: the store took effect and answer back, because it crashed or
	// failed over before the commit was durable. The call is no part of the
	// surviving history. Calls that only read what was lost are lost too.
	Lost
)

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	return [...]string{"open", "returned", "retryable", "definite", "lost"}[o]
}

// Operation is one call and what its caller was told. Input is one of the
// types below; Output is the matching one when Outcome is Returned, and may be
// when it is Lost; else it is nil.
//
//	engine.SubscribeInput      engine.SubscribeReply
//	engine.ClaimInput          engine.ClaimReply
//	engine.ExtendLeaseInput    engine.ExtendLeaseReply
//	engine.CompleteManyInput   engine.CompleteManyReply
//	engine.RescheduleInput     engine.EndReply
//	engine.SnoozeInput         engine.EndReply
//	engine.BuryInput           engine.EndReply
//	engine.ReleaseInput        engine.ReleaseReply
//	engine.RelinquishInput     engine.RelinquishReply
//	engine.RequeueInput        engine.RequeueReply
//	engine.PurgeInput          engine.PurgeReply
//	engine.UnsubscribeInput    engine.UnsubscribeReply
//	engine.ListInput           engine.ListReply
//	Transaction                nil
//	CountEffects               int
//	Crash                      nil
//
// The history keeps what it is given: do not change slices afterwards.
type Operation struct {
	// Client groups calls in reports; one client may have several calls
	// outstanding.
	Client int
	// Call and Return are when the call began and when its answer was there.
	// Two calls one of which returns when the other begins count as
	// concurrent. Return is ignored when Outcome is Open.
	Call, Return int64
	Input        any
	Output       any
	Outcome      Outcome
}

// Name names a delivery for ever: ids may be issued again by a store that lost
// commits.
type Name struct{ Event, Handler string }

// String returns "event/handler".
func (n Name) String() string { return n.Event + "/" + n.Handler }

// Compare orders names by event and then by handler.
func (n Name) Compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Event, o.Event), cmp.Compare(n.Handler, o.Handler))
}

// Transaction is a transaction of a caller: what it published, which runs it
// completed and which effects it wrote. Its Outcome is that of the commit; one
// that was rolled back is not recorded, or recorded as Retryable.
type Transaction struct {
	Published []Published
	Completed []Completed
	// Effects are the deliveries whose handler wrote its effect here, once
	// per effect.
	Effects []Name
}

// Published is one event that a transaction published.
type Published struct {
	Event, Type, Key string
	Result           engine.PublishResult
	// Handlers are those that get a delivery, if the recorder knows them; nil
	// leaves it to the Subscribe calls of the history. A handler whose
	// subscription is not certain to precede the transaction may or may not
	// get one.
	Handlers []string
}

// Completed is one Complete within a transaction.
type Completed struct {
	Lease   engine.Lease
	Verdict engine.Verdict
}

// CountEffects counts the committed effects of a transactional handler for one
// delivery; the answer is an int.
type CountEffects struct{ Name Name }

// Crash is a store that crashed or failed over and may have lost commits that
// it had acknowledged. The survivors are a prefix.
type Crash struct {
	// Failover: any commit may be lost. Otherwise only claims, takeovers and
	// renewals, which may be acknowledged before they are durable, and only
	// those after the last commit of another kind.
	Failover bool
}

// admit panics when an operation is not of the table at [Operation]: it is the
// recorder that is wrong, and no verdict would mean anything.
func (o *Operation) admit() {
	if !o.wellFormed() {
		panic(fmt.Sprintf("linearize: %T with the output %T: see the table at Operation", o.Input, o.Output))
	}
	if o.Outcome != Open && o.Return < o.Call {
		panic(fmt.Sprintf("linearize: %T returned at %d, before its call at %d", o.Input, o.Return, o.Call))
	}
}

func (o *Operation) wellFormed() bool {
	fit := answers(o.Input, o.Output)
	switch o.Outcome {
	case Returned:
		return fit == fits
	case Lost:
		return fit == fits || fit == wrongOutput && o.Output == nil
	default:
		return fit != unknownInput && o.Output == nil
	}
}

type fit uint8

const (
	unknownInput fit = iota
	wrongOutput
	fits
)

// answers reports whether output is of the type that answers input.
func answers(input, output any) fit {
	var ok bool
	switch input.(type) {
	case engine.SubscribeInput:
		_, ok = output.(engine.SubscribeReply)
	case engine.ClaimInput:
		_, ok = output.(engine.ClaimReply)
	case engine.ExtendLeaseInput:
		_, ok = output.(engine.ExtendLeaseReply)
	case engine.CompleteManyInput:
		_, ok = output.(engine.CompleteManyReply)
	case engine.RescheduleInput, engine.SnoozeInput, engine.BuryInput:
		_, ok = output.(engine.EndReply)
	case engine.ReleaseInput:
		_, ok = output.(engine.ReleaseReply)
	case engine.RelinquishInput:
		_, ok = output.(engine.RelinquishReply)
	case engine.RequeueInput:
		_, ok = output.(engine.RequeueReply)
	case engine.PurgeInput:
		_, ok = output.(engine.PurgeReply)
	case engine.UnsubscribeInput:
		_, ok = output.(engine.UnsubscribeReply)
	case engine.ListInput:
		_, ok = output.(engine.ListReply)
	case CountEffects:
		_, ok = output.(int)
	case Transaction, Crash:
		ok = output == nil
	default:
		return unknownInput
	}
	if ok {
		return fits
	}
	return wrongOutput
}

// storeNow returns the store's clock as the answer tells it, 0 when it does
// not.
func (o *Operation) storeNow() engine.StoreTime {
	switch out := o.Output.(type) {
	case engine.SubscribeReply:
		return out.Now
	case engine.ClaimReply:
		return out.Now
	case engine.ExtendLeaseReply:
		return out.Now
	case engine.CompleteManyReply:
		return out.Now
	case engine.EndReply:
		return out.Now
	case engine.ReleaseReply:
		return out.Now
	case engine.RelinquishReply:
		return out.Now
	case engine.ListReply:
		return out.Now
	}
	return 0
}

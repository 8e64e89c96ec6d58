package engine

import (
	"fmt"
	"time"
)

// Instant is a worker's reading of its own clocks. Self-fencing uses whichever
// elapsed more, so that neither a wall clock set back nor a monotonic clock
// that slept through a suspension can stretch a lease.
type Instant struct {
	Wall int64         // nanoseconds since the Unix epoch; may jump
	Mono time.Duration // since an arbitrary start; never goes back
}

// since returns the larger of the wall and monotonic time from u to t.
func (t Instant) since(u Instant) time.Duration {
	return max(time.Duration(t.Wall-u.Wall), t.Mono-u.Mono)
}

// CallID names one outstanding store call of a Dispatcher.
type CallID int64

// RunID names one run of a handler within a bus instance.
type RunID int64

// Input is what can happen to a Dispatcher.
type Input interface{ input() }

// Start begins the life of a Dispatcher; the first Step must carry it.
type Start struct{}

// Tick says that time passed; it is fed when a WakeAt is due.
type Tick struct{}

// Wake says that work may be due now: a publish committed in this process, or
// a notification. It is a hint.
type Wake struct{}

// CallReturned is the result of a [Call]. Exactly one of Reply and Err is set.
type CallReturned struct {
	ID    CallID
	Reply any // *ClaimReply, *EndReply, … as the call's input demands
	Err   error
}

// RunReturned is the result of a [Run].
type RunReturned struct {
	ID     RunID
	Result RunResult
}

// RunRetired answers a [Retire]. Done false means that the run has sent
// Complete already and its RunReturned is still to come.
type RunRetired struct {
	ID   RunID
	Done bool
}

// Stop begins the shutdown: no new claims; running handlers may finish within
// Grace, then their contexts are cancelled.
type Stop struct {
	Grace time.Duration
	// Overtime is how long a cancelled run may take to return before it is
	// retired; 0 means the handler's own grace.
	Overtime time.Duration
}

func (Start) input()        {}
func (Tick) input()         {}
func (Wake) input()         {}
func (CallReturned) input() {}
func (RunReturned) input()  {}
func (RunRetired) input()   {}
func (Stop) input()         {}

// Effect is what a Dispatcher asks its surroundings to do.
type Effect interface{ effect() }

// Call asks for one store call. Input is one of the Store's input structs.
// The caller gives up after Timeout and then reports an error whose outcome is
// unknown; an abandoned call may still be applied.
type Call struct {
	ID      CallID
	Input   any
	Timeout time.Duration
}

// Run asks for one run of a handler through [Machine.Execute]. As an effect it
// is a pointer, and stays valid and, but for its Gate, unchanged until its
// RunReturned was fed.
type Run struct {
	ID      RunID
	Picked  Picked
	Handler string
	// MaxAttempts is the handler's limit, for the handler to see.
	MaxAttempts int
	// TTL bounds how long the transaction may idle after Complete.
	TTL time.Duration
	// Gate decides between the run's own end and a [Retire].
	Gate Gate
}

// CancelRun asks to cancel the context of a run with a cause.
type CancelRun struct {
	ID    RunID
	Cause error
}

// Retire asks to cut off a run that did not return in time: unless it has sent
// Complete already it never will, and its RunReturned no longer counts. The
// answer is [RunRetired].
type Retire struct {
	ID RunID
}

// WakeAt asks for a Tick not later than After from now. Each WakeAt replaces
// the one before; there is at most one per Step.
type WakeAt struct {
	After time.Duration
}

// Stopped says that the Dispatcher is done: nothing is outstanding that it
// waits for. It is the last effect.
type Stopped struct {
	// Err is why the bus never ran: the store refused its subscriptions with a
	// definite error. nil after a stop that was asked for.
	Err error
}

// What an [Observed] effect can report.
const (
	ObservedCompleted    = "completed"
	ObservedRescheduled  = "rescheduled"
	ObservedSnoozed      = "snoozed"
	ObservedBuried       = "buried"
	ObservedReleased     = "released"
	ObservedLeaseLost    = "lease lost"
	ObservedLeaseExpired = "lease expired"
	ObservedLaneLost     = "lane lost"
	ObservedRetired      = "handler did not return"
	ObservedStuck        = "end refused by the store"
	ObservedStoreAway    = "store away"
	ObservedStoreBack    = "store back"
	ObservedUnsubscribed = "subscription is removed"
	ObservedNotBegun     = "transaction did not begin"
	ObservedPurgeFailed  = "purge failed"
)

// Observed reports a fact worth a log line or a metric. [Observation] says
// which facts there are, and is what applications are told of them.
type Observed struct {
	Event string // one of the constants above
	Lane  LaneID // of a delivery or lane
	// Run is the delivery that the fact is about, as it was granted; nil for
	// facts about lanes, subscriptions and the store. Its ID is 0 if the
	// handler was not started.
	Run     *Run
	Handler string // of a delivery or subscription; "" when this worker lacks it
	// Err is why an attempt failed, the store refused an end or does not
	// answer, or a handler was cancelled that then did not return.
	Err error
}

func (Call) effect()      {}
func (*Run) effect()      {}
func (CancelRun) effect() {}
func (Retire) effect()    {}
func (WakeAt) effect()    {}
func (Stopped) effect()   {}
func (Observed) effect()  {}

// Outcome is how a run ended, as execute saw it.
type Outcome uint8

// The outcomes of a run.
const (
	// Succeeded: a plain handler returned nil; CompleteMany is still to come.
	Succeeded Outcome = iota
	// Committed: a transactional handler's COMMIT was acknowledged.
	Committed
	// Failed: the attempt failed; Err says why, Delay when to try again
	// (negative: the handler's retry policy decides).
	Failed
	// Snoozed: the handler asked to be run again after Delay, uncharged.
	Snoozed
	// Cancelled: the handler gave the delivery up for good.
	Cancelled
	// Fenced: Complete answered LeaseLost; the transaction was rolled back.
	Fenced
	// CommitUnknown: COMMIT was sent and its outcome not learnt; the
	// Dispatcher settles it.
	CommitUnknown
	// NotBegun: the transaction did not begin, so the handler was not called:
	// it is run again after a pause, uncharged.
	NotBegun
)

// RunResult is what execute returns.
type RunResult struct {
	Outcome Outcome
	// Err is what the handler or the store returned; nil when it succeeded.
	Err error
	// Delay is when to run it again: of Snoozed always, of Failed unless it is
	// negative, which leaves it to the handler's retry policy.
	Delay time.Duration
	// Panic: the handler panicked, or ended its goroutine.
	Panic bool

	published bool // the handler called Publish
}

// String returns the outcome's name.
func (o Outcome) String() string {
	names := [...]string{"Succeeded", "Committed", "Failed", "Snoozed", "Cancelled", "Fenced", "CommitUnknown", "NotBegun"}
	if int(o) >= len(names) {
		return fmt.Sprintf("Outcome(%d)", uint8(o))
	}
	return names[o]
}

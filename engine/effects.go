package engine

import (
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
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

// Stop begins the shutdown: no new claims; running handlers may finish until
// Deadline passes, then their contexts are cancelled.
type Stop struct {
	Grace time.Duration
}

func (Start) input()        {}
func (Tick) input()         {}
func (Wake) input()         {}
func (CallReturned) input() {}
func (RunReturned) input()  {}
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

// Run asks for one run of a handler through [Machine.Execute].
type Run struct {
	ID       RunID
	Picked   Picked
	Handler  string
	Settings RunSettings
}

// RunSettings is what execute needs to know beside the delivery.
type RunSettings struct {
	TTL time.Duration
}

// CancelRun asks to cancel the context of a run with a cause.
type CancelRun struct {
	ID    RunID
	Cause error
}

// WakeAt asks for a Tick not later than After from now. Each WakeAt replaces
// the one before; there is at most one per Step.
type WakeAt struct {
	After time.Duration
}

// Stopped says that the Dispatcher is done: nothing is outstanding that it
// waits for. It is the last effect.
type Stopped struct{}

// Observed reports a fact worth a log line or a metric.
type Observed struct {
	Event   string // e.g. "lease lost", "store away", "buried"
	Lane    LaneID
	Lease   Lease
	Handler string
	Err     error
}

func (Call) effect()      {}
func (Run) effect()       {}
func (CancelRun) effect() {}
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
)

// RunResult is what execute returns.
type RunResult struct {
	Outcome Outcome
	Err     error
	Delay   time.Duration
	Panic   bool
}

// Perishable facts of a delivery that a handler may ask for.
type facts struct {
	delivery protocol.Delivery
	attempt  int
	limit    int
}

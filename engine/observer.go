package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Observer is told what a bus does, one [Observation] at a time, to count and
// to measure. The bus never waits for it: what a worker does is handed over by
// a queue to one goroutine of the bus, and when the queue of 4,096 is full
// observations are dropped and counted. Only [ObservedPublished] is told by
// the goroutine that published, so Observe may be called by several at once.
// A panic in it is logged and ends nothing.
type Observer interface {
	Observe(o Observation)
}

// What an [Observation] can be about, beside what an [Observed] effect can.
const (
	// ObservedPublished: a call of Publish, PublishAll or PublishNow returned,
	// with Count messages, Duration and Err. Only PublishNow has committed.
	ObservedPublished = "published"
	// ObservedCall: a store call returned, named by Call, with Duration and
	// Err. An Err that wraps [ErrRetryable] is everyday life.
	ObservedCall = "store call"
	// ObservedClaimed: a claim granted Count deliveries.
	ObservedClaimed = "claimed"
	// ObservedStarted: a handler was called.
	ObservedStarted = "started"
	// ObservedReturned: a handler returned, with Outcome, Duration and Err. Its
	// end is told by another observation once the store has it.
	ObservedReturned = "returned"
	// ObservedDropped: the observer was too slow for Count observations.
	ObservedDropped = "observations dropped"
)

// Observation is one fact about a bus. Kind says which; the other fields are
// set where they mean something and zero elsewhere.
//
//	Kind                                   is told when                          with
//	ObservedPublished, ObservedCall,       see there
//	ObservedClaimed, ObservedDropped
//	ObservedStarted, ObservedReturned      a handler is called, returns          Handler, Event, Delivery, Lane, Attempt
//	ObservedCompleted                      a completion is stored                Handler, Delivery, Lane
//	ObservedRescheduled, ObservedBuried    a failed attempt is stored            Handler, Delivery, Lane
//	ObservedSnoozed, ObservedReleased      a delivery is given back uncharged    Handler, Delivery, Lane
//	ObservedLeaseLost                      what a run did is not accepted        Handler, Delivery, Lane
//	ObservedRetired                        a handler did not return in time      Handler, Delivery, Lane, Err
//	ObservedStuck                          the store refuses a delivery's end    Handler, Delivery, Lane, Err
//	ObservedLeaseExpired, ObservedLaneLost a lane is not this worker's any more  Lane
//	ObservedStoreAway, ObservedStoreBack   calls fail in a row, succeed again    Err
//	ObservedUnsubscribed                   a subscription stays removed          Handler
type Observation struct {
	Kind     string
	Handler  string
	Event    string // the event's id
	Type     string // the event's type
	Delivery DeliveryID
	Lane     LaneID
	// Attempt counts the attempts charged before this run, plus one.
	Attempt int
	// Outcome is how the handler's run ended.
	Outcome Outcome
	// Call is the name of the store's method.
	Call string
	// Count is a number of messages, deliveries or observations.
	Count int
	// Duration is how long a handler or a call took, by the worker's
	// monotonic clock.
	Duration time.Duration
	Err      error
}

const observerQueue = 4096

// watcher hands observations to an Observer. A nil one takes and drops them.
type watcher struct {
	observer Observer
	log      *slog.Logger
	queue    chan Observation
	dropped  atomic.Int64
}

func newWatcher(o Observer, log *slog.Logger) *watcher {
	if o == nil {
		return nil
	}
	return &watcher{observer: o, log: log, queue: make(chan Observation, observerQueue)}
}

// tell never blocks.
func (w *watcher) tell(o Observation) {
	select {
	case w.queue <- o:
	default:
		w.dropped.Add(1)
	}
}

// serve hands over until ended is closed, and then what is left.
func (w *watcher) serve(ended <-chan struct{}) {
	for {
		select {
		case o := <-w.queue:
			w.hand(o)
			continue
		case <-ended:
		}
		break
	}
	for len(w.queue) > 0 {
		w.hand(<-w.queue)
	}
}

func (w *watcher) hand(o Observation) {
	if n := w.dropped.Swap(0); n > 0 {
		tellSafely(w.observer, w.log, Observation{Kind: ObservedDropped, Count: int(n)})
	}
	tellSafely(w.observer, w.log, o)
}

func tellSafely(observer Observer, log *slog.Logger, o Observation) {
	defer func() {
		if value := recover(); value != nil {
			log.LogAttrs(context.Background(), slog.LevelError, "relaybus: the observer panicked",
				slog.String("observation", o.Kind), slog.String("panic", fmt.Sprint(value)))
		}
	}()
	observer.Observe(o)
}

// watchPublish tells the observer of a publication. Nothing is measured for
// nobody.
func (b *Bus[Tx]) watchPublish(count int, publish func() error) error {
	if b.cfg.Observer == nil {
		return publish()
	}
	elapsed := stopwatch()
	err := publish()
	tellSafely(b.cfg.Observer, b.cfg.Logger, Observation{Kind: ObservedPublished, Count: count, Duration: elapsed(), Err: err})
	return err
}

// watchCall tells of a store call that returned, and of what a claim granted.
func (w *watcher) watchCall(input any, returned CallReturned, took time.Duration) {
	w.tell(Observation{Kind: ObservedCall, Call: callName(input), Duration: took, Err: returned.Err})
	if claim, ok := returned.Reply.(*ClaimReply); ok && len(claim.Picks) > 0 {
		w.tell(Observation{Kind: ObservedClaimed, Count: len(claim.Picks)})
	}
}

// watchRun tells of a handler that starts or returned.
func (w *watcher) watchRun(run *Run, o Observation) {
	row := &run.Picked.Delivery
	o.Handler, o.Event, o.Delivery = run.Handler, row.Event, run.Picked.Lease.Delivery
	o.Lane, o.Attempt = run.Picked.Lease.Lane, run.attempt()
	if run.Picked.Event != nil {
		o.Type = run.Picked.Event.Type
	}
	w.tell(o)
}

func (w *watcher) watchEffect(o Observed) {
	w.tell(Observation{Kind: o.Event, Handler: o.Handler, Delivery: o.Lease.Delivery, Lane: o.Lane, Err: o.Err})
}

func callName(input any) string {
	switch input.(type) {
	case SubscribeInput:
		return "Subscribe"
	case ClaimInput:
		return "Claim"
	case ExtendLeaseInput:
		return "ExtendLease"
	case CompleteManyInput:
		return "CompleteMany"
	case RescheduleInput:
		return "Reschedule"
	case SnoozeInput:
		return "Snooze"
	case BuryInput:
		return "Bury"
	case ReleaseInput:
		return "Release"
	case RelinquishInput:
		return "Relinquish"
	}
	return fmt.Sprintf("%T", input)
}

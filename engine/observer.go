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
	// Err. An Err that wraps [ErrRetryable] is everyday life, unless it wraps
	// [ErrNotSent]: then the process has too few connections, or no server.
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
//	ObservedStarted                        a handler is called                   delivery
//	ObservedReturned                       a handler returned                    delivery, Outcome, Duration, Err
//	ObservedCompleted                      a completion is stored                delivery
//	ObservedRescheduled, ObservedBuried    a failed attempt is stored            delivery, Err
//	ObservedSnoozed, ObservedReleased      a delivery is given back uncharged    delivery
//	ObservedLeaseLost                      what a run did is not accepted        delivery
//	ObservedRetired                        a handler did not return in time      delivery, Err
//	ObservedStuck                          the store refuses a delivery's end    delivery, Err
//	ObservedLeaseExpired, ObservedLaneLost a lane is not this worker's any more  Lane
//	ObservedStoreAway                      calls fail in a row                   Err
//	ObservedStoreBack                      they succeed again
//	ObservedNotBegun                       a transaction did not begin: the      delivery, Err
//	                                       first of those that wait for it
//	ObservedUnsubscribed                   a subscription stays removed          Handler
//	ObservedPurgeFailed                    the first purge of a row failed       Err
//
// "delivery" stands for Handler, Event, Type, Key, Headers, PublishedAt,
// Delivery, Lane, Attempt and MaxAttempts. What became of it is told after its
// handler returned, once the store has answered; a lease that is lost and a
// handler that does not return are told when they are noticed. A delivery that
// was granted and not started may be released, buried or lost as well.
type Observation struct {
	Kind string
	// At is when it happened, by the worker's clock. Observe may be called
	// later. A span of a run or call reaches from At − Duration to At.
	At      time.Time
	Handler string // the handler's name; "" when this worker lacks it
	Event   string // the event's id
	Type    string // the event's type
	Key     string // the event's key, "" when it has none
	// Headers are the event's, for the trace that a run belongs to. They are
	// shared and must not be changed.
	Headers []Header
	// PublishedAt is when the event was published, by the store's clock, which
	// may differ from the worker's.
	PublishedAt time.Time
	Delivery    DeliveryID
	Lane        LaneID
	// Attempt counts the attempts charged before this run, plus one;
	// MaxAttempts is the handler's limit.
	Attempt, MaxAttempts int
	// Outcome is how the handler's run ended.
	Outcome Outcome
	// Call is the name of the store's method.
	Call string
	// Count is a number of messages, deliveries or observations.
	Count int
	// Duration is how long a handler or a call took, by the worker's
	// monotonic clock.
	Duration time.Duration
	// Err is why a run, a call or a publication failed; of [ObservedRetired]
	// why the handler had been cancelled. It wraps what a handler returned.
	Err error
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
		tellSafely(w.observer, w.log, Observation{Kind: ObservedDropped, At: o.At, Count: int(n)})
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
	began := wallClock()
	err := publish()
	now := wallClock()
	tellSafely(b.cfg.Observer, b.cfg.Logger, Observation{Kind: ObservedPublished, At: now, Count: count, Duration: now.Sub(began), Err: err})
	return err
}

// watchCall tells of a store call that returned, and of what a claim granted.
func (w *watcher) watchCall(input any, returned CallReturned, at time.Time, took time.Duration) {
	w.tell(Observation{Kind: ObservedCall, At: at, Call: callName(input), Duration: took, Err: returned.Err})
	if claim, ok := returned.Reply.(*ClaimReply); ok && len(claim.Picks) > 0 {
		w.tell(Observation{Kind: ObservedClaimed, At: at, Count: len(claim.Picks)})
	}
}

// watchRun tells of a handler that starts or returned.
func (w *watcher) watchRun(run *Run, o Observation) {
	o.Handler = run.Handler
	o.describe(run)
	w.tell(o)
}

func (w *watcher) watchEffect(at time.Time, e Observed) {
	o := Observation{Kind: e.Event, At: at, Handler: e.Handler, Lane: e.Lane, Err: e.Err}
	if e.Run != nil {
		o.describe(e.Run)
	}
	w.tell(o)
}

// describe fills in all that is known of a delivery but its handler.
func (o *Observation) describe(run *Run) {
	row := &run.Picked.Delivery
	o.Event, o.Key, o.Delivery, o.Lane = row.Event, row.Key, run.Picked.Lease.Delivery, run.Picked.Lease.Lane
	o.Attempt, o.MaxAttempts = run.attempt(), run.MaxAttempts
	if event := run.Picked.Event; event != nil { // else the row is damaged
		o.Type, o.Headers, o.PublishedAt = event.Type, event.Headers, event.PublishedAt.Std()
	}
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

package engine

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Dispatcher decides everything a worker does: when to claim and renew, which
// handler to start, how each run is ended, when to stop. It performs no I/O
// and reads no clock: [Dispatcher.Step] takes what happened and returns what
// to do. Randomness comes from the source given at construction.
//
// It decides by level, not by edge: every Step first records its input and
// then looks at the whole state for what can be done. A lost or late input
// therefore delays work and never loses it.
//
// It owns every cap: one Claim or Relinquish, one ExtendLease, two
// CompleteMany on disjoint chains, one ending call per lease, a few others.
type Dispatcher struct {
	cfg   dispatcherConfig
	phase phase
	group int32

	number  int64 // last claim number used
	calls   []*call
	lastID  CallID
	lastRun RunID

	storeTime   protocol.Time // the last reply's Now …
	storeTimeAt Instant       // … and when it was received
	// clockDoubted: a call came too late; Subscribe will tell the time.
	clockDoubted bool

	lanes    []*heldLane // sorted by lane
	avoid    []avoidedLane
	chains   []*chain // in the order they were granted
	emptied  bool     // some of them have no member left
	runs     map[RunID]*job
	jobs     int            // granted and not settled …
	states   [jobStates]int // … by state
	active   int            // chains that take a slot
	suspects int            // jobs that were in flight when a worker died
	limits   alarm          // when to look at the runs' time limits
	unknown  []unknownCommits

	claim  claimPlan
	extend retryState
	renew  retryState // of Subscribe
	// refused is the store's definite answer to the first Subscribe: a schema
	// of another release, say, or a handler of another group.
	refused error
	// retention is when to purge next.
	retention    retryState
	flush        flushPlan
	due          dueTimes
	away         int        // store calls that failed in a row
	leasesFailed bool       // the last call about leases, and not about ends, failed
	probe        retryState // of ending calls while the store is away

	stopAt Instant
	stop   Stop

	lastText string // of a planted bug: the failure before

	effects []Effect
	wake    wakeTimer
}

type phase uint8

const (
	phaseNew phase = iota
	phaseStarting
	phaseRunning
	phaseStopping
	phaseStopped
)

// call is one outstanding store call.
type call struct {
	id    CallID
	input any
	sent  Instant
	heard protocol.Time // the last word of the store's clock before it was sent
	jobs  []*job        // whose ends the call carries
}

// retryState is when something that failed may be tried again.
type retryState struct {
	tries int
	next  Instant
	armed bool // next is meaningful
}

func (r *retryState) due(at Instant) bool { return !r.armed || at.reached(r.next) }

// wakeTimer collects the earliest time at which Step has something to do.
type wakeTimer struct {
	after time.Duration
	set   bool
}

func (w *wakeTimer) at(now, then Instant) { w.in(then.Mono - now.Mono) }

func (w *wakeTimer) in(d time.Duration) {
	if d = max(d, 0); !w.set || d < w.after {
		w.after, w.set = d, true
	}
}

// reached reports whether t is not before u on the monotonic clock. Deadlines
// use it; self-fencing uses since, which also listens to the wall clock.
func (t Instant) reached(u Instant) bool { return t.Mono >= u.Mono }

// alarm is the earliest of several deadlines.
type alarm struct {
	at    Instant
	armed bool
}

func (a *alarm) within(now Instant, d time.Duration) {
	if at := now.plus(d); !a.armed || at.Mono < a.at.Mono {
		a.at, a.armed = at, true
	}
}

func (a *alarm) reached(now Instant) bool { return a.armed && now.reached(a.at) }

func (a *alarm) wake(now Instant, w *wakeTimer) {
	if a.armed {
		w.at(now, a.at)
	}
}

func (t Instant) plus(d time.Duration) Instant {
	return Instant{Wall: t.Wall + int64(d), Mono: t.Mono + d}
}

func newDispatcher(cfg dispatcherConfig) *Dispatcher {
	cfg.Handlers = slices.Clone(cfg.Handlers) // their counts are this instance's
	return &Dispatcher{cfg: cfg, runs: map[RunID]*job{}}
}

// Step records what happened up to at, in order, and returns what to do now.
// Many inputs may share a Step: deciding once for all of them is cheaper and
// makes fuller batches. The returned slice is valid until the next Step.
func (d *Dispatcher) Step(at Instant, inputs ...Input) []Effect {
	clear(d.effects) // they must not keep runs and their payloads alive
	d.effects = d.effects[:0]
	d.wake = wakeTimer{}
	for _, in := range inputs {
		d.record(at, in)
	}
	d.sweep()
	d.decide(at)
	d.sweep()
	if d.wake.set && d.phase != phaseStopped {
		d.emit(WakeAt{After: d.wake.after})
	}
	return d.effects
}

// sweep drops chains of which nothing is left. Only here, so that loops over
// the chains may settle members.
func (d *Dispatcher) sweep() {
	if !d.emptied {
		return
	}
	d.emptied = false
	d.chains = slices.DeleteFunc(d.chains, func(c *chain) bool { return len(c.members) == 0 })
}

func (d *Dispatcher) emit(e Effect) { d.effects = append(d.effects, e) }

func (d *Dispatcher) record(at Instant, in Input) {
	switch in := in.(type) {
	case Start:
		if d.phase == phaseNew {
			d.phase = phaseStarting
		}
	case Wake:
		d.claim.woken = true
	case Stop:
		d.beginStop(at, in)
	case CallReturned:
		d.callReturned(at, in)
	case RunReturned:
		d.runReturned(at, in)
	case RunRetired:
		d.runRetired(at, in)
	case Tick:
	}
}

// decide looks at the state from the most urgent matter to the least. The
// order matters once: fencing comes before anything that would start or renew.
func (d *Dispatcher) decide(at Instant) {
	if d.phase == phaseNew || d.phase == phaseStopped {
		return
	}
	d.subscribe(at)
	d.fenceExpired(at)
	d.limitRuns(at)
	d.drainForStop(at)
	d.releaseDraining()
	d.startRuns(at)
	d.endRuns(at)
	d.extendLeases(at)
	d.wakeForDue(at)
	d.purge(at)
	d.claimOrRelinquish(at)
	d.finishStop(at)
}

// send emits a store call and remembers it.
func (d *Dispatcher) send(at Instant, input any, jobs []*job) *call {
	d.lastID++
	c := &call{id: d.lastID, input: input, sent: at, heard: d.storeTime, jobs: jobs}
	d.calls = append(d.calls, c)
	for _, j := range jobs {
		j.call = c.id
	}
	d.emit(Call{ID: c.id, Input: input, Timeout: d.cfg.CallTimeout})
	return c
}

func (d *Dispatcher) takeCall(id CallID) *call {
	i := slices.IndexFunc(d.calls, func(c *call) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	c := d.calls[i]
	d.calls = slices.Delete(d.calls, i, i+1)
	for _, j := range c.jobs {
		j.call = 0
	}
	return c
}

// outstanding counts the calls whose input has the type of the argument.
func outstanding[T any](d *Dispatcher) int {
	n := 0
	for _, c := range d.calls {
		if _, ok := c.input.(T); ok {
			n++
		}
	}
	return n
}

func (d *Dispatcher) callReturned(at Instant, in CallReturned) {
	c := d.takeCall(in.ID)
	if c == nil {
		return
	}
	if _, purge := c.input.(PurgeInput); purge { // may be cut off by its sheer length
		d.purgeReturned(at, in)
		return
	}
	if _, claim := c.input.(ClaimInput); claim && isUnsent(in.Err) && mutant.On("unsent-claim-doubted") {
		d.claim.doubt = math.MaxInt64
	}
	d.noteStore(len(c.jobs) > 0, in.Err)
	d.noteClock(in.Err)
	switch input := c.input.(type) {
	case SubscribeInput:
		d.subscribeReturned(at, in)
	case ClaimInput:
		d.claimReturned(at, c, input, in)
	case RelinquishInput:
		d.relinquishReturned(at, c, input, in)
	case ExtendLeaseInput:
		d.extendReturned(at, c, input, in)
	case CompleteManyInput:
		d.completionsReturned(at, c, in)
	case ReleaseInput:
		d.releaseReturned(at, c, in)
	default:
		d.endReturned(at, c, in)
	}
}

// noteClock asks for the store's clock anew when a call came too late for a
// not-after that rests on our idea of it: without that a clock set forward
// would shut a worker out until the next refresh of its subscriptions.
func (d *Dispatcher) noteClock(err error) {
	if errors.Is(err, ErrTooLate) && !mutant.On("clock-not-asked-anew") {
		probeClockDoubted.Hit()
		d.renew, d.clockDoubted = retryState{}, true
	}
}

// noteStore reports once when the store goes away and once when it is back. It
// is not back for ends when claims, which worked all the time, go on working: a
// right is missing, say.
func (d *Dispatcher) noteStore(ending bool, err error) {
	if err == nil {
		if !ending && !d.leasesFailed && d.storeAway() && d.endsWait() {
			probeInPart.Hit()
			return
		}
		if d.storeAway() {
			probeBack.Hit()
			d.emit(Observed{Event: ObservedStoreBack})
		}
		d.away, d.probe, d.leasesFailed = 0, retryState{}, false
		return
	}
	if isRetryable(err) && !isUnsent(err) || IsDefinite(err) {
		return // the store answered
	}
	d.leasesFailed = d.leasesFailed || !ending
	if d.away++; d.away == awayAfter {
		probeAway.Hit()
		d.emit(Observed{Event: ObservedStoreAway, Err: err})
		d.joinBackOff()
	}
}

// awayAfter is how many calls must fail in a row before the store counts as
// away: one lost reply is everyday life.
const awayAfter = 3

func (d *Dispatcher) storeAway() bool { return d.away >= awayAfter }

// endsWait reports whether an end is under way or is still to be sent.
func (d *Dispatcher) endsWait() bool {
	return d.states[jobEnding]+d.states[jobReleasing]+d.states[jobSucceeded] > 0
}

// heard records the store's clock from a reply.
func (d *Dispatcher) heard(at Instant, now protocol.Time) {
	if mutant.On("worker-clock-decides-expiry") {
		now = protocol.Time(at.Wall)
	}
	d.storeTime, d.storeTimeAt = now, at
}

// notAfter is the store time after which a call sent now must change nothing:
// the time of the last reply, what passed since, and the call's own timeout.
func (d *Dispatcher) notAfter(at Instant) protocol.Time {
	return d.storeTime.Add(at.Mono - d.storeTimeAt.Mono).Add(d.cfg.CallTimeout)
}

// backoff returns the pause after the n-th failure in a row: from a twentieth
// of the lease, doubling, at most a quarter of it, the upper half jittered.
func (d *Dispatcher) backoff(tries int) time.Duration {
	base := d.cfg.Lease / 20
	for range min(tries-1, 8) {
		base *= 2
	}
	base = max(min(base, d.cfg.Lease/4), time.Millisecond)
	return base/2 + time.Duration(d.cfg.Jitter(int64(base/2)+1))
}

// jitter returns a random duration in [0, most).
func (d *Dispatcher) jitter(most time.Duration) time.Duration {
	return time.Duration(d.cfg.Jitter(int64(most)))
}

func (r *retryState) failed(d *Dispatcher, at Instant) {
	r.tries++
	r.next, r.armed = at.plus(d.backoff(r.tries)), true
}

func (r *retryState) after(at Instant, pause time.Duration) {
	r.tries, r.next, r.armed = 0, at.plus(pause), true
}

func (d *Dispatcher) handler(name string) *dispatchHandler {
	i, ok := slices.BinarySearchFunc(d.cfg.Handlers, name, func(h dispatchHandler, name string) int {
		return cmp.Compare(h.Name, name)
	})
	if !ok {
		return nil
	}
	return &d.cfg.Handlers[i]
}

// subscribeEvery is how often a running bus refreshes its subscriptions.
const subscribeEvery = time.Minute

func (d *Dispatcher) subscribe(at Instant) {
	if d.phase == phaseStopping && !d.clockDoubted || outstanding[SubscribeInput](d) > 0 {
		return
	}
	if !d.renew.due(at) {
		d.wake.at(at, d.renew.next)
		return
	}
	d.send(at, SubscribeInput{Group: d.cfg.Group, Handlers: d.cfg.Subscriptions, Revive: d.cfg.Revive}, nil)
}

func (d *Dispatcher) subscribeReturned(at Instant, in CallReturned) {
	if d.phase == phaseStarting && IsDefinite(in.Err) {
		d.refused = in.Err
		d.stopped()
		return
	}
	if in.Err != nil {
		d.renew.failed(d, at)
		return
	}
	reply := in.Reply.(*SubscribeReply)
	d.heard(at, reply.Now)
	d.group, d.clockDoubted = reply.Group, false
	d.renew.after(at, subscribeEvery)
	if d.phase != phaseStarting {
		return
	}
	d.phase = phaseRunning
	for _, r := range reply.Removed {
		d.emit(Observed{Event: ObservedUnsubscribed, Handler: r.Handler})
	}
}

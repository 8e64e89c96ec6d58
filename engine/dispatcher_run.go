package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// chain is what one claim granted of one key and handler: a head and its
// followers, which take one slot and run one after another. A delivery that
// came alone is a chain of one.
type chain struct {
	lane    LaneEpoch
	handler *dispatchHandler
	members []*job // in sequence; settled ones are removed
	busy    int    // members that take a slot
	cut     bool   // the claim's limit was reached: its key may have more
	passed  bool   // a claim was sent while it ran, which left alone what else there is of its key
}

// job is one granted delivery on its way to its end.
type job struct {
	chain   *chain   // nil once it is settled
	granted Run      // what its run is given; that may read it until it returns
	lease   *Lease   // granted's
	state   jobState // changed by Dispatcher.set alone

	run       RunID // of the run outstanding, 0: none
	started   Instant
	cancelled bool       // this worker cancelled the run: whatever it reports is not charged
	timedOut  bool       // the run was cancelled because of its timeout
	retiring  bool       // a Retire is outstanding
	orphaned  bool       // a member before it ended badly: given back whatever its run reports
	cut       error      // why it was cancelled
	begin     retryState // of a transaction that did not begin

	end      end
	call     CallID // the outstanding call that carries its end, 0: none
	retry    retryState
	asked    bool    // its end was sent at least once
	unsure   bool    // a try of its end has an unknown outcome …
	unsureAt Instant // … since then
}

type jobState uint8

const (
	// jobWaiting: granted, not started.
	jobWaiting jobState = iota
	// jobRunning: the handler runs.
	jobRunning
	// jobSucceeded: a plain handler returned nil; CompleteMany is to come.
	jobSucceeded
	// jobEnding: an end other than CompleteMany was decided (job.end).
	jobEnding
	// jobRest: a later member of a chain that the end before it releases.
	jobRest
	// jobReleasing: to be given back by Release.
	jobReleasing
	// jobZombie: the store no longer lists it, but its run has not returned;
	// stated as running until then, so that it is not started twice here.
	jobZombie

	jobStates = iota // how many there are
)

// end is how a run is to be ended, when not by CompleteMany or Release.
type end struct {
	kind   endKind
	delay  time.Duration
	err    string
	cause  error // what err is the text of, for observers
	charge bool
	settle bool // the outcome of a COMMIT is unknown
}

type endKind uint8

const (
	endReschedule endKind = iota + 1
	endSnooze
	endBury
)

// active reports whether the chain takes a slot: something of it runs or is
// about to.
func (c *chain) active() bool { return c.busy > 0 }

// set moves a job to another state. The counts that follow it let decide skip
// what there is none of, however many chains there are.
func (d *Dispatcher) set(j *job, s jobState) {
	d.count(j, -1)
	j.state = s
	d.count(j, +1)
}

// takesSlot reports whether the job runs or is about to. A handler whose lease was
// lost runs on until it returns or is retired: it takes connections and memory
// like any other.
func (j *job) takesSlot() bool {
	switch j.state {
	case jobWaiting, jobRunning:
		return true
	case jobZombie:
		return !mutant.On("lost-runs-take-no-slot")
	}
	return false
}

func (d *Dispatcher) count(j *job, n int) {
	d.jobs += n
	d.states[j.state] += n
	if j.granted.Picked.Delivery.Takeovers > 0 {
		d.suspects += n
	}
	if !j.takesSlot() {
		return
	}
	was := j.chain.active()
	j.chain.busy += n
	if j.chain.active() != was {
		d.active += n
		if j.chain.handler != nil {
			j.chain.handler.active += n
		}
	}
}

// unsettled reports whether an end was sent and its outcome is not known.
func (c *chain) unsettled() bool {
	return slices.ContainsFunc(c.members, func(j *job) bool { return j.asked || j.call != 0 })
}

// unknownFor is how long the oldest unknown end of the chain has been unknown.
func (c *chain) unknownFor(at Instant) time.Duration {
	longest := time.Duration(0)
	for _, j := range c.members {
		if j.unsure {
			longest = max(longest, at.Mono-j.unsureAt.Mono)
		}
	}
	return longest
}

// adoptPicks turns what a claim granted into chains.
func (d *Dispatcher) adoptPicks(at, sent Instant, picks []Picked, limit int) {
	first := len(d.chains)
	var c *chain
	for i := range picks {
		var j *job
		if c != nil && follows(c, &picks[i].Lease) {
			j = &job{}
		} else {
			c, j = d.newChain(&picks[i])
			d.chains = append(d.chains, c)
		}
		d.adopt(c, j, &picks[i])
	}
	late := at.since(sent) >= d.cfg.Lease
	if late && len(picks) > 0 {
		probeLateGrant.Hit()
	}
	for _, c := range d.chains[first:] {
		c.cut = len(picks) >= limit && c.members[0].granted.Picked.Delivery.Key != ""
		d.admit(at, c, late)
	}
}

func follows(c *chain, l *Lease) bool {
	before := c.members[len(c.members)-1]
	return l.After != 0 && l.After == before.lease.Delivery && l.Lane == before.lease.Lane
}

// newChain returns an empty chain and the job for its head. They are one piece
// of memory, with room for the one member that most chains have; but not one
// for a whole claim, which a single slow handler would keep with all payloads.
func (d *Dispatcher) newChain(head *Picked) (*chain, *job) {
	piece := &struct {
		chain   chain
		head    job
		members [1]*job
	}{}
	piece.chain = chain{
		lane:    LaneEpoch{Lane: head.Lease.Lane, Epoch: head.Lease.Epoch},
		handler: d.handler(head.Delivery.Handler),
		members: piece.members[:0],
	}
	return &piece.chain, &piece.head
}

// adopt adds a granted delivery to its chain.
func (d *Dispatcher) adopt(c *chain, j *job, p *Picked) {
	j.chain, j.lease = c, &j.granted.Picked.Lease
	j.granted = Run{Picked: *p, Handler: p.Delivery.Handler, TTL: d.cfg.Lease}
	if c.handler != nil {
		j.granted.MaxAttempts = c.handler.MaxAttempts
	}
	if mutant.On("follower-given-head-event") && len(c.members) > 0 {
		j.granted.Picked.Event = c.members[0].granted.Picked.Event
	}
	c.members = append(c.members, j)
	d.count(j, +1)
}

// admit decides what becomes of a chain that was just granted: run it, bury a
// head that may not run again, or give it back.
func (d *Dispatcher) admit(at Instant, c *chain, late bool) {
	head := c.members[0]
	switch {
	case late || d.phase != phaseRunning || c.handler == nil:
		d.abandonChain(at, c, ErrLeaseLost)
	case head.granted.Picked.Event == nil:
		d.finish(at, c, head, end{kind: endBury, err: "the event of this delivery is missing from the store"})
	case int(head.granted.Picked.Delivery.Attempts) >= c.handler.MaxAttempts && !mutant.On("limit-ignored"):
		probeNoAttempts.Hit()
		d.finish(at, c, head, end{kind: endBury, err: buriedText(&head.granted.Picked.Delivery)})
	}
}

// buriedText keeps the reason of the last failure; a delivery that only ever
// lost its worker has none.
func buriedText(row *Delivery) string {
	if row.LastError != "" {
		return row.LastError
	}
	return "no attempt left: every attempt ended with the loss of its worker"
}

// startRuns starts the first member of each chain that nothing holds back. A
// plain handler's next may start before the completion of the one before is
// acknowledged; a transactional one's may not, its snapshot would miss it.
func (d *Dispatcher) startRuns(at Instant) {
	if d.phase != phaseRunning || d.states[jobWaiting] == 0 {
		return
	}
	for _, c := range d.chains {
		if j := d.next(at, c); j != nil {
			d.start(at, c, j)
		}
	}
}

// next returns the member of a chain to start now, or nil.
func (d *Dispatcher) next(at Instant, c *chain) *job {
	if !c.active() {
		return nil
	}
	for i, j := range c.members {
		switch j.state {
		case jobWaiting:
			if i > 0 && c.handler.Transactional {
				return nil
			}
			if !j.begin.due(at) {
				d.wake.at(at, j.begin.next)
				return nil
			}
			if i > 0 {
				probeEarlyNext.Hit()
			}
			return j
		case jobSucceeded:
		default:
			return nil
		}
	}
	return nil
}

func (d *Dispatcher) start(at Instant, c *chain, j *job) {
	if l := d.lane(j.lease.Lane); l == nil || l.Epoch != j.lease.Epoch || l.lapsed {
		d.abandonChain(at, c, ErrLeaseLost)
		return
	}
	d.lastRun++
	j.run, j.started = d.lastRun, at
	d.runs[j.run] = j
	d.set(j, jobRunning)
	j.granted.ID = j.run
	d.emit(&j.granted)
	d.limits.within(at, c.handler.Timeout)
}

// takeRun returns the job of a run that is over, or nil when it was retired.
func (d *Dispatcher) takeRun(id RunID) *job {
	j := d.runs[id]
	if j != nil {
		delete(d.runs, id)
		j.run = 0
	}
	return j
}

func (d *Dispatcher) runReturned(at Instant, in RunReturned) {
	j := d.takeRun(in.ID)
	if j == nil || j.chain == nil {
		return // it was retired: its end is already on its way
	}
	c := j.chain
	if in.Result.Outcome != NotBegun { // which says nothing of what its COMMIT does to the store
		d.noteCommit(j.lease.Delivery, in.Result.Outcome)
	}
	if j.state == jobZombie {
		probeZombie.Hit()
		d.remove(c, j)
		return
	}
	switch outcome := in.Result.Outcome; {
	case outcome == Succeeded && j.orphaned:
		probeBrokenChain.Hit()
		d.giveBack(at, c, j)
	case outcome == Succeeded:
		d.set(j, jobSucceeded)
		d.flush.note(at, d.cfg.Window)
	case outcome == Committed:
		d.observeEnd(ObservedCompleted, c, j, nil)
		d.remove(c, j)
	case outcome == Fenced:
		d.observeEnd(ObservedLeaseLost, c, j, nil)
		d.releaseAfter(at, c, j)
		d.remove(c, j)
	case outcome == CommitUnknown && mutant.On("settled-by-completing"):
		d.set(j, jobSucceeded)
	case outcome == CommitUnknown:
		d.finish(at, c, j, d.settlement(j))
	default:
		d.runFailed(at, c, j, in.Result)
	}
}

// runFailed ends a run that came to no effect. A run that this worker itself
// cancelled is given back: it is not charged.
func (d *Dispatcher) runFailed(at Instant, c *chain, j *job, result RunResult) {
	if j.cancelled && !mutant.On("cancelled-run-charged") {
		probeCancelled.Hit()
		d.giveBack(at, c, j)
		return
	}
	switch result.Outcome {
	case NotBegun:
		d.beginLater(at, c, j, result.Err)
	case Snoozed:
		d.finish(at, c, j, d.snoozed(c, j, result))
	case Cancelled:
		d.finish(at, c, j, end{kind: endBury, err: CleanText(errorText(result.Err)), cause: result.Err, charge: true})
	default:
		d.finish(at, c, j, d.failure(c, j, result))
	}
}

// beginLater keeps a delivery whose handler was not called, and starts it again
// after a pause. To give it back would take a connection, which is what is
// missing. Meanwhile it keeps its place in its key and its slot, so that a
// worker which cannot begin claims no more than it could run.
func (d *Dispatcher) beginLater(at Instant, c *chain, j *job, err error) {
	if !d.beginsLater() {
		d.emit(Observed{Event: ObservedNotBegun, Lane: j.lease.Lane, Run: &j.granted, Handler: c.handlerName(), Err: err})
	}
	j.timedOut, j.cut = false, nil
	j.begin.failed(d, at)
	d.set(j, jobWaiting)
}

// beginsLater reports whether a transaction is known that did not begin.
func (d *Dispatcher) beginsLater() bool {
	return slices.ContainsFunc(d.chains, func(c *chain) bool {
		return slices.ContainsFunc(c.members, func(j *job) bool { return j.begin.tries > 0 })
	})
}

// snoozed is the end of a run that its handler puts off.
func (d *Dispatcher) snoozed(c *chain, j *job, result RunResult) end {
	if mutant.On("snooze-charged") {
		return d.failure(c, j, result)
	}
	return end{kind: endSnooze, delay: result.Delay}
}

// failure is the end of a failed attempt: tried again after the policy's
// delay, or buried when it was the last.
func (d *Dispatcher) failure(c *chain, j *job, result RunResult) end {
	text := CleanText(errorText(result.Err))
	if mutant.On("error-of-another-delivery") {
		text, d.lastText = cmp.Or(d.lastText, text), text
	}
	attempt := int(j.granted.Picked.Delivery.Attempts) + 1
	if mutant.On("last-attempt-one-early") {
		attempt++
	}
	if attempt >= c.handler.MaxAttempts {
		return end{kind: endBury, err: text, cause: result.Err, charge: true}
	}
	delay := result.Delay
	if delay < 0 || mutant.On("retry-after-dropped") {
		delay = c.handler.Retry.Delay(attempt, d.cfg.Jitter)
	}
	switch {
	case mutant.On("backoff-never-due"):
		delay = 100 * 365 * 24 * time.Hour
	case mutant.On("backoff-doubled"):
		delay *= 2
	case mutant.On("backoff-halved"):
		delay /= 2
	}
	return end{kind: endReschedule, delay: delay, err: text, cause: result.Err}
}

func errorText(err error) string {
	if err == nil {
		return "failed without an error"
	}
	return err.Error()
}

// finish decides a member's end. What stands behind it in the chain is
// released by the same write.
func (d *Dispatcher) finish(at Instant, c *chain, j *job, e end) {
	j.end = e
	d.set(j, jobEnding)
	later := c.after(j)
	if mutant.On("chain-member-forgotten") && len(later) > 1 {
		later = later[:len(later)-1]
	}
	for _, l := range later {
		d.putAside(at, c, l, jobRest)
	}
}

// giveBack releases a member and what stands behind it.
func (d *Dispatcher) giveBack(at Instant, c *chain, j *job) {
	d.putAside(at, c, j, jobReleasing)
	d.releaseAfter(at, c, j)
}

func (d *Dispatcher) releaseAfter(at Instant, c *chain, j *job) {
	for _, later := range c.after(j) {
		d.putAside(at, c, later, jobReleasing)
	}
}

// putAside moves a member whose run will not count to state. A run still on
// its way is cut off first and then remembered as a zombie.
func (d *Dispatcher) putAside(at Instant, c *chain, j *job, state jobState) {
	switch {
	case j.run != 0:
		d.cancel(at, j, ErrLeaseLost)
		if state == jobRest || state == jobZombie {
			d.set(j, jobZombie)
		}
		j.orphaned = true
	case state == jobZombie:
		d.remove(c, j)
	case j.state == jobEnding || j.call != 0 || j.asked:
		// Its own end decides.
	default:
		d.set(j, state)
	}
}

// after returns the members behind j, copied because callers remove members.
func (c *chain) after(j *job) []*job {
	i := slices.Index(c.members, j)
	return slices.Clone(c.members[i+1:])
}

// abandonChain stops a chain because this worker must not go on with it: what
// runs is cancelled, what waits is released, ends already decided go on.
func (d *Dispatcher) abandonChain(at Instant, c *chain, cause error) {
	for _, j := range slices.Clone(c.members) {
		switch j.state {
		case jobRunning:
			d.cancel(at, j, cause)
		case jobWaiting:
			d.set(j, jobReleasing)
		}
	}
}

// releaseDraining gives back the followers of draining lanes that were not
// started, and heads whose transactions do not begin; what runs may finish.
func (d *Dispatcher) releaseDraining() {
	if d.states[jobWaiting] == 0 || !slices.ContainsFunc(d.lanes, func(l *heldLane) bool { return l.draining }) {
		return
	}
	for _, c := range d.chains {
		if l := d.lane(c.lane.Lane); l == nil || !l.draining || l.Epoch != c.lane.Epoch {
			continue
		}
		for i, j := range c.members {
			if j.state == jobWaiting && (i > 0 || j.begin.tries > 0) {
				probeDrained.Hit()
				d.set(j, jobReleasing)
			}
		}
	}
}

func (d *Dispatcher) cancel(at Instant, j *job, cause error) {
	if j.cancelled || j.run == 0 {
		return
	}
	switch {
	case mutant.On("lost-run-not-cancelled"):
		return
	case mutant.On("lost-run-told-of-shutdown"):
		cause = ErrShutdown
	}
	j.cancelled, j.cut = true, cause
	if !j.timedOut {
		j.started = at // the grace counts from here
	}
	d.limits.within(at, 0)
	d.emit(CancelRun{ID: j.run, Cause: cause})
}

// leaseLost handles a running delivery that its lane no longer lists. An end
// that was sent gets its own verdict and is left alone.
func (d *Dispatcher) leaseLost(at Instant, r Running) {
	for _, c := range d.chains {
		i := slices.IndexFunc(c.members, func(j *job) bool { return j.lease.Entry() == r.InFlight && j.lease.Lane == r.Lane })
		if mutant.On("lost-lease-ignored") {
			i = -1
		}
		if i >= 0 && !c.members[i].asked && c.members[i].call == 0 {
			d.loseFrom(at, c, i)
			return
		}
	}
}

// loseFrom drops member i of a chain and what stands behind it.
func (d *Dispatcher) loseFrom(at Instant, c *chain, i int) {
	lost := slices.Clone(c.members[i:])
	for _, j := range lost {
		if j.asked || j.call != 0 || j.state == jobZombie {
			continue
		}
		d.observeEnd(ObservedLeaseLost, c, j, nil)
		d.putAside(at, c, j, jobZombie)
		if j.state == jobEnding {
			d.remove(c, j)
		}
	}
}

// limitRuns cancels runs past their timeout and retires those that did not
// return within the grace after it. It looks again when the next one is due.
func (d *Dispatcher) limitRuns(at Instant) {
	if !d.limits.reached(at) {
		d.limits.wake(at, &d.wake)
		return
	}
	d.limits = alarm{}
	for _, c := range d.chains {
		for _, j := range c.members {
			if j.run != 0 && !j.retiring {
				d.limitRun(at, c.handler, j)
			}
		}
	}
	d.limits.wake(at, &d.wake)
}

func (d *Dispatcher) limitRun(at Instant, h *dispatchHandler, j *job) {
	limit := h.Timeout
	if mutant.On("timeout-doubled") {
		limit *= 2
	}
	if j.cancelled || j.timedOut {
		limit = d.graceOf(h, j)
	}
	if left := limit - (at.Mono - j.started.Mono); left > 0 {
		d.limits.within(at, left)
		return
	}
	if !j.cancelled && !j.timedOut {
		j.timedOut, j.cut, j.started = true, ErrHandlerTimeout, at
		d.emit(CancelRun{ID: j.run, Cause: ErrHandlerTimeout})
		d.limits.within(at, h.Grace)
		return
	}
	j.retiring = true
	d.emit(Retire{ID: j.run})
}

// graceOf is how long a cancelled run may take to return. When the bus stops,
// what the stop leaves is less than a handler may be used to.
func (d *Dispatcher) graceOf(h *dispatchHandler, j *job) time.Duration {
	if d.phase == phaseStopping && d.stop.Overtime > 0 {
		return min(h.Grace, d.stop.Overtime)
	}
	return h.Grace
}

// runRetired ends a run that did not return: it will send no end, so this
// worker does. One that is committing is waited for instead.
func (d *Dispatcher) runRetired(at Instant, in RunRetired) {
	if !in.Done {
		probeSpared.Hit()
		return
	}
	j := d.takeRun(in.ID)
	if j == nil || j.chain == nil {
		return
	}
	probeRetired.Hit()
	c := j.chain
	d.observeEnd(ObservedRetired, c, j, j.cut)
	switch {
	case j.state == jobZombie:
		d.remove(c, j)
	case j.cancelled:
		d.giveBack(at, c, j)
	default:
		d.finish(at, c, j, d.failure(c, j, RunResult{Err: ErrHandlerTimeout, Delay: -1}))
	}
}

// remove takes a settled member out of its chain; sweep drops empty chains.
func (d *Dispatcher) remove(c *chain, j *job) {
	if j.chain == nil {
		return
	}
	d.count(j, -1)
	j.chain = nil
	switch i := slices.Index(c.members, j); {
	case i < 0:
	case i == 0:
		c.members = c.members[1:]
	default:
		c.members = slices.Delete(slices.Clone(c.members), i, i+1)
	}
	if len(c.members) == 0 {
		d.emptied = true
		passed := c.passed && j.granted.Picked.Delivery.Key != "" && !mutant.On("held-key-wakes-nobody")
		d.claim.more = d.claim.more || c.cut || passed
	}
}

func (d *Dispatcher) observeEnd(event string, c *chain, j *job, err error) {
	d.emit(Observed{Event: event, Lane: j.lease.Lane, Run: &j.granted, Handler: c.handlerName(), Err: err})
}

func (c *chain) handlerName() string {
	if c.handler == nil {
		return ""
	}
	return c.handler.Name
}

package engine

import (
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
	members []*job // in sequence; settled ones are removed from the front
}

// job is one granted delivery on its way to its end.
type job struct {
	picked Picked
	lease  Lease
	state  jobState

	run       RunID // of the run outstanding, 0: none
	started   Instant
	cancelled bool  // this worker cancelled the run: whatever it reports is not charged
	timedOut  bool  // the run was cancelled because of its timeout
	retiring  bool  // a Retire is outstanding
	orphaned  bool  // a member before it ended badly: given back whatever its run reports
	cut       error // why it was cancelled

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
)

// end is how a run is to be ended, when not by CompleteMany or Release.
type end struct {
	kind   endKind
	delay  time.Duration
	err    string
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
func (c *chain) active() bool {
	return slices.ContainsFunc(c.members, func(j *job) bool {
		return j.state == jobRunning || j.state == jobWaiting
	})
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

// adoptPicks turns what a claim granted into chains and returns how many
// deliveries it granted.
func (d *Dispatcher) adoptPicks(at, sent Instant, picks []Picked) int {
	var last *chain
	for i := range picks {
		j := &job{picked: picks[i], lease: picks[i].Lease}
		if last != nil && follows(last, j) {
			last.members = append(last.members, j)
		} else {
			last = &chain{
				lane:    LaneEpoch{Lane: j.lease.Lane, Epoch: j.lease.Epoch},
				handler: d.handler(j.picked.Delivery.Handler),
				members: []*job{j},
			}
			d.chains = append(d.chains, last)
		}
	}
	late := at.since(sent) >= d.cfg.Lease
	for _, c := range d.chains[len(d.chains)-countChains(picks):] {
		d.admit(at, c, late)
	}
	return len(picks)
}

func follows(c *chain, j *job) bool {
	before := c.members[len(c.members)-1]
	return j.lease.After != 0 && j.lease.After == before.lease.Delivery && j.lease.Lane == before.lease.Lane
}

func countChains(picks []Picked) int {
	n := 0
	for i := range picks {
		follower := i > 0 && picks[i].Lease.After != 0 &&
			picks[i].Lease.After == picks[i-1].Lease.Delivery && picks[i].Lease.Lane == picks[i-1].Lease.Lane
		if !follower {
			n++
		}
	}
	return n
}

// admit decides what becomes of a chain that was just granted: run it, bury a
// head that may not run again, or give it back.
func (d *Dispatcher) admit(at Instant, c *chain, late bool) {
	head := c.members[0]
	switch {
	case late || d.phase != phaseRunning || c.handler == nil:
		d.abandonChain(at, c, ErrLeaseLost)
	case head.picked.Event == nil:
		d.finish(at, c, head, end{kind: endBury, err: "the event of this delivery is missing from the store"})
	case int(head.picked.Delivery.Attempts) >= c.handler.MaxAttempts && !mutant.On("limit-ignored"):
		d.finish(at, c, head, end{kind: endBury, err: buriedText(&head.picked.Delivery)})
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
	if d.phase != phaseRunning {
		return
	}
	for _, c := range d.chains {
		if j := c.next(); j != nil {
			d.start(at, c, j)
		}
	}
}

// next returns the member to start now, or nil.
func (c *chain) next() *job {
	for i, j := range c.members {
		switch j.state {
		case jobWaiting:
			if i > 0 && c.handler.Transactional {
				return nil
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
	j.run, j.state, j.started = d.lastRun, jobRunning, at
	d.emit(Run{
		ID: j.run, Picked: j.picked, Handler: c.handler.Name,
		MaxAttempts: c.handler.MaxAttempts, TTL: d.cfg.Lease, Gate: new(Gate),
	})
	d.wake.in(c.handler.Timeout)
}

func (d *Dispatcher) findRun(id RunID) (*chain, *job) {
	for _, c := range d.chains {
		for _, j := range c.members {
			if j.run == id {
				return c, j
			}
		}
	}
	return nil, nil
}

func (d *Dispatcher) runReturned(at Instant, in RunReturned) {
	c, j := d.findRun(in.ID)
	if j == nil {
		return // it was retired: its end is already on its way
	}
	j.run = 0
	d.noteCommit(j.lease.Delivery, in.Result.Outcome)
	if j.state == jobZombie {
		d.remove(c, j)
		return
	}
	switch outcome := in.Result.Outcome; {
	case outcome == Succeeded && j.orphaned:
		d.giveBack(at, c, j)
	case outcome == Succeeded:
		j.state = jobSucceeded
		d.flush.note(at, d.cfg.Window)
	case outcome == Committed:
		d.observeEnd(ObservedCompleted, c, j, nil)
		d.remove(c, j)
	case outcome == Fenced:
		d.observeEnd(ObservedLeaseLost, c, j, nil)
		d.releaseAfter(at, c, j)
		d.remove(c, j)
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
		d.giveBack(at, c, j)
		return
	}
	switch result.Outcome {
	case Snoozed:
		d.finish(at, c, j, end{kind: endSnooze, delay: result.Delay})
	case Cancelled:
		d.finish(at, c, j, end{kind: endBury, err: CleanText(errorText(result.Err)), charge: true})
	default:
		d.finish(at, c, j, d.failure(c, j, result))
	}
}

// failure is the end of a failed attempt: tried again after the policy's
// delay, or buried when it was the last.
func (d *Dispatcher) failure(c *chain, j *job, result RunResult) end {
	text := CleanText(errorText(result.Err))
	attempt := int(j.picked.Delivery.Attempts) + 1
	if attempt >= c.handler.MaxAttempts {
		return end{kind: endBury, err: text, charge: true}
	}
	delay := result.Delay
	if delay < 0 {
		delay = c.handler.Retry.Delay(attempt, d.cfg.Jitter)
	}
	if mutant.On("backoff-never-due") {
		delay = 100 * 365 * 24 * time.Hour
	}
	return end{kind: endReschedule, delay: delay, err: text}
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
	j.state, j.end = jobEnding, e
	for _, later := range c.after(j) {
		d.putAside(at, c, later, jobRest)
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
			j.state = jobZombie
		}
		j.orphaned = true
	case state == jobZombie:
		d.remove(c, j)
	case j.state == jobEnding || j.call != 0 || j.asked:
		// Its own end decides.
	default:
		j.state = state
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
			j.state = jobReleasing
		}
	}
}

// releaseDraining gives back the followers of draining lanes that were not
// started; what runs may finish.
func (d *Dispatcher) releaseDraining() {
	for _, c := range d.chains {
		if l := d.lane(c.lane.Lane); l == nil || !l.draining || l.Epoch != c.lane.Epoch {
			continue
		}
		for i, j := range c.members {
			if i > 0 && j.state == jobWaiting {
				j.state = jobReleasing
			}
		}
	}
}

func (d *Dispatcher) cancel(at Instant, j *job, cause error) {
	if j.cancelled || j.run == 0 {
		return
	}
	j.cancelled, j.cut = true, cause
	if !j.timedOut {
		j.started = at // the grace counts from here
	}
	d.emit(CancelRun{ID: j.run, Cause: cause})
}

// leaseLost handles a running delivery that its lane no longer lists. An end
// that was sent gets its own verdict and is left alone.
func (d *Dispatcher) leaseLost(at Instant, r Running) {
	for _, c := range d.chains {
		i := slices.IndexFunc(c.members, func(j *job) bool { return j.lease.Entry() == r.InFlight && j.lease.Lane == r.Lane })
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
// return within the grace after it.
func (d *Dispatcher) limitRuns(at Instant) {
	for _, c := range d.chains {
		for _, j := range c.members {
			if j.run != 0 && !j.retiring {
				d.limitRun(at, c.handler, j)
			}
		}
	}
}

func (d *Dispatcher) limitRun(at Instant, h *dispatchHandler, j *job) {
	elapsed := at.Mono - j.started.Mono
	limit := h.Timeout
	if j.cancelled || j.timedOut {
		limit = h.Grace
	}
	if left := limit - elapsed; left > 0 {
		d.wake.in(left)
		return
	}
	if !j.cancelled && !j.timedOut {
		j.timedOut, j.cut, j.started = true, ErrHandlerTimeout, at
		d.emit(CancelRun{ID: j.run, Cause: ErrHandlerTimeout})
		d.wake.in(h.Grace)
		return
	}
	j.retiring = true
	d.emit(Retire{ID: j.run})
}

// runRetired ends a run that did not return: it will send no end, so this
// worker does. One that is committing is waited for instead.
func (d *Dispatcher) runRetired(at Instant, in RunRetired) {
	c, j := d.findRun(in.ID)
	if j == nil || !in.Done {
		return
	}
	j.run = 0
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
	switch i := slices.Index(c.members, j); {
	case i < 0:
	case i == 0:
		c.members = c.members[1:]
	default:
		c.members = slices.Delete(slices.Clone(c.members), i, i+1)
	}
}

func (d *Dispatcher) observeEnd(event string, c *chain, j *job, err error) {
	d.emit(Observed{Event: event, Lane: j.lease.Lane, Lease: j.lease, Handler: c.handlerName(), Err: err})
}

func (c *chain) handlerName() string {
	if c.handler == nil {
		return ""
	}
	return c.handler.Name
}

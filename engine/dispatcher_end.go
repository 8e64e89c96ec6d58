package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/internal/probe"
)

// Caps on outstanding ending calls.
const (
	maxCompletionCalls = 2
	maxEndCalls        = 8
)

// An end was sent to a store that had stopped answering, alone, while the
// others waited for what it brings.
var probeOutage = probe.New("dispatcher: one end asked whether the store is back")

func isRetryable(err error) bool { return errors.Is(err, ErrRetryable) }

func isUnsent(err error) bool { return errors.Is(err, ErrNotSent) }

// flushPlan is the completion window: successes wait a moment so that one
// call carries many.
type flushPlan struct {
	due   Instant
	armed bool
}

func (f *flushPlan) note(at Instant, window time.Duration) {
	if !f.armed || mutant.On("window-re-armed") {
		f.due, f.armed = at.plus(window), true
	}
}

// endRuns sends what ends runs. While the store is away the ends share one
// back-off: a store that comes back must not meet all of them at once, each on
// a timer of its own.
func (d *Dispatcher) endRuns(at Instant) {
	if d.storeAway() {
		d.probeStore(at)
		return
	}
	d.sendEnds(at)
	d.sendCompletions(at)
}

// probeStore sends one ending call at a time. The first call that succeeds ends
// the outage, and the other ends follow; see noteStore.
func (d *Dispatcher) probeStore(at Instant) {
	if d.endCallsOutstanding()+outstanding[CompleteManyInput](d) > 0 {
		return
	}
	j := d.leastTried(at)
	if j == nil {
		return
	}
	if !d.probe.due(at) {
		d.wake.at(at, d.probe.next)
		return
	}
	probeOutage.Hit()
	switch j.state {
	case jobEnding:
		d.sendEnd(at, j.chain)
	case jobReleasing:
		d.sendReleases(at)
	default:
		d.completeSome(at)
	}
}

// leastTried returns the member whose end may be sent and was tried least:
// one that fails for a reason of its own must not be the only one tried.
func (d *Dispatcher) leastTried(at Instant) *job {
	var least *job
	for _, c := range d.chains {
		for i, j := range c.members {
			sendable := j.state == jobReleasing || i == 0 && (j.state == jobEnding || j.state == jobSucceeded)
			if !sendable || least != nil && least.retry.tries <= j.retry.tries {
				continue
			}
			if !j.retry.due(at) {
				d.wake.at(at, j.retry.next)
				continue
			}
			least = j
		}
	}
	return least
}

// joinBackOff gives up the timers of single ends, so that they follow as soon
// as the store is back.
func (d *Dispatcher) joinBackOff() {
	for _, c := range d.chains {
		for _, j := range c.members {
			j.retry.armed = false
		}
	}
}

// sendEnds sends the ends that nothing before them in their chain holds back,
// and releases.
func (d *Dispatcher) sendEnds(at Instant) {
	if d.states[jobEnding]+d.states[jobReleasing] == 0 {
		return
	}
	free := maxEndCalls - d.endCallsOutstanding()
	for _, c := range d.chains {
		if free <= 0 {
			return
		}
		if len(c.members) > 0 && d.sendEnd(at, c) {
			free--
		}
	}
	if free > 0 {
		d.sendReleases(at)
	}
}

func (d *Dispatcher) endCallsOutstanding() int {
	return outstanding[RescheduleInput](d) + outstanding[SnoozeInput](d) +
		outstanding[BuryInput](d) + outstanding[ReleaseInput](d)
}

// sendEnd sends the end of the chain's first member if it has one. A later
// member's end waits: its guard would refuse it while the one before is
// pending.
func (d *Dispatcher) sendEnd(at Instant, c *chain) bool {
	j := c.members[0]
	if j.state != jobEnding || j.call != 0 {
		return false
	}
	if !j.retry.due(at) {
		d.wake.at(at, j.retry.next)
		return false
	}
	j.asked = true
	d.send(at, d.endInput(c, j), []*job{j})
	return true
}

func (d *Dispatcher) endInput(c *chain, j *job) any {
	rest := restOf(c)
	switch j.end.kind {
	case endSnooze:
		return SnoozeInput{Lease: *j.lease, Rest: rest, Delay: j.end.delay, Settle: j.end.settle}
	case endBury:
		return BuryInput{Lease: *j.lease, Rest: rest, Error: j.end.err, Charge: j.end.charge}
	default:
		return RescheduleInput{Lease: *j.lease, Rest: rest, Delay: j.end.delay, Error: j.end.err, Settle: j.end.settle}
	}
}

// restOf names the later members that the first member's end releases: also
// those whose cancelled run has not returned yet.
func restOf(c *chain) []Lease {
	var rest []Lease
	if mutant.On("rest-not-named") {
		return nil
	}
	for _, j := range c.members[1:] {
		if j.state == jobRest || j.state == jobZombie {
			rest = append(rest, *j.lease)
		}
	}
	return rest
}

func (d *Dispatcher) endReturned(at Instant, c *call, in CallReturned) {
	j := c.jobs[0]
	ch := j.chain
	if ch == nil {
		return
	}
	if in.Err != nil {
		d.endFailed(at, ch, j, in.Err)
		return
	}
	reply := in.Reply.(*EndReply)
	d.heard(at, reply.Now)
	d.endKnown(at, ch, j, reply.Verdict)
}

// endKnown settles a member whose end has a verdict, and what stands behind
// it. LeaseLost says only that this run is over: an earlier try of the same
// end, or the COMMIT it settles, may have taken effect.
func (d *Dispatcher) endKnown(at Instant, c *chain, j *job, v Verdict) {
	d.observeEnd(endEvent(j.end, v), c, j, j.end.cause)
	noteSettled(j.end, v)
	if mutant.On("settle-lost-taken-for-commit") && j.end.settle && v == LeaseLost {
		d.remove(c, j)
		d.resume(c)
		return
	}
	for _, later := range c.after(j) {
		switch {
		case later.state == jobRest && v == Applied && !mutant.On("rest-kept-after-end"):
			d.observeEnd(ObservedReleased, c, later, nil)
			d.remove(c, later)
		case later.state == jobRest:
			d.set(later, jobReleasing)
		}
	}
	if v == Applied && j.end.kind != endBury {
		d.due.note(at.plus(j.end.delay), d.cfg.Poll)
	}
	d.remove(c, j)
}

func noteSettled(e end, v Verdict) {
	switch {
	case !e.settle:
	case v == Applied:
		probeSettledOpen.Hit()
	default:
		probeSettledOver.Hit()
	}
}

// resume lets the rest of a chain run on; only a planted bug calls it.
func (d *Dispatcher) resume(c *chain) {
	for _, later := range c.members {
		if later.state == jobRest {
			d.set(later, jobWaiting)
		}
	}
}

func endEvent(e end, v Verdict) string {
	if v == LeaseLost {
		return ObservedLeaseLost
	}
	switch e.kind {
	case endBury:
		return ObservedBuried
	case endSnooze:
		return ObservedSnoozed
	default:
		return ObservedRescheduled
	}
}

// endFailed decides how an end goes on whose call returned an error. Its kind
// never changes, except that after a definite error the failure itself is
// recorded; when that fails too the store has put the id among the stuck.
func (d *Dispatcher) endFailed(at Instant, c *chain, j *job, err error) {
	if IsDefinite(err) {
		j.asked = j.unsure
		if j.end.kind != endSnooze {
			probeStuck.Hit()
			d.observeEnd(ObservedStuck, c, j, err)
			d.endKnown(at, c, j, LeaseLost)
			return
		}
		j.retry = retryState{}
		d.finish(at, c, j, d.failure(c, j, RunResult{Err: err, Delay: -1}))
		return
	}
	d.endUnsure(at, j, err)
}

// endUnsure notes a failed try; only a retryable error says that it applied
// nothing. One that was not sent waits with the others while the store is away.
func (d *Dispatcher) endUnsure(at Instant, j *job, err error) {
	if isUnsent(err) && !mutant.On("unsent-end-unknown") {
		probeUnsent.Hit()
		d.backOff(at, j)
		j.asked = j.unsure
		return
	}
	if isRetryable(err) && !isUnsent(err) {
		j.retry.failed(d, at)
		j.asked = j.unsure
		return
	}
	d.backOff(at, j)
	if !j.unsure {
		probeUnsure.Hit()
		j.unsure, j.unsureAt = true, at
	}
}

// backOff says when an end is tried again that the store did not answer: on its own
// timer, or with all others while the store is away. Calls that were under way
// when it went away count as one failure.
func (d *Dispatcher) backOff(at Instant, j *job) {
	if !d.storeAway() {
		j.retry.failed(d, at)
		return
	}
	j.retry = retryState{tries: j.retry.tries + 1}
	if d.probe.due(at) {
		d.probe.failed(d, at)
	}
}

// settlement is the end of a run whose COMMIT has an unknown outcome. Snooze
// answers the question without judging: Applied means that it had not
// committed and will run again. From the third time in a row it is charged,
// because a commit that kills the server must end among the dead letters.
func (d *Dispatcher) settlement(j *job) end {
	e := end{kind: endSnooze, delay: d.backoff(1), settle: true}
	if d.unknownCount(j.lease.Delivery) >= 3 {
		probeThirdUnknown.Hit()
		e.kind, e.err = endReschedule, "the outcome of COMMIT was unknown three times in a row"
	}
	return e
}

// unknownCommits counts unknown COMMITs of one delivery in a row.
type unknownCommits struct {
	delivery DeliveryID
	count    int
}

// maxUnknownCommits bounds the memory; the oldest are forgotten first, which
// costs a delivery some uncharged tries.
const maxUnknownCommits = 1024

func (d *Dispatcher) unknownCount(id DeliveryID) int {
	for _, u := range d.unknown {
		if u.delivery == id {
			return u.count
		}
	}
	return 0
}

// noteCommit counts unknown outcomes and forgets them after a known one.
func (d *Dispatcher) noteCommit(id DeliveryID, o Outcome) {
	if o != CommitUnknown && len(d.unknown) == 0 {
		return
	}
	count := d.unknownCount(id)
	d.unknown = slices.DeleteFunc(d.unknown, func(u unknownCommits) bool { return u.delivery == id })
	if o != CommitUnknown {
		return
	}
	if len(d.unknown) == maxUnknownCommits {
		d.unknown = slices.Delete(d.unknown, 0, 1)
	}
	d.unknown = append(d.unknown, unknownCommits{delivery: id, count: count + 1})
}

// sendReleases gives back everything to be released in one call.
func (d *Dispatcher) sendReleases(at Instant) {
	var jobs []*job
	var leases []Lease
	for _, c := range d.chains {
		for _, j := range c.members {
			if j.state != jobReleasing || j.call != 0 {
				continue
			}
			if !j.retry.due(at) {
				d.wake.at(at, j.retry.next)
				continue
			}
			j.asked = true
			jobs = append(jobs, j)
			leases = append(leases, *j.lease)
		}
	}
	if len(jobs) > 0 {
		d.send(at, ReleaseInput{Leases: leases}, jobs)
	}
}

func (d *Dispatcher) releaseReturned(at Instant, c *call, in CallReturned) {
	if in.Err != nil && !IsDefinite(in.Err) {
		for _, j := range c.jobs {
			d.endUnsure(at, j, in.Err)
		}
		return
	}
	if in.Err == nil {
		d.heard(at, in.Reply.(*ReleaseReply).Now)
	}
	for _, j := range c.jobs {
		if ch := j.chain; ch != nil {
			d.observeEnd(ObservedReleased, ch, j, in.Err)
			d.remove(ch, j)
		}
	}
}

// sendCompletions sends the successes that wait, in at most two calls on
// disjoint chains: when the window closed, a batch is full, nothing runs that
// could still join, or the bus stops.
func (d *Dispatcher) sendCompletions(at Instant) {
	for d.states[jobSucceeded] > 0 && outstanding[CompleteManyInput](d) < maxCompletionCalls {
		if !d.flushDue(at, d.states[jobSucceeded]) {
			d.wake.at(at, d.flush.due)
			return
		}
		if !d.completeSome(at) {
			return
		}
	}
}

// completeSome sends one batch of successes, if any can be sent.
func (d *Dispatcher) completeSome(at Instant) bool {
	jobs := d.completable(at)
	if len(jobs) == 0 {
		return false
	}
	d.flush.armed = false
	leases := make([]Lease, len(jobs))
	for i, j := range jobs {
		leases[i] = *j.lease
		j.asked = true
	}
	d.send(at, CompleteManyInput{Leases: leases}, jobs)
	return true
}

func (d *Dispatcher) flushDue(at Instant, n int) bool {
	if n >= d.cfg.CompletionBatch || d.phase == phaseStopping || !d.flush.armed || at.reached(d.flush.due) && !mutant.On("window-never-closes") {
		return true
	}
	return d.active == 0
}

// completable collects, per chain, the successes at its front: in order, and
// not while an earlier one is in an outstanding call.
func (d *Dispatcher) completable(at Instant) []*job {
	var jobs []*job
	for _, c := range d.chains {
		for _, j := range c.members {
			if j.state != jobSucceeded || j.call != 0 || len(jobs) >= d.cfg.CompletionBatch {
				break
			}
			if !j.retry.due(at) {
				d.wake.at(at, j.retry.next)
				break
			}
			jobs = append(jobs, j)
		}
	}
	if mutant.On("chain-completed-out-of-order") {
		slices.Reverse(jobs)
	}
	return jobs
}

func (d *Dispatcher) completionsReturned(at Instant, c *call, in CallReturned) {
	if in.Err != nil {
		for _, j := range c.jobs {
			if ch := j.chain; ch != nil && IsDefinite(in.Err) {
				d.completionRefused(at, ch, j, in.Err)
				continue
			}
			d.endUnsure(at, j, in.Err)
		}
		return
	}
	reply := in.Reply.(*CompleteManyReply)
	d.heard(at, reply.Now)
	for i, j := range c.jobs {
		ch := j.chain
		if ch == nil {
			continue
		}
		ended := reply.Ended[i]
		if mutant.On("verdicts-shifted") {
			ended = reply.Ended[(i+1)%len(reply.Ended)]
		}
		switch {
		case ended.Err != nil:
			d.completionRefused(at, ch, j, ended.Err)
		case ended.Verdict == Applied:
			d.observeEnd(ObservedCompleted, ch, j, nil)
			d.remove(ch, j)
		default:
			d.completionLost(at, ch, j)
		}
	}
}

// completionLost ends a run whose completion was not accepted. What stands
// behind it in the chain cannot be completed any more and is given back.
func (d *Dispatcher) completionLost(at Instant, c *chain, j *job) {
	d.observeEnd(ObservedLeaseLost, c, j, nil)
	leave := jobReleasing
	if head := c.members[0]; head != j && head.state == jobEnding && !head.asked {
		// It was refused for its predecessor alone, whose own end takes it
		// along: released later, a takeover in between would charge it.
		leave = jobRest
	}
	for _, later := range c.after(j) {
		d.putAside(at, c, later, leave)
	}
	if j.lease.After != 0 {
		probeFollowerLost.Hit()
		// Its lane may list it still.
		j.asked, j.unsure, j.retry = false, false, retryState{}
		d.set(j, leave)
		return
	}
	d.remove(c, j)
}

// completionRefused records a definite error of the store as a failed attempt.
// A successor that waits in the same call was refused by its own verdict.
func (d *Dispatcher) completionRefused(at Instant, c *chain, j *job, err error) {
	probeRefused.Hit()
	j.asked, j.unsure, j.retry = false, false, retryState{}
	d.finish(at, c, j, d.failure(c, j, RunResult{Err: err, Delay: -1}))
}

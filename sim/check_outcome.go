package sim

import (
	"errors"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// outcomes checks EndMatchesOutcome: what a run returned decides the end that
// its worker sends. nil is completed; Snooze is put off by just that time,
// uncharged; RetryAfter is tried again after just that time, Cancel buried,
// any other failure tried again after the policy's time, and buried when it was
// the last; what the worker cancelled itself is released; an unknown COMMIT is
// settled. The text is what that run said. A body runs again after a conflict
// alone, three times at most. An end names in its rest all that its chain
// leaves.
//
// It sees what leaves the worker, beside what the bodies of the handlers, the
// transactions and the store's answers were.
type outcomes struct {
	unconcerned
	c *checks
}

const endMatchesOutcome = "EndMatchesOutcome"

func (*outcomes) name() string { return endMatchesOutcome }

func (k *outcomes) fail(format string, args ...any) {
	k.c.fail(endMatchesOutcome, endMatchesOutcome, format, args...)
}

// maxStarts is how often a body may run within one attempt.
const maxStarts = 4

func (k *outcomes) started(r *handlerRun) {
	g := r.grant
	if g == nil {
		return
	}
	if r.starts > 1 {
		k.again(r, g)
	}
	g.body, g.err, g.asked = bodyBegun, nil, false
}

// again judges a body that runs again.
func (k *outcomes) again(r *handlerRun, g *grant) {
	switch {
	case !r.handler.transactional:
		k.fail("the body of %v, which has no transaction, runs again", g.picked.Lease)
	case r.starts > maxStarts:
		k.fail("the body of %v runs for the %dth time", g.picked.Lease, r.starts)
	case errors.Is(g.inTx, engine.ErrCommitUnknown) || !errors.Is(g.inTx, engine.ErrRetryable):
		k.fail("the body of %v runs again after %v", g.picked.Lease, g.inTx)
	}
}

func (k *outcomes) returned(r *handlerRun, err error) { r.grant.returned(err) }

// completing judges Complete in a handler's transaction.
func (k *outcomes) completing(p *process, lease *protocol.Lease) {
	g := k.c.grants.of(p, lease)
	if g != nil && (g.body != bodyReturned || g.err != nil) {
		k.fail("Complete of %v, whose body returned %v", *lease, g.err)
	}
}

// sentEnd is an end that leaves a worker.
type sentEnd struct {
	kind   callKind
	lease  protocol.Lease
	rest   []protocol.Lease
	delay  time.Duration
	text   string
	charge bool // of Bury
	settle bool
}

// sending judges an end that leaves a worker.
func (k *outcomes) sending(p *process, e sentEnd) {
	if p == nil {
		return
	}
	g := k.c.grants.of(p, &e.lease)
	if g == nil {
		k.fail("%v of %v, which %s was not granted", e.kind, e.lease, p.worker.name)
		return
	}
	k.judge(g, &e)
	k.judgeRest(g, &e)
	g.sent, g.flight = true, true
}

// judge compares an end with what the run came to.
func (k *outcomes) judge(g *grant, e *sentEnd) {
	switch {
	case g.run == nil:
		k.notStarted(g, e)
	case !g.over():
		k.fail("%v of %v while its handler runs", e.kind, e.lease)
	case g.refused != nil:
		k.failed(g, e, g.refused.Error(), -1)
	case e.kind == callRelease:
		k.released(g, e)
	case g.run.retired && g.cancel != nil:
		k.mismatch(g, e, "it was cancelled and did not return")
	case g.run.retired:
		k.failed(g, e, engine.ErrHandlerTimeout.Error(), -1)
	case g.run.handler.transactional:
		k.ofTransaction(g, e)
	default:
		k.ofBody(g, e)
	}
}

func (k *outcomes) mismatch(g *grant, e *sentEnd, why string) {
	k.fail("%v of %v (delay %v, settle %v, charge %v, text %q): %s", e.kind, e.lease, e.delay, e.settle, e.charge, e.text, why)
}

// notStarted judges the end of a delivery whose run was not started: it is
// given back, or has no attempt left.
func (k *outcomes) notStarted(g *grant, e *sentEnd) {
	row := &g.picked.Delivery
	switch {
	case e.kind == callRelease:
	case e.kind != callBury || e.charge:
		k.mismatch(g, e, "its handler was not started")
	case g.picked.Event == nil:
	case int(row.Attempts) < k.c.w.handlerNamed(row.Handler).maxAttempts:
		k.mismatch(g, e, "it has attempts left")
	case row.LastError != "" && e.text != row.LastError:
		k.mismatch(g, e, "its last error was "+row.LastError)
	}
}

// released judges whether a run that is over may be given back.
func (k *outcomes) released(g *grant, e *sentEnd) {
	follower := g.picked.Lease.After != 0
	switch {
	case g.cancel != nil || g.turned:
	case g.body == bodyReturned && g.err == nil && follower: // its predecessor ended badly
	case g.run.handler.transactional && g.body == bodyNotBegun:
	default:
		k.mismatch(g, e, "its worker did not cancel it")
	}
}

// ofTransaction judges the end of a run whose transaction was not committed.
func (k *outcomes) ofTransaction(g *grant, e *sentEnd) {
	switch {
	case g.unknown():
		k.settled(g, e)
	case g.inTx == nil && g.asked:
		k.mismatch(g, e, "it was committed")
	case g.fenced():
		k.mismatch(g, e, "its Complete was refused")
	case g.body == bodyNotBegun:
		// Its transaction did not begin.
	case g.body == bodyReturned && g.err == nil:
		k.uncancelled(g, e, g.inTx.Error(), -1)
	default:
		k.ofBody(g, e)
	}
}

// settled judges the end of a run with an unknown COMMIT.
func (k *outcomes) settled(g *grant, e *sentEnd) {
	base := max(min(k.c.w.knobs.Lease/20, k.c.w.knobs.Lease/4), time.Millisecond)
	want := callSnooze
	if g.unknowns >= 3 {
		want = callReschedule
	}
	switch {
	case e.kind != want || !e.settle:
		k.mismatch(g, e, "the outcome of its COMMIT is unknown")
	case !onGrid(e.delay-base/2, int64(base/2)+1):
		k.mismatch(g, e, "this is no delay of a settlement")
	}
}

// ofBody judges the end of a run whose body decided it.
func (k *outcomes) ofBody(g *grant, e *sentEnd) {
	switch r := g.run; {
	case g.body == bodyPanicked:
		k.uncancelled(g, e, "panic: ", -1)
	case g.err == nil:
		if e.kind != callCompleteMany {
			k.mismatch(g, e, "its handler returned nil")
		}
	case g.cancel != nil:
		k.mismatch(g, e, "its worker cancelled it")
	case r.chosen && r.asks.wish == wishSnooze:
		if e.kind != callSnooze || e.settle || int64(e.delay) != r.asks.delay {
			k.mismatch(g, e, "its handler returned: "+g.err.Error())
		}
	case r.chosen && r.asks.wish == wishCancel:
		if e.kind != callBury || !e.charge || !says(e.text, g.err.Error()) {
			k.mismatch(g, e, "its handler gave it up with: "+g.err.Error())
		}
	case r.chosen && r.asks.wish == wishAfter:
		k.failed(g, e, g.err.Error(), time.Duration(r.asks.delay))
	default:
		k.failed(g, e, g.err.Error(), -1)
	}
}

// uncancelled judges the end of a failure, unless the worker cancelled the run.
func (k *outcomes) uncancelled(g *grant, e *sentEnd, text string, delay time.Duration) {
	if g.cancel != nil {
		k.mismatch(g, e, "its worker cancelled it")
		return
	}
	k.failed(g, e, text, delay)
}

// failed judges the end of a failed attempt; a negative delay is the policy's.
func (k *outcomes) failed(g *grant, e *sentEnd, text string, delay time.Duration) {
	attempt := int(g.picked.Delivery.Attempts) + 1
	limit := g.run.handler.maxAttempts
	switch {
	case attempt >= limit && (e.kind != callBury || !e.charge):
		k.mismatch(g, e, "it was the last attempt")
	case attempt < limit && (e.kind != callReschedule || e.settle):
		k.mismatch(g, e, "the attempt failed and was not the last")
	case !says(e.text, text):
		k.mismatch(g, e, "what it came to is: "+text)
	case attempt >= limit:
	case delay >= 0 && e.delay != delay:
		k.mismatch(g, e, "its handler asked for "+delay.String())
	case delay < 0 && !k.ofPolicy(attempt, e.delay):
		k.mismatch(g, e, "this is no delay of the retry policy")
	}
}

// ofPolicy reports whether the handlers' policy gives a delay after so many
// attempts: 1 ns and what the jitter drew, under a ceiling of an eighth of the
// lease that doubles up to four leases.
func (k *outcomes) ofPolicy(attempt int, d time.Duration) bool {
	lease := k.c.w.knobs.Lease
	ceiling := lease / 8
	for n := 1; n < attempt && ceiling < 4*lease; n++ {
		ceiling = min(2*ceiling, 4*lease)
	}
	return d == engine.MinDelay || onGrid(d-1, int64(ceiling))
}

// onGrid reports whether the simulator's jitter can draw d out of [0, n).
func onGrid(d time.Duration, n int64) bool {
	step := n / jitterGrain
	return d == 0 || step > 0 && d > 0 && int64(d)%step == 0 && int64(d)/step < jitterGrain
}

// says reports whether a text is what a run said, or that and why it was
// cancelled.
func says(text, want string) bool {
	if want == "panic: " || len(want) > engine.MaxErrorText {
		return strings.HasPrefix(text, "panic: the handler panicked")
	}
	return text == want || strings.HasPrefix(text, want+" (its context was cancelled: ")
}

// judgeRest judges what an end releases besides: all that stands behind it in
// its chain, once, but what has an end of its own.
func (k *outcomes) judgeRest(g *grant, e *sentEnd) {
	if e.kind == callCompleteMany || e.kind == callRelease {
		return
	}
	for i := range e.rest {
		o := k.c.grants.of(g.p, &e.rest[i])
		switch {
		case o == nil || o.place <= g.place || &o.chain[0] != &g.chain[0]:
			k.fail("%v of %v names %v in its rest, which is not behind it", e.kind, e.lease, e.rest[i])
			return
		case o.done || o.flight:
			k.fail("%v of %v names %v in its rest, which has an end of its own", e.kind, e.lease, e.rest[i])
		}
		o.rest = true
	}
}

// judgeLeft judges, once an end is accepted, what its rest left out.
func (k *outcomes) judgeLeft(g *grant, kind callKind, rest []protocol.Lease) {
	if kind == callCompleteMany || kind == callRelease {
		return
	}
	for _, o := range g.later() {
		if !o.hasOwnEnd() && !namesLease(rest, &o.picked.Lease) {
			k.fail("%v of %v left %v out of its rest", kind, g.picked.Lease, o.picked.Lease)
		}
	}
}

// hasOwnEnd reports whether a member of a chain need not be named in the end of
// one before it: its end was sent, is known, or follows from what it came to.
// One that was cancelled and has returned is not stated any more; the next claim
// drops it from its lane.
func (g *grant) hasOwnEnd() bool {
	return g.done || g.lost || g.sent || g.loose || g.over() && (g.cancel != nil || g.body != bodyReturned || g.err != nil)
}

func namesLease(leases []protocol.Lease, l *protocol.Lease) bool {
	for i := range leases {
		if nameOf(leases[i]) == nameOf(*l) {
			return true
		}
	}
	return false
}

// answered notes the answer to an end.
func (k *outcomes) answered(p *process, kind callKind, lease *protocol.Lease, rest []protocol.Lease, v protocol.Verdict, err error) {
	if p == nil {
		return
	}
	g := k.c.grants.of(p, lease)
	if g == nil {
		return
	}
	g.flight = false
	switch {
	case engine.IsDefinite(err):
		g.refused = err
	case err != nil:
	case kind == callCompleteMany && v == protocol.LeaseLost:
		g.turned = true
		g.done = g.picked.Lease.After == 0
		for _, o := range g.later() {
			o.loose = true
		}
	default:
		g.done = true
	}
	if err == nil && v == protocol.Applied {
		k.judgeLeft(g, kind, rest)
	}
	if err != nil && !engine.IsDefinite(err) {
		return
	}
	for i := range rest {
		if o := k.c.grants.of(p, &rest[i]); o != nil {
			o.done = o.done || err == nil && v == protocol.Applied
			o.loose = !o.done
		}
	}
}

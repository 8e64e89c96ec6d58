package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// deadlines checks what a worker owes to its own clock. After every step of it:
// no run that it has not cancelled is past its handler's timeout, or past the
// lease of its lane, measured from before the request that renewed it was sent;
// no success that could be sent is older than the completion window; and it has
// asked to be woken no later than the first of these comes. This is exact,
// whatever faults do: it is judged by the clock that the worker reads, however
// late its timers are.
//
// NeedlessLoss, which it judges too: a worker that nothing disturbed for a
// lease reports neither an expired lease nor a lost lane.
type deadlines struct {
	unconcerned
	c *checks
}

const needlessLoss = "NeedlessLoss"

func (*deadlines) name() string { return "InTime" }

// pledge is what one process knows that it owes.
type pledge struct {
	leases    []leaseTime
	successes []success
	sent      int           // calls of CompleteMany under way
	unknown   bool          // a claim was given up, and what it took was not asked for since
	stopAt    protocol.Time // when it was told to stop
	wake      time.Duration // when it asked to be woken, on its monotonic clock
}

// leaseTime is until when a process may trust a lane.
type leaseTime struct {
	engine.LaneEpoch
	from engine.Instant // a lease before
}

// success is a run of a plain handler that returned nil.
type success struct {
	lease protocol.Lease
	at    time.Duration // since when it could be sent
	held  bool          // it could not, when last looked at
}

// renewed notes that the store renewed a lane in answer to a request sent then.
func (g *pledge) renewed(lane engine.LaneEpoch, from engine.Instant) {
	for i := range g.leases {
		l := &g.leases[i]
		if l.Lane != lane.Lane {
			continue
		}
		if l.Epoch != lane.Epoch || l.from.Mono < from.Mono {
			l.LaneEpoch, l.from = lane, from
		}
		return
	}
	g.leases = append(g.leases, leaseTime{lane, from})
}

func (g *pledge) lease(l protocol.Lease) *leaseTime {
	for i := range g.leases {
		if g.leases[i].Lane == l.Lane && g.leases[i].Epoch == l.Epoch {
			return &g.leases[i]
		}
	}
	return nil
}

func before(at engine.Instant, d time.Duration) engine.Instant {
	return engine.Instant{Wall: at.Wall - int64(d), Mono: at.Mono - d}
}

// since is how long ago t was, by the clock that says more.
func since(at, t engine.Instant) time.Duration {
	return max(time.Duration(at.Wall-t.Wall), at.Mono-t.Mono)
}

// sends notes a call that leaves.
func (k *deadlines) sends(p *process, input any) {
	var leases []protocol.Lease
	switch in := input.(type) {
	case engine.CompleteManyInput:
		leases = in.Leases
		p.pledge.sent++
	case engine.RescheduleInput:
		leases = append(in.Rest[:len(in.Rest):len(in.Rest)], in.Lease)
	case engine.SnoozeInput:
		leases = append(in.Rest[:len(in.Rest):len(in.Rest)], in.Lease)
	case engine.BuryInput:
		leases = append(in.Rest[:len(in.Rest):len(in.Rest)], in.Lease)
	case engine.ReleaseInput:
		leases = in.Leases
	}
	if len(leases) == 0 || len(p.pledge.successes) == 0 {
		return
	}
	p.pledge.successes = slices.DeleteFunc(p.pledge.successes, func(s success) bool {
		return slices.Contains(leases, s.lease)
	})
}

// returns notes the answer to a call that was sent then.
func (k *deadlines) returns(p *process, sent engine.Instant, input any, result engine.CallReturned) {
	if _, ok := input.(engine.CompleteManyInput); ok {
		p.pledge.sent--
	}
	k.noteUnknown(p, input, result.Err)
	if result.Err != nil {
		return
	}
	lease := k.c.w.knobs.Lease
	switch reply := result.Reply.(type) {
	case *engine.ClaimReply:
		for _, l := range reply.Lanes {
			p.pledge.renewed(l.LaneEpoch, before(sent, lease-min(l.ExpiresAt.Sub(reply.Now), lease)))
		}
	case *engine.ExtendLeaseReply:
		for i, l := range input.(engine.ExtendLeaseInput).Lanes {
			if reply.Verdicts[i] == protocol.Applied {
				p.pledge.renewed(l, sent)
			}
		}
	}
}

// noteUnknown notes whether there may be lanes that the worker never heard of.
func (k *deadlines) noteUnknown(p *process, input any, err error) {
	switch in := input.(type) {
	case engine.ClaimInput:
		if err != nil {
			p.pledge.unknown = p.pledge.unknown || !errors.Is(err, engine.ErrRetryable) && !engine.IsDefinite(err)
		} else if in.AllMine {
			p.pledge.unknown = false
		}
	case engine.RelinquishInput:
		if err == nil && len(in.Lanes) == 0 {
			p.pledge.unknown = false
		}
	}
}

// stopping judges a process that stops, after each step: lanes that it never
// heard of are asked for at once, not when the last handler has returned. Nobody
// renews them, and what they list would be charged without having run. The
// worker may back off from a store that failed for less than half a lease.
func (k *deadlines) stopping(p *process) {
	a := &p.patience
	if !p.pledge.unknown || !a.idling || p.clock.drift != 0 || p.paused {
		return
	}
	idle := k.c.w.now.Sub(max(a.idles[a.next%len(a.idles)].from, p.pledge.stopAt, a.harmed))
	if most := k.c.w.knobs.Lease/2 + a.late; idle > most {
		k.c.fail(k.name(), k.name(), "%s stops, and did not ask for %v for the lanes that a lost claim may have taken (allowed: %v)%v", p.worker.short(), idle, most, p)
	}
}

// over notes a run that returned.
func (k *deadlines) over(r *handlerRun) {
	if r.result.Outcome == engine.Succeeded && !r.retired && !r.cancelled {
		r.p.pledge.successes = append(r.p.pledge.successes, success{lease: r.run.Picked.Lease, at: r.p.clock.read(k.c.w.now).Mono})
	}
}

// stepped judges a process after each step, at the time that it was given.
func (k *deadlines) stepped(p *process, at engine.Instant) {
	first := time.Duration(1<<63 - 1)
	what := ""
	due := func(in time.Duration, of string) {
		if d := at.Mono + in; d < first {
			first, what = d, of
		}
	}
	for _, r := range p.runs {
		if r.cancelled || r.retired || r.over {
			continue
		}
		k.judgeRun(p, r, at, due)
	}
	if len(p.pledge.successes) > 0 {
		k.judgeSuccesses(p, at, due)
	}
	if first < p.pledge.wake || what != "" && p.pledge.wake < at.Mono {
		k.c.fail(k.name(), k.name(), "%s asked to be woken in %v, but %s in %v", p.worker.short(), p.pledge.wake-at.Mono, what, first-at.Mono)
	}
}

func (k *deadlines) judgeRun(p *process, r *handlerRun, at engine.Instant, due func(time.Duration, string)) {
	lease := &r.run.Picked.Lease
	timeout := r.handler.timeout()
	ran := at.Mono - r.began
	if ran >= timeout {
		k.c.fail(k.name(), k.name(), "%s of %s runs for %v on %s and was not cancelled: its timeout is %v", r.handler.name, r.run.Picked.Delivery.Event, ran, p.worker.short(), timeout)
		return
	}
	due(timeout-ran, "a run times out")
	l := p.pledge.lease(*lease)
	if l == nil {
		return
	}
	held := since(at, l.from)
	if held >= k.c.w.knobs.Lease {
		k.c.fail(k.name(), k.name(), "%v runs on %s and was not cancelled, %v after the request that last renewed its lane left: a lease is %v",
			lease, p.worker.short(), held, k.c.w.knobs.Lease)
		return
	}
	due(k.c.w.knobs.Lease-held, "the lease of a run ends")
}

// maxCompletions is how many calls of CompleteMany a worker has under way.
const maxCompletions = 2

func (k *deadlines) judgeSuccesses(p *process, at engine.Instant, due func(time.Duration, string)) {
	p.pledge.successes = slices.DeleteFunc(p.pledge.successes, func(s success) bool { return !k.c.facts.accepted(s.lease) })
	window := k.c.w.window()
	for i := range p.pledge.successes {
		s := &p.pledge.successes[i]
		if p.pledge.sent >= maxCompletions || k.waitsForPredecessor(s) || k.c.w.now.Sub(p.patience.harmed) <= k.c.w.knobs.Lease {
			s.held = true
			continue
		}
		if s.held {
			s.at, s.held = at.Mono, false
		}
		waited := at.Mono - s.at
		if waited > window {
			k.c.fail(k.name(), k.name(), "%v succeeded on %s, could be completed for %v, and no call was sent: the window is %v", s.lease, p.worker.short(), waited, window)
			return
		}
		due(window-waited, "the completion window closes")
	}
}

func (k *deadlines) waitsForPredecessor(s *success) bool {
	if s.lease.After == 0 {
		return false
	}
	before := k.c.ends.predecessor(s.lease)
	return before == nil || !before.settled
}

// reported judges what a worker reports.
func (k *deadlines) reported(p *process, e engine.Observed) {
	if e.Event != engine.ObservedLeaseExpired && e.Event != engine.ObservedLaneLost {
		return
	}
	w := k.c.w
	if !k.c.conserving.undisturbed(p) || w.now.Sub(p.patience.harmed) <= 2*w.knobs.Lease || p.losses != w.checks.losses {
		return
	}
	k.c.fail(needlessLoss, needlessLoss, "%s reports %q of lane %d, although nothing disturbed it for %v", p.worker.short(), e.Event, e.Lane, w.now.Sub(p.patience.harmed))
}

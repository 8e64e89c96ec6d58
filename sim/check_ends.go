package sim

import (
	"errors"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// oneEnd checks what the protocol asks of a worker about the ends of its runs
// (protocol.md, "One end per lease"). Of one lease one ending call is
// outstanding; its kind does not change while its outcome is unknown; once it
// is known nothing more is sent; no body starts under a lease whose end, or
// COMMIT, was sent; a follower of a chain is completed behind its predecessor.
// A lane with an end that stayed unknown for longer than a lease is not
// renewed, none without one is let go, and after a claim was given up the next ones ask for all lanes, as
// long as that claim may still be applied. No holder and claim number are used
// twice.
//
// It sees calls as they leave the worker. What a store makes of them is not
// its business.
type oneEnd struct {
	unconcerned
	c      *checks
	leases map[leaseName]*leaseEnd
	doubts []*leaseEnd
	unsure []doubtfulLane // every lane of which an end was unknown once
	claims []*sentClaim
	users  map[protocol.Holder]holderUse
}

// holderUse is who claimed under a holder's name, and the last claim number.
type holderUse struct {
	p      *process
	number int64
}

// leaseEnd is how far the end of one lease has come.
type leaseEnd struct {
	p           *process
	lease       protocol.Lease
	kind        callKind
	sent        bool // some end was sent, with kind the last
	outstanding bool
	rest        bool // it was named in the rest of another lease's end
	settled     bool
	refused     bool          // settled by a CompleteMany that was LeaseLost
	completed   bool          // by CompleteMany or COMMIT
	unknown     bool          // a try has an unknown outcome
	since       protocol.Time // the first of them came back
	pauses      uint64        // of the process by then
	unanswered  bool          // COMMIT was sent and its outcome not learnt
}

// doubtfulLane is a lane of a process of which an end was unknown once.
type doubtfulLane struct {
	p    *process
	lane protocol.LaneID
}

// sentClaim is a Claim that its process gave up.
type sentClaim struct {
	p        *process
	r        *request
	number   int64
	notAfter protocol.Time
}

func (*oneEnd) name() string { return "OneEndPerLease" }

func (k *oneEnd) fail(format string, args ...any) { k.c.fail(k.name(), k.name(), format, args...) }

func (k *oneEnd) of(p *process, lease protocol.Lease) *leaseEnd {
	name := nameOf(lease)
	e := k.leases[name]
	if e == nil {
		if k.leases == nil {
			k.leases = map[leaseName]*leaseEnd{}
		}
		e = &leaseEnd{p: p, lease: lease}
		k.leases[name] = e
	}
	return e
}

// started judges the start of a body.
func (k *oneEnd) started(r *handlerRun) {
	e := k.leases[nameOf(r.run.Picked.Lease)]
	switch {
	case e == nil:
	case e.sent:
		k.fail("%v runs although %v was sent for it", e.lease, e.kind)
	case e.rest:
		k.fail("%v runs although it was released with the end of its predecessor", e.lease)
	case e.unanswered:
		k.fail("%v runs again although the outcome of its COMMIT is unknown", e.lease)
	}
}

// completing judges Complete inside the handler's transaction.
func (k *oneEnd) completing(p *process, lease protocol.Lease) {
	if e := k.leases[nameOf(lease)]; e != nil && (e.sent || e.rest) {
		k.fail("Complete of %v after %v was sent for it", lease, e.kind)
	}
}

// committed notes what COMMIT of a handler's transaction came to.
func (k *oneEnd) committed(p *process, lease protocol.Lease, err error) {
	e := k.of(p, lease)
	e.unanswered = errors.Is(err, engine.ErrCommitUnknown)
	if err == nil {
		e.settled, e.completed = true, true
	}
}

// sending judges an end that is about to leave; rest are the leases that it
// releases besides.
func (k *oneEnd) sending(p *process, kind callKind, lease protocol.Lease, rest []protocol.Lease, settle bool) {
	e := k.of(p, lease)
	switch {
	case e.outstanding:
		k.fail("%v of %v while %v of it is outstanding", kind, lease, e.kind)
	case e.settled && !(e.refused && kind == callRelease):
		k.fail("%v of %v, whose end is known", kind, lease)
	case e.unknown && e.sent && e.kind != kind:
		k.fail("%v of %v although the outcome of %v is unknown", kind, lease, e.kind)
	case e.unanswered && !settle:
		k.fail("%v of %v does not settle its unanswered COMMIT", kind, lease)
	}
	e.kind, e.sent, e.outstanding = kind, true, true
	for _, l := range rest {
		k.of(p, l).rest = true
	}
}

// answered notes the answer to an end.
func (k *oneEnd) answered(p *process, lease protocol.Lease, rest []protocol.Lease, verdict protocol.Verdict, err error) {
	e := k.of(p, lease)
	e.outstanding = false
	if err != nil {
		k.doubt(e, err)
		return
	}
	// A follower is refused with its predecessor though its lane still lists it.
	e.refused = e.kind == callCompleteMany && verdict == protocol.LeaseLost
	e.settled, e.unknown = true, false
	put := verdict == protocol.Applied && (e.kind == callReschedule || e.kind == callSnooze)
	k.c.conserving.answered(p, lease, rest, put)
	e.completed = e.kind == callCompleteMany && verdict == protocol.Applied
	if verdict == protocol.Applied {
		for _, l := range rest {
			k.of(p, l).settled = true
		}
	}
}

// doubt notes a try that failed.
func (k *oneEnd) doubt(e *leaseEnd, err error) {
	switch {
	case errors.Is(err, engine.ErrRetryable):
	case engine.IsDefinite(err):
		// Another kind of end may follow; after the record of the failure was
		// refused too, none does: the row is stuck.
		e.unknown = false
		e.settled = e.kind == callReschedule || e.kind == callBury
	case !e.unknown:
		e.unknown, e.since, e.pauses = true, k.c.w.now, e.p.pauseGen
		k.doubts = append(k.doubts, e)
		if d := (doubtfulLane{e.p, e.lease.Lane}); !slices.Contains(k.unsure, d) {
			k.unsure = append(k.unsure, d)
		}
	}
}

// completions judges the order of a CompleteMany.
func (k *oneEnd) completions(leases []protocol.Lease) {
	for i, l := range leases {
		if l.After == 0 || slices.ContainsFunc(leases[:i], func(b protocol.Lease) bool { return b.Delivery == l.After }) {
			continue
		}
		if before := k.predecessor(l); before == nil || !before.settled {
			k.fail("CompleteMany of the follower %v without its predecessor #%d, whose end is not known", l, l.After)
		}
	}
}

// predecessor finds the end of the delivery before a follower, nil when
// nothing was sent for it.
func (k *oneEnd) predecessor(l protocol.Lease) *leaseEnd {
	l.Delivery = l.After
	return k.leases[nameOf(l)]
}

// claiming judges a Claim that is about to leave, and returns when it left.
func (k *oneEnd) claiming(p *process, in *engine.ClaimInput) protocol.Time {
	k.numbered(p, in.Holder, in.Number)
	for _, c := range k.claims {
		if c.p == p && !in.AllMine {
			k.fail("claim %d of %s does not ask for all lanes, although it gave up claim %d, and no such claim has succeeded since that one can no longer be applied",
				in.Number, p.worker.name, c.number)
		}
	}
	k.renewing(p, in.Held, in.LetExpire)
	for _, lane := range in.LetExpire {
		if !slices.Contains(k.unsure, doubtfulLane{p, lane}) {
			k.fail("%s lets lane %d expire, of which no end was ever unknown", p.worker.name, lane)
		}
	}
	return k.c.w.now
}

// numbered checks what tokens rest on: no (holder, claim) is issued twice.
func (k *oneEnd) numbered(p *process, h protocol.Holder, number int64) {
	use, known := k.users[h]
	switch {
	case known && use.p != p:
		k.fail("%s claims as %s, which an earlier process used", p.worker.name, h.Short())
	case known && number <= use.number:
		k.fail("claim %d of %s follows claim %d", number, p.worker.name, use.number)
	}
	if k.users == nil {
		k.users = map[protocol.Holder]holderUse{}
	}
	k.users[h] = holderUse{p, number}
}

// claimed notes the answer to a Claim that left at some time.
func (k *oneEnd) claimed(p *process, in *engine.ClaimInput, left protocol.Time, r *request, err error) {
	now := k.c.w.now.Add(k.c.w.leapt)
	if err == nil {
		k.claims = slices.DeleteFunc(k.claims, func(c *sentClaim) bool {
			return c.p == p && in.AllMine && (c.r.gone && c.r.goneAt <= left || now > c.notAfter)
		})
		return
	}
	if !errors.Is(err, engine.ErrRetryable) && !engine.IsDefinite(err) {
		k.claims = append(k.claims, &sentClaim{p: p, r: r, number: in.Number, notAfter: in.NotAfter})
	}
}

// renewing judges which lanes are renewed. A worker measures with its own
// clock, which may run slow, or have stood still.
func (k *oneEnd) renewing(p *process, lanes []protocol.LaneEpoch, except []protocol.LaneID) {
	k.doubts = slices.DeleteFunc(k.doubts, func(e *leaseEnd) bool { return !e.unknown || !e.p.alive })
	for _, e := range k.doubts {
		if e.p != p || e.pauses != p.pauseGen || k.c.w.now.Sub(e.since) < k.c.w.knobs.Lease*5/4 {
			continue
		}
		held := slices.ContainsFunc(lanes, func(l protocol.LaneEpoch) bool { return l.Lane == e.lease.Lane && l.Epoch == e.lease.Epoch })
		if held && !slices.Contains(except, e.lease.Lane) {
			k.fail("lane %d is renewed although the outcome of %v of %v is unknown for %v", e.lease.Lane, e.kind, e.lease, k.c.w.now.Sub(e.since))
		}
	}
}

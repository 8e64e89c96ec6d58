package sim

import (
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// conserving checks that nothing waits beside an idle worker. A delivery that is
// due, whose key is free, and whose lane the worker holds or may take, for a
// handler with room, waits no longer than a poll while the worker has no claim
// under way; and no longer than it lets a slot wait for others (Poll/16) once
// the worker has reason to ask: a hint came, a claim was sent that had no room
// for it, or the worker put it off itself. Each claim that looks for it either
// grants it or fills what room there is, within so many claims as it takes to
// ask all lanes.
//
// Time in which a claim is under way does not count: a store may be slow. It is
// judged where faults leave the worker alone: a lease after the last call of it
// that failed, the last pause, and the last leap of a clock.
type conserving struct {
	unconcerned
	c     *checks
	rows  []rowMarks // by delivery
	lanes []protocol.Time
	keys  map[*queueFacts]*keyMarks
	leapt protocol.Time // when the store's clock last leapt
}

// rowMarks is when something last happened to a delivery.
type rowMarks struct {
	touched  protocol.Time
	missed   int           // claims that looked for it in vain …
	missing  uint8         // … of the worker with this number …
	missedAt protocol.Time // … when the last was sent
	delay    time.Duration // that was last asked for
	putOff   *process      // who put it off and knows it
	due      protocol.Time // when it believes it to be due
	noted    protocol.Time // when it learnt that
}

// keyMarks is when something last happened to the deliveries of a key.
type keyMarks struct {
	touched protocol.Time
	passed  protocol.Time // a claim was sent while one of them ran …
	by      *process      // … by this one
}

// patience is what the checker knows of one process.
type patience struct {
	began      protocol.Time // its first claim was sent
	harmed     protocol.Time // something went wrong
	hinted     protocol.Time
	slept      protocol.Time // its clock stood still until then
	replied    protocol.Time // when a call was answered, or a run was over, last
	full       protocol.Time // the last time when no slot was free
	noRoom     [maxHandlers]protocol.Time
	short      [maxHandlers]bool // the last claim may have left some of it behind
	suspect    protocol.Time     // one may have been in flight
	barred     bool              // the last claim could grant no further suspect
	claims     [16]protocol.Time // when the last ones were answered
	sents      [16]protocol.Time // … and sent
	idles      [16]idleTime      // the last stretches without a claim under way
	next       int
	answers    int
	idling     bool
	late       time.Duration // by which its timers were late, in this stretch
	avoided    []avoidance
	passedOver []int         // by lane: claims in a row that did not name it
	sent       protocol.Time // of the last claim
	granted    int           // runs that it stated or brought
	fruitless  int           // claims in a row that gave nothing
}

// avoidance is a lane that a worker leaves to others.
type avoidance struct {
	engine.LaneEpoch
	from, last protocol.Time // of the claims that said so
}

// lastAnswer is when the last claim was answered.
func (a *patience) lastAnswer() protocol.Time {
	return a.claims[(a.answers+len(a.claims)-1)%len(a.claims)]
}

type idleTime struct {
	from, to protocol.Time
	late     time.Duration
}

func (*conserving) name() string { return "WorkConserving" }

// reset: the store lost commits, so all that is known is that it is so now.
func (k *conserving) reset() {
	k.leapt = k.c.w.now
	k.c.w.harmAll()
	k.rows, k.keys, k.lanes = k.rows[:0], nil, k.lanes[:0]
}

func (k *conserving) row(id protocol.DeliveryID) *rowMarks {
	for int(id) >= len(k.rows) {
		k.rows = append(k.rows, rowMarks{})
	}
	return &k.rows[id]
}

func (k *conserving) key(q *queueFacts) *keyMarks {
	m := k.keys[q]
	if m == nil {
		if k.keys == nil {
			k.keys = map[*queueFacts]*keyMarks{}
		}
		m = &keyMarks{}
		k.keys[q] = m
	}
	return m
}

func (k *conserving) touch(id protocol.DeliveryID) {
	m := k.row(id)
	m.touched, m.missed, m.putOff = k.c.w.now, 0, nil
	if d := k.c.facts.delivery(id); d != nil && d.queue != nil {
		k.key(d.queue).touched = k.c.w.now
	}
}

func (k *conserving) touchLane(id protocol.LaneID) {
	for int(id) >= len(k.lanes) {
		k.lanes = append(k.lanes, 0)
	}
	k.lanes[id] = k.c.w.now
	for _, d := range k.c.facts.lane(id).inFlight {
		k.touch(d.id)
	}
	for _, d := range k.c.facts.lane(id).lost {
		k.touch(d.id)
	}
}

func (k *conserving) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			for j := range a.Events[i].Deliveries {
				k.touch(a.Events[i].Deliveries[j].ID)
			}
		}
	case protocol.Claim:
		k.claimed(&a)
	case protocol.TakeOver:
		k.touchLane(a.Lane)
	case protocol.ChargeLost:
		k.touchLane(a.Lane)
	case protocol.Relinquish:
		k.touchLane(a.Lane)
	case protocol.Requeue:
		for _, id := range a.Requeued {
			k.touch(id)
		}
	case protocol.Unsubscribe:
		for _, id := range a.Swept {
			k.touch(id)
		}
	case protocol.Purge:
		for _, id := range a.Dead {
			k.touch(id)
		}
	default:
		acceptedEnds(a, func(e end) { k.touch(e.lease.Delivery) })
		k.touchRest(a)
	}
}

// touchRest touches what an end releases besides.
func (k *conserving) touchRest(a protocol.Action) {
	var rest []protocol.Lease
	switch a := a.(type) {
	case protocol.Reschedule:
		rest = a.Rest
		k.touch(a.Lease.Delivery)
	case protocol.Snooze:
		rest = a.Rest
		k.touch(a.Lease.Delivery)
	case protocol.Bury:
		rest = a.Rest
		k.touch(a.Lease.Delivery)
	case protocol.Release:
		rest = a.Leases
	}
	for _, l := range rest {
		k.touch(l.Delivery)
	}
}

func (k *conserving) claimed(a *protocol.Claim) {
	for _, p := range a.Picks {
		k.touch(p.Delivery)
	}
	for _, id := range a.Unstuck {
		k.touch(id)
	}
	for _, d := range k.c.facts.lane(a.Lane).inFlight {
		if !states(a.Running, d.granted.Entry()) {
			k.touch(d.id)
		}
	}
}

// answered notes that a worker learnt what became of an end. When it put the
// delivery off it knows when that is due.
func (k *conserving) answered(p *process, lease protocol.Lease, rest []protocol.Lease, put bool) {
	k.touch(lease.Delivery)
	for _, l := range rest {
		k.touch(l.Delivery)
	}
	if put {
		m := k.row(lease.Delivery)
		m.putOff, m.due, m.noted = p, k.c.w.now.Add(m.delay), k.c.w.now
	}
}

// over notes that a run is over, while it still takes its slot.
func (k *conserving) over(r *handlerRun) {
	r.p.patience.noteRoom(r.p)
	r.p.patience.replied = k.c.w.now
	r.p.patience.noteBuffer(r.p)
	k.touch(r.run.Picked.Lease.Delivery)
}

// noteRoom notes what has no room now. Runs are begun and ended at once with
// what follows, so that looking before each end is enough.
func (a *patience) noteRoom(p *process) {
	now := p.w.now
	if p.running(nil) >= p.concurrency() {
		a.full = now
	}
	for _, h := range p.w.handlers {
		if p.roomFor(h) <= 0 {
			a.noRoom[h.index] = now
		}
	}
	for _, r := range p.runs {
		if r.run.Picked.Delivery.Takeovers > 0 {
			a.suspect = now
		}
	}
}

// noteBuffer notes that a worker has had as many deliveries as it may buffer: it
// claims no more until it hears of some ends, and how many there are is known
// with its next claim.
func (a *patience) noteBuffer(p *process) {
	if a.granted >= p.mostBuffered() {
		a.full = p.w.now
	}
}

// running counts the runs of a handler, or of all with nil, that take a slot.
func (p *process) running(h *handlerSpec) (n int) {
	for _, r := range p.runs {
		if !r.retired && (h == nil || r.handler == h) {
			n++
		}
	}
	return n
}

// harm notes that something disturbed the process.
func (p *process) harm() { p.patience.harmed = p.w.now }

// harmAll notes that something disturbed everybody.
func (w *world) harmAll() {
	for _, k := range w.workers {
		if p := k.process; p != nil {
			p.harm()
			p.patience.avoided = nil // epochs may be issued again
		}
	}
}

// sends notes a call that is about to leave, and judges what waited for it.
func (k *conserving) sends(p *process, input any) {
	a := &p.patience
	switch in := input.(type) {
	case engine.RescheduleInput:
		k.row(in.Lease.Delivery).delay = in.Delay
	case engine.SnoozeInput:
		k.row(in.Lease.Delivery).delay = in.Delay
	}
	claim, isClaim := input.(engine.ClaimInput)
	if _, isRelinquish := input.(engine.RelinquishInput); !isClaim && !isRelinquish {
		return
	}
	now := k.c.w.now
	if a.idling {
		a.idles[a.next%len(a.idles)].to = now
		a.idles[a.next%len(a.idles)].late = a.late
		a.next++
		a.idling = false
	}
	if isClaim {
		if a.began == 0 {
			a.began = now
		}
		k.judgePause(p)
		k.avoids(p, claim.Avoid)
		k.judgeTurns(p, &claim)
		k.judgeIdle(p, &claim)
		a.sent, a.granted = now, len(claim.Running)
		k.passKeys(p, &claim)
	}
}

// avoids notes which lanes a worker leaves to others, and judges for how long it
// does: a tenth of a lease.
func (k *conserving) avoids(p *process, lanes []engine.LaneEpoch) {
	a := &p.patience
	now := k.c.w.now
	for _, l := range lanes {
		i := 0
		for i < len(a.avoided) && a.avoided[i].LaneEpoch != l {
			i++
		}
		if i == len(a.avoided) {
			a.avoided = append(a.avoided, avoidance{LaneEpoch: l, from: now})
		}
		if now.Sub(a.avoided[i].last) > k.c.w.knobs.Lease/10 {
			a.avoided[i].from = now // it had been a candidate in between
		}
		a.avoided[i].last = now
		if d := now.Sub(a.avoided[i].from); d > k.c.w.knobs.Lease/10 && k.undisturbed(p) && now.Sub(a.harmed) > k.c.w.knobs.Lease {
			k.c.fail(k.name(), k.name(), "%s leaves lane %d to others since %v, although it gave it back for a tenth of a lease", p.worker.short(), l.Lane, d)
		}
	}
}

// passKeys notes the keys that a claim leaves alone because of what runs.
func (k *conserving) passKeys(p *process, in *engine.ClaimInput) {
	for i := range in.Running {
		if d := k.c.facts.delivery(in.Running[i].Delivery); d != nil && d.queue != nil {
			m := k.key(d.queue)
			m.passed, m.by = k.c.w.now, p
		}
	}
}

// returns notes the answer to a call.
func (k *conserving) returns(p *process, input any, result engine.CallReturned) {
	a := &p.patience
	a.replied = k.c.w.now
	a.noteBuffer(p)
	if result.Err != nil {
		p.harm()
	}
	claim, isClaim := input.(engine.ClaimInput)
	if _, isRelinquish := input.(engine.RelinquishInput); !isClaim && !isRelinquish {
		return
	}
	a.idling, a.late = true, 0
	a.idles[a.next%len(a.idles)] = idleTime{from: k.c.w.now}
	if !isClaim {
		return
	}
	a.claims[a.answers%len(a.claims)] = k.c.w.now
	a.sents[a.answers%len(a.sents)] = a.sent
	a.answers++
	if result.Err == nil {
		k.judgeClaim(p, &claim, result.Reply.(*engine.ClaimReply))
	}
}

// judgeIdle looks for what the worker let wait before this claim.
func (k *conserving) judgeIdle(p *process, in *engine.ClaimInput) {
	a := &p.patience
	last := &a.idles[(a.next+len(a.idles)-1)%len(a.idles)]
	if k.c.facts.open == 0 || last.to.Sub(last.from) <= p.linger()/2 || !k.undisturbed(p) {
		return
	}
	for _, d := range k.c.facts.deliveries {
		if d == nil || d.fate != pending {
			continue
		}
		t := k.waits(p, d, in)
		if t.why != "" {
			continue
		}
		if t.how != "" && !k.askedSince(p, t.learnt) {
			k.judge(p, d, max(t.since, t.learnt), 0, "although "+t.how)
		}
		k.judge(p, d, k.seen(p, d, t.since), k.c.w.poll(), "longer than a poll")
	}
}

// askedSince reports whether all lanes were asked by claims that were sent since a
// time: what the worker had learnt by then it has used.
func (k *conserving) askedSince(p *process, t protocol.Time) bool {
	a, asked := &p.patience, 0
	for i, sent := range a.sents {
		if sent >= t && a.claims[i] > t {
			asked++
		}
	}
	return asked >= max(1, k.rounds(p))
}

// rounds is how many claims it takes to ask all lanes that a process holds.
func (k *conserving) rounds(p *process) int {
	return (k.holds(p) + p.lanesPerClaim() - 1) / p.lanesPerClaim()
}

// judge compares the time that a delivery waited beside an idle worker with
// what is allowed.
func (k *conserving) judge(p *process, d *deliveryFacts, since protocol.Time, allowed time.Duration, what string) {
	idle, late, claims := p.patience.idle(since)
	slack := late + time.Duration(1+claims)*p.linger() + k.c.w.poll()/16 + 2*k.c.w.unit()
	if idle <= allowed+slack || k.foreign(p, d) || k.crowded(p, d) {
		return
	}
	if walks := k.walks(p, d); walks > 1 {
		if allowed == 0 && k.c.facts.lane(k.laneOf(d)).holder == p.holder || allowed > 0 && idle <= time.Duration(walks)*allowed+slack {
			return
		}
	}
	k.c.fail(k.name(), k.name(), "#%d %s key %q lane %d could be claimed by %s for %v, in which it had no claim under way for %v, %s (allowed: %v with %d claims, late timers %v)%v",
		d.id, d.handler, d.key, k.laneOf(d), p.worker.short(), k.c.w.now.Sub(since), idle, what, allowed+slack, claims, late, p)
}

// idle returns how long since a time no claim was under way, how late timers
// were by then, and how many claims were answered.
func (a *patience) idle(since protocol.Time) (idle, late time.Duration, claims int) {
	for i := range a.idles {
		s := &a.idles[i]
		if s.to <= since || s.to <= s.from {
			continue
		}
		idle += s.to.Sub(max(s.from, since))
		late += s.late
	}
	for _, t := range a.claims {
		if t > since {
			claims++
		}
	}
	return idle, late, claims
}

// linger is how long a worker lets free slots wait for others.
func (p *process) linger() time.Duration { return p.w.poll() / 16 }

// undisturbed reports whether faults leave the worker alone.
func (k *conserving) undisturbed(p *process) bool {
	return p.alive && !p.stopping && !p.paused && p.clock.drift == 0 && !p.w.cut() && p.w.now >= p.worker.away && p.w.now >= p.worker.busy
}

// judgeClaim judges a claim that was answered: what it had room for and did not
// grant must be granted by one of the next.
func (k *conserving) judgeClaim(p *process, in *engine.ClaimInput, reply *engine.ClaimReply) {
	a := &p.patience
	a.granted += len(reply.Picks)
	if a.fruitless++; len(reply.Picks) > 0 {
		a.fruitless = 0
	}
	cut := len(reply.Picks) >= min(in.Limit, in.Room)
	for i := range in.Handlers {
		h := k.c.w.handlerNamed(in.Handlers[i].Name)
		granted := 0
		for j := range reply.Picks {
			if reply.Picks[j].Delivery.Handler == in.Handlers[i].Name {
				granted++
			}
		}
		a.short[h.index] = cut || granted >= in.Handlers[i].Room
	}
	a.barred = in.SuspectRunning
	for i := range reply.Picks {
		a.barred = a.barred || reply.Picks[i].Delivery.Takeovers > 0
	}
	if cut || k.c.facts.open == 0 || !k.undisturbed(p) {
		return
	}
	for _, d := range k.c.facts.deliveries {
		if d == nil || d.fate != pending {
			continue
		}
		if h := k.c.w.handlerNamed(d.handler); h == nil || a.short[h.index] {
			continue
		}
		t := k.waits(p, d, in)
		if t.why != "" || k.seen(p, d, t.since) >= a.sent || !k.looksAt(p, k.laneOf(d), in) || gives(reply, k.laneOf(d)) {
			continue
		}
		m := k.row(d.id)
		if m.missing != uint8(p.worker.id) || t.since > m.missedAt {
			m.missing, m.missed = uint8(p.worker.id), 0
		}
		m.missed, m.missedAt = m.missed+1, a.sent
		if most := k.claimsToGrant(p, k.laneOf(d)); m.missed > most && (k.walks(p, d) == 1 || k.c.facts.lane(k.laneOf(d)).holder != p.holder) && !k.foreign(p, d) && !k.crowded(p, d) {
			k.c.fail(k.name(), k.name(), "#%d %s key %q lane %d could be claimed by %s for %v, and %d claims with room for it granted it not (allowed: %d)%v",
				d.id, d.handler, d.key, k.laneOf(d), p.worker.short(), k.c.w.now.Sub(t.since), m.missed, most, p)
		}
	}
}

// gives reports whether a claim gave something of a lane. A search reads so many
// rows of each, and what it gave may have stood before the others.
func gives(reply *engine.ClaimReply, id protocol.LaneID) bool {
	for i := range reply.Picks {
		if reply.Picks[i].Lease.Lane == id {
			return true
		}
	}
	return false
}

// looksAt reports whether a claim looks at a lane: it names it, or it looks for
// lanes that are free.
func (k *conserving) looksAt(p *process, id protocol.LaneID, in *engine.ClaimInput) bool {
	if k.c.facts.lane(id).holder != p.holder {
		return in.MaxLanes > 0
	}
	return in.AllMine || named(in.Held, id)
}

// claimsToGrant is in how many claims that look at a lane something of it must be
// granted: of a lane held in the second at the latest, and of a free one when
// those before it had their turn.
func (k *conserving) claimsToGrant(p *process, id protocol.LaneID) int {
	if k.c.facts.lane(id).holder == p.holder {
		return 1
	}
	return 2 + k.c.w.knobs.Lanes
}

func named(lanes []engine.LaneEpoch, id protocol.LaneID) bool {
	for _, l := range lanes {
		if l.Lane == id {
			return true
		}
	}
	return false
}

// judgePause judges whether a worker whose claims give nothing pauses between them.
func (k *conserving) judgePause(p *process) {
	a := &p.patience
	last := &a.idles[(a.next+len(a.idles)-1)%len(a.idles)]
	if last.to.Sub(last.from) > k.c.w.unit() || a.hinted >= last.from {
		a.fruitless = 0
		return
	}
	if most := 16 + 4*k.c.w.knobs.Lanes; a.fruitless > most {
		k.c.fail(k.name(), k.name(), "%s sends claim after claim without a pause, and the last %d gave nothing (allowed: %d)%v", p.worker.short(), a.fruitless, most, p)
	}
}

// judgeTurns judges whether every lane that the worker holds has its turn.
func (k *conserving) judgeTurns(p *process, in *engine.ClaimInput) {
	for i := range k.c.facts.lanes {
		id := protocol.LaneID(i)
		for i >= len(p.patience.passedOver) {
			p.patience.passedOver = append(p.patience.passedOver, 0)
		}
		n := &p.patience.passedOver[i]
		if k.c.facts.lanes[i].holder != p.holder || in.AllMine || named(in.Held, id) {
			*n = 0
			continue
		}
		*n++
		if most := 3 + k.c.w.knobs.Lanes; *n > most && k.undisturbed(p) && k.c.w.now.Sub(p.patience.harmed) > k.c.w.knobs.Lease {
			k.c.fail(k.name(), k.name(), "%s holds lane %d and has sent %d claims without asking it (allowed: %d)", p.worker.short(), id, *n, most)
		}
	}
}

package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// waiting is what a worker may do about a pending delivery now.
type waiting struct {
	why    string        // it cannot claim it; "" when it can …
	since  protocol.Time // … since then
	learnt protocol.Time // since when it has a reason to ask …
	how    string        // … this one; "" when it has none
}

func cannot(why string) waiting { return waiting{why: why} }

// waits says since when the worker could have claimed a delivery, as far as
// what was committed tells, or why it cannot. in is the claim that it sends.
func (k *conserving) waits(p *process, d *deliveryFacts, in *engine.ClaimInput) waiting {
	h := k.c.w.handlerNamed(d.handler)
	row, ok := k.c.w.store.Delivery(d.id)
	switch {
	case !ok || h == nil:
		return cannot("its row is gone")
	case p.handlers&(1<<h.index) == 0:
		return cannot("it lacks the handler")
	case d.granted.Delivery != 0:
		return cannot("it is granted already")
	case d.lost.Delivery != 0:
		return cannot("a takeover is to charge it first")
	}
	if why := heldKey(d); why != "" {
		return cannot(why)
	}
	due := row.AvailableAt.Add(-k.c.w.leapt)
	free, why := k.laneFree(p, row.Lane, in)
	if why == "" {
		why = k.barred(p, &row, in)
	}
	switch {
	case why != "":
		return cannot(why)
	case due > k.c.w.now:
		return cannot("it is not due")
	case stated(in, d):
		return cannot("the worker still states a run of it or of its key")
	case p.running(nil) >= p.concurrency():
		return cannot("every slot is taken")
	case p.roomFor(h) <= 0:
		return cannot("its handler runs as often as it may")
	}
	return k.claimable(p, d, &row, h, due, free)
}

// roomFor is how many more runs of a handler a process may start: as its limit
// and the free slots allow, less a slot for each other handler that has none, of
// which at most a quarter of all are kept.
func (p *process) roomFor(h *handlerSpec) int {
	idle := 0
	for _, o := range p.w.handlers {
		if o != h && p.handlers&(1<<o.index) != 0 && p.running(o) == 0 {
			idle++
		}
	}
	return min(h.limit(p)-p.running(h), p.concurrency()-p.running(nil)-min(idle, p.concurrency()/4))
}

// claimable is waits for a delivery that nothing holds back now.
func (k *conserving) claimable(p *process, d *deliveryFacts, row *protocol.Delivery, h *handlerSpec, due, free protocol.Time) (t waiting) {
	a := &p.patience
	m := k.row(d.id)
	ready := max(due, m.touched, k.leapt, free)
	if d.queue != nil {
		q := k.key(d.queue)
		if q.by == p && q.passed >= ready && q.passed < q.touched {
			t.learnt, t.how = q.touched, "a claim passed its key over, of which something ran"
		}
		ready = max(ready, q.touched)
	}
	room := max(a.full, a.noRoom[h.index])
	if row.Takeovers > 0 {
		room = max(room, a.suspect, a.replied)
	}
	if room > ready && (a.short[h.index] || row.Takeovers > 0 && a.barred) && a.sent > ready {
		t.learnt, t.how = max(room, a.lastAnswer()), "the last claim had no room for it"
	}
	if a.hinted > ready {
		t.learnt, t.how = a.hinted, "a hint came"
	}
	if m.putOff == p && m.due >= ready && m.noted > a.slept {
		t.learnt, t.how = m.due, "this worker put it off itself"
	}
	t.since = max(ready, room, a.began, a.harmed.Add(k.c.w.knobs.Lease))
	if t.since > k.c.w.now {
		t.why = "it was disturbed"
	}
	return t
}

// stated reports whether the worker states a run of the delivery's key, or of
// itself: one that it has not heard the end of.
func stated(in *engine.ClaimInput, d *deliveryFacts) bool {
	for i := range in.Running {
		r := &in.Running[i]
		if r.Delivery == d.id || d.key != "" && r.Key == d.key && r.Handler == d.handler {
			return true
		}
	}
	return false
}

// heldKey says what of its key stands before a delivery, or runs; "" for
// nothing.
func heldKey(d *deliveryFacts) string {
	if d.queue == nil {
		return ""
	}
	for _, o := range d.queue.all {
		if o.granted.Delivery != 0 || o.lost.Delivery != 0 {
			return "a delivery of its key is in flight"
		}
	}
	for _, o := range d.queue.all {
		if o == d {
			break
		}
		if o.fate == pending {
			return "an earlier one of its key is pending"
		}
	}
	return ""
}

// laneFree returns since when a worker may claim of a lane: it holds it, nobody
// does, or its lease has run out.
func (k *conserving) laneFree(p *process, id protocol.LaneID, in *engine.ClaimInput) (since protocol.Time, why string) {
	w := k.c.w
	l := k.c.facts.lane(id)
	if int(id) < len(k.lanes) {
		since = k.lanes[id]
	}
	switch expires := l.expires.Add(-w.leapt); {
	case int(id)/w.knobs.Lanes != p.worker.group:
		return 0, "its lane belongs to another group"
	case len(l.lost) > 0:
		return 0, "its lane has runs to charge"
	case l.holder == p.holder && slices.Contains(in.Draining, id):
		return 0, "its lane drains"
	case l.holder == p.holder && slices.Contains(in.LetExpire, id):
		return 0, "its lane is left to expire"
	case l.holder == p.holder:
		return since, ""
	case !l.holder.IsZero() && (expires >= w.now || k.c.facts.semantics == protocol.Locking):
		return 0, "its lane is held by another" // by row locks maybe beyond its lease
	case k.holds(p) >= 4*p.lanesPerClaim():
		return 0, "the worker holds as many lanes as it may"
	case !l.holder.IsZero():
		since = max(since, expires)
	}
	since = max(since, w.lastServed(p.client))
	for i := range p.patience.avoided {
		if v := &p.patience.avoided[i]; v.Lane == id {
			since = max(since, v.last)
		}
	}
	return since, ""
}

// lastServed returns until when the store served calls of other processes. Those
// may hold locks on lanes, which a takeover passes over, or win the lanes that a
// claim found. Calls of a process that died are served to their end.
func (w *world) lastServed(except *client) (last protocol.Time) {
	for _, p := range w.processes {
		switch c := p.client; {
		case c == except:
		case c.serving > 0:
			return w.now
		default:
			last = max(last, c.served)
		}
	}
	return last
}

// barred says which rule keeps the row from being granted; "" for none.
func (k *conserving) barred(p *process, row *protocol.Delivery, in *engine.ClaimInput) string {
	if lane, ok := k.c.w.store.Lane(row.Lane); ok && slices.Contains(lane.Stuck, row.ID) {
		return "it is stuck"
	}
	if row.Takeovers == 0 {
		return ""
	}
	for _, r := range p.runs {
		if r.run.Picked.Delivery.Takeovers > 0 {
			return "another run that was in flight when a worker died"
		}
	}
	if in.SuspectRunning {
		return "another run that was in flight when a worker died is not settled"
	}
	return ""
}

// holds counts the lanes of a process.
func (k *conserving) holds(p *process) (n int) {
	for i := range k.c.facts.lanes {
		if k.c.facts.lanes[i].holder == p.holder {
			n++
		}
	}
	return n
}

// seen returns when each search of a holder sees a delivery that it could claim
// since then: one without a key may lie below the watermark until the next full
// search.
func (k *conserving) seen(p *process, d *deliveryFacts, since protocol.Time) protocol.Time {
	if d.queue == nil && k.c.facts.lane(k.laneOf(d)).holder == p.holder {
		return since.Add(picks.FullEvery)
	}
	return since
}

// crowded reports whether deliveries of handlers with a limit of their own may fill
// what a search reads of the lane. It knows which handlers have room, and not how
// much: a known gap (CORRECTNESS.md).
func (k *conserving) crowded(p *process, d *deliveryFacts) bool {
	lane, n := k.laneOf(d), 0
	for _, o := range k.c.facts.deliveries {
		if o == nil || o == d || o.fate != pending {
			continue
		}
		if h := k.c.w.handlerNamed(o.handler); h != nil && h.limit(p) < p.concurrency() && k.laneOf(o) == lane {
			n++
		}
	}
	return n >= picks.LeastPerLane-1
}

// foreign reports whether the lane of a delivery has work that the worker lacks the
// handler of: it leaves such a lane to others.
func (k *conserving) foreign(p *process, d *deliveryFacts) bool {
	lane := k.laneOf(d)
	for _, o := range k.c.facts.deliveries {
		if o == nil || o.fate != pending {
			continue
		}
		if h := k.c.w.handlerNamed(o.handler); h != nil && p.handlers&(1<<h.index) == 0 && k.laneOf(o) == lane {
			return true
		}
	}
	return false
}

// walks is how many claims a holder needs to see every head of a key in the lane
// of a delivery: a search reads some, due or not, goes on behind them with the
// next claim, and begins anew with the one after the last.
// Of lanes that nobody holds it takes so many with each.
func (k *conserving) walks(p *process, d *deliveryFacts) int {
	lane := k.laneOf(d)
	if k.c.facts.lane(lane).holder != p.holder {
		return 1 + k.c.w.knobs.Lanes/p.lanesPerClaim()
	}
	if d.queue == nil {
		return 1
	}
	heads := 0
	for _, o := range k.c.facts.deliveries {
		if o != nil && o.fate == pending && o.queue != nil && o == firstPending(o.queue) && k.laneOf(o) == lane {
			heads++
		}
	}
	if heads < picks.LeastPerLane-1 { // one may have ended since
		return 1
	}
	return 2 + heads/picks.LeastPerLane
}

func firstPending(q *queueFacts) *deliveryFacts {
	for _, d := range q.all {
		if d.fate == pending {
			return d
		}
	}
	return nil
}

// laneOf returns the lane of a delivery that is there.
func (k *conserving) laneOf(d *deliveryFacts) protocol.LaneID {
	row, _ := k.c.w.store.Delivery(d.id)
	return row.Lane
}

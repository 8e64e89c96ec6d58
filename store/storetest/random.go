package storetest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// random issues long sequences of calls, legal and illegal ones, and compares
// each reply with the protocol. What a user would lose if it failed: whatever
// no single case thought of.
//
// The number of sequences is rapid's flag -rapid.checks, a fifth of it with
// -short; a store that is slow to open may set a smaller one.
func (h Harness[Tx]) random(t testing.TB) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &scope{TB: t}
		defer s.end()
		b := newBench(drawn{s, rt}, h.Semantics, adapt(h.Open(s)))
		newClient(b, rt).play()
	})
}

// scope is a test whose cleanups run at the end of one sequence: hundreds of
// stores must not stay open until the last one.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		last()
	}
}

// drawn is a test whose failures rapid sees, so that it can shrink them.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Helper()                           {}
func (d drawn) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }
func (d drawn) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }
func (d drawn) Logf(format string, args ...any)   { d.rt.Logf(format, args...) }

// client draws calls and keeps what it needs to know to make interesting ones.
type client struct {
	*model
	rt      *rapid.T
	workers []*worker
	granted []grant
	ids     []string // event ids of two lanes
	keys    []string // keys of the same lanes, and none
}

// grant is a pick that a worker was told of, or not.
type grant struct {
	w *worker
	engine.Picked
}

// services are the groups of the random world, with their handlers. Every
// handler wants both types of event.
var services = []struct {
	group    string
	handlers []string
}{{"one", []string{"h", "i"}}, {"two", []string{"j"}}}

var types = []string{"e", "f"}

func newClient(b *bench, rt *rapid.T) *client {
	c := &client{rt: rt}
	first := b.join(false, services[0].group, types[0], services[0].handlers...)
	c.model = newModel(b, first.Lanes)
	c.subscribed(services[0].group, types[0], services[0].handlers, false, first)
	for _, s := range services {
		for _, e := range types {
			c.subscribe(s.group, e, s.handlers, false)
		}
	}
	for i := 0; len(c.ids) < 8 || len(c.keys) < 3; i++ {
		name := fmt.Sprint("n", i)
		if protocol.LaneOf(0, c.lanes, "", name) > 1 {
			continue
		}
		if len(c.keys) < 3 {
			c.keys = append(c.keys, name)
		} else {
			c.ids = append(c.ids, name)
		}
	}
	c.keys = append(c.keys, "")
	for range 3 {
		c.born()
	}
	return c
}

func (c *client) pick(what string, n int) int {
	return rapid.IntRange(0, n-1).Draw(c.rt, what)
}

func (c *client) maybe(what string, oneIn int) bool { return c.pick(what, oneIn) == oneIn-1 }

// born adds a worker of a random service.
func (c *client) born() {
	s := services[c.pick("service", 3)/2]
	w := c.bench.worker(s.handlers[:1+c.pick("handlers", len(s.handlers))]...)
	number, _ := c.state.Group(s.group)
	shared := *c.bench
	shared.group = number
	w.bench = &shared
	c.workers = append(c.workers, w)
}

func (c *client) play() {
	steps := []func(){ // those that stand twice are drawn more often
		c.publish, c.publish, c.claim, c.claim, c.claim, c.claim, c.endSome, c.endSome, c.endSome, c.endSome,
		c.completeSome, c.completeSome, c.releaseSome, c.extend, c.relinquishSome, c.expireOne, c.expireOne, c.dueOne,
		c.requeueSome, c.purgeOld, c.removeOne, c.subscribeOne, c.restart,
	}
	for range 20 + c.pick("steps", 60) {
		steps[c.pick("step", len(steps))]()
	}
	c.compare()
	c.drainAll()
	c.compare()
	c.bench.verify("after random commands")
}

// publish publishes a few events, some of them known, and sometimes takes it
// back.
func (c *client) publish() {
	var list []protocol.Event
	for range 1 + c.pick("events", 4) {
		i := c.pick("event", len(c.ids))
		e := protocol.Event{ID: c.ids[i], Type: types[i%2], Key: c.keys[i%len(c.keys)], Payload: []byte(c.ids[i])}
		switch {
		case c.maybe("another type", 20):
			e.Type = types[(i+1)%2]
		case c.maybe("another key", 20):
			e.Key += "x"
		case c.maybe("put off", 8):
			e.Due.Delay = later
		}
		list = append(list, e)
	}
	if c.maybe("rollback", 8) {
		tx := c.open("")
		c.ok(tx.do(tx.publishing(list, nil)), "publish")
		tx.rollback()
		return
	}
	results, err := c.tryPublish("", list...)
	c.ok(err, "publish")
	c.published(list, results)
}

func (c *client) someone() *worker { return c.workers[c.pick("worker", len(c.workers))] }

// claim makes a claim, in time or late, and adopts its reply or loses it.
func (c *client) claim() {
	w := c.someone()
	in := w.input()
	in.Room, in.Limit, in.MaxLanes = c.pick("room", 7), c.pick("limit", 9), c.pick("lanes", 4)
	for i := range in.Handlers {
		in.Handlers[i].Room = c.pick("handler room", 6)
	}
	c.vary(w, &in)
	if c.maybe("late", 15) {
		c.claimTooLate(in)
		return
	}
	var reply engine.ClaimReply
	c.ok(c.retry(func() (err error) {
		reply, err = c.bench.Claim(c.ctx, in)
		return err
	}), "claim")
	c.claimed(&in, &reply)
	for _, p := range reply.Picks {
		c.granted = append(c.granted, grant{w, p})
	}
	if !c.maybe("lost reply", 8) {
		w.adopt(reply)
	}
}

// vary makes a claim unusual in one way or none.
func (c *client) vary(w *worker, in *engine.ClaimInput) {
	lane := engine.LaneID(w.group*c.lanes + int32(c.pick("lane", 2)))
	switch c.pick("variation", 12) {
	case 0:
		in.Number -= 2 * int64(c.pick("old", 3))
	case 1:
		in.AllMine = true
	case 2:
		in.AllMine, in.Held = true, nil
	case 3:
		in.LetExpire = []engine.LaneID{lane}
		in.Held = deleteLane(in.Held, lane)
	case 4:
		for _, l := range in.Held {
			in.Draining = append(in.Draining, l.Lane)
		}
	case 5:
		in.Held = append(deleteLane(in.Held, lane), engine.LaneEpoch{Lane: lane, Epoch: 1})
	case 6:
		in.SuspectRunning = true
	case 7:
		if n := len(in.Running); n > 0 {
			w.running = append(in.Running[:0:0], in.Running[1:]...)
			in.Running = w.running
		}
	case 8:
		for i := range in.Running {
			in.Running[i].Claim--
		}
	}
}

func deleteLane(list []engine.LaneEpoch, id engine.LaneID) []engine.LaneEpoch {
	var rest []engine.LaneEpoch
	for _, l := range list {
		if l.Lane != id {
			rest = append(rest, l)
		}
	}
	return rest
}

// someLease returns a lease that was granted once, or a forgery of one.
func (c *client) someLease() (grant, bool) {
	if len(c.granted) == 0 {
		return grant{}, false
	}
	recent := max(0, len(c.granted)-6)
	if c.maybe("any age", 3) {
		recent = 0
	}
	g := c.granted[recent+c.pick("lease", len(c.granted)-recent)]
	if c.maybe("forged", 8) {
		switch c.pick("forgery", 5) {
		case 0:
			g.Lease.Epoch++
		case 1:
			g.Lease.Claim--
		case 2:
			g.Lease.Holder[0] ^= 1
		case 3:
			g.Lease.Lane ^= 1
		case 4:
			g.Lease.Fence++
		}
	}
	return g, true
}

// rest returns the later members of a grant's chain.
func (c *client) rest(g grant) []engine.Lease {
	var rest []engine.Lease
	last := g.Lease.Delivery
	for _, other := range c.granted {
		if other.Lease.Token == g.Lease.Token && other.Lease.After == last {
			rest = append(rest, other.Lease)
			last = other.Lease.Delivery
		}
	}
	return rest
}

// over drops a run from what its worker states, as a worker does after an end.
func (c *client) over(g grant) {
	if c.maybe("still stated", 6) {
		return
	}
	kept := g.w.running[:0:0]
	for _, r := range g.w.running {
		if r.InFlight != g.Lease.Entry() {
			kept = append(kept, r)
		}
	}
	g.w.running = kept
}

func (c *client) endSome() {
	g, ok := c.someLease()
	if !ok {
		return
	}
	l, delay := g.Lease, []time.Duration{0, later}[c.pick("delay", 2)]
	var rest []engine.Lease
	if !c.maybe("rest kept", 4) {
		rest = c.rest(g)
	}
	settle := c.maybe("settle", 4)
	switch c.pick("end", 4) {
	case 0:
		in := engine.RescheduleInput{Lease: l, Rest: rest, Delay: delay, Error: "failed", Settle: settle}
		v := c.end(func() (engine.EndReply, error) { return c.bench.Reschedule(c.ctx, in) })
		c.step(protocol.Reschedule{Lease: l, Rest: rest, Error: "failed", Now: now, Verdict: v})
		c.putOff(l.Delivery, v, delay)
	case 1:
		in := engine.SnoozeInput{Lease: l, Rest: rest, Delay: delay, Settle: settle}
		v := c.end(func() (engine.EndReply, error) { return c.bench.Snooze(c.ctx, in) })
		c.step(protocol.Snooze{Lease: l, Rest: rest, Now: now, Verdict: v})
		c.putOff(l.Delivery, v, delay)
	case 2:
		charge := c.maybe("charge", 2)
		in := engine.BuryInput{Lease: l, Rest: rest, Error: "dead", Charge: charge}
		v := c.end(func() (engine.EndReply, error) { return c.bench.Bury(c.ctx, in) })
		c.step(protocol.Bury{Lease: l, Rest: rest, Error: "dead", Charge: charge, Now: now, Verdict: v})
	case 3:
		v, err := c.txLease("", "random", l)
		c.ok(err, "complete")
		c.step(protocol.Complete{Lease: l, Verdict: v})
		if v == engine.Applied {
			c.completions++
		}
	}
	c.over(g)
	for _, r := range rest {
		c.over(grant{g.w, engine.Picked{Lease: r}})
	}
}

// someLeases returns a few leases of different deliveries in the order in
// which they were granted.
func (c *client) someLeases() []grant {
	var list []grant
	first := max(0, len(c.granted)-8)
	for i := first; i < len(c.granted); i++ {
		if c.maybe("take", 2) && !hasDelivery(list, c.granted[i].Lease.Delivery) {
			list = append(list, c.granted[i])
		}
	}
	if g, ok := c.someLease(); ok && len(list) == 0 {
		list = append(list, g)
	}
	return list
}

func hasDelivery(list []grant, id engine.DeliveryID) bool {
	for _, g := range list {
		if g.Lease.Delivery == id {
			return true
		}
	}
	return false
}

func leasesOf(list []grant) []engine.Lease {
	leases := []engine.Lease{}
	for _, g := range list {
		leases = append(leases, g.Lease)
	}
	return leases
}

func (c *client) completeSome() {
	list := c.someLeases()
	leases := leasesOf(list)
	c.step(protocol.CompleteMany{Leases: leases, Verdicts: c.completeLeases(leases...)})
	for _, g := range list {
		c.over(g)
	}
}

func (c *client) releaseSome() {
	list := c.someLeases()
	leases := leasesOf(list)
	c.step(protocol.Release{Leases: leases, Verdicts: c.bench.release(leases...)})
	for _, g := range list {
		c.over(g)
	}
}

func (c *client) extend() {
	w := c.someone()
	lanes := append([]engine.LaneEpoch{}, w.held...)
	if c.maybe("a wrong lane", 3) {
		lanes = append(deleteLane(lanes, 0), engine.LaneEpoch{Lane: 0, Epoch: int64(c.pick("epoch", 4))})
	}
	reply, err := c.bench.ExtendLease(c.ctx, engine.ExtendLeaseInput{Holder: w.holder, Lanes: lanes, TTL: ttl})
	c.ok(err, "extend")
	c.expect(len(reply.Verdicts) == len(lanes), "%d lanes got %d verdicts", len(lanes), len(reply.Verdicts))
	for i, l := range lanes {
		c.step(protocol.ExtendLease{Lane: l.Lane, Epoch: l.Epoch, Holder: w.holder, TTL: ttl, Now: now, Clock: now, Verdict: reply.Verdicts[i]})
	}
}

func (c *client) relinquishSome() {
	w := c.someone()
	var in engine.RelinquishInput
	lanes := w.relinquish(func(r *engine.RelinquishInput) {
		switch c.pick("which", 4) {
		case 0:
			r.Lanes = append(r.Lanes, w.held...)
		case 1:
			lane := engine.LaneID(w.group*c.lanes + int32(c.pick("lane", 2)))
			r.Lanes = []engine.LaneEpoch{{Lane: lane, Epoch: int64(c.pick("epoch", 4))}}
		case 2:
			r.Number -= 2
		case 3:
			for _, l := range w.held {
				r.Keep = append(r.Keep, l.Lane)
			}
		}
		in = *r
	})
	c.relinquished(&in, lanes)
}

func (c *client) expireOne() {
	var held []engine.LaneID
	for l := range c.state.AllLanes() {
		if !l.Holder.IsZero() {
			held = append(held, l.ID)
		}
	}
	if len(held) > 0 {
		c.expireLane(held[c.pick("lane", len(held))])
	}
}

func (c *client) dueOne() {
	for d := range c.state.Deliveries() {
		if c.waits[d.ID] && d.Status == protocol.Pending {
			c.makeDueNow(d.ID)
			return
		}
	}
}

func (c *client) requeueSome() {
	in := engine.RequeueInput{}
	switch c.pick("requeue", 3) {
	case 0:
		in.All = true
	case 1:
		in.Filter.Handler = "h"
	case 2:
		for d := range c.state.Deliveries() {
			in.IDs = append(in.IDs, d.ID)
		}
		if len(in.IDs) == 0 {
			return
		}
	}
	reply, err := c.bench.Requeue(c.ctx, in)
	c.ok(err, "requeue")
	c.requeued(&in, reply.Requeued)
}

func (c *client) removeOne() {
	if !c.maybe("remove", 3) {
		return
	}
	s := services[c.pick("service", 2)]
	h := engine.EventHandler{Event: types[c.pick("type", 2)], Handler: s.handlers[c.pick("handler", len(s.handlers))]}
	bury := c.maybe("bury", 2)
	reply, err := c.bench.Unsubscribe(c.ctx, engine.UnsubscribeInput{EventHandler: h, Bury: bury})
	c.ok(err, "unsubscribe")
	c.swept(h, bury, reply.Swept)
}

func (c *client) subscribeOne() {
	s := services[c.pick("service", 2)]
	c.subscribe(s.group, types[c.pick("type", 2)], s.handlers, c.maybe("revive", 2))
}

func (c *client) subscribe(group, event string, handlers []string, revive bool) {
	c.subscribed(group, event, handlers, revive, c.bench.join(revive, group, event, handlers...))
}

// restart lets a worker die and another one start.
func (c *client) restart() {
	i := c.pick("worker", len(c.workers))
	c.workers = append(c.workers[:i:i], c.workers[i+1:]...)
	c.born()
}

// drainAll brings everything to an end, as a live worker per service would.
func (c *client) drainAll() {
	for l := range c.state.AllLanes() {
		if !l.Holder.IsZero() {
			c.expireLane(l.ID)
		}
	}
	for d := range c.state.Deliveries() {
		if c.waits[d.ID] && d.Status == protocol.Pending {
			c.makeDueNow(d.ID)
		}
	}
	for i, s := range services {
		w := c.bench.worker(s.handlers...)
		shared := *c.bench
		shared.group = int32(i)
		w.bench = &shared
		for quiet := 0; quiet < 3; quiet++ {
			in := w.input()
			reply, err := w.tryClaim(in)
			c.ok(err, "claim")
			c.claimed(&in, &reply)
			w.adopt(reply)
			for _, p := range reply.Picks {
				leases := []engine.Lease{p.Lease}
				c.step(protocol.CompleteMany{Leases: leases, Verdicts: c.completeLeases(leases...)})
				quiet = -1
			}
			w.running = nil
		}
	}
	for d := range c.state.Deliveries() {
		c.expect(d.Status == protocol.Dead, "does not drain: #%d %s/%s", d.ID, d.Event, d.Handler)
	}
}

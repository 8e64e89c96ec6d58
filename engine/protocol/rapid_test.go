package protocol

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestEveryInterleaving draws calls of workers, publishers, operators and the
// environment, legal and illegal ones, and checks every invariant after each.
// What a user would lose if it failed: the protocol itself would allow what it
// promises to prevent, and no store could be better than that.
//
// The workers keep the discipline that the protocol asks of them: one end per
// lease whose kind does not change, no end for a run that left what they
// state, and after an abandoned claim a call that names all their lanes.
func TestEveryInterleaving(t *testing.T) {
	longer(t, "rapid.steps", "80")
	for _, semantics := range []Semantics{Locking, Snapshot} {
		t.Run(semantics.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				newMachine(t, semantics).run(t)
			})
		})
	}
}

// longer replaces the default of one of rapid's flags: a story needs about ten
// calls before anything can go wrong.
func longer(t *testing.T, name, value string) {
	f := flag.Lookup(name)
	if f == nil || f.Value.String() != f.DefValue {
		return
	}
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
}

// machine draws what happens to a world.
type machine struct {
	*world
	crew   []*worker // those alive; a restart makes a new one
	births int
	poison string // the delivery that kills whoever runs it
	behind map[string]bool
}

const (
	rapidLanes  = 2
	rapidEvents = 6
)

func newMachine(t *rapid.T, semantics Semantics) *machine {
	m := &machine{world: newWorld(semantics, rapidLanes), behind: map[string]bool{}}
	m.poison = []string{"e0/mail", "e1/audit"}[pick(t, "poison", 2)]
	for range 3 {
		m.crew = append(m.crew, m.born())
	}
	m.must(t, Subscribe{Group: "default", Handlers: []EventHandler{{"order", "mail"}, {"order", "audit"}}, Lanes: []LaneID{0, 1}})
	for lane := range LaneID(rapidLanes) {
		wk := m.someone(t)
		m.must(t, m.takeOver(wk, lane, wk.nextCall()-1))
	}
	return m
}

func (m *machine) born() *worker {
	m.births++
	return m.worker(fmt.Sprintf("worker %d", m.births))
}

func (m *machine) run(t *rapid.T) {
	// Those that stand twice are drawn more often.
	steps := []func(*rapid.T){
		m.drawPublish, m.drawPublish,
		m.drawTick,
		m.drawTakeOver, m.drawTakeOver,
		m.drawChargeLost,
		m.drawClaim, m.drawClaim, m.drawClaim, m.drawClaim,
		m.drawAnyPicks,
		m.drawExtend,
		m.drawComplete, m.drawComplete,
		m.drawFailure, m.drawFailure,
		m.drawRelease,
		m.drawRelinquish,
		m.drawStaleEnd,
		m.drawForgedEnd,
		m.drawRequeue,
		m.drawPurge,
		m.drawUnsubscribe,
		m.drawSubscribe,
		m.drawDeath,
		m.drawPoison, m.drawPoison,
		m.drawCrash,
	}
	t.Repeat(map[string]func(*rapid.T){
		"step": func(t *rapid.T) { steps[pick(t, "what", len(steps))](t) },
	})
}

// pick draws a number below n. rapid's own ranges favour small numbers, and
// with them every chance would be a near certainty.
func pick(t *rapid.T, label string, n int) int {
	return evenly.Draw(t, label) % n
}

var evenly = rapid.Custom(func(t *rapid.T) int {
	n := 0
	for range 10 {
		n <<= 1
		if rapid.Bool().Draw(t, "bit") {
			n |= 1
		}
	}
	return n
})

// must commits an action that a correct store may commit: the State says so,
// and no invariant breaks.
func (m *machine) must(t *rapid.T, a Action) {
	refusal, violation := m.commit(a)
	if refusal != nil {
		t.Fatalf("%+v\n%v", a, refusal)
	}
	if violation != nil {
		t.Fatalf("%+v\n%v", a, violation)
	}
}

// try commits an action when the State allows it, and reports whether.
func (m *machine) try(t *rapid.T, a Action) bool {
	if !m.attempt(a).OK() {
		return false
	}
	m.must(t, a)
	return true
}

func (m *machine) someone(t *rapid.T) *worker {
	return m.crew[pick(t, "worker", len(m.crew))]
}

func (m *machine) someLane(t *rapid.T) LaneID {
	return LaneID(pick(t, "lane", rapidLanes))
}

func chance(t *rapid.T, label string, percent int) bool {
	return pick(t, label, 100) >= 100-percent // so that shrinking says no
}

func (m *machine) drawTick(t *rapid.T) {
	m.now = m.now.Add(time.Duration(1+pick(t, "seconds", 40)) * time.Second)
}

func (m *machine) drawPublish(t *rapid.T) {
	var events []Event
	var subscribed [][]string
	n := 1 + pick(t, "events", 3)
	for range n {
		id := fmt.Sprint("e", pick(t, "id", rapidEvents))
		if slices.ContainsFunc(events, func(e Event) bool { return e.ID == id }) {
			continue
		}
		e := Event{ID: id, Type: "order", Key: []string{"", "a", "b"}[pick(t, "key", 3)], PublishedAt: m.now}
		if known, ok := m.s.Event(id); ok && chance(t, "same key", 90) {
			e.Key = known.Key
		}
		events = append(events, e)
		handlers := m.subscribed("order")
		if len(handlers) > 0 && chance(t, "old snapshot", 20) {
			handlers = handlers[1:]
		}
		subscribed = append(subscribed, handlers)
	}
	a := m.draft(events, subscribed)
	m.must(t, a)
	m.published(a)
}

func (m *machine) drawTakeOver(t *rapid.T) {
	wk := m.someone(t)
	number := wk.nextCall() - 1
	if chance(t, "late", 20) {
		number = max(1, number-int64(1+pick(t, "late by", 6)))
	}
	a := m.takeOver(wk, m.someLane(t), number)
	if chance(t, "another group", 5) {
		a.Group = 1
	}
	lane, _ := m.s.Lane(a.Lane)
	if m.s.Semantics() == Locking && len(lane.InFlight) > 0 && chance(t, "bad row", 10) {
		a.Refused = []DeliveryID{lane.InFlight[0].Delivery}
	}
	m.try(t, m.filled(a))
}

func (m *machine) drawChargeLost(t *rapid.T) {
	a := ChargeLost{Lane: m.someLane(t)}
	lane, _ := m.s.Lane(a.Lane)
	if len(lane.Lost) > 0 && chance(t, "bad row", 10) {
		a.Refused = []DeliveryID{lane.Lost[0].Delivery}
	}
	m.try(t, m.filled(a))
}

// drawClaim makes one Claim call: for one lane, or, after an abandoned one,
// for all lanes of the worker before anything is picked.
func (m *machine) drawClaim(t *rapid.T) {
	id := m.someLane(t)
	wk := m.holderOf(t, id)
	if m.behind[wk.name] {
		m.catchUp(t, wk)
		return
	}
	a := m.draftClaim(t, wk, id)
	lane, _ := m.s.Lane(a.Lane)
	a.Unstuck = slices.Clone(lane.Stuck)
	if chance(t, "late", 10) {
		a.Number -= int64(1 + pick(t, "late by", 6))
	}
	a.Picks = m.s.Candidates(a, pick(t, "limit", 5), 1+pick(t, "chain", 3))
	m.claim(t, wk, a, chance(t, "lost reply", 15))
}

// holderOf returns the holder of a lane, if it is alive, and sometimes anybody.
func (m *machine) holderOf(t *rapid.T, id LaneID) *worker {
	lane, _ := m.s.Lane(id)
	for _, wk := range m.crew {
		if wk.holder == lane.Holder && chance(t, "holder", 80) {
			return wk
		}
	}
	return m.someone(t)
}

func (m *machine) draftClaim(t *rapid.T, wk *worker, lane LaneID) Claim {
	return Claim{
		Lane: lane, Holder: wk.holder, Number: wk.nextCall(), Handlers: m.handlers(),
		Running: wk.states(), SuspectRunning: wk.runsSuspect(), Renew: chance(t, "renew", 95),
		TTL: testTTL, Now: m.now, Clock: m.now,
	}
}

func (m *machine) claim(t *rapid.T, wk *worker, a Claim, lostReply bool) {
	if !m.try(t, a) {
		return
	}
	m.learn(wk, a, !lostReply)
	m.behind[wk.name] = lostReply
	lane, _ := m.s.Lane(a.Lane)
	for _, r := range a.Running {
		if r.Lane == a.Lane && !lists(lane.InFlight, r.InFlight) {
			wk.running = slices.DeleteFunc(wk.running, func(g grant) bool { return g.Entry() == r.InFlight })
		}
	}
}

// catchUp names all lanes of the worker, without picks.
func (m *machine) catchUp(t *rapid.T, wk *worker) {
	number := wk.nextCall()
	for lane := range LaneID(rapidLanes) {
		a := m.draftClaim(t, wk, lane)
		a.Number = number
		m.claim(t, wk, a, false)
	}
	m.behind[wk.name] = false
}

// drawAnyPicks picks rows at random: where the State lets one pass, the
// invariants must bear it.
func (m *machine) drawAnyPicks(t *rapid.T) {
	id := m.someLane(t)
	wk := m.holderOf(t, id)
	if m.s.Len() == 0 || m.behind[wk.name] {
		return
	}
	a := m.draftClaim(t, wk, id)
	for range 1 + pick(t, "picks", 3) {
		r := m.s.rows[pick(t, "row", m.s.Len())]
		p := Picked{Delivery: r.ID, Fence: r.Fence}
		if n := len(a.Picks); n > 0 && chance(t, "chain", 50) {
			p.After = a.Picks[n-1].Delivery
		}
		a.Picks = append(a.Picks, p)
	}
	m.claim(t, wk, a, false)
}

func (m *machine) drawExtend(t *rapid.T) {
	wk := m.someone(t)
	lane, _ := m.s.Lane(m.someLane(t))
	m.must(t, m.filled(ExtendLease{
		Lane: lane.ID, Epoch: lane.Epoch - int64(pick(t, "old epoch", 2)),
		Holder: wk.holder, TTL: testTTL, Now: m.now, Clock: m.now,
	}))
}

// someRun draws one of the runs that a worker has not ended, in the order in
// which its chain may end them.
func (m *machine) someRun(t *rapid.T, wk *worker) (grant, bool) {
	if len(wk.running) == 0 {
		return grant{}, false
	}
	return wk.running[pick(t, "run", len(wk.running))], true
}

func (m *machine) drawComplete(t *rapid.T) {
	wk := m.someone(t)
	g, ok := m.someRun(t, wk)
	if !ok {
		return
	}
	lostReply := chance(t, "lost reply", 15)
	if chance(t, "in a transaction", 40) {
		m.must(t, m.filled(Complete{Lease: g.Lease}))
	} else {
		a := CompleteMany{Leases: m.chainOf(wk, g)}
		if chance(t, "bad row", 10) {
			a.Refused = []DeliveryID{g.Delivery}
		}
		m.must(t, m.filled(a))
		for _, l := range a.Leases[1:] {
			wk.forget(l)
		}
	}
	if !lostReply {
		wk.forget(g.Lease)
	}
}

// chainOf returns the lease and those behind it in its chain, in order.
func (m *machine) chainOf(wk *worker, g grant) []Lease {
	chain := []Lease{g.Lease}
	for _, next := range wk.running {
		last := chain[len(chain)-1]
		if next.After == last.Delivery && next.Token == last.Token {
			chain = append(chain, next.Lease)
		}
	}
	return chain
}

func (m *machine) drawFailure(t *rapid.T) {
	wk := m.someone(t)
	g, ok := m.someRun(t, wk)
	if !ok {
		return
	}
	chain := m.chainOf(wk, g)
	refused := chance(t, "bad row", 10) && m.attempt(Snooze{Lease: g.Lease}).OK()
	delay := time.Duration(pick(t, "delay", 21)) * time.Second
	switch pick(t, "end", 3) {
	case 0:
		m.must(t, m.filled(Reschedule{Lease: g.Lease, Rest: chain[1:], Delay: delay, Now: m.now, Refused: refused}))
	case 1:
		m.must(t, m.filled(Snooze{Lease: g.Lease, Rest: chain[1:], Delay: delay, Now: m.now, Refused: refused}))
	case 2:
		m.must(t, m.filled(Bury{Lease: g.Lease, Rest: chain[1:], Charge: chance(t, "charge", 50), Now: m.now, Refused: refused}))
	}
	for _, l := range chain {
		wk.forget(l)
	}
}

func (m *machine) drawRelease(t *rapid.T) {
	wk := m.someone(t)
	g, ok := m.someRun(t, wk)
	if !ok {
		return
	}
	a := Release{Leases: m.chainOf(wk, g)}
	m.must(t, m.filled(a))
	for _, l := range a.Leases {
		wk.forget(l)
	}
}

func (m *machine) drawRelinquish(t *rapid.T) {
	wk := m.someone(t)
	wk.call++
	lane, _ := m.s.Lane(m.someLane(t))
	a := Relinquish{Lane: lane.ID, Holder: wk.holder, Number: wk.call, Running: wk.states()}
	if chance(t, "name the epoch", 50) {
		a.Epoch = lane.Epoch - int64(pick(t, "old epoch", 2))
	}
	if chance(t, "late", 20) {
		a.Number -= int64(1 + pick(t, "late by", 6))
	}
	m.must(t, m.filled(a))
}

// drawStaleEnd sends an end for any lease ever granted, as a late message
// would. A Snapshot store's plain completion is left out: it looks at nothing
// but the row, and only a worker's discipline keeps it from being sent; so is
// what looks like a lost run, as in drawForgedEnd.
func (m *machine) drawStaleEnd(t *rapid.T) {
	wk := m.workers[pick(t, "anybody", len(m.workers))]
	if len(wk.granted) == 0 {
		return
	}
	g := wk.granted[pick(t, "lease", len(wk.granted))]
	lane, _ := m.s.Lane(g.Lane)
	running := slices.ContainsFunc(wk.running, func(r grant) bool { return r.Lease == g.Lease })
	if running || lists(lane.Lost, g.Entry()) {
		return
	}
	m.end(t, g.Lease)
}

// end sends some end for a lease; where it is LeaseLost nothing may change.
func (m *machine) end(t *rapid.T, l Lease) {
	ends := []Action{
		Complete{Lease: l},
		Reschedule{Lease: l, Now: m.now},
		Snooze{Lease: l, Now: m.now},
		Bury{Lease: l, Charge: true, Now: m.now},
		Release{Leases: []Lease{l}},
	}
	if m.s.Semantics() == Locking {
		ends = append(ends, CompleteMany{Leases: []Lease{l}})
	}
	a := ends[pick(t, "end", len(ends))]
	before, lost := m.s.Hash(), !m.attempt(a).OK()
	m.must(t, m.filled(a))
	if after := m.s.Hash(); lost && after != before {
		t.Fatalf("%s was LeaseLost and yet changed the state", a.Name())
	}
}

// drawForgedEnd ends a run under a token that is nearly right. What is lost is
// left out: its token was compared in the snapshot of its transaction, and the
// State of the commit remembers no more than delivery and claim.
func (m *machine) drawForgedEnd(t *rapid.T) {
	wk := m.someone(t)
	g, ok := m.someRun(t, wk)
	if !ok {
		return
	}
	if lane, _ := m.s.Lane(g.Lane); lists(lane.Lost, g.Entry()) {
		return
	}
	l := g.Lease
	switch pick(t, "forged", 4) {
	case 0:
		l.Epoch--
	case 1:
		l.Claim++
	case 2:
		l.Holder[15] ^= 1
	case 3:
		l.Lane = (l.Lane + 1) % rapidLanes
	}
	m.end(t, l)
}

func (m *machine) drawRequeue(t *rapid.T) {
	a := Requeue{Now: m.now}
	for d := range m.s.Deliveries() {
		if d.Status == Dead {
			a.IDs = append(a.IDs, d.ID)
		}
	}
	a.Requeued = a.IDs
	m.must(t, a)
}

func (m *machine) drawPurge(t *rapid.T) {
	a := Purge{DiedTo: m.now, EventsTo: m.now}
	for d := range m.s.Deliveries() {
		if d.Status == Dead && d.DiedAt < m.now {
			a.Dead = append(a.Dead, d.ID)
		}
	}
	for e := range m.s.Events() {
		only := a
		only.Events = append(slices.Clone(a.Events), e.ID)
		if m.attempt(only).OK() {
			a = only
		}
	}
	if !chance(t, "events too", 50) {
		a.Events = nil
	}
	m.must(t, a)
}

func (m *machine) drawUnsubscribe(t *rapid.T) {
	if !chance(t, "really", 30) {
		return
	}
	a := Unsubscribe{EventHandler: EventHandler{"order", "audit"}, Bury: chance(t, "bury", 50), Now: m.now}
	for d := range m.s.Deliveries() {
		if d.Handler == "audit" && d.Status == Pending {
			a.Swept = append(a.Swept, d.ID)
		}
	}
	m.must(t, a)
}

func (m *machine) drawSubscribe(t *rapid.T) {
	m.must(t, Subscribe{
		Group: "default", Handlers: []EventHandler{{"order", "mail"}, {"order", "audit"}},
		Revive: chance(t, "revive", 50), Now: m.now,
	})
}

// drawDeath replaces a worker by a new instance, which knows nothing.
func (m *machine) drawDeath(t *rapid.T) {
	i := pick(t, "who", len(m.crew))
	m.crew[i] = m.born()
}

// drawPoison lets the poison delivery kill the worker that started it.
func (m *machine) drawPoison(t *rapid.T) {
	for i, wk := range m.crew {
		for _, g := range wk.running {
			if g.name == m.poison && m.started(g) {
				m.l.Killed(wk.holder, g.Delivery)
				m.crew[i] = m.born()
				return
			}
		}
	}
}

// started reports whether a run is at the head of its chain.
func (m *machine) started(g grant) bool { return m.s.pendingRow(g.After) == nil }

// drawCrash loses the last commits of a store that may acknowledge before it
// is durable. A Snapshot store reads and writes with majority concern: what a
// worker saw is not lost.
func (m *machine) drawCrash(t *rapid.T) {
	if m.s.Semantics() == Snapshot {
		return
	}
	m.log = m.log[:max(1, len(m.log)-1-pick(t, "lost", 3))]
	m.crash(t, 0)
	if v := Check(m.s, m.l); v != nil {
		t.Fatalf("after a crash: %v", v)
	}
}

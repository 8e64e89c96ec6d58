package protocol

import (
	"fmt"
	"slices"
	"time"
)

// world is a correct store without a store: it builds the actions that one
// would commit, fills in what the State says of them, and steps them. The
// scenarios and the state machine of rapid_test.go share it.
type world struct {
	s       *State
	l       *Ledger
	now     Time
	log     []Action // committed, for a crash to cut
	workers []*worker
	names   map[DeliveryID]string // "event/handler", also of deliveries gone
	lastID  DeliveryID
}

// worker is a bus instance as its calls show it.
type worker struct {
	name    string
	group   int32
	holder  Holder
	call    int64 // the number n of its last call
	inCall  bool  // a take-over was made with n−1; the claim of n is to come
	granted []grant
	running []grant // sorted by delivery
}

// grant is a lease a worker was once given, with what it needs to state it.
type grant struct {
	name string
	Lease
	handler, key string
	suspect      bool
}

func (g *grant) stated() Running {
	return Running{InFlight: g.Entry(), Lane: g.Lane, Handler: g.handler, Key: g.key}
}

const testTTL = 30 * time.Second

func newWorld(semantics Semantics, lanes int32) *world {
	return &world{s: NewState(semantics, lanes), l: NewLedger(), names: map[DeliveryID]string{}}
}

// worker returns a worker by name, and makes it when it is new.
func (w *world) worker(name string) *worker {
	for _, have := range w.workers {
		if have.name == name {
			return have
		}
	}
	made := &worker{name: name}
	copy(made.holder[:], name)
	w.workers = append(w.workers, made)
	return made
}

// commit steps an action and remembers it. A refused action, or one that
// breaks an invariant, leaves the world as it was.
func (w *world) commit(a Action) (*Refusal, *Violation) {
	s, l := w.s.Clone(), w.l.Clone()
	refusal, violation := Step(w.s, w.l, a)
	if violation == nil && refusal == nil {
		violation = Check(w.s, w.l)
	}
	if refusal != nil || violation != nil {
		w.s, w.l = s, l
		return refusal, violation
	}
	w.log = append(w.log, a)
	return nil, nil
}

// crash loses the last n commits of the store. Workers keep what they know.
func (w *world) crash(tb fataler, n int) {
	w.log = w.log[:max(0, len(w.log)-n)]
	w.s, w.l = NewState(w.s.semantics, w.s.modulus), NewLedger()
	w.lastID = 0
	for _, a := range w.log {
		mustStep(tb, w.s, w.l, a)
		if p, ok := a.(Publish); ok {
			w.drawn(p)
		}
	}
}

// drawn keeps the id generator above what a Publish used.
func (w *world) drawn(p Publish) {
	for i := range p.Events {
		for j := range p.Events[i].Deliveries {
			w.lastID = max(w.lastID, p.Events[i].Deliveries[j].ID)
		}
	}
}

// draft is the Publish of some events for the handlers that the publisher read.
func (w *world) draft(events []Event, subscribed [][]string) Publish {
	a := Publish{Now: w.now}
	id := w.lastID
	slots := map[int32]int64{}
	for i, e := range events {
		p := PublishEvent{Event: e, Subscribed: subscribed[i]}
		known := w.s.eventOf[e.ID]
		p.Result = publishResult(known, &p)
		for _, handler := range p.Subscribed {
			if p.Result != Added || known != nil && slices.Contains(known.Handlers, handler) {
				continue
			}
			id++
			p.Deliveries = append(p.Deliveries, w.newDelivery(id, e, handler, slots))
		}
		a.Events = append(a.Events, p)
	}
	return a
}

func (w *world) newDelivery(id DeliveryID, e Event, handler string, slots map[int32]int64) Delivery {
	d := Delivery{
		ID: id, Event: e.ID, Handler: handler, Key: e.Key, Sequence: int64(id),
		AvailableAt: w.now,
	}
	if i, ok := w.s.subscriptionAt(EventHandler{e.Type, handler}); ok {
		group, _ := w.s.Group(w.s.subscriptions[i].Group)
		d.Lane = LaneOf(group, w.s.modulus, e.Key, e.ID)
	}
	if w.s.semantics == Snapshot && e.Key != "" {
		slot := SlotOf(e.Key)
		slots[slot] = max(slots[slot], w.s.Slot(slot)) + 1
		d.Sequence = slots[slot]
	}
	return d
}

// subscribed returns the handlers that a publisher reads for an event type.
func (w *world) subscribed(eventType string) []string {
	var handlers []string
	for sub := range w.s.Subscriptions() {
		if sub.Event == eventType && !sub.Removed {
			handlers = append(handlers, sub.Handler)
		}
	}
	return handlers
}

// handlers returns every handler that was ever subscribed.
func (w *world) handlers() []string {
	var handlers []string
	for sub := range w.s.Subscriptions() {
		handlers = append(handlers, sub.Handler)
	}
	slices.Sort(handlers)
	return slices.Compact(handlers)
}

// published remembers the names of a Publish that was committed.
func (w *world) published(a Publish) {
	w.drawn(a)
	for i := range a.Events {
		for _, d := range a.Events[i].Deliveries {
			w.names[d.ID] = d.Event + "/" + d.Handler
		}
	}
}

// learn tells a worker what a claim granted.
func (w *world) learn(wk *worker, a Claim, remember bool) []grant {
	lane, _ := w.s.Lane(a.Lane)
	var out []grant
	for _, p := range a.Picks {
		g := grant{name: w.names[p.Delivery], Lease: Lease{
			Delivery: p.Delivery, After: p.After, Fence: p.Fence,
			Token: Token{Lane: a.Lane, Epoch: lane.Epoch, Holder: a.Holder, Claim: a.Number},
		}}
		d, _ := w.s.Delivery(p.Delivery)
		g.handler, g.key, g.suspect = d.Handler, d.Key, d.Takeovers > 0
		out = append(out, g)
	}
	wk.granted = append(wk.granted, out...)
	if remember {
		wk.running = append(wk.running, out...)
		slices.SortFunc(wk.running, func(a, b grant) int { return int(a.Delivery - b.Delivery) })
	}
	return out
}

// states returns what a worker says it runs.
func (wk *worker) states() []Running {
	var out []Running
	for i := range wk.running {
		out = append(out, wk.running[i].stated())
	}
	return out
}

// runsSuspect reports whether the worker runs what was in flight when a worker
// died.
func (wk *worker) runsSuspect() bool {
	return slices.ContainsFunc(wk.running, func(g grant) bool { return g.suspect })
}

// forget removes a run from what a worker says it runs.
func (wk *worker) forget(l Lease) {
	wk.running = slices.DeleteFunc(wk.running, func(g grant) bool { return g.Lease.Token == l.Token && g.Delivery == l.Delivery })
}

// nextCall draws the number of a worker's next Claim call.
func (wk *worker) nextCall() int64 {
	wk.call += 2
	return wk.call
}

// claimNumber is the number of a claim: that of the call which took lanes over
// a moment ago, or of a new one.
func (wk *worker) claimNumber() int64 {
	if wk.inCall {
		wk.inCall = false
		return wk.call
	}
	return wk.nextCall()
}

// takeOver is the TakeOver a worker would ask for, with what the State charges.
func (w *world) takeOver(wk *worker, lane LaneID, number int64) TakeOver {
	return TakeOver{
		Lane: lane, Group: wk.group, Holder: wk.holder, Owner: wk.name, Number: number,
		TTL: testTTL, Now: w.now, Clock: w.now,
	}
}

// filled sets what a correct store reports beside an action: its verdicts and
// what it charged.
func (w *world) filled(a Action) Action {
	twin := w.s.Clone()
	switch a := a.(type) {
	case TakeOver:
		twin.TakeOver(a)
		a.Charged = slices.Clone(twin.charged)
		return a
	case ChargeLost:
		twin.ChargeLost(a)
		a.Charged = slices.Clone(twin.charged)
		return a
	case ExtendLease:
		a.Verdict = twin.ExtendLease(a).Verdict
		return a
	case Relinquish:
		a.Verdict = twin.Relinquish(a).Verdict
		return a
	case CompleteMany:
		a.Verdicts = verdicts(w.s.Judge(a))
		return a
	case Release:
		a.Verdicts = verdicts(w.s.Judge(a))
		return a
	case Complete:
		a.Verdict = Applied // of what may be either, the one with an effect
		a.Verdict = w.s.Judge(a)[0].Verdict
		return a
	case Reschedule:
		a.Verdict = w.s.Judge(a)[0].Verdict
		return a
	case Snooze:
		a.Verdict = w.s.Judge(a)[0].Verdict
		return a
	case Bury:
		a.Verdict = w.s.Judge(a)[0].Verdict
		return a
	}
	return a
}

func verdicts(outcomes []Outcome) []Verdict {
	var out []Verdict
	for _, o := range outcomes {
		out = append(out, o.Verdict)
	}
	return out
}

// attempt returns what the State says of an action, without performing it.
func (w *world) attempt(a Action) Outcome {
	twin := w.s.Clone()
	switch a := a.(type) {
	case Publish:
		return firstFailed(twin.Publish(a))
	case Claim:
		return twin.Claim(a)
	case TakeOver:
		return twin.TakeOver(a)
	case ChargeLost:
		return twin.ChargeLost(a)
	case ExtendLease:
		return twin.ExtendLease(a)
	case CompleteMany:
		return firstFailed(twin.CompleteMany(a))
	case Complete:
		return twin.Complete(a)
	case Reschedule:
		return twin.Reschedule(a)
	case Snooze:
		return twin.Snooze(a)
	case Bury:
		return twin.Bury(a)
	case Release:
		return firstFailed(twin.Release(a))
	case Relinquish:
		return twin.Relinquish(a)
	case Requeue:
		return twin.Requeue(a)
	case Purge:
		return twin.Purge(a)
	case Subscribe:
		return twin.Subscribe(a)
	case Unsubscribe:
		return twin.Unsubscribe(a)
	}
	panic(fmt.Sprintf("unknown action %T", a))
}

func firstFailed(outcomes []Outcome) Outcome {
	for _, o := range outcomes {
		if !o.OK() {
			return o
		}
	}
	return applied
}

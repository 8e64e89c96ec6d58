package mirror

import (
	"cmp"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Calls.tla: what publishers, operators and workers send, and what the store
// makes of it.

func (m *relaybus) subscribe(w *relayWorld, handler string) *relayWorld {
	group := m.groupOf(handler)
	number, known := w.state.Group(group)
	if !known {
		for sub := range w.state.Subscriptions() {
			n, _ := w.state.Group(sub.Group)
			number = max(number, n+1)
		}
	}
	a := protocol.Subscribe{
		Group: group, Handlers: []protocol.EventHandler{{Event: relayType, Handler: handler}}, Now: w.clock,
	}
	for l := number * m.modulus; l < (number+1)*m.modulus; l++ {
		if _, there := w.state.Lane(protocol.LaneID(l)); !there {
			a.Lanes = append(a.Lanes, protocol.LaneID(l))
		}
	}
	return w.perform(a)
}

func (w *relayWorld) subscribed(handler string) bool {
	sub, there := w.state.Subscription(relayType, handler)
	return there && !sub.Removed
}

func (m *relaybus) publishAction(w *relayWorld, e relayEvent) protocol.Publish {
	p := protocol.PublishEvent{
		Event:  protocol.Event{ID: e.id, Type: relayType, Key: e.key},
		Result: protocol.Known,
	}
	known, there := w.state.Event(e.id)
	for _, h := range m.handlers {
		if !w.subscribed(h) {
			continue
		}
		p.Subscribed = append(p.Subscribed, h)
		if slices.Contains(known.Handlers, h) {
			continue
		}
		id := int64(len(w.pairs) + len(p.Deliveries) + 1)
		sub, _ := w.state.Subscription(relayType, h)
		group, _ := w.state.Group(sub.Group)
		p.Deliveries = append(p.Deliveries, protocol.Delivery{
			ID: protocol.DeliveryID(id), Event: e.id, Handler: h, Key: e.key, Sequence: id,
			Lane: protocol.LaneOf(group, m.modulus, e.key, e.id), AvailableAt: w.clock,
		})
	}
	switch {
	case there && known.Key != e.key:
		p.Result, p.Deliveries = protocol.Mismatch, nil
	case !there || len(p.Deliveries) > 0:
		p.Result = protocol.Added
	}
	return protocol.Publish{Now: w.clock, Events: []protocol.PublishEvent{p}}
}

func (m *relaybus) publish(w *relayWorld, e relayEvent) *relayWorld {
	a := m.publishAction(w, e)
	c := w.perform(a)
	if c != nil {
		c.recordPublish(&a)
	}
	return c
}

func (t *relayTurn) operates() {
	for _, e := range t.m.later {
		rows := len(t.m.publishAction(t.w, e).Events[0].Deliveries)
		if rows > 0 && len(t.w.pairs)+rows <= t.m.maxDeliveries {
			t.lead("Publish", t.m.publish(t.w, e))
		}
	}
	for _, h := range t.m.handlers {
		if !slices.Contains(t.m.early, h) && !t.w.subscribed(h) {
			t.lead("Subscribe", t.m.subscribe(t.w, h))
		}
		if t.m.done("Unsubscribe") && t.w.subscribed(h) {
			t.unsubscribe(h)
		}
	}
	for d := range t.w.state.Deliveries() {
		if t.m.done("Requeue") && t.w.pair(d.ID).lives < t.m.maxRequeues {
			t.requeue(d.ID)
		}
		if t.m.done("Purge") {
			t.purge(protocol.Purge{Dead: []protocol.DeliveryID{d.ID}, DiedTo: t.w.clock, EventsTo: t.w.clock})
		}
	}
	for e := range t.w.state.Events() {
		if t.m.done("Purge") {
			t.purge(protocol.Purge{Events: []string{e.ID}, DiedTo: t.w.clock, EventsTo: t.w.clock})
		}
	}
}

// unsubscribe sweeps one pending delivery, or finds none left.
func (t *relayTurn) unsubscribe(handler string) {
	a := protocol.Unsubscribe{EventHandler: protocol.EventHandler{Event: relayType, Handler: handler}, Now: t.w.clock}
	t.lead("Unsubscribe", t.w.perform(a))
	for d := range t.w.state.Deliveries() {
		for _, bury := range []bool{false, true} {
			a.Swept, a.Bury = []protocol.DeliveryID{d.ID}, bury
			if c := t.w.perform(a); c != nil {
				c.recordUnsubscribe(d.ID, bury)
				t.lead("Unsubscribe", c)
			}
		}
	}
}

func (t *relayTurn) requeue(id protocol.DeliveryID) {
	ids := []protocol.DeliveryID{id}
	if c := t.w.perform(protocol.Requeue{IDs: ids, Requeued: ids, Now: t.w.clock}); c != nil {
		c.recordRequeue(id)
		t.lead("Requeue", c)
	}
}

func (t *relayTurn) purge(a protocol.Purge) {
	if c := t.w.perform(a); c != nil {
		c.recordPurge(a.Dead, a.Events)
		t.lead("Purge", c)
	}
}

// ahead reports whether x stands before y in a chain.
func (w *relayWorld) ahead(x, y *relayLease) bool {
	return x.Lane == y.Lane && x.Claim == y.Claim && x.Delivery < y.Delivery &&
		w.pair(x.Delivery).sameKey(w.pair(y.Delivery))
}

func (w *relayWorld) aheadOf(worker string, x *relayLease) (list []relayLease) {
	for _, y := range w.workers[worker].leases {
		if w.ahead(&y, x) {
			list = append(list, y)
		}
	}
	return list
}

func (w *relayWorld) behind(worker string, x *relayLease) (list []relayLease) {
	for _, y := range w.workers[worker].leases {
		if w.ahead(x, &y) {
			list = append(list, y)
		}
	}
	return list
}

func (w *relayWorld) started(worker string, x *relayLease) bool {
	return x.phase == "run" && !slices.ContainsFunc(w.aheadOf(worker, x), func(y relayLease) bool {
		return y.phase != "ending"
	})
}

func (w *relayWorld) laneCallOf(worker string) *relayCall {
	for i := range w.calls {
		if c := &w.calls[i]; c.worker == worker && !c.late && c.laneCall() {
			return c
		}
	}
	return nil
}

// stated is what a worker runs, by delivery, as protocol.Claim wants it.
func (w *relayWorld) stated(worker string) (list []protocol.Running) {
	for _, x := range w.workers[worker].leases {
		p := w.pair(x.Delivery)
		list = append(list, protocol.Running{
			InFlight: x.Entry(), Lane: x.Lane, Handler: p.handler, Key: p.key,
		})
	}
	return list
}

func (t *relayTurn) sends(name string) {
	worker := t.w.workers[name]
	if worker.up && t.w.laneCallOf(name) == nil {
		t.sendClaim(name, &worker)
		t.sendRelinquish(name, &worker)
	}
	t.answer(name)
	for i := range worker.leases {
		t.sendEnds(name, &worker.leases[i])
	}
}

func (t *relayTurn) sendClaim(name string, worker *relayWorker) {
	number := worker.number + 2
	if number > t.m.maxNumber {
		return
	}
	doubt := worker.doubt != 0 && t.m.rule("Worker.doubt")
	c := t.w.clone()
	c.add(relayCall{
		kind: "Claim", worker: name, holder: t.m.holder(t.w, name), number: number, running: t.w.stated(name),
		suspect:  doubt || slices.ContainsFunc(worker.leases, func(x relayLease) bool { return x.suspect }),
		all:      doubt,
		sure:     worker.past,
		notAfter: t.w.clock + protocol.Time(t.m.timeout),
	})
	now := *worker
	now.number = number
	c.workers[name] = now
	t.lead("SendClaim", c)
}

func (t *relayTurn) sendRelinquish(name string, worker *relayWorker) {
	number := worker.number + 1
	if !t.m.done("Relinquish") || worker.doubt != 0 || number > t.m.maxNumber {
		return
	}
	for lane := range t.w.state.AllLanes() {
		if lane.Holder != t.m.holder(t.w, name) {
			continue
		}
		c := t.w.clone()
		c.add(relayCall{
			kind: "Relinquish", worker: name, holder: lane.Holder, number: number, running: t.w.stated(name),
			lane: lane.ID, notAfter: t.w.clock + protocol.Time(t.m.timeout),
		})
		now := *worker
		now.number = number
		c.workers[name] = now
		t.lead("SendRelinquish", c)
	}
}

// send puts an ending call on its way.
func (t *relayTurn) send(action, name string, call relayCall, ending []relayLease) {
	c := t.w.clone()
	call.worker = name
	c.add(call)
	worker := c.workers[name]
	worker.leases = slices.Clone(worker.leases)
	for i := range worker.leases {
		if slices.Contains(ending, worker.leases[i]) {
			worker.leases[i].phase = "ending"
		}
	}
	c.workers[name] = worker
	t.lead(action, c)
}

func (t *relayTurn) sendEnds(name string, x *relayLease) {
	poison := slices.Contains(t.m.poison, int(x.Delivery))
	started := t.w.started(name, x)
	switch {
	case slices.Contains(t.m.transactional, t.w.pair(x.Delivery).handler):
		if x.phase == "run" && len(t.w.aheadOf(name, x)) == 0 && !poison {
			t.send("SendComplete", name, relayCall{kind: "Complete", leases: bare(*x)}, []relayLease{*x})
		}
	case started && !poison:
		t.sendCompleteMany(name, x)
	}
	for _, kind := range []string{"Reschedule", "Snooze", "Bury"} {
		failed := x.phase == "failed"
		if t.m.done(kind) && (started && !poison || failed) && !(kind == "Snooze" && failed) {
			t.sendEnd("SendEnd", name, kind, x)
		}
	}
	if x.phase == "unknown" {
		t.sendEnd("SendSettle", name, "Snooze", x)
	}
	if t.m.done("Release") && x.phase == "run" {
		given := append([]relayLease{*x}, inPhaseRun(t.w.behind(name, x))...)
		t.send("SendRelease", name, relayCall{kind: "Release", leases: bare(given...)}, given)
	}
	if t.m.done("ExtendLease") {
		t.extendLease(x)
	}
}

func (t *relayTurn) sendCompleteMany(name string, x *relayLease) {
	t.send("SendCompleteMany", name, relayCall{kind: "CompleteMany", leases: bare(*x)}, []relayLease{*x})
	for _, y := range t.w.behind(name, x) {
		if y.After == x.Delivery && y.phase == "run" && !slices.Contains(t.m.poison, int(y.Delivery)) {
			t.send("SendCompleteMany", name, relayCall{kind: "CompleteMany", leases: bare(*x, y)}, []relayLease{*x, y})
		}
	}
}

// sendEnd sends an end that keeps the row, and takes the rest along.
func (t *relayTurn) sendEnd(action, name, kind string, x *relayLease) {
	rest := slices.DeleteFunc(t.w.behind(name, x), func(y relayLease) bool { return y.phase == "ending" })
	t.send(action, name, relayCall{kind: kind, leases: bare(*x), rest: bare(rest...)}, append(rest, *x))
}

func bare(list ...relayLease) (leases []protocol.Lease) {
	for i := range list {
		leases = append(leases, list[i].Lease)
	}
	return leases
}

func inPhaseRun(list []relayLease) []relayLease {
	return slices.DeleteFunc(list, func(y relayLease) bool { return y.phase != "run" })
}

func (t *relayTurn) extendLease(x *relayLease) {
	t.lead("ExtendLease", t.w.perform(protocol.ExtendLease{
		Lane: x.Lane, Epoch: x.Epoch, Holder: x.Holder, TTL: time.Duration(t.m.ttl),
		Now: t.w.clock, Clock: t.w.clock, Verdict: protocol.Applied,
	}))
}

// answer is the reply to a Claim that has been to every lane that it names.
func (t *relayTurn) answer(name string) {
	call := t.w.laneCallOf(name)
	if call == nil || call.kind != "Claim" || !t.reached(call) {
		return
	}
	worker := t.w.workers[name]
	lost := slices.DeleteFunc(slices.Clone(worker.leases), func(x relayLease) bool {
		return x.phase == "ending" || !slices.Contains(call.lost, x.Entry())
	})
	c := t.w.clone()
	c.remove(call)
	c.drop(name, lost, t.w.restOf(name, lost))
	worker = c.workers[name]
	worker.leases = append(slices.Clone(worker.leases), call.granted...)
	slices.SortFunc(worker.leases, byDelivery)
	worker.past = !call.sure && worker.doubt != 0 && t.w.clock > worker.doubt
	if call.sure {
		worker.doubt = 0
	}
	c.workers[name] = worker
	t.lead("Answer", c)
}

func byDelivery(x, y relayLease) int {
	return cmp.Or(cmp.Compare(x.Delivery, y.Delivery), cmp.Compare(x.Claim, y.Claim), cmp.Compare(x.Epoch, y.Epoch))
}

func (t *relayTurn) reached(call *relayCall) bool {
	for lane := range t.w.state.AllLanes() {
		if call.all && lane.Holder == call.holder && !slices.Contains(call.reached, lane.ID) && len(lane.Lost) == 0 {
			return false
		}
	}
	return true
}

// restOf is what stands behind lost leases in their chains and is given back.
func (w *relayWorld) restOf(name string, lost []relayLease) (rest []relayLease) {
	for i := range lost {
		for _, y := range w.behind(name, &lost[i]) {
			if y.phase == "run" && !slices.Contains(lost, y) && !slices.Contains(rest, y) {
				rest = append(rest, y)
			}
		}
	}
	slices.SortFunc(rest, byDelivery)
	return rest
}

// drop takes leases from their worker, and gives the rest back.
func (w *relayWorld) drop(name string, gone, rest []relayLease) {
	worker := w.workers[name]
	worker.leases = slices.DeleteFunc(slices.Clone(worker.leases), func(x relayLease) bool {
		return slices.Contains(gone, x)
	})
	for i := range worker.leases {
		if slices.Contains(rest, worker.leases[i]) {
			worker.leases[i].phase = "ending"
		}
	}
	w.workers[name] = worker
	if len(rest) > 0 {
		w.add(relayCall{kind: "Release", worker: name, leases: bare(rest...)})
	}
}

package mirror

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// The steps in which the store performs an action of a call that arrived.

func (t *relayTurn) performs() {
	for i := range t.w.calls {
		switch call := &t.w.calls[i]; call.kind {
		case "Claim":
			for _, lane := range t.lanesFor(call.worker) {
				t.takeOver(call, lane)
				t.claim(call, lane)
			}
		case "Relinquish":
			t.relinquish(call)
		case "CompleteMany":
			t.completeMany(call)
		case "Complete":
			t.complete(call)
		case "Release":
			t.release(call)
		default:
			t.finish(call)
		}
	}
	if t.m.rule("ChargeLost") {
		for lane := range t.w.state.AllLanes() {
			t.chargeLost(&lane)
		}
	}
}

// lanesOf lists the lanes of the groups of a worker's handlers.
func (t *relayTurn) lanesOf(worker string) (ids []protocol.LaneID) {
	for _, h := range t.m.handles(worker) {
		sub, there := t.w.state.Subscription(relayType, h)
		if !there || sub.Removed {
			continue
		}
		group, _ := t.w.state.Group(sub.Group)
		for l := group * t.m.modulus; l < (group+1)*t.m.modulus; l++ {
			if !slices.Contains(ids, protocol.LaneID(l)) {
				ids = append(ids, protocol.LaneID(l))
			}
		}
	}
	return ids
}

// lanesFor lists the lanes that a worker's calls may reach for: any, unless it
// has no subscription.
func (t *relayTurn) lanesFor(worker string) (ids []protocol.LaneID) {
	if len(t.lanesOf(worker)) == 0 {
		return nil
	}
	for l := range t.w.state.AllLanes() {
		ids = append(ids, l.ID)
	}
	return ids
}

// groupOfWorker is the number of the group that a worker's handlers are of.
func (t *relayTurn) groupOfWorker(worker string) int32 {
	number, _ := t.w.state.Group(t.m.groupOf(t.m.handles(worker)[0]))
	return number
}

// attracts: a free lane is worth having only for a row that can be picked.
func (t *relayTurn) attracts(call *relayCall, lane *protocol.Lane) bool {
	if !lane.Holder.IsZero() {
		return true
	}
	for d := range t.w.state.Deliveries() {
		if d.Status == protocol.Pending && d.Lane == lane.ID && d.AvailableAt <= t.w.clock &&
			slices.Contains(t.m.handles(call.worker), d.Handler) {
			return true
		}
	}
	return false
}

// refusals are the sets of listed rows that the store may refuse to write.
func (t *relayTurn) refusals(list []protocol.InFlight) [][]protocol.DeliveryID {
	var bad []protocol.DeliveryID
	for _, f := range list {
		if slices.Contains(t.m.badRows, int(f.Delivery)) {
			bad = append(bad, f.Delivery)
		}
	}
	return subsets(bad)
}

func subsets[T any](list []T) [][]T {
	all := [][]T{nil}
	for _, x := range list {
		for _, s := range all[:len(all):len(all)] {
			all = append(all, append(slices.Clone(s), x))
		}
	}
	return all
}

func (t *relayTurn) takeOver(call *relayCall, id protocol.LaneID) {
	lane, _ := t.w.state.Lane(id)
	if slices.Contains(call.reached, id) || !t.attracts(call, &lane) {
		return
	}
	listed := lane.InFlight
	if t.m.semantics == protocol.Snapshot {
		listed = nil
	}
	for _, refused := range t.refusals(listed) {
		a := protocol.TakeOver{
			Lane: id, Group: t.groupOfWorker(call.worker), Holder: call.holder,
			Number: call.number - 1, TTL: time.Duration(t.m.ttl),
			Now: t.w.clock, Clock: t.w.clock, NotAfter: call.notAfter, Refused: refused,
		}
		trial := t.w.state.Clone()
		if !trial.TakeOver(a).OK() {
			continue
		}
		a.Charged = slices.Clone(trial.Charged())
		if c := t.w.perform(a); c != nil {
			c.recordTakeOver(t.m.semantics, &a)
			t.lead("TakeOver", c)
		}
	}
}

func (t *relayTurn) claim(call *relayCall, id protocol.LaneID) {
	if slices.Contains(call.reached, id) {
		return
	}
	var rows []protocol.Delivery
	for d := range t.w.state.Deliveries() {
		if t.m.guard("Claim.row lane", d.Lane == id) {
			rows = append(rows, d)
		}
	}
	lane, _ := t.w.state.Lane(id)
	for _, picked := range subsets(rows) {
		for _, unstuck := range subsets(lane.Stuck) {
			if len(picked) <= t.m.maxPicks {
				t.claimOf(call, &lane, picked, unstuck)
			}
		}
	}
}

func (t *relayTurn) claimOf(call *relayCall, lane *protocol.Lane, picked []protocol.Delivery, unstuck []protocol.DeliveryID) {
	a := protocol.Claim{
		Lane: lane.ID, Holder: call.holder, Number: call.number, Handlers: t.m.handles(call.worker),
		Running: call.running, Picks: t.picksOf(picked), SuspectRunning: call.suspect, Renew: true,
		TTL: time.Duration(t.m.ttl), Now: t.w.clock, Clock: t.w.clock, NotAfter: call.notAfter, Unstuck: unstuck,
	}
	if !t.w.state.PicksAllowed(a).OK() {
		return // found without a copy of everything
	}
	c := t.w.perform(a)
	if c == nil {
		return
	}
	c.recordClaim(&a, lane.Epoch)
	c.remove(call)
	c.add(t.told(call, lane, &a))
	t.lead("Claim", c)
}

// picksOf takes rows in their order, chains as they stand.
func (t *relayTurn) picksOf(rows []protocol.Delivery) (picks []protocol.Picked) {
	for i, d := range rows {
		p := protocol.Picked{Delivery: d.ID, Fence: d.Fence}
		for _, before := range rows[:i] {
			if t.w.pair(before.ID).sameKey(t.w.pair(d.ID)) {
				p.After = before.ID
			}
		}
		picks = append(picks, p)
	}
	return picks
}

// told is the call after it was to a lane. What its reply will tell matters
// only while somebody waits for it.
func (t *relayTurn) told(call *relayCall, lane *protocol.Lane, a *protocol.Claim) relayCall {
	d := *call
	d.reached = append(slices.Clone(d.reached), lane.ID)
	slices.Sort(d.reached)
	if d.late {
		return d
	}
	d.granted, d.lost = slices.Clone(d.granted), slices.Clone(d.lost)
	for _, p := range a.Picks {
		row, _ := t.w.state.Delivery(p.Delivery)
		d.granted = append(d.granted, relayLease{
			Lease: protocol.Lease{
				Delivery: p.Delivery, After: p.After, Fence: p.Fence,
				Token: protocol.Token{Lane: lane.ID, Epoch: lane.Epoch, Holder: call.holder, Claim: call.number},
			},
			suspect: row.Takeovers > 0, phase: "run",
		})
	}
	slices.SortFunc(d.granted, byDelivery)
	for _, r := range call.running {
		if r.Lane == lane.ID && !slices.Contains(lane.InFlight, r.InFlight) {
			d.lost = append(d.lost, r.InFlight)
		}
	}
	slices.SortFunc(d.lost, func(x, y protocol.InFlight) int {
		return byDelivery(relayLease{Lease: protocol.Lease{Delivery: x.Delivery}}, relayLease{Lease: protocol.Lease{Delivery: y.Delivery}})
	})
	return d
}

func (t *relayTurn) chargeLost(lane *protocol.Lane) {
	for _, refused := range t.refusals(lane.Lost) {
		a := protocol.ChargeLost{Lane: lane.ID, Refused: refused}
		trial := t.w.state.Clone()
		if !trial.ChargeLost(a).OK() {
			continue
		}
		a.Charged = slices.Clone(trial.Charged())
		if c := t.w.perform(a); c != nil {
			c.charge(t.m.semantics, c.inPhase(lane.ID, relayLost), refused)
			t.lead("ChargeLost", c)
		}
	}
}

func (t *relayTurn) relinquish(call *relayCall) {
	a := protocol.Relinquish{
		Lane: call.lane, Holder: call.holder, Number: call.number, Running: call.running, Verdict: protocol.Applied,
	}
	var c *relayWorld
	if t.w.clock <= call.notAfter {
		c = t.w.perform(a)
	}
	if c != nil {
		c.recordRelinquish(&a)
	} else {
		c = t.w.clone()
	}
	c.remove(call)
	t.lead("Relinquish", c)
}

// replied leads on from a world in which the store acted: a late call is used
// up and heard by nobody; otherwise the reply arrives, or is lost and the call
// will be sent again.
func (t *relayTurn) replied(action string, c *relayWorld, call *relayCall, list []protocol.Lease, outcomes []string) {
	if call.late {
		c.remove(call)
		t.lead(action, c)
		return
	}
	if t.m.done("LoseReply") {
		t.lead(action, c.clone())
	}
	c.heard(call, list, outcomes)
	t.lead(action, c)
}

// heard is what a worker makes of the verdicts on a list of leases: "" for
// Applied, "refused" for a definite error, anything else for LeaseLost.
func (w *relayWorld) heard(call *relayCall, list []protocol.Lease, outcomes []string) {
	var bad, lost, gone []relayLease
	for _, x := range w.workers[call.worker].leases {
		i := slices.Index(list, x.Lease)
		switch {
		case i < 0:
		case outcomes[i] == "refused":
			bad = append(bad, x)
		default:
			gone = append(gone, x)
			if outcomes[i] != "" {
				lost = append(lost, x)
			}
		}
	}
	rest := w.restOf(call.worker, lost)
	w.remove(call)
	w.drop(call.worker, gone, rest)
	worker := w.workers[call.worker]
	for i := range worker.leases {
		if slices.Contains(bad, worker.leases[i]) {
			worker.leases[i].phase = "failed"
		}
	}
}

// outcomes judges an end: the guard that fails for each lease.
func (w *relayWorld) outcomes(a protocol.Action) (guards []string, verdicts []protocol.Verdict) {
	for _, o := range w.state.Judge(a) {
		guards = append(guards, o.Guard)
		verdicts = append(verdicts, o.Verdict)
	}
	return guards, verdicts
}

func (t *relayTurn) completeMany(call *relayCall) {
	var bad []protocol.DeliveryID
	for _, l := range call.leases {
		if slices.Contains(t.m.badRows, int(l.Delivery)) {
			bad = append(bad, l.Delivery)
		}
	}
	for _, refused := range subsets(bad) {
		a := protocol.CompleteMany{Leases: call.leases, Refused: refused}
		guards, verdicts := t.w.outcomes(a)
		a.Verdicts = verdicts
		c := t.w.perform(a)
		for i, l := range call.leases {
			if guards[i] == "" && c.pair(l.Delivery).fate == relayAlive {
				c.recordDone(l.Delivery)
			}
		}
		t.replied("CompleteMany", c, call, call.leases, guards)
	}
}

// complete commits a handler's transaction, or finds that it must roll back.
func (t *relayTurn) complete(call *relayCall) {
	for _, said := range []protocol.Verdict{protocol.Applied, protocol.LeaseLost} {
		a := protocol.Complete{Lease: call.leases[0], Verdict: said}
		guards, verdicts := t.w.outcomes(a)
		if verdicts[0] != said {
			continue
		}
		c := t.w.perform(a)
		if said == protocol.Applied {
			c.recordDone(a.Lease.Delivery)
		}
		if call.late {
			c.remove(call)
		} else {
			c.heard(call, call.leases, guards)
		}
		t.lead("Complete", c)
	}
}

// stillOpen: in a locking store a settle waits for the transaction that it
// asks about.
func (t *relayTurn) stillOpen(l protocol.Lease) bool {
	return t.m.semantics == protocol.Locking && slices.ContainsFunc(t.w.calls, func(c relayCall) bool {
		return c.kind == "Complete" && c.leases[0] == l
	})
}

func (t *relayTurn) finish(call *relayCall) {
	lease := call.leases[0]
	if t.stillOpen(lease) {
		return
	}
	t.finishAs(call, false)
	if slices.Contains(t.m.badRows, int(lease.Delivery)) {
		t.finishAs(call, true)
	}
}

func (t *relayTurn) finishAs(call *relayCall, refused bool) {
	lease := call.leases[0]
	a := t.finishAction(call, protocol.Applied, refused)
	guards, verdicts := t.w.outcomes(a)
	row, there := t.w.state.Delivery(lease.Delivery)
	applies := verdicts[0] == protocol.Applied
	if applies && call.kind != "Snooze" && there && row.Attempts >= t.m.maxAttempts {
		return
	}
	if !applies {
		a = t.finishAction(call, protocol.LeaseLost, false)
	}
	c := t.w.clone()
	if applies || !refused {
		c = t.w.perform(a)
	}
	if applies {
		c.recordFinish(&lease, call.rest, refused, call.kind != "Snooze")
		if call.kind == "Bury" && !refused {
			p := c.pair(lease.Delivery)
			p.dead, p.excepted = true, true
		}
	}
	all := append([]protocol.Lease{lease}, call.rest...)
	outcomes := slices.Repeat(guards, len(all))
	t.replied(call.kind, c, call, all, outcomes)
}

func (t *relayTurn) finishAction(call *relayCall, verdict protocol.Verdict, refused bool) protocol.Action {
	lease, rest, delay := call.leases[0], call.rest, time.Duration(t.m.delay)
	if refused {
		verdict = protocol.LeaseLost
	}
	switch call.kind {
	case "Reschedule":
		return protocol.Reschedule{Lease: lease, Rest: rest, Delay: delay, Now: t.w.clock, Verdict: verdict, Refused: refused}
	case "Snooze":
		return protocol.Snooze{Lease: lease, Rest: rest, Delay: delay, Now: t.w.clock, Verdict: verdict, Refused: refused}
	}
	return protocol.Bury{Lease: lease, Rest: rest, Charge: true, Now: t.w.clock, Verdict: verdict, Refused: refused}
}

func (t *relayTurn) release(call *relayCall) {
	a := protocol.Release{Leases: call.leases}
	guards, verdicts := t.w.outcomes(a)
	a.Verdicts = verdicts
	c := t.w.perform(a)
	for i := range call.leases {
		if guards[i] == "" {
			c.endRun(&call.leases[i])
		}
	}
	t.replied("Release", c, call, call.leases, guards)
}

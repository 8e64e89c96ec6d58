package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// now is the only reading of the model's clock. Due times and expiry are
// compared as booleans: whether a lease has run out the model knows from
// expireLane, whether a delivery waits from waits.
const now = protocol.Time(time.Hour)

// model is [protocol.State] stepped beside a store by what its replies say:
// the actions are derived from calls and replies, so that a store needs no
// observer.
type model struct {
	*bench
	state       *protocol.State
	waits       map[engine.DeliveryID]bool // put off, and not made due since
	completions int
}

func newModel(b *bench, lanes int32) *model {
	return &model{bench: b, state: protocol.NewState(b.semantics, lanes), waits: map[engine.DeliveryID]bool{}}
}

// step performs an action on the State, and fails when the State does not
// allow what the store did. The client breaks the rules that a worker keeps
// (it ends a run twice, in different ways), so that only the store's duties
// are judged here, not the invariants of a history.
func (m *model) step(a protocol.Action) {
	m.Helper()
	if refusal, _ := protocol.Step(m.state, protocol.NewLedger(), a); refusal != nil {
		m.Fatalf("the protocol disagrees: %s\n%+v", refusal, a)
	}
}

// subscribed compares a Subscribe.
func (m *model) subscribed(group, event string, handlers []string, revive bool, reply engine.SubscribeReply) {
	a := protocol.Subscribe{Group: group, Revive: revive, Now: now}
	for _, h := range handlers {
		a.Handlers = append(a.Handlers, engine.EventHandler{Event: event, Handler: h})
	}
	if _, known := m.state.Group(group); !known {
		for i := range reply.Lanes {
			a.Lanes = append(a.Lanes, engine.LaneID(reply.Group*reply.Lanes+i))
		}
	}
	m.step(a)
	number, _ := m.state.Group(group)
	m.expect(number == reply.Group, "group %q has number %d, want %d", group, reply.Group, number)
	for _, h := range a.Handlers {
		sub, _ := m.state.Subscription(h.Event, h.Handler)
		m.expect(sub.Removed == slices.Contains(reply.Removed, h), "%+v: removed %v, the reply says %+v", h, sub.Removed, reply.Removed)
	}
}

// published compares a Publish: ids and sequences are what the store drew.
func (m *model) published(list []protocol.Event, results []engine.PublishResult) {
	m.expect(len(results) == len(list), "%d events got %d results", len(list), len(results))
	a := protocol.Publish{Now: now}
	first, mismatched := map[string]*protocol.Event{}, map[string]bool{}
	for i := range list {
		e := &list[i]
		if seen := first[e.ID]; seen != nil {
			// Ids are made distinct first: what stands later in the batch is
			// compared with the first of its id.
			want := engine.Known
			if seen.Type != e.Type || seen.Key != e.Key || mismatched[e.ID] {
				want = engine.Mismatch
			}
			m.expect(results[i] == want, "%q once more in a batch: %v, want %v", e.ID, results[i], want)
			continue
		}
		first[e.ID], mismatched[e.ID] = e, results[i] == engine.Mismatch
		a.Events = append(a.Events, m.publishedEvent(e, results[i]))
	}
	m.step(a)
}

func (m *model) publishedEvent(e *protocol.Event, result engine.PublishResult) protocol.PublishEvent {
	p := protocol.PublishEvent{Event: *e, Result: result}
	for sub := range m.state.Subscriptions() {
		if sub.Event == e.Type && !sub.Removed {
			p.Subscribed = append(p.Subscribed, sub.Handler)
		}
	}
	for _, l := range m.list(engine.Filter{EventID: e.ID}) {
		d := l.Delivery
		if _, known := m.state.Delivery(d.ID); known {
			continue
		}
		m.waits[d.ID] = e.Due.Delay > 0
		d.AvailableAt = now
		p.Deliveries = append(p.Deliveries, d)
	}
	return p
}

// claimTooLate makes a claim after its time: it changes nothing.
func (m *model) claimTooLate(in engine.ClaimInput) {
	in.NotAfter = 1
	reply, err := m.bench.Claim(m.ctx, in)
	if err == nil { // there was nothing to do
		m.expect(len(reply.Lanes) == 0 && len(reply.Picks) == 0 && len(reply.GivenBack) == 0, "served although too late: %+v", reply)
		return
	}
	m.expect(errors.Is(err, engine.ErrTooLate), "too late: %v", err)
}

// claimed compares a Claim: takeovers and lanes given back first, then what
// was granted.
func (m *model) claimed(in *engine.ClaimInput, reply *engine.ClaimReply) {
	m.bounded(in, reply)
	named := m.named(in)
	before := m.state.Clone()
	for _, l := range reply.Lanes {
		if l.TakenOver {
			m.takenOver(in, l.LaneEpoch)
		}
	}
	for _, l := range reply.GivenBack {
		m.takenOver(in, l)
		m.step(protocol.Relinquish{
			Lane: l.Lane, Holder: in.Holder, Number: in.Number, Epoch: l.Epoch, Running: in.Running, Verdict: engine.Applied,
		})
	}
	picks := 0
	for i := range reply.Lanes {
		picks += m.granted(in, reply, &reply.Lanes[i])
	}
	m.expect(picks == len(reply.Picks), "picks outside of the lanes of the reply: %+v", reply)
	for _, id := range named {
		held := slices.ContainsFunc(reply.Lanes, func(l engine.ClaimedLane) bool { return l.Lane == id })
		gone := slices.Contains(reply.Gone, id)
		m.expect(held || gone, "lane %d was named and is not in the reply", id)
		if gone {
			o := before.Claim(protocol.Claim{Lane: id, Holder: in.Holder, Number: in.Number, Running: in.Running, Now: now, Clock: now})
			m.expect(!o.OK(), "lane %d was refused although it is the holder's", id)
		}
	}
	m.leaseLost(in, reply)
}

// named returns the lanes that a claim names.
func (m *model) named(in *engine.ClaimInput) []engine.LaneID {
	named := slices.Clone(in.LetExpire)
	for _, l := range in.Held {
		named = append(named, l.Lane)
	}
	if in.AllMine {
		for l := range m.state.AllLanes() {
			if l.Holder == in.Holder {
				named = append(named, l.ID)
			}
		}
	}
	return named
}

// bounded checks room and limits: a chain takes one slot.
func (m *model) bounded(in *engine.ClaimInput, reply *engine.ClaimReply) {
	chains, taken := 0, 0
	room := map[string]int{}
	for _, p := range reply.Picks {
		if p.Lease.After == 0 {
			chains++
			room[p.Delivery.Handler]++
		}
	}
	for _, l := range reply.Lanes {
		if l.TakenOver {
			taken++
		}
	}
	m.expect(chains <= in.Room && len(reply.Picks) <= in.Limit && taken <= in.MaxLanes, "more than there is room for: %+v for %+v", reply, in)
	for _, h := range in.Handlers {
		m.expect(room[h.Name] <= h.Room, "%d for %q with room %d", room[h.Name], h.Name, h.Room)
		delete(room, h.Name)
	}
	m.expect(len(room) == 0, "picks for handlers that the worker lacks: %v", room)
}

// takenOver compares a takeover, and the charge of what it found in flight.
func (m *model) takenOver(in *engine.ClaimInput, l engine.LaneEpoch) {
	a := protocol.TakeOver{
		Lane: l.Lane, Group: in.Group, Holder: in.Holder, Owner: in.Owner, Number: in.Number - 1,
		TTL: in.TTL, Now: now, Clock: now,
	}
	if m.semantics == protocol.Locking {
		probe := m.state.Clone()
		probe.TakeOver(a)
		a.Charged = slices.Clone(probe.Charged())
	}
	m.step(a)
	lane, _ := m.state.Lane(l.Lane)
	m.expect(lane.Epoch == l.Epoch, "lane %d has epoch %d, want %d", l.Lane, l.Epoch, lane.Epoch)
	if len(lane.Lost) > 0 {
		probe := m.state.Clone()
		probe.ChargeLost(protocol.ChargeLost{Lane: l.Lane})
		m.step(protocol.ChargeLost{Lane: l.Lane, Charged: slices.Clone(probe.Charged())})
	}
}

// granted compares what a claim did to one lane, and returns how many picks of
// the reply that were. What a call says of a lane that it holds no longer does
// not count when the same call takes the lane over.
func (m *model) granted(in *engine.ClaimInput, reply *engine.ClaimReply, l *engine.ClaimedLane) int {
	a := protocol.Claim{
		Lane: l.Lane, Holder: in.Holder, Number: in.Number, Running: in.Running, SuspectRunning: in.SuspectRunning,
		Renew: l.TakenOver || !slices.Contains(in.LetExpire, l.Lane), TTL: in.TTL, Now: now, Clock: now,
	}
	for _, h := range in.Handlers {
		if h.Room > 0 {
			a.Handlers = append(a.Handlers, h.Name)
		}
	}
	for i := range reply.Picks {
		if p := &reply.Picks[i]; p.Lease.Lane == l.Lane {
			m.pickedRow(in, l, p)
			a.Picks = append(a.Picks, protocol.Picked{Delivery: p.Lease.Delivery, After: p.Lease.After, Fence: p.Lease.Fence})
		}
	}
	m.expect(len(a.Picks) == 0 || l.TakenOver || !slices.Contains(in.Draining, l.Lane), "picked from draining lane %d", l.Lane)
	m.step(a)
	lane, _ := m.state.Lane(l.Lane)
	m.expect(lane.Epoch == l.Epoch, "lane %d has epoch %d, want %d", l.Lane, l.Epoch, lane.Epoch)
	m.expect((lane.ExpiresAt >= now) == (l.ExpiresAt >= reply.Now), "lane %d: live %v in the model", l.Lane, lane.ExpiresAt >= now)
	return len(a.Picks)
}

// pickedRow compares a pick with its row and its lease with its lane.
func (m *model) pickedRow(in *engine.ClaimInput, l *engine.ClaimedLane, p *engine.Picked) {
	m.expect(!m.waits[p.Delivery.ID], "#%d was picked before it is due", p.Delivery.ID)
	want, _ := m.state.Delivery(p.Delivery.ID)
	m.sameRow(p.Delivery, want)
	m.expect(p.Event != nil && p.Event.ID == want.Event && string(p.Event.Payload) == want.Event, "#%d came with event %+v", want.ID, p.Event)
	token := engine.Token{Lane: l.Lane, Epoch: l.Epoch, Holder: in.Holder, Claim: in.Number}
	m.expect(p.Lease.Token == token && p.Lease.Delivery == p.Delivery.ID, "lease %+v, want token %v", p.Lease, token)
}

// sameRow compares two deliveries; times only as far as they are set.
func (m *model) sameRow(got, want engine.Delivery) {
	m.Helper()
	m.expect((got.DiedAt != 0) == (want.DiedAt != 0), "#%d: died at %d, want %d", got.ID, got.DiedAt, want.DiedAt)
	if want.LastError == unsaid {
		m.expect(got.LastError != "", "#%d was swept without a word", got.ID)
		want.LastError = got.LastError
	}
	got.AvailableAt, want.AvailableAt, got.DiedAt, want.DiedAt = 0, 0, 0, 0
	m.expect(got == want, "a row differs:\n%+v, want\n%+v", got, want)
}

// leaseLost compares which runs the worker is told to have lost: exactly those
// of the reply's lanes that these do not list.
func (m *model) leaseLost(in *engine.ClaimInput, reply *engine.ClaimReply) {
	for _, r := range in.Running {
		lane, _ := m.state.Lane(r.Lane)
		listed := lane.Holder == in.Holder && slices.Contains(lane.InFlight, r.InFlight)
		told := slices.Contains(reply.LeaseLost, r)
		inReply := slices.ContainsFunc(reply.Lanes, func(l engine.ClaimedLane) bool { return l.Lane == r.Lane })
		m.expect(!(told && listed) && (!inReply || told || listed), "%+v: listed %v, reported as lost %v", r, listed, told)
	}
}

// putOff notes how an end that keeps the row moved its due time.
func (m *model) putOff(id engine.DeliveryID, v engine.Verdict, delay time.Duration) {
	if v == engine.Applied {
		m.waits[id] = delay > 0
	}
}

// relinquished compares a Relinquish.
func (m *model) relinquished(in *engine.RelinquishInput, gone []engine.LaneID) {
	lanes := in.Lanes
	if len(lanes) == 0 {
		for l := range m.state.AllLanes() {
			if l.Holder == in.Holder {
				lanes = append(lanes, engine.LaneEpoch{Lane: l.ID})
			}
		}
	}
	told := 0
	for _, l := range lanes {
		given := slices.Contains(gone, l.Lane)
		if slices.Contains(in.Keep, l.Lane) {
			m.expect(!given, "lane %d was to be kept", l.Lane)
			continue
		}
		v := engine.LeaseLost
		if given {
			v = engine.Applied
			told++
		}
		m.step(protocol.Relinquish{Lane: l.Lane, Holder: in.Holder, Number: in.Number, Epoch: l.Epoch, Running: in.Running, Verdict: v})
	}
	m.expect(told == len(gone), "gave back %v, asked for %v", gone, lanes)
}

// expireLane lets a lease run out in the store and in the model, where it is
// an extension to a moment ago.
func (m *model) expireLane(id engine.LaneID) {
	m.ok(m.bench.expire(m.ctx, id), "expire")
	lane, _ := m.state.Lane(id)
	m.step(protocol.ExtendLease{Lane: id, Epoch: lane.Epoch, Holder: lane.Holder, TTL: -1, Now: now, Clock: now, Verdict: engine.Applied})
}

func (m *model) makeDueNow(id engine.DeliveryID) {
	m.ok(m.makeDue(m.ctx, id), "make due")
	m.waits[id] = false
}

// requeued compares a Requeue by its number.
func (m *model) requeued(in *engine.RequeueInput, n int) {
	a := protocol.Requeue{Now: now}
	for d := range m.state.Deliveries() {
		asked := slices.Contains(in.IDs, d.ID) || len(in.IDs) == 0 && (in.Filter.Handler == "" || in.Filter.Handler == d.Handler)
		if d.Status == protocol.Dead && asked {
			a.Requeued = append(a.Requeued, d.ID)
			m.waits[d.ID] = false
		}
	}
	a.IDs = a.Requeued
	m.expect(n == len(a.Requeued), "%d requeued, want %v", n, a.Requeued)
	m.step(a)
}

// unsaid stands in the model for the store's words about a swept delivery.
const unsaid = "\x00swept"

// swept compares the sweep of a removed handler.
func (m *model) swept(h engine.EventHandler, bury bool, n int) {
	a := protocol.Unsubscribe{EventHandler: h, Bury: bury, Reason: unsaid, Now: now}
	for d := range m.state.Deliveries() {
		e, _ := m.state.Event(d.Event)
		if d.Handler == h.Handler && e.Type == h.Event && d.Status == protocol.Pending {
			a.Swept = append(a.Swept, d.ID)
		}
	}
	m.expect(n == len(a.Swept), "%d swept, want %v", n, a.Swept)
	m.step(a)
}

// purgeOld purges everything that may go, and compares how much it was. It
// sweeps first: what a sweep buries is too young to be purged by the same call
// or not, as the clock has it.
func (m *model) purgeOld() {
	total := 0
	var removed []protocol.Subscription
	for sub := range m.state.Subscriptions() {
		if sub.Removed {
			removed = append(removed, sub)
		}
	}
	done := m.purge(engine.PurgeInput{})
	for _, sub := range removed {
		n := 0
		for d := range m.state.Deliveries() {
			e, _ := m.state.Event(d.Event)
			if d.Handler == sub.Handler && e.Type == sub.Event && d.Status == protocol.Pending {
				n++
			}
		}
		m.swept(engine.EventHandler{Event: sub.Event, Handler: sub.Handler}, true, n)
		total += n
	}
	m.expect(done == engine.PurgeReply{Swept: total}, "%+v, want %d swept", done, total)
	time.Sleep(4 * aged)
	done = m.purge(engine.PurgeInput{DeadAfter: aged, EventsAfter: aged, Batch: 2})
	a := protocol.Purge{DiedTo: now + 1, EventsTo: now + 1}
	pending := map[string]bool{}
	for d := range m.state.Deliveries() {
		if d.Status == protocol.Dead {
			a.Dead = append(a.Dead, d.ID)
		} else {
			pending[d.Event] = true
		}
	}
	for e := range m.state.Events() {
		if !pending[e.ID] {
			a.Events = append(a.Events, e.ID)
		}
	}
	want := engine.PurgeReply{Dead: len(a.Dead), Events: len(a.Events), History: done.History}
	m.expect(done == want, "%+v, want %+v", done, want)
	m.step(a)
}

// compare compares everything that an operator can see.
func (m *model) compare() {
	rows := m.list(engine.Filter{})
	clock := m.statistics().Now
	m.expect(len(rows) == m.state.Len(), "%d rows, want %d", len(rows), m.state.Len())
	for _, l := range rows {
		want, ok := m.state.Delivery(l.Delivery.ID)
		m.expect(ok, "#%d is there and should not be", l.Delivery.ID)
		m.sameRow(l.Delivery, want)
		if want.Status == protocol.Pending {
			m.expect((l.Delivery.AvailableAt > clock) == m.waits[want.ID], "#%d: waits %v in the model", want.ID, m.waits[want.ID])
		}
		m.sameEvent(l.Event, want.Event)
	}
	n, err := m.count(m.ctx, "random")
	m.ok(err, "count")
	m.expect(n == m.completions, "%d effects for %d completions", n, m.completions)
	m.compareStatistics()
}

func (m *model) sameEvent(got *protocol.Event, id string) {
	want, _ := m.state.Event(id)
	m.expect(got != nil && got.ID == id && got.Type == want.Type && got.Key == want.Key && string(got.Payload) == id && slices.Equal(got.Handlers, want.Handlers),
		"event %+v, want %+v", got, want)
}

func (m *model) compareStatistics() {
	got := m.statistics()
	var want engine.Statistics
	flying := map[engine.DeliveryID]bool{}
	for l := range m.state.AllLanes() {
		m.countLane(&want, &l, flying)
	}
	for range m.state.Events() {
		want.Events++
	}
	for d := range m.state.Deliveries() {
		switch {
		case d.Status == protocol.Dead:
			want.Dead++
			continue
		case !m.waits[d.ID] && !flying[d.ID]:
			want.Due++
		}
		want.Pending++
	}
	m.expect(got.Events == want.Events && got.Pending == want.Pending && got.Dead == want.Dead && got.Due == want.Due &&
		got.Held == want.Held && got.Expired == want.Expired && got.Running == want.Running && got.Waiting == want.Waiting && got.Stuck == 0,
		"statistics\n%+v, want\n%+v", got, want)
}

func (m *model) countLane(s *engine.Statistics, l *protocol.Lane, flying map[engine.DeliveryID]bool) {
	live := !l.Holder.IsZero() && l.ExpiresAt >= now
	switch {
	case live:
		s.Held++
	case !l.Holder.IsZero():
		s.Expired++
	}
	heads := map[string]bool{}
	for _, f := range l.InFlight {
		flying[f.Delivery] = true
		d, ok := m.state.Delivery(f.Delivery)
		if !live || !ok || d.Status != protocol.Pending {
			continue
		}
		name := d.Handler + "/" + d.Key
		if d.Key != "" && heads[name] {
			s.Waiting++
			continue
		}
		heads[name] = true
		s.Running++
	}
}

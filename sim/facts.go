package sim

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// facts is what the surviving commits say, folded without the protocol's
// rules: verdicts are taken as they are. The direct checkers judge with it, so
// that a mistake in [protocol.State] does not hide the same mistake here.
type facts struct {
	semantics  protocol.Semantics
	deliveries []*deliveryFacts // by id; nil where none was inserted
	queues     map[queueName]*queueFacts
	pairs      map[pairName]*deliveryFacts
	lanes      []laneFacts // by id
	open       int         // deliveries that are pending
	subs       map[protocol.EventHandler]bool
	subscribed int // how many subs has
}

type queueName struct{ handler, key string }

type pairName struct{ event, handler string }

// queueFacts are the deliveries of one (handler, key) in sequence order.
type queueFacts struct{ all []*deliveryFacts }

type fate uint8

const (
	pending fate = iota
	deadLetter
	completed
	swept // purged or unsubscribed
)

// deliveryFacts is the life of one delivery.
type deliveryFacts struct {
	id       protocol.DeliveryID
	event    string
	handler  string
	key      string
	sequence int64
	queue    *queueFacts
	fate     fate
	requeued bool // it was dead once: its place in the order is forfeit
	charges  int32
	granted  protocol.Lease // the run the store would accept now; zero: none
	changed  bool           // an operator changed it after that grant
	lost     protocol.Lease // taken over and not charged yet (snapshot stores)
	ended    protocol.Lease // the run that completed it …
	early    bool           // … beside a newer claim of its holder, which may grant it again
	fenced   []leaseName    // runs that a takeover found in flight and charged
	lives    int            // how often it was requeued
	killer   killer         // of the worker that was taken for dead while it had this in flight
	killers  []killer       // whose kills it was charged for, since the last requeue
	badEnds  int            // runs of it that failed
}

// killer is a delivery that kills its worker, in one of its lives.
type killer struct {
	id   protocol.DeliveryID
	life int
}

// laneFacts is who a lane was granted to.
type laneFacts struct {
	epoch    int64
	holder   protocol.Holder
	gaveBack protocol.Holder // while it is free: who held it last
	expires  protocol.Time
	inFlight []*deliveryFacts
	lost     []*deliveryFacts
}

func (f *facts) init() {
	*f = facts{semantics: f.semantics, queues: map[queueName]*queueFacts{}, pairs: map[pairName]*deliveryFacts{}, subs: map[protocol.EventHandler]bool{}}
}

// delivery returns the facts of an id, nil when it was never committed.
func (f *facts) delivery(id protocol.DeliveryID) *deliveryFacts {
	if id <= 0 || int(id) >= len(f.deliveries) {
		return nil
	}
	return f.deliveries[id]
}

func (f *facts) lane(id protocol.LaneID) *laneFacts {
	for int(id) >= len(f.lanes) {
		f.lanes = append(f.lanes, laneFacts{})
	}
	return &f.lanes[id]
}

// apply folds one action.
func (f *facts) apply(a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			for j := range a.Events[i].Deliveries {
				f.insert(&a.Events[i].Deliveries[j])
			}
		}
	case protocol.Claim:
		f.claim(&a)
	case protocol.TakeOver:
		f.takeOver(&a)
	case protocol.ChargeLost:
		for _, id := range a.Charged {
			f.charge(id)
		}
		for _, d := range f.lane(a.Lane).lost {
			if !slices.Contains(a.Refused, d.id) { // the store could not write its fence
				d.fenced = append(d.fenced, nameOf(d.lost))
			}
			d.lost = protocol.Lease{}
		}
		f.lane(a.Lane).lost = nil
	case protocol.ExtendLease:
		if a.Verdict == protocol.Applied {
			f.lane(a.Lane).renew(a.Now, a.Clock, a.TTL)
		}
	case protocol.CompleteMany:
		for i, lease := range a.Leases {
			if a.Verdicts[i] == protocol.Applied {
				f.complete(lease, unlisted(a, lease))
			}
		}
	case protocol.Complete:
		if a.Verdict == protocol.Applied {
			f.complete(a.Lease, false)
		}
	case protocol.Reschedule:
		if a.Verdict == protocol.Applied {
			f.failed(a.Lease.Delivery, !a.Refused)
			f.leave(a.Lease, a.Rest)
		}
	case protocol.Snooze:
		if a.Verdict == protocol.Applied {
			f.leave(a.Lease, a.Rest)
		}
	case protocol.Bury:
		f.bury(&a)
	case protocol.Release:
		for i, lease := range a.Leases {
			if a.Verdicts[i] == protocol.Applied {
				f.leave(lease, nil)
			}
		}
	case protocol.Relinquish:
		if a.Verdict == protocol.Applied {
			l := f.lane(a.Lane)
			l.holder, l.gaveBack = protocol.Holder{}, a.Holder
			f.empty(l)
		}
	case protocol.Requeue:
		for _, id := range a.Requeued {
			d := f.delivery(id)
			d.fate, d.requeued, d.charges, d.killers = pending, true, 0, nil
			d.changed = true
			d.lives++
			f.open++
		}
	case protocol.Purge:
		for _, id := range a.Dead {
			f.delivery(id).fate = swept
		}
		for _, event := range a.Events {
			f.forget(event)
		}
	case protocol.Subscribe:
		for _, h := range a.Handlers {
			if !f.subs[h] {
				f.subs[h] = true
				f.subscribed++
			}
		}
	case protocol.Unsubscribe:
		for _, id := range a.Swept {
			f.sweep(f.delivery(id), a.Bury)
		}
	}
}

// forget lets an event that was purged be published anew.
func (f *facts) forget(event string) {
	for _, d := range f.deliveries {
		if d != nil && d.event == event {
			delete(f.pairs, pairName{d.event, d.handler})
		}
	}
}

func (f *facts) insert(row *protocol.Delivery) {
	d := &deliveryFacts{
		id: row.ID, event: row.Event, handler: row.Handler, key: row.Key, sequence: row.Sequence,
	}
	for int(d.id) >= len(f.deliveries) {
		f.deliveries = append(f.deliveries, nil)
	}
	f.deliveries[d.id] = d
	f.pairs[pairName{d.event, d.handler}] = d
	f.open++
	if d.key == "" {
		return
	}
	name := queueName{d.handler, d.key}
	q := f.queues[name]
	if q == nil {
		q = &queueFacts{}
		f.queues[name] = q
	}
	d.queue = q
	i := len(q.all)
	q.all = append(q.all, d)
	for ; i > 0 && q.all[i-1].sequence > d.sequence; i-- {
		q.all[i], q.all[i-1] = q.all[i-1], q.all[i]
	}
}

func (f *facts) claim(a *protocol.Claim) {
	l := f.lane(a.Lane)
	if a.Renew {
		l.renew(a.Now, a.Clock, a.TTL)
	}
	kept := l.inFlight[:0]
	for _, d := range l.inFlight {
		if states(a.Running, d.granted.Entry()) {
			kept = append(kept, d)
		} else {
			d.granted = protocol.Lease{}
		}
	}
	l.inFlight = kept
	for _, id := range a.Unstuck {
		// What the store had refused is charged as one attempt, whatever it was.
		if d := f.delivery(id); d != nil && d.fate == pending {
			f.failed(id, true)
		}
	}
	for _, p := range a.Picks {
		d := f.delivery(p.Delivery)
		if d == nil {
			continue // NothingInvented judges it
		}
		d.granted = protocol.Lease{Delivery: p.Delivery, After: p.After, Fence: p.Fence, Token: protocol.Token{
			Lane: a.Lane, Epoch: l.epoch, Holder: a.Holder, Claim: a.Number,
		}}
		d.changed = false
		d.early = d.early || d.fate == completed
		l.inFlight = append(l.inFlight, d)
	}
}

// states reports whether running, sorted by delivery, names the entry.
func states(running []protocol.Running, e protocol.InFlight) bool {
	for i := range running {
		if running[i].InFlight == e {
			return true
		}
	}
	return false
}

func (f *facts) takeOver(a *protocol.TakeOver) {
	l := f.lane(a.Lane)
	for _, id := range a.Charged {
		f.charge(id)
	}
	if f.semantics == protocol.Snapshot {
		for _, d := range l.inFlight {
			d.lost = d.granted
			l.lost = append(l.lost, d)
		}
	} else {
		for _, d := range l.inFlight {
			d.fenced = append(d.fenced, nameOf(d.granted))
		}
	}
	f.empty(l)
	l.epoch++
	l.holder, l.gaveBack, l.expires = a.Holder, protocol.Holder{}, a.Clock.Add(a.TTL)
}

// renew moves the end of the lease.
func (l *laneFacts) renew(now, clock protocol.Time, ttl time.Duration) {
	l.expires = min(max(l.expires, now.Add(ttl)), clock.Add(ttl))
}

func (f *facts) empty(l *laneFacts) {
	for _, d := range l.inFlight {
		d.granted = protocol.Lease{}
	}
	l.inFlight = l.inFlight[:0]
}

func (f *facts) charge(id protocol.DeliveryID) {
	if d := f.delivery(id); d != nil {
		d.charges++
	}
}

// failed counts a run that ended badly.
func (f *facts) failed(id protocol.DeliveryID, charge bool) {
	d := f.delivery(id)
	if d == nil {
		return
	}
	d.badEnds++
	if charge {
		d.charges++
	}
}

func (f *facts) complete(lease protocol.Lease, early bool) {
	d := f.delivery(lease.Delivery)
	if d == nil {
		return
	}
	if d.fate == pending {
		f.open--
	}
	if d.fate != completed {
		d.early = early
	}
	d.fate, d.ended = completed, lease
	f.leave(lease, nil)
}

func (f *facts) bury(a *protocol.Bury) {
	if a.Verdict != protocol.Applied {
		return
	}
	d := f.delivery(a.Lease.Delivery)
	if d == nil {
		return
	}
	f.failed(d.id, a.Charge && !a.Refused)
	if d.fate == pending && !a.Refused {
		f.open--
		d.fate = deadLetter
	}
	f.leave(a.Lease, a.Rest)
}

func (f *facts) sweep(d *deliveryFacts, bury bool) {
	if d.fate == pending {
		f.open--
	}
	d.fate = swept
	if bury {
		d.fate = deadLetter
	}
}

// leave ends the runs of a lease and of the rest of its chain.
func (f *facts) leave(lease protocol.Lease, rest []protocol.Lease) {
	l := f.lane(lease.Lane)
	kept := l.inFlight[:0]
	for _, d := range l.inFlight {
		if names(lease, d) || namesAny(rest, d) {
			d.granted = protocol.Lease{}
			continue
		}
		kept = append(kept, d)
	}
	l.inFlight = kept
}

func names(lease protocol.Lease, d *deliveryFacts) bool {
	return lease.Delivery == d.id && lease.Claim == d.granted.Claim && lease.Holder == d.granted.Holder
}

func namesAny(leases []protocol.Lease, d *deliveryFacts) bool {
	for i := range leases {
		if names(leases[i], d) {
			return true
		}
	}
	return false
}

// accepted reports whether the store would accept the end of a run under this
// lease.
func (f *facts) accepted(lease protocol.Lease) bool {
	d := f.delivery(lease.Delivery)
	return d != nil && d.granted.Token == lease.Token
}

// String returns the fate in one word.
func (f fate) String() string {
	return [...]string{"pending", "dead", "completed", "purged"}[f]
}

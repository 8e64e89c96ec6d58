package protocol

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// scene is where each guard's attack begins. Lane 0 is held by w1 in epoch 1,
// which runs the unkeyed delivery 1 and the chain 2, 3 of a key whose third
// row, 4, waits. 5 waits unkeyed, 6 is dead, 7 waits in lane 1.
type scene struct {
	*world
	t      *testing.T
	w1, w2 *worker
	key    string // of lane 0
}

func newScene(t *testing.T, semantics Semantics) *scene {
	s := &scene{world: newWorld(semantics, 2), t: t}
	s.w1, s.w2 = s.worker("w1"), s.worker("w2")
	s.key = hashed("key", 0)
	s.must(Subscribe{Group: "default", Handlers: []EventHandler{{"order", "mail"}}, Lanes: []LaneID{0, 1}})
	s.deliver(hashed("one", 0), "")
	s.deliver("two", s.key)
	s.deliver("three", s.key)
	s.deliver("four", s.key)
	s.deliver(hashed("five", 0), "")
	s.deliver(hashed("six", 0), "")
	s.deliver(hashed("seven", 1), "")
	s.now = Time(10 * time.Second)
	s.must(s.takeOver(s.w1, 0, 1))
	s.grant(s.claimOf(s.w1, 2, 1, 2, 3, 6))
	s.must(s.filled(Bury{Lease: s.lease(6), Now: s.now}))
	s.w1.forget(s.lease(6))
	return s
}

// hashed returns an event id or key that hashes to a lane of two.
func hashed(prefix string, lane LaneID) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint(prefix, i); LaneOf(0, 2, id, "") == lane {
			return id
		}
	}
}

func (s *scene) must(a Action) {
	s.t.Helper()
	if refusal, violation := s.commit(a); refusal != nil || violation != nil {
		s.t.Fatal(refusal, violation)
	}
}

func (s *scene) deliver(event, key string) {
	a := s.draft([]Event{{ID: event, Type: "order", Key: key}}, [][]string{{"mail"}})
	s.must(a)
	s.published(a)
}

func (s *scene) grant(a Claim) {
	s.must(a)
	wk := s.w1
	if a.Holder == s.w2.holder {
		wk = s.w2
	}
	s.learn(wk, a, true)
}

// claimOf is a claim of lane 0 for some deliveries: a keyed one follows the
// one before it.
func (s *scene) claimOf(wk *worker, n int64, ids ...DeliveryID) Claim {
	a := Claim{
		Lane: 0, Holder: wk.holder, Number: n, Handlers: []string{"mail"}, Running: wk.states(),
		Renew: true, TTL: testTTL, Now: s.now,
	}
	for _, id := range ids {
		p := Picked{Delivery: id}
		if d, ok := s.s.Delivery(id); ok {
			p.Fence = d.Fence
		}
		if n := len(a.Picks); n > 0 && id > 2 && id <= 4 {
			p.After = a.Picks[n-1].Delivery
		}
		a.Picks = append(a.Picks, p)
	}
	return a
}

// lease returns the latest lease of a delivery that w1 was granted, else w2.
func (s *scene) lease(id DeliveryID) Lease {
	for _, wk := range []*worker{s.w1, s.w2} {
		for i := len(wk.granted) - 1; i >= 0; i-- {
			if wk.granted[i].Delivery == id {
				return wk.granted[i].Lease
			}
		}
	}
	s.t.Fatalf("no lease of #%d", id)
	return Lease{}
}

// taken lets w2 take lane 0 over from w1.
func (s *scene) taken() *scene {
	s.now = s.now.Add(time.Minute)
	s.must(s.filled(s.takeOver(s.w2, 0, 1)))
	return s
}

// charged is taken, with what was lost charged.
func (s *scene) charged() *scene {
	s.taken()
	if s.s.Semantics() == Snapshot {
		s.must(s.filled(ChargeLost{Lane: 0}))
	}
	return s
}

// with changes a value and returns it.
func with[T any](x T, change func(*T)) T {
	change(&x)
	return x
}

type attack struct {
	action, guard string
	only          Semantics // with both false: in both
	both          bool
	attack        func(*scene) Action
}

func both(action, guard string, do func(*scene) Action) attack {
	return attack{action: action, guard: guard, both: true, attack: do}
}

func only(semantics Semantics, action, guard string, do func(*scene) Action) attack {
	return attack{action: action, guard: guard, only: semantics, attack: do}
}

// published is the Publish of an event for mail, with one thing wrong.
func wrongPublish(change func(*scene, *PublishEvent)) func(*scene) Action {
	return func(s *scene) Action {
		a := s.draft([]Event{{ID: "new", Type: "order", Key: s.key}}, [][]string{{"mail"}})
		change(s, &a.Events[0])
		return a
	}
}

var publishAttacks = []attack{
	both("Publish", "event", wrongPublish(func(_ *scene, p *PublishEvent) { p.Event.ID = "" })),
	both("Publish", "event", func(s *scene) Action {
		e := Event{ID: "new", Type: "order"}
		return s.draft([]Event{e, e}, [][]string{{"mail"}, {"mail"}})
	}),
	both("Publish", "subscribed", wrongPublish(func(_ *scene, p *PublishEvent) { p.Subscribed = []string{"nobody"} })),
	both("Publish", "result", wrongPublish(func(_ *scene, p *PublishEvent) { p.Result = Known })),
	both("Publish", "result", wrongPublish(func(_ *scene, p *PublishEvent) { p.Event.ID = "two" })),
	both("Publish", "handlers", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries = nil })),
	both("Publish", "handlers", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries[0].Handler = "audit" })),
	both("Publish", "row", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries[0].Key = "other" })),
	both("Publish", "row", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries[0].Status = Dead })),
	both("Publish", "row", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries[0].Attempts = 1 })),
	both("Publish", "delivery", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries[0].ID = 5 })),
	// The lane of the event id although the event has a key.
	both("Publish", "lane", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries[0].Lane = 1 })),
	only(Snapshot, "Publish", "sequence", wrongPublish(func(s *scene, p *PublishEvent) { p.Deliveries[0].Sequence = 1 })),
	only(Locking, "Publish", "sequence", wrongPublish(func(_ *scene, p *PublishEvent) { p.Deliveries[0].Sequence++ })),
	both("Publish", "sequence", func(s *scene) Action {
		a := s.draft([]Event{
			{ID: "new", Type: "order", Key: s.key}, {ID: "newer", Type: "order", Key: s.key},
		}, [][]string{{"mail"}, {"mail"}})
		first, second := &a.Events[0].Deliveries[0], &a.Events[1].Deliveries[0]
		first.ID, second.ID = second.ID, first.ID
		first.Sequence, second.Sequence = second.Sequence, first.Sequence
		return a
	}),
}

var claimAttacks = []attack{
	both("Claim", "lane", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4), func(a *Claim) { a.Lane = 9 })
	}),
	both("Claim", "holder", func(s *scene) Action { return s.claimOf(s.w2, 4, 5) }),
	both("Claim", "number", func(s *scene) Action { return s.claimOf(s.w1, 2, 5) }),
	only(Snapshot, "Claim", "lost", func(s *scene) Action { return s.taken().claimOf(s.w2, 2, 5) }),
	both("Claim", "not-after", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 5), func(a *Claim) { a.NotAfter = s.now - 1 })
	}),
	only(Locking, "Claim", "not-after", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 5), func(a *Claim) { a.Clock, a.NotAfter = s.now+2, s.now+1 })
	}),
	both("Claim", "order", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4), func(a *Claim) { slices.Reverse(a.Running) })
	}),
	both("Claim", "unstuck", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4), func(a *Claim) { a.Unstuck = []DeliveryID{5} })
	}),
	both("Claim", "renew", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 5), func(a *Claim) { a.Renew = false })
	}),
	both("Claim", "row", func(s *scene) Action { return s.claimOf(s.w1, 4, 99) }),
	both("Claim", "pending", func(s *scene) Action { return s.claimOf(s.w1, 4, 6) }),
	both("Claim", "row lane", func(s *scene) Action { return s.claimOf(s.w1, 4, 7) }),
	both("Claim", "handler", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 5), func(a *Claim) { a.Handlers = []string{"audit"} })
	}),
	both("Claim", "due", func(s *scene) Action {
		s.grant(s.claimOf(s.w1, 4, 5))
		s.must(s.filled(Snooze{Lease: s.lease(5), Delay: 1, Now: s.now}))
		s.w1.forget(s.lease(5))
		return s.claimOf(s.w1, 6, 5)
	}),
	both("Claim", "running", func(s *scene) Action { return s.claimOf(s.w1, 4, 1) }),
	// What drops out may not be picked again while the worker runs it.
	both("Claim", "running", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 1), func(a *Claim) { a.Running[0].Claim-- })
	}),
	both("Claim", "stuck", func(s *scene) Action {
		s.must(with(s.filled(Snooze{Lease: s.lease(1), Now: s.now}).(Snooze), func(a *Snooze) { a.Refused = true }))
		s.w1.forget(s.lease(1))
		return s.claimOf(s.w1, 4, 1)
	}),
	both("Claim", "twice", func(s *scene) Action { return s.claimOf(s.w1, 4, 5, 5) }),
	only(Snapshot, "Claim", "fence", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 5), func(a *Claim) { a.Picks[0].Fence++ })
	}),
	both("Claim", "earlier", func(s *scene) Action { return s.claimOf(s.w1, 4, 4) }),
	// The head is free, but its key still runs: its follower was handed on.
	both("Claim", "key", func(s *scene) Action {
		s.w1.forget(s.lease(2))
		return s.claimOf(s.w1, 4, 2)
	}),
	both("Claim", "after", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 4), func(a *Claim) { a.Picks[0].After = 3 })
	}),
	both("Claim", "chain", func(s *scene) Action {
		return with(s.claimOf(s.w1, 4, 5, 4), func(a *Claim) { a.Picks[1].After = 5 })
	}),
	both("Claim", "chain", func(s *scene) Action {
		s.w1.running = nil
		return s.claimOf(s.w1, 4, 2, 4)
	}),
	both("Claim", "charged", func(s *scene) Action {
		s.must(s.filled(Reschedule{Lease: s.lease(2), Rest: []Lease{s.lease(3)}, Now: s.now}))
		s.w1.running = nil
		return s.claimOf(s.w1, 4, 2, 3)
	}),
	both("Claim", "suspect", func(s *scene) Action { return s.charged().claimOf(s.w2, 2, 1, 2) }),
	both("Claim", "suspect", func(s *scene) Action {
		s.charged().grant(s.claimOf(s.w2, 2, 1))
		return s.claimOf(s.w2, 4, 2)
	}),
	// The row of the running one was deleted meanwhile; it still may kill.
	both("Claim", "suspect", func(s *scene) Action {
		s.charged().grant(s.claimOf(s.w2, 2, 1))
		s.must(Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Swept: []DeliveryID{1}})
		return with(s.claimOf(s.w2, 4, 2), func(a *Claim) { a.SuspectRunning = s.w2.runsSuspect() })
	}),
}

var leaseAttacks = []attack{
	both("TakeOver", "lane", func(s *scene) Action { return s.takeOver(s.w2, 9, 1) }),
	both("TakeOver", "group", func(s *scene) Action {
		s.must(Subscribe{Group: "reports", Handlers: []EventHandler{{"order", "audit"}}, Lanes: []LaneID{2, 3}})
		return s.takeOver(s.w2, 2, 1)
	}),
	both("TakeOver", "holder", func(s *scene) Action {
		s.now = s.now.Add(time.Hour)
		return s.takeOver(s.w1, 0, 5)
	}),
	both("TakeOver", "expiry", func(s *scene) Action {
		s.now = s.now.Add(testTTL) // the last tick of the lease
		return s.takeOver(s.w2, 0, 1)
	}),
	both("TakeOver", "number", func(s *scene) Action {
		s.w1.running = nil
		s.must(s.filled(Relinquish{Lane: 0, Holder: s.w1.holder, Number: 7}))
		return s.takeOver(s.w1, 0, 6)
	}),
	both("TakeOver", "not-after", func(s *scene) Action {
		return with(s.takeOver(s.w2, 1, 1), func(a *TakeOver) { a.NotAfter = s.now - 1 })
	}),
	both("TakeOver", "refused", func(s *scene) Action {
		return with(s.takeOver(s.w2, 1, 1), func(a *TakeOver) { a.Refused = []DeliveryID{5} })
	}),
	both("ChargeLost", "lane", func(*scene) Action { return ChargeLost{Lane: 9} }),
	both("ChargeLost", "lost", func(*scene) Action { return ChargeLost{Lane: 0} }),
	only(Snapshot, "ChargeLost", "refused", func(s *scene) Action {
		s.taken()
		return ChargeLost{Lane: 0, Refused: []DeliveryID{5}}
	}),
	both("ExtendLease", "lane", func(s *scene) Action { return ExtendLease{Lane: 9, Holder: s.w1.holder} }),
	both("ExtendLease", "holder", func(s *scene) Action { return ExtendLease{Epoch: 1, Holder: s.w2.holder} }),
	both("ExtendLease", "epoch", func(s *scene) Action { return ExtendLease{Epoch: 2, Holder: s.w1.holder} }),
	both("Relinquish", "lane", func(s *scene) Action { return Relinquish{Lane: 9, Holder: s.w1.holder} }),
	both("Relinquish", "holder", func(s *scene) Action { return Relinquish{Holder: s.w2.holder, Number: 9} }),
	both("Relinquish", "epoch", func(s *scene) Action { return Relinquish{Holder: s.w1.holder, Number: 9, Epoch: 2} }),
	both("Relinquish", "number", func(s *scene) Action { return Relinquish{Holder: s.w1.holder, Number: 2} }),
	both("Relinquish", "running", func(s *scene) Action {
		return Relinquish{Holder: s.w1.holder, Number: 9, Running: s.w1.states()}
	}),
}

// endAttacks are those that every end of a run must withstand.
func endAttacks(action string, end func(*scene, Lease) Action) []attack {
	forged := func(guard string, id DeliveryID, forge func(*scene, *Lease)) attack {
		return both(action, guard, func(s *scene) Action {
			l := s.lease(id)
			forge(s, &l)
			return end(s, l)
		})
	}
	return []attack{
		forged("lane", 1, func(_ *scene, l *Lease) { l.Lane = 9 }),
		forged("epoch", 1, func(_ *scene, l *Lease) { l.Epoch = 2 }),
		forged("epoch", 1, func(s *scene, _ *Lease) { s.charged() }),
		forged("holder", 1, func(s *scene, l *Lease) { l.Holder = s.w2.holder }),
		forged("in flight", 1, func(_ *scene, l *Lease) { l.Claim = 1 }),
		forged("in flight", 1, func(s *scene, l *Lease) { s.must(s.filled(Release{Leases: []Lease{*l}})) }),
	}
}

// rowAttacks are those on ends that need the row.
func rowAttacks(action string, end func(*scene, Lease) Action) []attack {
	return append(endAttacks(action, end),
		both(action, "row lane", func(s *scene) Action {
			s.must(s.takeOver(s.w1, 1, 3))
			l := s.lease(1)
			l.Lane = 1
			return end(s, l)
		}),
		both(action, "after", func(s *scene) Action { return end(s, s.lease(3)) }),
		both(action, "row", func(s *scene) Action {
			s.must(s.filled(CompleteMany{Leases: []Lease{s.lease(1)}}))
			return end(s, s.lease(1))
		}),
		both(action, "pending", func(s *scene) Action {
			s.must(Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Bury: true, Swept: []DeliveryID{1}})
			return end(s, with(s.lease(1), func(l *Lease) {
				if s.s.Semantics() == Snapshot {
					l.Fence++
				}
			}))
		}),
	)
}

func finishAttacks() []attack {
	all := slices.Concat(
		rowAttacks("Complete", func(_ *scene, l Lease) Action { return Complete{Lease: l} }),
		rowAttacks("Reschedule", func(s *scene, l Lease) Action { return Reschedule{Lease: l, Now: s.now} }),
		rowAttacks("Snooze", func(s *scene, l Lease) Action { return Snooze{Lease: l, Now: s.now} }),
		rowAttacks("Bury", func(s *scene, l Lease) Action { return Bury{Lease: l, Now: s.now} }),
		endAttacks("Release", func(_ *scene, l Lease) Action { return Release{Leases: []Lease{l}} }),
		rowAttacks("CompleteMany", func(_ *scene, l Lease) Action { return CompleteMany{Leases: []Lease{l}} }),
	)
	for i := range all {
		if all[i].action == "CompleteMany" {
			all[i].both = false // a Snapshot store's rule is another: snapshotAttacks
		}
	}
	// A row that is gone is Applied while the lane lists the run.
	return slices.DeleteFunc(all, func(a attack) bool { return a.action == "CompleteMany" && a.guard == "row" })
}

var snapshotAttacks = []attack{
	only(Snapshot, "Complete", "fence", func(s *scene) Action {
		return Complete{Lease: with(s.lease(1), func(l *Lease) { l.Fence = 1 })}
	}),
	only(Snapshot, "CompleteMany", "fence", func(s *scene) Action {
		return CompleteMany{Leases: []Lease{s.charged().lease(1)}}
	}),
	only(Snapshot, "CompleteMany", "row lane", func(s *scene) Action {
		return CompleteMany{Leases: []Lease{with(s.lease(1), func(l *Lease) { l.Lane = 1 })}}
	}),
	only(Snapshot, "CompleteMany", "after", func(s *scene) Action {
		return CompleteMany{Leases: []Lease{s.lease(3)}}
	}),
	// In one call a follower goes with its predecessor or not at all.
	both("CompleteMany", "after", func(s *scene) Action {
		head := with(s.lease(2), func(l *Lease) { l.Fence, l.Epoch = 7, 7 })
		return CompleteMany{Leases: []Lease{s.lease(3), head, s.lease(3)}}
	}),
	only(Snapshot, "CompleteMany", "pending", func(s *scene) Action {
		s.must(Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Bury: true, Swept: []DeliveryID{1}})
		return CompleteMany{Leases: []Lease{with(s.lease(1), func(l *Lease) { l.Fence++ })}}
	}),
	// Only when the row is gone the lane is read.
	only(Snapshot, "CompleteMany", "epoch", func(s *scene) Action {
		s.must(s.filled(CompleteMany{Leases: []Lease{s.lease(1)}}))
		return CompleteMany{Leases: []Lease{s.taken().lease(1)}}
	}),
	only(Snapshot, "CompleteMany", "holder", func(s *scene) Action {
		s.must(s.filled(CompleteMany{Leases: []Lease{s.lease(1)}}))
		return CompleteMany{Leases: []Lease{with(s.lease(1), func(l *Lease) { l.Holder = s.w2.holder })}}
	}),
	only(Snapshot, "CompleteMany", "in flight", func(s *scene) Action {
		s.must(s.filled(CompleteMany{Leases: []Lease{s.lease(1)}}))
		return CompleteMany{Leases: []Lease{with(s.lease(1), func(l *Lease) { l.Claim = 1 })}}
	}),
	both("CompleteMany", "refused", func(s *scene) Action {
		return CompleteMany{Leases: []Lease{s.lease(1)}, Refused: []DeliveryID{1}}
	}),
	both("CompleteMany", "seen", func(s *scene) Action {
		return CompleteMany{Leases: []Lease{s.lease(1)}, Verdicts: []Verdict{LeaseLost}, Seen: 1}
	}),
	both("Reschedule", "seen", func(s *scene) Action { return Reschedule{Lease: s.lease(1), Seen: 1} }),
	both("Snooze", "seen", func(s *scene) Action { return Snooze{Lease: s.lease(1), Seen: 1} }),
	both("Bury", "seen", func(s *scene) Action { return Bury{Lease: s.lease(1), Seen: 1} }),
	both("Complete", "seen", func(s *scene) Action { return Complete{Lease: s.lease(1), Seen: 1} }),
	both("Release", "seen", func(s *scene) Action {
		return Release{Leases: []Lease{s.lease(1)}, Verdicts: []Verdict{LeaseLost}, Seen: 1}
	}),
}

var operateAttacks = []attack{
	both("Subscribe", "group", func(*scene) Action {
		return Subscribe{Group: "other", Handlers: []EventHandler{{"refund", "mail"}}, Lanes: []LaneID{2, 3}}
	}),
	both("Subscribe", "lanes", func(*scene) Action {
		return Subscribe{Group: "other", Handlers: []EventHandler{{"order", "audit"}}, Lanes: []LaneID{2}}
	}),
	both("Subscribe", "lanes", func(*scene) Action {
		return Subscribe{Group: "default", Handlers: []EventHandler{{"order", "audit"}}, Lanes: []LaneID{2}}
	}),
	both("Unsubscribe", "subscribed", func(*scene) Action {
		return Unsubscribe{EventHandler: EventHandler{"refund", "mail"}}
	}),
	both("Unsubscribe", "row", func(*scene) Action {
		return Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Swept: []DeliveryID{99}}
	}),
	both("Unsubscribe", "handler", func(s *scene) Action {
		s.must(Subscribe{Group: "default", Handlers: []EventHandler{{"order", "audit"}}})
		return Unsubscribe{EventHandler: EventHandler{"order", "audit"}, Swept: []DeliveryID{5}}
	}),
	both("Unsubscribe", "pending", func(*scene) Action {
		return Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Swept: []DeliveryID{6}}
	}),
	both("Unsubscribe", "twice", func(*scene) Action {
		return Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Swept: []DeliveryID{5, 5}}
	}),
	both("Requeue", "asked", func(*scene) Action { return Requeue{Requeued: []DeliveryID{6}} }),
	both("Requeue", "dead", func(*scene) Action {
		return Requeue{IDs: []DeliveryID{5}, Requeued: []DeliveryID{5}}
	}),
	both("Requeue", "twice", func(*scene) Action {
		return Requeue{IDs: []DeliveryID{6}, Requeued: []DeliveryID{6, 6}}
	}),
	both("Purge", "dead", func(*scene) Action { return Purge{Dead: []DeliveryID{5}, DiedTo: 1 << 60} }),
	both("Purge", "died", func(s *scene) Action { return Purge{Dead: []DeliveryID{6}, DiedTo: s.now} }),
	both("Purge", "twice", func(*scene) Action { return Purge{Dead: []DeliveryID{6, 6}, DiedTo: 1 << 60} }),
	both("Purge", "event", func(*scene) Action { return Purge{Events: []string{"none"}, EventsTo: 1 << 60} }),
	both("Purge", "published", func(*scene) Action { return Purge{Events: []string{"two"}} }),
	both("Purge", "deliveries", func(*scene) Action { return Purge{Events: []string{"two"}, EventsTo: 1 << 60} }),
}

func allAttacks() []attack {
	return slices.Concat(publishAttacks, claimAttacks, leaseAttacks, finishAttacks(), snapshotAttacks, operateAttacks)
}

// semantics are the kinds of store that the attack is for.
func (a *attack) semantics() []Semantics {
	if a.both {
		return []Semantics{Locking, Snapshot}
	}
	return []Semantics{a.only}
}

// TestEveryGuardIsEffective attacks each guard of each action and expects that
// guard, not another one, to answer, and nothing to change.
func TestEveryGuardIsEffective(t *testing.T) {
	for _, a := range allAttacks() {
		for _, semantics := range a.semantics() {
			t.Run(fmt.Sprintf("%s/%s/%v", a.action, a.guard, semantics), func(t *testing.T) {
				s := newScene(t, semantics)
				action := a.attack(s)
				if action.Name() != a.action {
					t.Fatalf("attacks %s", action.Name())
				}
				before := s.s.Hash()
				twin := s.s.Clone()
				if o := lastFailed(twin, action); o.OK() || o.Guard != a.guard {
					t.Fatalf("%v, want guard %q", o, a.guard)
				}
				if twin.Hash() != before {
					t.Fatal("it changed the state all the same")
				}
			})
		}
	}
}

// lastFailed performs an action and returns its last outcome that failed: an
// attack stands behind what prepares it.
func lastFailed(s *State, a Action) Outcome {
	var outcomes []Outcome
	switch a := a.(type) {
	case Publish:
		outcomes = s.Publish(a)
	case CompleteMany:
		outcomes = s.CompleteMany(a)
	case Release:
		outcomes = s.Release(a)
	default:
		return (&world{s: s}).attempt(a)
	}
	for i := len(outcomes) - 1; i >= 0; i-- {
		if !outcomes[i].OK() {
			return outcomes[i]
		}
	}
	return applied
}

// TestGuardsStandInOrder takes one obstacle away after another: the first that
// is left decides, in the order of the specification.
func TestGuardsStandInOrder(t *testing.T) {
	s := newScene(t, Locking)
	lease := Lease{Delivery: 7, Token: Token{Lane: 0, Epoch: 2, Claim: 9}, After: 5}
	claim := s.claimOf(s.w2, 1, 99)
	claim.NotAfter = 1
	slices.Reverse(claim.Running)
	steps := []struct {
		guard  string
		action func() Action
	}{
		{"epoch", func() Action { return Reschedule{Lease: lease} }},
		{"holder", func() Action { lease.Epoch = 1; return Reschedule{Lease: lease} }},
		{"row lane", func() Action { lease.Holder = s.w1.holder; return Reschedule{Lease: lease} }},
		{"in flight", func() Action { lease.Delivery = 1; return Reschedule{Lease: lease} }},
		{"after", func() Action { lease.Claim = 2; return Reschedule{Lease: lease} }},
		{"", func() Action { lease.After = 0; return Reschedule{Lease: lease} }},
		{"holder", func() Action { return claim }},
		{"number", func() Action { claim.Holder = s.w1.holder; return claim }},
		{"not-after", func() Action { claim.Number = 4; return claim }},
		{"row", func() Action { claim.NotAfter = 0; return claim }},
		{"", func() Action { claim.Picks = nil; return claim }},
	}
	for i, step := range steps {
		if o := s.attempt(step.action()); o.Guard != step.guard {
			t.Errorf("step %d: %v, want guard %q", i, o, step.guard)
		}
	}
}

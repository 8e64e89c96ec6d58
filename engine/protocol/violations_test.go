package protocol

import (
	"slices"
	"testing"
	"time"
)

// sabotage is a store's bug, and the promise it breaks.
type sabotage struct {
	invariant string
	story     string
	only      []Semantics // nil: both
	do        func(*scene) *Violation
}

// stepped is the violation that a store's doing is reported with.
func (s *scene) stepped(a Action) *Violation {
	_, violation := Step(s.s, s.l, a)
	return violation
}

// checked is what a full check finds.
func (s *scene) checked() *Violation { return Check(s.s, s.l) }

var (
	locking  = []Semantics{Locking}
	snapshot = []Semantics{Snapshot}
)

var sabotages = []sabotage{
	{"TypeOK", "a delivery is in flight twice", nil, func(s *scene) *Violation {
		lane := s.s.lane(0)
		lane.InFlight = append(lane.InFlight, lane.InFlight[2])
		return s.checked()
	}},
	{"TypeOK", "a delivery is in flight in another lane", nil, func(s *scene) *Violation {
		s.s.lane(1).Holder = s.w2.holder
		s.s.lane(1).InFlight = []InFlight{{5, 1}}
		return s.checked()
	}},
	{"TypeOK", "a free lane lists work", nil, func(s *scene) *Violation {
		s.s.lane(1).InFlight = []InFlight{{7, 1}}
		return s.checked()
	}},
	{"TypeOK", "a row stands in another lane than its key's", nil, func(s *scene) *Violation {
		s.s.row(4).Lane = 1
		return s.checked()
	}},
	{"TypeOK", "an event forgot a handler", nil, func(s *scene) *Violation {
		s.s.row(4).event.Handlers = nil
		return s.checked()
	}},
	{"TypeOK", "two rows of one (event, handler)", nil, func(s *scene) *Violation {
		twin := *s.s.row(7)
		twin.ID, twin.Sequence = 8, 8
		s.s.rows = append(s.s.rows, &twin)
		return s.checked()
	}},
	{"TypeOK", "a status that there is not", nil, func(s *scene) *Violation {
		s.s.row(4).Status = 2
		return s.checked()
	}},
	{"TypeOK", "a locking store has something lost", locking, func(s *scene) *Violation {
		s.s.lane(0).Lost = []InFlight{{5, 1}}
		return s.checked()
	}},
	{"NoLostDelivery", "a row vanishes", nil, func(s *scene) *Violation {
		s.s.removeRow(s.s.row(5))
		return s.checked()
	}},
	{"NoLostDelivery", "Purge trusts its first look", nil, func(s *scene) *Violation {
		return s.stepped(Purge{Dead: []DeliveryID{5}, DiedTo: 1 << 60})
	}},
	{"NoLostDelivery", "Purge deletes the event of a pending delivery", nil, func(s *scene) *Violation {
		return s.stepped(Purge{Events: []string{"two"}, EventsTo: 1 << 60})
	}},
	{"NothingInvented", "a run of what nobody published", nil, func(s *scene) *Violation {
		return s.stepped(with(s.claimOf(s.w1, 4, 99), func(a *Claim) { a.Seen = 1 }))
	}},
	{"NothingInvented", "a completion of what nobody published", nil, func(s *scene) *Violation {
		l := with(s.lease(1), func(l *Lease) { l.Delivery = 99 })
		return s.stepped(CompleteMany{Leases: []Lease{l}, Verdicts: []Verdict{Applied}})
	}},
	{"NothingInvented", "a row that nobody published", nil, func(s *scene) *Violation {
		s.s.Publish(s.draft([]Event{{ID: "new", Type: "order"}}, [][]string{{"mail"}}))
		return s.checked()
	}},
	{"OneHolderPerLane", "a former owner renews", nil, func(s *scene) *Violation {
		s.charged()
		return s.stepped(ExtendLease{Epoch: 1, Holder: s.w1.holder, Verdict: Applied})
	}},
	{"OneHolderPerLane", "a claim on another's lane", nil, func(s *scene) *Violation {
		return s.stepped(s.claimOf(s.w2, 4, 5))
	}},
	{"OneGroupPerHolder", "a takeover of a free lane of another group", nil, func(s *scene) *Violation {
		s.must(Subscribe{Group: "reports", Handlers: []EventHandler{{"order", "audit"}}, Lanes: []LaneID{2, 3}})
		return s.stepped(s.takeOver(s.w2, 2, 1))
	}},
	{"OneGroupPerHolder", "a takeover by a worker of a group that nobody subscribed", nil, func(s *scene) *Violation {
		return s.stepped(with(s.takeOver(s.w2, 1, 1), func(a *TakeOver) { a.Group = 1 }))
	}},
	{"FencedOut", "the holder took its lane again and completes a run from before", nil, func(s *scene) *Violation {
		old := s.lease(1)
		s.charged()
		s.now = s.now.Add(time.Minute)
		s.must(s.filled(s.takeOver(s.w1, 0, 5)))
		return s.stepped(Complete{Lease: old, Verdict: Applied})
	}},
	{"FencedOut", "a completion under a token never granted", locking, func(s *scene) *Violation {
		l := with(s.lease(1), func(l *Lease) { l.Claim = 1 })
		return s.stepped(CompleteMany{Leases: []Lease{l}, Verdicts: []Verdict{Applied}})
	}},
	{"FencedOut", "a run that was given back is completed", locking, func(s *scene) *Violation {
		s.must(s.filled(Release{Leases: []Lease{s.lease(1)}}))
		return s.stepped(CompleteMany{Leases: []Lease{s.lease(1)}, Verdicts: []Verdict{Applied}})
	}},
	{"FencedOut", "a run that was snoozed meanwhile is completed by an older list", locking, func(s *scene) *Violation {
		s.must(s.filled(Snooze{Lease: s.lease(1), Now: s.now}))
		return s.stepped(CompleteMany{Leases: []Lease{s.lease(1)}, Verdicts: []Verdict{Applied}, Unlisted: []DeliveryID{1}, Seen: 1})
	}},
	{"FencedOut", "a run that failed already is snoozed", nil, func(s *scene) *Violation {
		s.must(s.filled(Reschedule{Lease: s.lease(1), Now: s.now}))
		return s.stepped(Snooze{Lease: s.lease(1), Now: s.now, Verdict: Applied})
	}},
	{"NothingDropped", "a lane forgets a run", nil, func(s *scene) *Violation {
		s.s.lane(0).InFlight = s.s.lane(0).InFlight[:2]
		return s.checked()
	}},
	{"NothingDropped", "a lane is given back with work in flight", nil, func(s *scene) *Violation {
		return s.stepped(Relinquish{Holder: s.w1.holder, Number: 9, Running: s.w1.states(), Verdict: Applied})
	}},
	{"NothingDropped", "an old Relinquish behind a newer claim", nil, func(s *scene) *Violation {
		return s.stepped(Relinquish{Holder: s.w1.holder, Number: 1, Verdict: Applied})
	}},
	{"NothingDropped", "an old claim behind a newer one", nil, func(s *scene) *Violation {
		return s.stepped(with(s.claimOf(s.w1, 1), func(a *Claim) { a.Running = nil }))
	}},
	{"NothingDropped", "a worker takes over a lane of its own", nil, func(s *scene) *Violation {
		s.now = s.now.Add(time.Minute)
		return s.stepped(with(s.takeOver(s.w1, 0, 3), func(a *TakeOver) { a.Charged = []DeliveryID{1, 2} }))
	}},
	{"AtMostOneCompletion", "a transaction that deleted nothing commits", nil, func(s *scene) *Violation {
		s.must(s.filled(Complete{Lease: s.lease(1)}))
		return s.stepped(Complete{Lease: s.lease(1), Verdict: Applied})
	}},
	{"KeyOrder", "a follower completes before its predecessor", nil, func(s *scene) *Violation {
		return s.stepped(CompleteMany{Leases: []Lease{s.lease(3)}, Verdicts: []Verdict{Applied}})
	}},
	{"KeyOrder", "a completion that another of its key overtook", nil, func(s *scene) *Violation {
		s.must(s.filled(Reschedule{Lease: s.lease(2), Now: s.now, Delay: time.Hour}))
		l := with(s.lease(3), func(l *Lease) { l.After = 0 })
		s.stepped(CompleteMany{Leases: []Lease{l}, Verdicts: []Verdict{Applied}})
		return s.stepped(Complete{Lease: s.lease(2), Verdict: Applied})
	}},
	{"KeyOrder", "two runs of a key at once", nil, func(s *scene) *Violation {
		return s.stepped(with(s.claimOf(s.w1, 4, 4), func(a *Claim) { a.Picks[0].After, a.Seen = 0, 1 }))
	}},
	{"KeyOrder", "two runs of a delivery at once", nil, func(s *scene) *Violation {
		return s.stepped(with(s.claimOf(s.w1, 4, 1), func(a *Claim) { a.Seen = 1 }))
	}},
	{"KeyOrder", "a follower of what this claim did not grant", nil, func(s *scene) *Violation {
		return s.stepped(with(s.claimOf(s.w1, 4, 4), func(a *Claim) { a.Picks[0].After, a.Seen = 3, 1 }))
	}},
	{"KeyOrder", "a sequence drawn before the slot lock", nil, func(s *scene) *Violation {
		a := s.draft([]Event{{ID: "new", Type: "order", Key: s.key}}, [][]string{{"mail"}})
		a.Events[0].Deliveries[0].Sequence = 1
		return s.stepped(a)
	}},
	{"ChargedOnce", "a Reschedule is applied twice", nil, func(s *scene) *Violation {
		s.must(s.filled(Reschedule{Lease: s.lease(1), Now: s.now}))
		return s.stepped(Reschedule{Lease: s.lease(1), Now: s.now, Verdict: Applied})
	}},
	{"NoLostDelivery", "an Unsubscribe takes another handler's delivery along", nil, func(s *scene) *Violation {
		s.must(Subscribe{Group: "default", Handlers: []EventHandler{{"order", "audit"}}})
		return s.stepped(Unsubscribe{EventHandler: EventHandler{"order", "audit"}, Swept: []DeliveryID{5}})
	}},
	{"NoLostDelivery", "an Unsubscribe takes a dead letter along", nil, func(s *scene) *Violation {
		return s.stepped(Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Swept: []DeliveryID{6}})
	}},
	{"ChargedOnce", "a takeover charges a chain's followers", locking, func(s *scene) *Violation {
		s.now = s.now.Add(time.Minute)
		return s.stepped(with(s.takeOver(s.w2, 0, 1), func(a *TakeOver) { a.Charged = []DeliveryID{1, 2, 3} }))
	}},
	{"ChargedOnce", "a takeover forgets to charge", locking, func(s *scene) *Violation {
		s.now = s.now.Add(time.Minute)
		return s.stepped(s.takeOver(s.w2, 0, 1))
	}},
	{"ChargedOnce", "what a takeover found in flight runs again before it is charged", snapshot, func(s *scene) *Violation {
		s.taken()
		return s.stepped(s.claimOf(s.w2, 2, 1))
	}},
	{"ChargedOnce", "a row whose charge was refused runs again before it has paid", nil, func(s *scene) *Violation {
		s.must(with(s.filled(Reschedule{Lease: s.lease(1), Now: s.now}).(Reschedule), func(a *Reschedule) { a.Refused = true }))
		s.w1.forget(s.lease(1))
		return s.stepped(with(s.claimOf(s.w1, 4, 1), func(a *Claim) { a.Unstuck = []DeliveryID{1} }))
	}},
	{"ChargedOnce", "a delivery that waits is requeued", nil, func(s *scene) *Violation {
		return s.stepped(Requeue{IDs: []DeliveryID{5}, Requeued: []DeliveryID{5}, Now: s.now})
	}},
	{"ChargedOnce", "a row's attempts rise by themselves", nil, func(s *scene) *Violation {
		s.s.row(5).Attempts++
		return s.checked()
	}},
	{"ChargedOnce", "a failure resets the takeovers", nil, func(s *scene) *Violation {
		s.charged()
		s.s.row(2).Takeovers = 0
		return s.checked()
	}},
	{"InnocentNeighbours", "two suspects run beside one another", nil, func(s *scene) *Violation {
		s.l.Killed(s.w1.holder, 1)
		s.charged().grant(with(s.claimOf(s.w2, 2, 1, 2), func(a *Claim) { a.Seen = 1 }))
		s.l.Killed(s.w2.holder, 1)
		s.now = s.now.Add(time.Minute)
		s.must2(s.filled(s.takeOver(s.worker("w3"), 0, 1)))
		return s.checked()
	}},
	{"DeadStaysDead", "a dead letter is claimed", nil, func(s *scene) *Violation {
		return s.stepped(with(s.claimOf(s.w1, 4, 6), func(a *Claim) { a.Seen = 1 }))
	}},
	{"DeadStaysDead", "a late failure revives a dead letter", nil, func(s *scene) *Violation {
		return s.stepped(Reschedule{Lease: s.lease(6), Now: s.now, Verdict: Applied})
	}},
	{"DeadStaysDead", "a row comes back by itself", nil, func(s *scene) *Violation {
		s.s.setStatus(s.s.row(6), Pending)
		return s.checked()
	}},
	{"CompletedStaysDone", "the event's memory of its handlers is lost", nil, func(s *scene) *Violation {
		s.must(s.filled(Complete{Lease: s.lease(1)}))
		id := s.s.events[slices.IndexFunc(s.s.events, func(e *eventRow) bool { return e.rows == 0 })].ID
		s.s.eventOf[id].Handlers = nil
		return s.stepped(s.draft([]Event{{ID: id, Type: "order"}}, [][]string{{"mail"}}))
	}},
	{"CompletedStaysDone", "a completed delivery runs again", nil, func(s *scene) *Violation {
		s.must(s.filled(Complete{Lease: s.lease(1)}))
		s.w1.forget(s.lease(1))
		return s.stepped(with(s.claimOf(s.w1, 4, 1), func(a *Claim) { a.Seen = 1 }))
	}},
}

// must2 steps an action whose violation the caller looks for afterwards; in a
// Snapshot store the charge follows.
func (s *scene) must2(a Action) {
	Step(s.s, s.l, a)
	if s.s.Semantics() == Snapshot {
		Step(s.s, s.l, s.filled(ChargeLost{Lane: 0}))
	}
}

// breaks reports whether a history alone shows that an invariant was broken: a
// violation names only the first of several.
func breaks(l *Ledger, invariant string) bool {
	i := slices.IndexFunc(Invariants, func(inv Invariant) bool { return inv.Name == invariant })
	in := Scope{ledger: l, pairs: l.pairs, lanes: l.lanes, invented: l.invented}
	in.findRows()
	return Invariants[i].check(&in) != nil
}

// TestEveryInvariantCanBreak: an invariant that no bug can break checks
// nothing. What the step reports, the history alone must still show.
func TestEveryInvariantCanBreak(t *testing.T) {
	var broken []string
	for _, b := range sabotages {
		for _, semantics := range []Semantics{Locking, Snapshot} {
			if b.only != nil && !slices.Contains(b.only, semantics) {
				continue
			}
			t.Run(b.invariant+"/"+b.story+"/"+semantics.String(), func(t *testing.T) {
				s := newScene(t, semantics)
				if v := b.do(s); v == nil || v.Invariant != b.invariant && !breaks(s.l, b.invariant) {
					t.Fatalf("%v, want %s", v, b.invariant)
				}
				broken = append(broken, b.invariant)
			})
		}
	}
	for _, i := range Invariants {
		if i.check != nil && !slices.Contains(broken, i.Name) {
			t.Errorf("nothing breaks %s", i.Name)
		}
	}
}

// TestAHistoryKeepsItsViolations: who checks only at the end still learns what
// a step broke in the middle.
func TestAHistoryKeepsItsViolations(t *testing.T) {
	s := newScene(t, Locking)
	first := s.stepped(Complete{Lease: with(s.lease(1), func(l *Lease) { l.Claim = 1 }), Verdict: Applied})
	if first == nil {
		t.Fatal("no violation")
	}
	copied := s.l.Clone()
	for _, l := range []*Ledger{s.l, copied} {
		in := Scope{ledger: l, pairs: l.pairs, lanes: l.lanes, invented: l.invented}
		if v := in.check(); v == nil || *v != *first {
			t.Errorf("%v, want %v", v, first)
		}
	}
}

// TestGrantBesideALostCompletion: a claim may grant what was completed beside
// it only where the store lost that very completion before (docs/adr, 14).
// Anything else that looks like it is a delivery that runs although it is done.
func TestGrantBesideALostCompletion(t *testing.T) {
	other := func(change func(*Lease)) func(Lease) Lease {
		return func(l Lease) Lease { change(&l); return l }
	}
	for _, c := range []struct {
		name    string
		lost    func(Lease) Lease // what the store lost; nil: nothing
		claim   func(*Claim)
		allowed bool
	}{
		{"its completion was lost", other(func(*Lease) {}), nil, true},
		{"nothing was lost", nil, nil, false},
		{"another delivery's was lost", other(func(l *Lease) { l.Delivery++ }), nil, false},
		{"that of another run was lost", other(func(l *Lease) { l.Claim-- }), nil, false},
		{"that of another term was lost", other(func(l *Lease) { l.Epoch++ }), nil, false},
		{"the claim read the completion", other(func(*Lease) {}), func(a *Claim) { a.Seen = 0 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, Locking)
			lease := s.lease(1)
			if c.lost != nil {
				s.l.LostCompletion(c.lost(lease))
			}
			s.must(s.filled(CompleteMany{Leases: []Lease{lease}}))
			s.w1.forget(lease)
			claim := with(s.claimOf(s.w1, 4, 1), func(a *Claim) { a.Seen = 1 })
			if c.claim != nil {
				c.claim(&claim)
			}
			s.l = s.l.Clone()
			v := s.stepped(claim)
			if (v == nil) != c.allowed || v != nil && v.Invariant != "CompletedStaysDone" {
				t.Errorf("%v, allowed %v", v, c.allowed)
			}
		})
	}
}

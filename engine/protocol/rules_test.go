package protocol

import (
	"slices"
	"testing"
	"time"
)

// effects are the rules of Rules that are no guards, each with an action whose
// effect is another without the rule.
var effects = []struct {
	rule string
	only []Semantics
	do   func(*scene) Action
}{
	{"ChargeLost.lost", snapshot, func(s *scene) Action { s.taken(); return ChargeLost{} }},
	// A claim number that the lane does not list.
	{"Claim.add", nil, func(s *scene) Action {
		s.must(s.filled(Release{Leases: []Lease{s.lease(1)}}))
		return s.claimOf(s.w1, 4)
	}},
	{"Claim.drop", nil, func(s *scene) Action { s.w1.forget(s.lease(1)); return s.claimOf(s.w1, 4) }},
	{"End.rest", nil, func(s *scene) Action {
		return Reschedule{Lease: s.lease(2), Rest: []Lease{s.lease(3)}, Now: s.now}
	}},
	{"Publish.remember", nil, func(s *scene) Action {
		return s.draft([]Event{{ID: "new", Type: "order"}}, [][]string{{"mail"}})
	}},
	{"Relinquish.claim", nil, func(s *scene) Action { return Relinquish{Holder: s.w1.holder, Number: 9} }},
	{"Relinquish.last", nil, func(s *scene) Action { return Relinquish{Holder: s.w1.holder, Number: 9} }},
	{"Relinquish.lost", snapshot, func(s *scene) Action {
		s.taken()
		return Relinquish{Holder: s.w2.holder, Number: 9}
	}},
	{"Requeue.reset", nil, func(s *scene) Action {
		s.s.row(6).Attempts = 1
		return Requeue{IDs: []DeliveryID{6}, Requeued: []DeliveryID{6}, Now: s.now}
	}},
	{"Reschedule.charge", nil, func(s *scene) Action { return Reschedule{Lease: s.lease(1), Now: s.now} }},
	{"Subscribe.revive", nil, func(s *scene) Action {
		h := EventHandler{"order", "mail"}
		s.must(Unsubscribe{EventHandler: h})
		return Subscribe{Group: "default", Handlers: []EventHandler{h}}
	}},
	{"TakeOver.charge", locking, anotherTakesOver},
	{"TakeOver.epoch", nil, anotherTakesOver},
	{"TakeOver.list", nil, anotherTakesOver},
	{"TakeOver.lost", snapshot, func(s *scene) Action {
		s.taken()
		s.now = s.now.Add(time.Minute)
		return s.takeOver(s.w1, 0, 9)
	}},
	{"TakeOver.started", locking, anotherTakesOver},
}

func anotherTakesOver(s *scene) Action {
	s.now = s.now.Add(time.Minute)
	return s.takeOver(s.w2, 0, 1)
}

// TestEveryRuleCanBeLeftOut: without its guard some attack is let through, or
// meets another guard (others meet a part of it that no rule names); without its effect an action does something else. It is
// what makes a Broken configuration of the specification one of this State.
func TestEveryRuleCanBeLeftOut(t *testing.T) {
	var left []string
	for _, a := range allAttacks() {
		rule := a.action + "." + a.guard
		if !slices.Contains(Rules, rule) {
			rule = "End." + a.guard
		}
		if !slices.Contains(Rules, rule) || rule[:4] == "End." && !endsRun(a.action) {
			continue
		}
		for _, semantics := range a.semantics() {
			s := newScene(t, semantics)
			action := a.attack(s)
			if err := s.s.Without(rule); err != nil {
				t.Fatal(err)
			}
			if o := throughOrPanic(s.s, action); o.Guard != a.guard {
				left = append(left, rule)
			}
		}
	}
	for _, e := range effects {
		for _, semantics := range []Semantics{Locking, Snapshot} {
			if e.only != nil && !slices.Contains(e.only, semantics) {
				continue
			}
			s := newScene(t, semantics)
			action := s.filled(e.do(s))
			with, without := s.s.Clone(), s.s.Clone()
			if err := without.Without(e.rule); err != nil {
				t.Fatal(err)
			}
			if refusal := with.apply(action); refusal != nil {
				t.Fatal(refusal)
			}
			without.apply(action) // what it says charged differs by intent
			if with.Hash() == without.Hash() {
				t.Errorf("%s in a %v store changes nothing", e.rule, semantics)
			}
			left = append(left, e.rule)
		}
	}
	for _, rule := range Rules {
		if !slices.Contains(left, rule) {
			t.Errorf("nothing shows what %s does", rule)
		}
	}
}

func endsRun(action string) bool {
	return slices.Contains([]string{"CompleteMany", "Complete", "Reschedule", "Snooze", "Bury"}, action)
}

// throughOrPanic performs an action on which nothing but one guard stood. What
// it names may not be there, and then the State may panic.
func throughOrPanic(s *State, a Action) (o Outcome) {
	defer func() {
		if recover() != nil {
			o = applied
		}
	}()
	return lastFailed(s, a)
}

func TestRulesAreSortedAndChecked(t *testing.T) {
	if !slices.IsSorted(Rules) {
		t.Error("Rules are not sorted")
	}
	s := newScene(t, Locking)
	if err := s.s.Without("Claim.hodler"); err == nil {
		t.Error("an unknown rule was left out")
	}
	if err := s.s.Without("Claim.holder"); err != nil {
		t.Fatal(err)
	}
	if o := s.s.Clone().Claim(s.claimOf(s.w2, 4)); !o.OK() {
		t.Errorf("a clone has the rule again: %v", o)
	}
	if err := s.s.Without(); err != nil {
		t.Fatal(err)
	}
	if o := s.s.Claim(s.claimOf(s.w2, 4)); o.Guard != "holder" {
		t.Errorf("%v after the rule was put back", o)
	}
}

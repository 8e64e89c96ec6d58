package protocol

import (
	"fmt"
	"slices"
)

// Refusal says that the State does not allow what a store did.
type Refusal struct {
	Action  string
	Subject string // the event, lease, lane or row it is about
	Guard   string // the guard that failed
	Have    string // what the State has
	Want    string // what the action needs
}

// String returns the refusal in one line.
func (r *Refusal) String() string {
	return fmt.Sprintf("%s of %s refused by guard %q: have %s, want %s", r.Action, r.Subject, r.Guard, r.Have, r.Want)
}

// Step applies one action that a store committed, or evaluated to LeaseLost,
// to a State and its history. A Refusal says that the store's verdict or
// effect is not what the State allows. A Violation says that an invariant
// broke; only what the action concerned is looked at, [Check] looks at
// everything.
//
// After a Refusal the history records what the store did and the State what
// the protocol allows; the Violation beside it, if any, says what the
// difference costs a user. Neither should be stepped further.
//
// A Claim, or an end that was LeaseLost, with Seen set was decided on an
// earlier commit position. The caller judges it there ([State.PicksAllowed],
// [State.Judge]) when the store reads.
func Step(s *State, l *Ledger, a Action) (*Refusal, *Violation) {
	refusal := s.apply(a)
	l.begin()
	l.record(s.semantics, a)
	return refusal, l.judge(s, refusal != nil)
}

// begin empties the scope of the action before.
func (l *Ledger) begin() {
	l.touched.pairs = l.touched.pairs[:0]
	l.touched.lanes = l.touched.lanes[:0]
}

// touch puts a pair into the scope of the action under way.
func (l *Ledger) touch(p *pairHistory) {
	if n := len(l.touched.pairs); n > 0 && l.touched.pairs[n-1] == p {
		return
	}
	l.touched.pairs = append(l.touched.pairs, p)
}

// judge checks the invariants over what the action touched. After a refusal
// State and history differ by intent, and the history is judged alone.
func (l *Ledger) judge(s *State, refused bool) *Violation {
	l.touched.ledger, l.touched.state = l, s
	if refused {
		l.touched.state = nil
	}
	l.touched.invented = l.invented
	return l.touched.check()
}

// apply performs an action on the State and compares with what the store said.
func (s *State) apply(a Action) *Refusal {
	switch a := a.(type) {
	case Publish:
		return s.applyPublish(&a)
	case Claim:
		return refuse(s.Claim(a), "Claim", a.Lane)
	case TakeOver:
		o := s.TakeOver(a)
		return s.compareCharged(o, "TakeOver", a.Lane, a.Charged)
	case ChargeLost:
		o := s.ChargeLost(a)
		return s.compareCharged(o, "ChargeLost", a.Lane, a.Charged)
	case ExtendLease:
		return compare(s.ExtendLease(a), a.Verdict, "ExtendLease", a.Lane)
	case CompleteMany:
		return compareEach(s.CompleteMany(a), "CompleteMany", a.Leases, a.Verdicts)
	case Complete:
		return compare(s.Complete(a), a.Verdict, "Complete", a.Lease)
	case Reschedule:
		return compareEnd(s.Reschedule(a), a.Verdict, a.Refused, "Reschedule", a.Lease)
	case Snooze:
		return compareEnd(s.Snooze(a), a.Verdict, a.Refused, "Snooze", a.Lease)
	case Bury:
		return compareEnd(s.Bury(a), a.Verdict, a.Refused, "Bury", a.Lease)
	case Release:
		return compareEach(s.Release(a), "Release", a.Leases, a.Verdicts)
	case Relinquish:
		return compare(s.Relinquish(a), a.Verdict, "Relinquish", a.Lane)
	case Requeue:
		return refuse(s.Requeue(a), "Requeue", "dead letters")
	case Purge:
		return refuse(s.Purge(a), "Purge", "old rows")
	case Subscribe:
		return refuse(s.Subscribe(a), "Subscribe", a.Group)
	case Unsubscribe:
		return refuse(s.Unsubscribe(a), "Unsubscribe", a.Handler)
	}
	panic(fmt.Sprintf("protocol: %T is no action of the protocol", a))
}

func (s *State) applyPublish(a *Publish) *Refusal {
	for i, o := range s.Publish(*a) {
		if !o.OK() {
			return refuse(o, "Publish", a.Events[i].Event.ID)
		}
	}
	return nil
}

// refuse turns a failed guard of an action that the store performed into a
// Refusal. Its subject is worded only then, and passed by value until then,
// so that actions need not move to the heap.
func refuse[T any](o Outcome, action string, subject T) *Refusal {
	if o.OK() {
		return nil
	}
	return &Refusal{action, subjectOf(subject), o.Guard, o.Have, o.Want}
}

func subjectOf(subject any) string {
	if lane, ok := subject.(LaneID); ok {
		return fmt.Sprint("lane ", lane)
	}
	return fmt.Sprint(subject)
}

// compare compares the State's verdict with the store's.
func compare[T any](o Outcome, said Verdict, action string, subject T) *Refusal {
	switch {
	case o.Verdict == said:
		return nil
	case said == Applied:
		return refuse(o, action, subject)
	}
	return &Refusal{action, subjectOf(subject), "verdict", said.String(), o.Verdict.String()}
}

// compareEnd compares the verdict of an end that keeps the row. A refused row
// has none: then the lane alone was written, under the same guards.
func compareEnd(o Outcome, said Verdict, refused bool, action string, lease Lease) *Refusal {
	if refused {
		said = Applied
	}
	return compare(o, said, action, lease)
}

func compareEach(outcomes []Outcome, action string, leases []Lease, said []Verdict) *Refusal {
	if len(said) != len(leases) {
		return &Refusal{action, "the call", "verdicts", fmt.Sprint(len(said)), fmt.Sprint(len(leases))}
	}
	for i := range outcomes {
		if outcomes[i].Guard == "refused" {
			continue
		}
		if r := compare(outcomes[i], said[i], action, leases[i]); r != nil {
			return r
		}
	}
	return nil
}

// compareCharged compares whose attempts rose.
func (s *State) compareCharged(o Outcome, action string, lane LaneID, charged []DeliveryID) *Refusal {
	if o.OK() && !slices.Equal(s.charged, charged) {
		o = failed("charged", charged, s.charged)
	}
	return refuse(o, action, lane)
}

// Judge evaluates the guards of an end on the State and changes nothing: one
// outcome per lease, valid until the next action. It answers for verdicts that
// a store gave on what it read at this commit position.
func (s *State) Judge(a Action) []Outcome {
	s.outcomes = s.outcomes[:0]
	switch a := a.(type) {
	case CompleteMany:
		a.Seen, a.Unlisted = 0, nil
		for i := range a.Leases {
			s.outcomes = append(s.outcomes, s.mayCompleteOne(&a, i))
		}
	case Release:
		for i := range a.Leases {
			s.outcomes = append(s.outcomes, s.mayRelease(&a.Leases[i]))
		}
	case Complete:
		s.outcomes = append(s.outcomes, s.mayCompleteTx(&a.Lease, a.Verdict))
	case Reschedule:
		s.outcomes = append(s.outcomes, s.mayFinish(&a.Lease, a.Refused))
	case Snooze:
		s.outcomes = append(s.outcomes, s.mayFinish(&a.Lease, a.Refused))
	case Bury:
		s.outcomes = append(s.outcomes, s.mayFinish(&a.Lease, a.Refused))
	default:
		panic(fmt.Sprintf("protocol: %T ends no run", a))
	}
	return s.outcomes
}

package protocol

import (
	"fmt"
	"slices"
)

// judgedEarlier is the outcome of an end that the store refused on what it
// read at an earlier commit position: it changed nothing, and who steps the
// State has judged it there.
var judgedEarlier = Outcome{Guard: "seen", Have: "an earlier state", Want: "judged there"}

// stale reports whether verdict i was LeaseLost on an earlier state.
func stale(seen int64, verdicts []Verdict, i int) bool {
	return seen != 0 && i < len(verdicts) && verdicts[i] == LeaseLost
}

// CompleteMany ends runs of handlers that own no transaction: it deletes the
// rows and writes no lane. A row that is gone while its lane still lists the
// run is Applied too, so that a retry after an unknown outcome is safe. There
// is one outcome per lease, valid until the next action; they are independent,
// except that a follower is never Applied when its predecessor in the same
// call was not.
//
// Finish.tla, action CompleteMany. Guards: lane, epoch, holder, row lane,
// in flight, after, pending. In a Snapshot store a row that is there is
// deleted by its fence alone: row lane, fence, after, pending.
func (s *State) CompleteMany(a CompleteMany) []Outcome {
	s.outcomes = s.outcomes[:0]
	for i := range a.Leases {
		o := s.mayCompleteOne(&a, i)
		if r := s.row(a.Leases[i].Delivery); o.OK() && r != nil {
			s.removeRow(r)
		}
		s.outcomes = append(s.outcomes, o)
	}
	return s.outcomes
}

// mayCompleteOne judges lease i; s.outcomes holds those before it.
func (s *State) mayCompleteOne(a *CompleteMany, i int) Outcome {
	l := &a.Leases[i]
	switch {
	case slices.Contains(a.Refused, l.Delivery):
		return failed("refused", "a definite error", "a row the store can delete")
	case stale(a.Seen, a.Verdicts, i):
		return judgedEarlier
	}
	before := indexOf(a.Leases[:i], l.After)
	listed := !slices.Contains(a.Unlisted, l.Delivery)
	if l.After == 0 || before < 0 {
		return s.mayComplete(l, listed)
	}
	if !s.guard("CompleteMany.after", s.outcomes[before].OK()) {
		return failed("after", fmt.Sprintf("#%d not Applied in this call", l.After), "Applied")
	}
	alone := *l
	alone.After = 0 // deleted by this very call
	return s.mayComplete(&alone, listed)
}

// indexOf returns where a call ends a delivery, -1 where it does not.
func indexOf(leases []Lease, id DeliveryID) int {
	for i := len(leases) - 1; i >= 0; i-- {
		if leases[i].Delivery == id {
			return i
		}
	}
	return -1
}

// mayComplete judges a completion outside a handler's transaction. What is not
// listed was listed at an earlier position and judged there: a Locking store's
// FOR KEY SHARE does not read what a newer claim of the same holder made of the
// list (docs/adr, 11). When its row was gone by then, nothing changes.
func (s *State) mayComplete(l *Lease, listed bool) Outcome {
	r := s.row(l.Delivery)
	var o Outcome
	switch {
	case s.semantics == Snapshot && r != nil:
		o = s.mayDelete(r, l)
	case s.semantics == Locking && !listed && r == nil:
		o = applied
	case s.semantics == Locking && !listed:
		o = s.mayEndUnlisted(r, l)
	default:
		o = s.mayEnd(r, l)
	}
	if o.OK() && r != nil && !s.guard("CompleteMany.pending", r.Status != Dead) {
		return failed("pending", r.Status, Pending)
	}
	return o
}

// mayDelete judges by the row alone: whatever took the run away has written
// the row and so moved its fence.
func (s *State) mayDelete(r *row, l *Lease) Outcome {
	switch {
	case r.Lane != l.Lane:
		return failed("row lane", r.Lane, l.Lane)
	case !s.guard("CompleteMany.fence", r.Fence == l.Fence):
		return failed("fence", r.Fence, l.Fence)
	}
	return s.mayGoOn(l)
}

// mayEnd checks what every end needs of the lane, and that the run's
// predecessor is done. r is nil when the row is gone.
func (s *State) mayEnd(r *row, l *Lease) Outcome {
	if o := s.inPlace(r, &l.Token); !o.OK() {
		return o
	}
	if o := inFlight(s.lane(l.Lane), l); !s.guard("End.in flight", o.OK()) {
		return o
	}
	return s.mayGoOn(l)
}

// mayEndUnlisted is mayEnd without the list. Its holder may have given the lane
// back meanwhile; nobody takes it over before the completion ends.
func (s *State) mayEndUnlisted(r *row, l *Lease) Outcome {
	t := l.Token
	if lane := s.lane(l.Lane); lane != nil && lane.Holder.IsZero() && lane.LastHolder == t.Holder {
		t.Holder = Holder{}
	}
	if o := s.inPlace(r, &t); !o.OK() {
		return o
	}
	return s.mayGoOn(l)
}

// inPlace checks that lane and row are still as they were granted.
func (s *State) inPlace(r *row, t *Token) Outcome {
	if o := s.holds(s.lane(t.Lane), t, &endGuards); !o.OK() {
		return o
	}
	if r != nil && !s.guard("End.row lane", r.Lane == t.Lane) {
		return failed("row lane", r.Lane, t.Lane)
	}
	return applied
}

// holdGuards are the names of what holds checks, of those who ask.
type holdGuards struct{ epoch, holder string }

var (
	endGuards     = holdGuards{"End.epoch", "End.holder"}
	releaseGuards = holdGuards{"Release.epoch", "Release.holder"}
)

// holds checks that the lane is still as it was granted.
func (s *State) holds(lane *Lane, t *Token, of *holdGuards) Outcome {
	switch {
	case lane == nil:
		return failed("lane", "no such lane", t.Lane)
	case !s.guard(of.epoch, lane.Epoch == t.Epoch):
		return failed("epoch", lane.Epoch, t.Epoch)
	case !s.guard(of.holder, lane.Holder == t.Holder):
		return failed("holder", shortHolder(lane.Holder), shortHolder(t.Holder))
	}
	return applied
}

// inFlight checks that the lane lists the run.
func inFlight(lane *Lane, l *Lease) Outcome {
	have, ok := entryOf(lane.InFlight, l.Delivery)
	switch {
	case !ok:
		return failed("in flight", fmt.Sprintf("#%d not listed", l.Delivery), fmt.Sprint("claim ", l.Claim))
	case have.Claim != l.Claim:
		return failed("in flight", fmt.Sprint("claim ", have.Claim), fmt.Sprint("claim ", l.Claim))
	}
	return applied
}

// mayGoOn checks that a follower's predecessor is not pending.
func (s *State) mayGoOn(l *Lease) Outcome {
	if l.After != 0 && !s.guard("End.after", s.pendingRow(l.After) == nil) {
		return failed("after", fmt.Sprintf("#%d pending", l.After), "done or dead")
	}
	return applied
}

// Complete ends a run inside the handler's own transaction, which must itself
// delete the row: one that is gone was completed by somebody else, and the
// effects of this transaction must not commit beside that.
//
// A Snapshot store's transaction may have read the lane before a takeover.
// Only the write conflict on the delivery protects it, and until ChargeLost
// has written the delivery there is none: the completion then stands. One that
// read the lane after the takeover is LeaseLost. Both are right, so that here
// the store's Verdict decides which rule it is held to.
//
// Finish.tla, action Complete. Guards: lane, epoch, holder, row lane,
// in flight, after, row, pending; in a Snapshot store then fence.
func (s *State) Complete(a Complete) Outcome {
	if a.Seen != 0 && a.Verdict == LeaseLost {
		return judgedEarlier
	}
	o := s.mayCompleteTx(&a.Lease, a.Verdict)
	if r := s.row(a.Lease.Delivery); o.OK() && r != nil {
		s.removeRow(r)
	}
	return o
}

func (s *State) mayCompleteTx(l *Lease, said Verdict) Outcome {
	r := s.row(l.Delivery)
	o := s.mayEnd(r, l)
	if !o.OK() && said == Applied && s.isLost(r, l) {
		o = s.mayGoOn(l)
	}
	switch {
	case !o.OK():
		return o
	case r == nil && !s.rule("Complete.row"):
		return applied
	}
	if o := s.mustPend(r); !o.OK() {
		return o
	}
	if s.semantics == Snapshot && !s.guard("Complete.fence", r.Fence == l.Fence) {
		return failed("fence", r.Fence, l.Fence)
	}
	return applied
}

// isLost reports whether the run was taken over but not charged yet.
func (s *State) isLost(r *row, l *Lease) bool {
	lane := s.lane(l.Lane)
	return lane != nil && r != nil && r.Lane == l.Lane && lists(lane.Lost, l.Entry())
}

// mustPend checks that the row is there and not dead.
func (s *State) mustPend(r *row) Outcome {
	switch {
	case r == nil:
		return failed("row", "gone", "a row")
	case !s.guard("End.pending", r.Status == Pending):
		return failed("pending", r.Status, Pending)
	}
	return applied
}

// Reschedule ends a run that failed: charged, and due again after a delay. The
// rest of its chain leaves in_flight in the same write; released later, it
// could be completed before its predecessor ran again.
//
// Finish.tla, action Reschedule. Guards: lane, epoch, holder, row lane,
// in flight, after, row, pending.
func (s *State) Reschedule(a Reschedule) Outcome {
	if a.Seen != 0 && a.Verdict == LeaseLost {
		return judgedEarlier
	}
	o := s.mayFinish(&a.Lease, a.Refused)
	if o.OK() && s.leave(&a.Lease, a.Rest, a.Refused) {
		r := s.row(a.Lease.Delivery)
		if s.rule("Reschedule.charge") {
			r.Attempts++
		}
		r.AvailableAt = a.Now.Add(a.Delay)
		r.LastError = a.Error
		s.wrote(r)
	}
	return o
}

// Snooze ends a run without a charge: due again after a delay.
//
// Finish.tla, action Snooze. Guards as [State.Reschedule].
func (s *State) Snooze(a Snooze) Outcome {
	if a.Seen != 0 && a.Verdict == LeaseLost {
		return judgedEarlier
	}
	o := s.mayFinish(&a.Lease, a.Refused)
	if o.OK() && s.leave(&a.Lease, a.Rest, a.Refused) {
		r := s.row(a.Lease.Delivery)
		r.AvailableAt = a.Now.Add(a.Delay)
		s.wrote(r)
	}
	return o
}

// Bury ends a run for good: the delivery becomes a dead letter.
//
// Finish.tla, action Bury. Guards as [State.Reschedule].
func (s *State) Bury(a Bury) Outcome {
	if a.Seen != 0 && a.Verdict == LeaseLost {
		return judgedEarlier
	}
	o := s.mayFinish(&a.Lease, a.Refused)
	if o.OK() && s.leave(&a.Lease, a.Rest, a.Refused) {
		r := s.row(a.Lease.Delivery)
		if a.Charge {
			r.Attempts++
		}
		s.die(r, a.Now, a.Error)
	}
	return o
}

// mayFinish judges an end that keeps the row. A Snapshot store whose write of
// the row was refused has nothing that conflicts with whoever wrote or deleted
// it since the snapshot: only the lane is written then.
func (s *State) mayFinish(l *Lease, refused bool) Outcome {
	r := s.row(l.Delivery)
	o := s.mayEnd(r, l)
	if o.OK() && !(refused && s.semantics == Snapshot) {
		return s.mustPend(r)
	}
	return o
}

// sameGrant reports whether two tokens speak of one lane as one holder got it.
func sameGrant(a, b *Token) bool {
	return a.Lane == b.Lane && a.Epoch == b.Epoch && a.Holder == b.Holder
}

// leave takes a run and the rest of its chain off the lane's list, and reports
// whether the row is to be written: one that the store refuses for good is
// stuck instead.
func (s *State) leave(l *Lease, rest []Lease, refused bool) bool {
	lane := s.lane(l.Lane)
	lane.InFlight = without(lane.InFlight, l.Entry())
	for i := range rest {
		if s.rule("End.rest") && sameGrant(&rest[i].Token, &l.Token) {
			lane.InFlight = without(lane.InFlight, rest[i].Entry())
		}
	}
	if refused {
		lane.Stuck = withID(lane.Stuck, l.Delivery)
	}
	return !refused
}

package protocol

import (
	"fmt"
	"slices"
	"time"
)

// Claim grants deliveries of one lane to its holder and renews the lease. The
// worker is the authority on what it no longer runs: of what the lane lists,
// only what the worker states is kept, and nothing but picks is added.
//
// Lease.tla, action Claim. Guards: lane, holder, number, lost, not-after,
// order (of running), unstuck, renew, then those of [State.PicksAllowed].
func (s *State) Claim(a Claim) Outcome {
	lane := s.lane(a.Lane)
	if o := s.mayClaim(lane, &a); !o.OK() {
		return o
	}
	if a.Seen == 0 {
		if o := s.PicksAllowed(a); !o.OK() {
			return o
		}
	}
	lane.InFlight = s.keep(lane, a.Running)
	for i := range a.Picks {
		lane.InFlight = withEntry(lane.InFlight, InFlight{a.Picks[i].Delivery, a.Number})
	}
	for _, id := range a.Unstuck {
		s.unstick(lane, id)
	}
	lane.Claim = a.Number
	if a.Renew {
		lane.renew(a.Now, a.Clock, a.TTL)
	}
	return applied
}

func (s *State) mayClaim(lane *Lane, a *Claim) Outcome {
	switch {
	case lane == nil:
		return failed("lane", "no such lane", a.Lane)
	case !s.guard("Claim.holder", lane.Holder == a.Holder):
		return failed("holder", shortHolder(lane.Holder), shortHolder(a.Holder))
	case !s.guard("Claim.number", a.Number > lane.Claim):
		return failed("number", a.Number, fmt.Sprint("above ", lane.Claim))
	case !s.guard("Claim.lost", len(lane.Lost) == 0):
		return failed("lost", fmt.Sprint(len(lane.Lost), " uncharged"), "none")
	}
	if o := s.mayStill(a.Now, a.Clock, a.NotAfter); !s.guard("Claim.not-after", o.OK()) {
		return o
	}
	if !inOrder(a.Running) {
		return failed("order", "running unsorted", "running by delivery")
	}
	for _, id := range a.Unstuck {
		if _, ok := search(lane.Stuck, id, idOf); !ok {
			return failed("unstuck", fmt.Sprintf("#%d", id), "a stuck id")
		}
	}
	return applied
}

func inOrder(running []Running) bool {
	for i := 1; i < len(running); i++ {
		if running[i].Delivery < running[i-1].Delivery {
			return false
		}
	}
	return true
}

// mayStill checks a call's not-after; 0 is none. A Locking store looks after
// it waited for the lane, a Snapshot store's clock is fixed when the command
// starts: there only number and holder guard a write that waited.
func (s *State) mayStill(now, clock, notAfter Time) Outcome {
	if s.semantics == Locking {
		now = max(now, clock)
	}
	if notAfter != 0 && now > notAfter {
		return failed("not-after", now.Sub(notAfter).String()+" late", "in time")
	}
	return applied
}

// keep returns the lane's entries that the worker states with their claim
// number.
func (s *State) keep(lane *Lane, running []Running) []InFlight {
	kept := lane.InFlight[:0]
	switch {
	case !s.rule("Claim.drop"):
		return lane.InFlight
	case !s.rule("Claim.add"):
		for i := range running {
			if running[i].Lane == lane.ID {
				kept = withEntry(kept, running[i].InFlight)
			}
		}
		return kept
	}
	for _, f := range lane.InFlight {
		if runs(running, f) {
			kept = append(kept, f)
		}
	}
	return kept
}

// runs reports whether the worker states exactly this entry.
func runs(running []Running, f InFlight) bool {
	i, _ := search(running, f.Delivery, runningID)
	for ; i < len(running) && running[i].Delivery == f.Delivery; i++ {
		if running[i].Claim == f.Claim {
			return true
		}
	}
	return false
}

// renew sets the expiry of a claim or an extension: never shortened, except
// that no lease outlasts the clock by more than its length.
func (l *Lane) renew(now, clock Time, ttl time.Duration) {
	clock = max(now, clock)
	renewed := max(l.ExpiresAt, now.Add(ttl))
	l.ExpiresAt = min(renewed, clock.Add(ttl))
}

// unstick lets go of a stuck id and, when its row is still pending, charges
// what the store had refused to write.
func (s *State) unstick(lane *Lane, id DeliveryID) {
	lane.Stuck = withoutID(lane.Stuck, id)
	if r := s.pendingRow(id); r != nil {
		r.Attempts++
		r.Takeovers++
		s.wrote(r)
	}
}

// TakeOver gives a lane that is free, or whose lease ran out, to another
// holder of its group. What was in flight is charged, because a crash is a lost attempt;
// otherwise a poison delivery could kill workers for ever without reaching the
// dead letters. A Snapshot store only moves it to lost, and [State.ChargeLost]
// charges it.
//
// A worker never takes over its own expired lane: it may still be running what
// the lane lists, and claims instead. Nor does it take one of another group: it
// has no handler for what waits there, and would keep it from those who have.
//
// Lease.tla, action TakeOver. Guards: lane, group, holder, expiry, number,
// not-after, refused.
func (s *State) TakeOver(a TakeOver) Outcome {
	lane := s.lane(a.Lane)
	if o := s.mayTakeOver(lane, &a); !o.OK() {
		return o
	}
	s.charged = s.charged[:0]
	if s.semantics == Locking {
		s.charge(lane, lane.InFlight, a.Refused)
	} else {
		s.lose(lane)
	}
	if s.rule("TakeOver.epoch") {
		lane.Epoch++
	}
	lane.Holder, lane.LastHolder, lane.Owner = a.Holder, Holder{}, a.Owner
	lane.Claim = a.Number
	lane.ExpiresAt = max(a.Now, a.Clock).Add(a.TTL)
	if s.rule("TakeOver.list") {
		lane.InFlight = lane.InFlight[:0]
	}
	return applied
}

func (s *State) mayTakeOver(lane *Lane, a *TakeOver) Outcome {
	if lane == nil {
		return failed("lane", "no such lane", a.Lane)
	}
	if group := int32(a.Lane) / s.modulus; !s.guard("TakeOver.group", group == a.Group) {
		return failed("group", group, a.Group)
	}
	clock := max(a.Now, a.Clock)
	switch free := lane.Holder.IsZero(); {
	case !free && !s.guard("TakeOver.holder", lane.Holder != a.Holder):
		return failed("holder", "itself", "another holder or none")
	case !free && !s.guard("TakeOver.expiry", lane.ExpiresAt < clock):
		return failed("expiry", lane.ExpiresAt.Sub(clock).String()+" left", "run out")
	case free && lane.LastHolder == a.Holder && !s.guard("TakeOver.number", a.Number+1 > lane.Claim):
		return failed("number", a.Number+1, fmt.Sprint("above ", lane.Claim))
	}
	if o := s.mayStill(a.Now, a.Clock, a.NotAfter); !s.guard("TakeOver.not-after", o.OK()) {
		return o
	}
	return s.mayRefuse(lane.InFlight, a.Refused)
}

// mayRefuse checks that only listed deliveries are called refused. A Snapshot
// takeover charges nothing and thus refuses nothing.
func (s *State) mayRefuse(list []InFlight, refused []DeliveryID) Outcome {
	for _, id := range refused {
		if _, ok := entryOf(list, id); !ok {
			return failed("refused", fmt.Sprintf("#%d", id), "a listed delivery")
		}
	}
	return applied
}

// lose moves what is in flight to lost.
func (s *State) lose(lane *Lane) {
	if !s.rule("TakeOver.lost") {
		lane.Lost = lane.Lost[:0]
	}
	for _, f := range lane.InFlight {
		lane.Lost = withEntry(lane.Lost, f)
	}
}

// charge charges each listed delivery whose row is still pending a takeover,
// and an attempt where it was the first listed of its (handler, key): the
// followers of a chain never started. What the store refused to write goes to
// stuck. The ids whose attempts rose stand in s.charged.
func (s *State) charge(lane *Lane, list []InFlight, refused []DeliveryID) {
	for _, f := range list {
		r := s.pendingRow(f.Delivery)
		switch {
		case r == nil || r.Lane != lane.ID:
		case slices.Contains(refused, f.Delivery):
			lane.Stuck = withID(lane.Stuck, f.Delivery)
		case s.rule("TakeOver.charge"):
			s.chargeRow(r, !s.rule("TakeOver.started") || firstListed(r, list))
		}
	}
}

func (s *State) chargeRow(r *row, started bool) {
	r.Takeovers++
	s.wrote(r)
	if started {
		r.Attempts++
		s.charged = append(s.charged, r.ID)
	}
}

// firstListed reports whether no pending delivery of the same (handler, key)
// with a smaller sequence is in the list.
func firstListed(r *row, list []InFlight) bool {
	if r.queue == nil {
		return true
	}
	for _, earlier := range r.queue.pending {
		if earlier == r {
			break
		}
		if _, ok := entryOf(list, earlier.ID); ok {
			return false
		}
	}
	return true
}

// Charged returns the deliveries whose attempts rose in the last TakeOver or
// ChargeLost, sorted, valid until the next.
func (s *State) Charged() []DeliveryID { return s.charged }

// ChargeLost charges what a Snapshot store's takeover found in flight. Until
// then nothing of the lane can be claimed.
//
// Lease.tla, action ChargeLost. Guards: lane, lost, refused.
func (s *State) ChargeLost(a ChargeLost) Outcome {
	lane := s.lane(a.Lane)
	switch {
	case lane == nil:
		return failed("lane", "no such lane", a.Lane)
	case len(lane.Lost) == 0:
		return failed("lost", "none", "some uncharged")
	}
	if o := s.mayRefuse(lane.Lost, a.Refused); !o.OK() {
		return o
	}
	s.charged = s.charged[:0]
	s.charge(lane, lane.Lost, a.Refused)
	if s.rule("ChargeLost.lost") {
		lane.Lost = lane.Lost[:0]
	}
	return applied
}

// ExtendLease renews one lane. It is allowed after the expiry while nobody
// took the lane over.
//
// Lease.tla, action ExtendLease. Guards: lane, holder, epoch.
func (s *State) ExtendLease(a ExtendLease) Outcome {
	lane := s.lane(a.Lane)
	switch {
	case lane == nil:
		return failed("lane", "no such lane", a.Lane)
	case !s.guard("ExtendLease.holder", lane.Holder == a.Holder):
		return failed("holder", shortHolder(lane.Holder), shortHolder(a.Holder))
	case !s.guard("ExtendLease.epoch", lane.Epoch == a.Epoch):
		return failed("epoch", lane.Epoch, a.Epoch)
	}
	lane.renew(a.Now, a.Clock, a.TTL)
	return applied
}

// Release gives back deliveries that were not run to an end. No row is
// written and nothing is charged. There is one outcome per lease, valid until
// the next action.
//
// Lease.tla, action Release. Guards: lane, epoch, holder, in flight.
func (s *State) Release(a Release) []Outcome {
	s.outcomes = s.outcomes[:0]
	for i := range a.Leases {
		s.outcomes = append(s.outcomes, s.release(&a.Leases[i], stale(a.Seen, a.Verdicts, i)))
	}
	return s.outcomes
}

func (s *State) release(l *Lease, judged bool) Outcome {
	if judged {
		return judgedEarlier
	}
	o := s.mayRelease(l)
	if o.OK() {
		lane := s.lane(l.Lane)
		lane.InFlight = without(lane.InFlight, l.Entry())
	}
	return o
}

func (s *State) mayRelease(l *Lease) Outcome {
	lane := s.lane(l.Lane)
	if o := s.holds(lane, &l.Token, &releaseGuards); !o.OK() {
		return o
	}
	if o := inFlight(lane, l); !s.guard("Release.in flight", o.OK()) {
		return o
	}
	return applied
}

// Relinquish gives a lane back. What it still lists is finished or released
// and drops out; lost stays, for the next holder to charge.
//
// Lease.tla, action Relinquish. Guards: lane, holder, epoch, number, running.
func (s *State) Relinquish(a Relinquish) Outcome {
	lane := s.lane(a.Lane)
	if o := s.mayRelinquish(lane, &a); !o.OK() {
		return o
	}
	lane.Holder, lane.LastHolder, lane.Owner = Holder{}, a.Holder, ""
	lane.Claim = a.Number
	lane.InFlight = lane.InFlight[:0]
	s.forgetful(lane)
	return applied
}

// forgetful is what a Relinquish without some of its rules loses.
func (s *State) forgetful(lane *Lane) {
	if !s.rule("Relinquish.last") {
		lane.LastHolder = Holder{}
	}
	if !s.rule("Relinquish.claim") {
		lane.Claim = 0
	}
	if !s.rule("Relinquish.lost") {
		lane.Lost = lane.Lost[:0]
	}
}

func (s *State) mayRelinquish(lane *Lane, a *Relinquish) Outcome {
	switch {
	case lane == nil:
		return failed("lane", "no such lane", a.Lane)
	case !s.guard("Relinquish.holder", lane.Holder == a.Holder):
		return failed("holder", shortHolder(lane.Holder), shortHolder(a.Holder))
	case !s.guard("Relinquish.epoch", a.Epoch == 0 || lane.Epoch == a.Epoch):
		return failed("epoch", lane.Epoch, a.Epoch)
	case !s.guard("Relinquish.number", a.Number > lane.Claim):
		return failed("number", a.Number, fmt.Sprint("above ", lane.Claim))
	}
	for _, f := range lane.InFlight {
		if !s.guard("Relinquish.running", !runs(a.Running, f)) {
			return failed("running", fmt.Sprintf("#%d still runs", f.Delivery), "nothing")
		}
	}
	return applied
}

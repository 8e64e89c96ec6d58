package protocol

import (
	"fmt"
	"slices"
)

func (l *Ledger) claimed(a *Claim) {
	h := l.accept(a.Lane, a.Holder, "Claim")
	for i := len(h.current) - 1; i >= 0; i-- {
		p := h.current[i]
		if runs(a.Running, InFlight{p.id, p.last.Claim}) {
			continue
		}
		if p.last.since(a.Number) {
			p.breach().dropped = "a claim from before it was granted dropped it"
		}
		l.close(h, p, givenBack)
	}
	for i := range a.Picks {
		l.granted(h, a, &a.Picks[i])
	}
	for _, id := range a.Unstuck {
		if p := l.byID[id]; p != nil {
			p.owes = false
			l.paid(p)
		}
	}
}

// paid charges what a delivery owed: both an attempt and a takeover, because
// its lane's list does not say which it was.
func (l *Ledger) paid(p *pairHistory) {
	if p.pending() {
		p.takeovers++
		p.charge(p.last)
		l.touch(p)
	}
}

// granted begins a run.
func (l *Ledger) granted(h *laneHistory, a *Claim, picked *Picked) {
	p := l.byID[picked.Delivery]
	if p == nil {
		l.invent(fmt.Sprintf("Claim of lane %d granted #%d, which nobody published", a.Lane, picked.Delivery))
		return
	}
	if p.fate == completed && !l.completedBeside(p, h, a) {
		p.breach().regranted = true
	}
	if p.dead && !(p.swept && a.Seen != 0) {
		p.breach().revived = "Claim"
	}
	if why := l.besideWhom(p, a.Number, picked.After); why != "" {
		p.breach().beside = why
	}
	if p.owes || p.last != nil && p.last.phase == lost {
		p.breach().mischarged = "granted before it was charged for the run before"
	}
	r := l.newRuns.take()
	*r = run{Token: Token{a.Lane, h.epoch, a.Holder, a.Number}, earlier: p.last}
	p.last = r
	h.current = append(h.current, p)
	if p.key != nil {
		p.key.open++
	}
	l.touch(p)
}

// besideWhom says why a grant lets two runs of a delivery or of its key go on
// at once; "" when it does not.
func (l *Ledger) besideWhom(p *pairHistory, claim int64, after DeliveryID) string {
	switch before := l.byID[after]; {
	case p.last != nil && p.last.phase == open:
		return "granted beside its own run " + p.last.String()
	case after == 0 && p.key != nil && p.key.open > 0:
		return "granted beside a run of its key"
	case after != 0 && (before == nil || before.last == nil || before.last.phase != open || before.last.Claim != claim):
		return fmt.Sprintf("granted behind #%d, which this claim did not grant", after)
	}
	return ""
}

// accept notes that a call on a lane was accepted from a holder.
func (l *Ledger) accept(lane LaneID, holder Holder, call string) *laneHistory {
	h := l.lane(lane)
	if h.holder != holder {
		h.intruder, h.call = holder, call
	}
	l.touched.lanes = append(l.touched.lanes, h)
	return h
}

// since reports whether the run was granted by the call of this number or by
// a later one: what such a call states says nothing of the run.
func (r *run) since(number int64) bool { return r.Claim >= number }

// close ends the open run of a pair.
func (l *Ledger) close(h *laneHistory, p *pairHistory, how phase) {
	p.last.phase = how
	if p.key != nil {
		p.key.open--
	}
	i := slices.Index(h.current, p)
	h.current = append(h.current[:i], h.current[i+1:]...)
	l.touch(p)
}

func (l *Ledger) takenOver(semantics Semantics, a *TakeOver) {
	h := l.lane(a.Lane)
	l.touched.lanes = append(l.touched.lanes, h)
	if why := l.foreignTo(h, a); why != "" {
		h.foreign = why
	}
	death := l.deathOf(h.holder)
	for _, p := range h.current {
		p.last.death = death // what kills the worker later is not to blame
		if h.holder == a.Holder {
			p.breach().dropped = "its lane was taken over by its own worker"
		}
	}
	if semantics == Locking {
		l.charge(h.current, a.Refused, a.Charged)
	}
	for len(h.current) > 0 {
		p := h.current[len(h.current)-1]
		if semantics == Snapshot {
			h.lost = append(h.lost, p)
		}
		l.close(h, p, lost)
		if semantics == Locking {
			p.last.phase = fenced
		}
	}
	h.holder, h.last = a.Holder, Holder{}
	h.epoch++
}

// foreignTo says why a lane is not one that a worker may take over: it is of
// another group than the worker's; "" when it is not. Of a lane that no
// Subscribe made the history knows no group.
func (l *Ledger) foreignTo(h *laneHistory, a *TakeOver) string {
	named := l.groupNamed(a.Group)
	if h.group == "" || h.group == named {
		return ""
	}
	return fmt.Sprintf("of group %q, taken over by %s of group %q", h.group, a.Holder.Short(), named)
}

// groupNamed returns the name of a group's number, "" when no group has it.
func (l *Ledger) groupNamed(number int32) string {
	if number < 0 || int(number) >= len(l.groups) {
		return ""
	}
	return l.groups[number]
}

// charge charges what a takeover found in flight, by its own reckoning, and
// compares with what the store says it charged.
func (l *Ledger) charge(list []*pairHistory, refused, charged []DeliveryID) {
	for _, p := range list {
		l.touch(p)
		if !p.pending() {
			continue
		}
		if slices.Contains(refused, p.id) {
			p.owes = true
			continue
		}
		p.takeovers++
		started := startedFirst(p, list)
		switch {
		case slices.Contains(charged, p.id) && !started:
			p.breach().mischarged = "charged although it stood behind another of its key and never started"
		case !slices.Contains(charged, p.id) && started:
			p.breach().mischarged = "not charged although its worker was taken for dead"
		}
		if !started {
			continue
		}
		p.charge(p.last)
		if p.last.death > 0 {
			p.blame(l.kills[p.last.death-1])
		}
	}
}

// startedFirst reports whether no pending delivery of the key that was
// committed earlier is in the list.
func startedFirst(p *pairHistory, list []*pairHistory) bool {
	for _, other := range list {
		if p.key != nil && other.key == p.key && other.index < p.index && other.pending() {
			return false
		}
	}
	return true
}

// pending reports whether the delivery waits or runs.
func (p *pairHistory) pending() bool { return p != nil && p.fate == alive && !p.dead }

// charge counts an attempt, for the run that it belongs to.
func (p *pairHistory) charge(r *run) {
	p.charges++
	if r == nil {
		return
	}
	if r.charges++; r.charges > 1 {
		p.breach().overcharged = true
	}
}

// blame counts a charge for the delivery that killed the worker.
func (p *pairHistory) blame(death kill) {
	if death.by == p {
		return
	}
	for _, k := range p.blamed {
		if k.by == death.by && k.life == death.life {
			p.breach().chargedFor = death.by
		}
	}
	p.blamed = append(p.blamed, death)
}

func (l *Ledger) lostCharged(a *ChargeLost) {
	h := l.lane(a.Lane)
	l.touched.lanes = append(l.touched.lanes, h)
	l.charge(h.lost, a.Refused, a.Charged)
	for _, p := range h.lost {
		switch {
		case p.last.phase != lost:
		case slices.Contains(a.Refused, p.id):
			p.last.phase = stuck
		default:
			p.last.phase = fenced
		}
	}
	h.lost = h.lost[:0]
}

func (l *Ledger) extended(a *ExtendLease) {
	if a.Verdict == Applied {
		l.accept(a.Lane, a.Holder, "ExtendLease")
	}
}

func (l *Ledger) released(a *Release) {
	for i := range a.Leases {
		if a.Verdicts[i] == Applied {
			l.gaveBack(&a.Leases[i])
		}
	}
}

// gaveBack notes a Release. Of a run that is over it changes nothing.
func (l *Ledger) gaveBack(lease *Lease) {
	if l.byID[lease.Delivery] == nil {
		l.invent(fmt.Sprintf("Release of #%d, which nobody published, was accepted", lease.Delivery))
		return
	}
	l.accept(lease.Lane, lease.Holder, "Release")
	l.endRun(lease, givenBack)
}

func (l *Ledger) relinquished(a *Relinquish) {
	if a.Verdict != Applied {
		return
	}
	h := l.accept(a.Lane, a.Holder, "Relinquish")
	for len(h.current) > 0 {
		p := h.current[len(h.current)-1]
		switch {
		case runs(a.Running, InFlight{p.id, p.last.Claim}):
			p.breach().dropped = "its lane was given back while its worker ran it"
		case p.last.since(a.Number):
			p.breach().dropped = "its lane was given back by a call from before it was granted"
		}
		l.close(h, p, givenBack)
	}
	h.holder, h.last = Holder{}, a.Holder
}

package protocol

import (
	"fmt"
	"slices"
)

// record writes a committed action into the history, as the store reported it.
func (l *Ledger) record(semantics Semantics, a Action) {
	switch a := a.(type) {
	case Publish:
		l.published(&a)
	case Claim:
		l.claimed(&a)
	case TakeOver:
		l.takenOver(semantics, &a)
	case ChargeLost:
		l.lostCharged(&a)
	case ExtendLease:
		l.extended(&a)
	case CompleteMany:
		l.completedMany(semantics, &a)
	case Complete:
		l.completed(semantics, &a)
	case Reschedule:
		l.rescheduled(&a)
	case Snooze:
		l.snoozed(&a)
	case Bury:
		l.buried(&a)
	case Release:
		l.released(&a)
	case Relinquish:
		l.relinquished(&a)
	case Requeue:
		l.requeued(&a)
	case Purge:
		l.purged(&a)
	case Unsubscribe:
		l.unsubscribed(&a)
	}
}

func (l *Ledger) published(a *Publish) {
	for i := range a.Events {
		for j := range a.Events[i].Deliveries {
			l.committed(&a.Events[i].Deliveries[j])
		}
	}
}

// committed begins the life of a delivery.
func (l *Ledger) committed(d *Delivery) {
	name := pair{d.Event, d.Handler}
	if old := l.find(name); old != nil {
		old.breach().again = true
		l.touch(old)
	}
	p := l.newPairs.take()
	*p = pairHistory{pair: name, number: len(l.pairs), id: d.ID}
	p.sibling = l.ofEvent[d.Event]
	if d.Key != "" {
		p.key = l.key(handlerKey{d.Handler, d.Key})
		p.index = p.key.commits
		if p.index > 0 && d.Sequence <= p.key.lastSequence {
			p.breach().behind = true
		}
		p.key.commits++
		p.key.lastSequence = max(p.key.lastSequence, d.Sequence)
	}
	l.pairs = append(l.pairs, p)
	l.index(p)
	l.touch(p)
}

func (l *Ledger) claimed(a *Claim) {
	h := l.accept(a.Lane, a.Holder, "Claim")
	for i := len(h.current) - 1; i >= 0; i-- {
		p := h.current[i]
		if !runs(a.Running, InFlight{p.id, p.last.Claim}) {
			l.close(h, p, givenBack)
		}
	}
	for i := range a.Picks {
		l.granted(h, a, &a.Picks[i])
	}
	for _, id := range a.Unstuck {
		if p := l.byID[id]; p.pending() {
			p.takeovers++
			p.charge(p.last)
			l.touch(p)
		}
	}
}

// granted begins a run.
func (l *Ledger) granted(h *laneHistory, a *Claim, picked *Picked) {
	p := l.byID[picked.Delivery]
	if p == nil {
		l.invent(fmt.Sprintf("Claim of lane %d granted #%d, which nobody published", a.Lane, picked.Delivery))
		return
	}
	if p.fate == completed {
		p.breach().regranted = true
	}
	if p.dead && !(p.swept && a.Seen != 0) {
		p.breach().revived = "Claim"
	}
	if why := l.besideWhom(p, a.Number, picked.After); why != "" {
		p.breach().beside = why
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
	if semantics == Locking {
		l.charge(h.holder, h.current, a.Refused, a.Charged)
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
	h.holder = a.Holder
	h.epoch++
}

// charge charges what a takeover found in flight, by its own reckoning, and
// compares with what the store says it charged.
func (l *Ledger) charge(holder Holder, list []*pairHistory, refused, charged []DeliveryID) {
	death, killed := l.deathOf(holder)
	for _, p := range list {
		l.touch(p)
		if !p.pending() || slices.Contains(refused, p.id) {
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
		if started {
			p.charge(p.last)
		}
		if started && killed {
			p.blame(death)
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
	if len(h.lost) > 0 {
		l.charge(h.lost[0].last.Holder, h.lost, a.Refused, a.Charged)
	}
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

func (l *Ledger) completedMany(semantics Semantics, a *CompleteMany) {
	for i := range a.Leases {
		lease := &a.Leases[i]
		if slices.Contains(a.Refused, lease.Delivery) || a.Verdicts[i] != Applied {
			continue
		}
		if p := l.acceptEnd(semantics, lease, "CompleteMany"); p != nil && p.fate == alive {
			l.done(p, lease)
		}
	}
}

func (l *Ledger) completed(semantics Semantics, a *Complete) {
	if a.Verdict != Applied {
		return
	}
	if p := l.acceptEnd(semantics, &a.Lease, "Complete"); p != nil {
		l.done(p, &a.Lease)
	}
}

// acceptEnd notes that the end of a run was accepted, and returns its pair. A
// Snapshot store may accept a completion of what was taken over until the
// delivery itself was written.
func (l *Ledger) acceptEnd(semantics Semantics, lease *Lease, call string) *pairHistory {
	p := l.byID[lease.Delivery]
	if p == nil {
		l.invent(fmt.Sprintf("%s of #%d, which nobody published, was accepted", call, lease.Delivery))
		return nil
	}
	l.touch(p)
	r := p.runOf(&lease.Token)
	late := r != nil && (r.phase == lost || r.phase == stuck)
	if semantics == Locking || !late {
		l.accept(lease.Lane, lease.Holder, call)
	}
	switch {
	case r == nil && semantics == Locking:
		unknown := lease.Token // a copy: the action must not escape
		p.breach().unknownEnd = &unknown
	case r != nil && r.phase == fenced:
		p.breach().fencedEnd = &r.Token
	}
	return p
}

// runOf returns the run that a token was granted for, or nil.
func (p *pairHistory) runOf(t *Token) *run {
	for r := p.last; r != nil; r = r.earlier {
		if r.Token == *t {
			return r
		}
	}
	return nil
}

// done counts a completion that deleted its row, and looks whether it keeps
// the order of its key.
func (l *Ledger) done(p *pairHistory, lease *Lease) {
	p.completions++
	p.fate = completed
	p.revive("completion")
	if p.last != nil && p.last.phase == open {
		l.close(l.lane(p.last.Lane), p, ended)
	}
	if before := l.byID[lease.After]; before.pending() && !before.excepted && before.key == p.key {
		p.breach().early = before
	}
	if p.key == nil || p.excepted {
		return
	}
	if later := p.key.lastDone; later != nil && later.index > p.index {
		p.breach().overtakenBy = later
		return
	}
	p.key.lastDone = p
}

// revive notes a call that treated a dead delivery as a living one.
func (p *pairHistory) revive(call string) {
	if p.dead {
		p.breach().revived = call
	}
}

func (l *Ledger) rescheduled(a *Reschedule) {
	if p := l.finished(&a.Lease, a.Rest, a.Verdict, a.Refused, "Reschedule"); p != nil {
		p.badEnds++
		p.charge(p.runOf(&a.Lease.Token))
	}
}

func (l *Ledger) snoozed(a *Snooze) {
	l.finished(&a.Lease, a.Rest, a.Verdict, a.Refused, "Snooze")
}

func (l *Ledger) buried(a *Bury) {
	p := l.finished(&a.Lease, a.Rest, a.Verdict, a.Refused, "Bury")
	if p == nil {
		return
	}
	if a.Charge {
		p.badEnds++
		p.charge(p.runOf(&a.Lease.Token))
	}
	p.dead, p.excepted = true, true
}

// finished ends a run whose row stays. It returns nil when the store did not
// write the row.
func (l *Ledger) finished(lease *Lease, rest []Lease, verdict Verdict, refused bool, call string) *pairHistory {
	if verdict != Applied && !refused {
		return nil
	}
	p := l.acceptEnd(Locking, lease, call)
	if p == nil {
		return nil
	}
	how := ended
	if refused {
		how = stuck
		p.badEnds++
	}
	l.endRun(lease, how)
	for i := range rest {
		l.endRun(&rest[i], givenBack)
	}
	if refused {
		return nil
	}
	p.revive(call)
	return p
}

// endRun closes exactly the run of a lease, if it is open.
func (l *Ledger) endRun(lease *Lease, how phase) {
	p := l.byID[lease.Delivery]
	if p == nil || p.last == nil || p.last.phase != open || p.last.Token != lease.Token {
		return
	}
	l.close(l.lane(lease.Lane), p, how)
}

func (l *Ledger) released(a *Release) {
	for i := range a.Leases {
		if a.Verdicts[i] == Applied {
			l.acceptEnd(Locking, &a.Leases[i], "Release")
			l.endRun(&a.Leases[i], givenBack)
		}
	}
}

func (l *Ledger) relinquished(a *Relinquish) {
	if a.Verdict != Applied {
		return
	}
	h := l.accept(a.Lane, a.Holder, "Relinquish")
	for len(h.current) > 0 {
		p := h.current[len(h.current)-1]
		if runs(a.Running, InFlight{p.id, p.last.Claim}) {
			p.breach().dropped = true
		}
		l.close(h, p, givenBack)
	}
	h.holder = Holder{}
}

func (l *Ledger) requeued(a *Requeue) {
	for _, id := range a.Requeued {
		if p := l.byID[id]; p != nil {
			p.dead, p.swept, p.excepted = false, false, true
			p.charges, p.takeovers, p.blamed = 0, 0, nil
			p.lives++
			l.touch(p)
		}
	}
}

func (l *Ledger) purged(a *Purge) {
	for _, id := range a.Dead {
		if p := l.byID[id]; p != nil {
			if p.pending() {
				p.breach().deleted = "purged although it was pending"
			}
			p.fate = purged
			l.touch(p)
		}
	}
	for _, id := range a.Events {
		l.forget(id)
	}
}

// forget lets an event id be published anew: CompletedStaysDone holds while
// the event is kept.
func (l *Ledger) forget(event string) {
	for p := l.ofEvent[event]; p != nil; p = p.sibling {
		p.forgotten = true
		if p.fate == alive {
			p.breach().deleted = "its event was purged although it was there"
		}
		l.touch(p)
	}
	delete(l.ofEvent, event)
}

func (l *Ledger) unsubscribed(a *Unsubscribe) {
	for _, id := range a.Swept {
		p := l.byID[id]
		switch {
		case p == nil:
			continue
		case a.Bury:
			p.dead, p.swept, p.excepted = true, true, true
		default:
			p.fate = unsubscribed
		}
		l.touch(p)
	}
}

// invent notes a call about a delivery that was never committed.
func (l *Ledger) invent(what string) { l.invented = append(l.invented, what) }

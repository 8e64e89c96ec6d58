package protocol

import (
	"fmt"
	"slices"
)

func (l *Ledger) completedMany(semantics Semantics, a *CompleteMany) {
	for i := range a.Leases {
		lease := &a.Leases[i]
		if slices.Contains(a.Refused, lease.Delivery) || a.Verdicts[i] != Applied {
			continue
		}
		if slices.Contains(a.Unlisted, lease.Delivery) {
			l.completedUnlisted(lease)
			continue
		}
		if p := l.acceptEnd(semantics, lease, "CompleteMany"); p != nil && p.fate == alive {
			p.mustRun(semantics, &lease.Token, open)
			l.done(p, lease)
		}
	}
}

func (l *Ledger) completed(semantics Semantics, a *Complete) {
	if a.Verdict != Applied {
		return
	}
	if p := l.acceptEnd(semantics, &a.Lease, "Complete"); p != nil {
		p.mustRun(semantics, &a.Lease.Token, open)
		l.done(p, &a.Lease)
	}
}

// completedUnlisted notes a completion that was judged by an older list of its
// lane. Its holder may have given the lane back since; that is no intruder.
func (l *Ledger) completedUnlisted(lease *Lease) {
	if p := l.byID[lease.Delivery]; p != nil && p.fate == completed {
		return // repeated: nothing changed, whoever has the lane by now
	}
	h := l.lane(lease.Lane)
	holder := h.holder
	if holder.IsZero() {
		h.holder = h.last
	}
	if p := l.acceptEnd(Locking, lease, "CompleteMany"); p != nil && p.fate == alive {
		p.mustRun(Locking, &lease.Token, open, givenBack)
		l.done(p, lease)
	}
	h.holder = holder
}

// acceptEnd notes that the end of a run was accepted, and returns its pair. A
// Snapshot store may accept a completion of what was taken over, and of what
// was released, until the delivery itself was written (docs/adr, 13).
func (l *Ledger) acceptEnd(semantics Semantics, lease *Lease, call string) *pairHistory {
	p := l.byID[lease.Delivery]
	if p == nil {
		l.invent(fmt.Sprintf("%s of #%d, which nobody published, was accepted", call, lease.Delivery))
		return nil
	}
	l.touch(p)
	r := p.runOf(&lease.Token)
	late := r != nil && (r.phase == lost || r.phase == stuck || r.phase == givenBack)
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

// mustRun notes an end that changed a delivery although its run was over; in is
// where the run may stand. What was judged by an older list may have been taken
// off it by a newer claim, but not by an end, which has written the row since.
// A Snapshot store may accept a completion of a run that is over.
func (p *pairHistory) mustRun(semantics Semantics, t *Token, in ...phase) {
	if p.fate != alive || semantics != Locking {
		return
	}
	if r := p.runOf(t); r != nil && r.phase != fenced && !slices.Contains(in, r.phase) {
		p.breach().overEnd = &r.Token
	}
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
	p.fate, p.completedBy = completed, lease.Token
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
	p.mustRun(Locking, &lease.Token, open)
	how := ended
	if refused {
		how = stuck
		p.owes = true
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

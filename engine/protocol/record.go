package protocol

import "slices"

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
	case Subscribe:
		l.subscribed(&a)
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

func (l *Ledger) requeued(a *Requeue) {
	for _, id := range a.Requeued {
		if p := l.byID[id]; p != nil {
			if !p.dead {
				p.breach().mischarged = "requeued although it was no dead letter, and so forgiven what it had been charged"
			}
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

// subscribed numbers the groups in the order of their first Subscribe, and
// notes whose the lanes are that it makes.
func (l *Ledger) subscribed(a *Subscribe) {
	if !slices.Contains(l.groups, a.Group) {
		l.groups = append(l.groups, a.Group)
	}
	for _, id := range a.Lanes {
		l.lane(id).group = a.Group
	}
}

func (l *Ledger) unsubscribed(a *Unsubscribe) {
	for _, id := range a.Swept {
		p := l.byID[id]
		if p == nil {
			continue
		}
		switch {
		case p.handler != a.Handler:
			p.breach().deleted = "swept with the subscription of " + a.Handler
		case !p.pending():
			p.breach().deleted = "swept although it was not pending"
		}
		if a.Bury {
			p.dead, p.swept, p.excepted = true, true, true
		} else {
			p.fate = unsubscribed
		}
		l.touch(p)
	}
}

// invent notes a call about a delivery that was never committed.
func (l *Ledger) invent(what string) { l.invented = append(l.invented, what) }

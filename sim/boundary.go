package sim

import (
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// landing is a leap of the store's clock to the exact instant of an edge. It
// waits for a statement that compares the clock with that edge: time passes
// between a strike and the next statement, so no leap made earlier would last.
type landing struct {
	beside time.Duration // from the edge
	set    bool
}

// purgedAge is the age of the dead letters that a landing deletes.
func (w *world) purgedAge() time.Duration { return w.knobs.Lease }

// Land implements [faults.World].
func (w *world) Land(edge faults.Edge, beside time.Duration) {
	w.landings[edge] = landing{beside: beside, set: true}
	w.deferred = true
	if edge == faults.OldEnough && !w.down {
		w.spawn(operatorRole, operatorClient, func() {
			// An error leaves the rest for the next time.
			_, _ = operate(w, (*simstore.Store).Purge, engine.PurgeInput{DeadAfter: w.purgedAge(), Batch: 3})
		}).start()
	}
}

// land moves the store's clock to the instant that a landing waits for, if the
// statement is about to compare the clock with it.
func (w *world) land(t *task, p simstore.Point) {
	if w.calm {
		return
	}
	switch p.Call {
	case "Claim":
		w.landClaim(t, p)
	case "Purge":
		if p.Step == "delete dead" && w.knobs.Semantics == protocol.Locking || p.Step == "find dead" {
			w.landOn(faults.OldEnough, w.nextOld, nil)
		}
	}
}

// timeAt is how long the task's next statement takes. After a landing they take
// none: a check is often repeated by a later statement of the same call, and
// that one must see the same instant.
func (w *world) timeAt(t *task) time.Duration {
	if w.landed == t {
		return 0
	}
	return w.statementTime(t.client)
}

// landClaim is land for the statements of a claim.
func (w *world) landClaim(t *task, p simstore.Point) {
	if t.message == nil {
		return
	}
	x, ok := t.message.body.(*exchange[engine.ClaimInput, engine.ClaimReply])
	if !ok {
		return
	}
	switch p.Step {
	case "find lanes":
		if w.knobs.Semantics == protocol.Snapshot || !x.in.AllMine && len(x.in.Held)+len(x.in.LetExpire) == 0 {
			w.landOn(faults.Expiry, w.nextExpiry, &x.in) // else the transaction has its time already
		}
	case "claim held lanes", "read held lanes":
		if w.knobs.Semantics == protocol.Locking {
			w.landOn(faults.Expiry, w.nextExpiry, &x.in)
		}
		w.landOn(faults.Due, w.nextDue, &x.in)
	case "lock held lanes", "lock free lanes", "claim", "take over":
		w.landOn(faults.TooLate, notAfter, &x.in)
	}
}

// landOn moves the store's clock to the next instant of the edge, unless there
// is none or the claim would come too late for it.
func (w *world) landOn(edge faults.Edge, next func(now protocol.Time, in *engine.ClaimInput) protocol.Time, in *engine.ClaimInput) {
	l := &w.landings[edge]
	if !l.set {
		return
	}
	now := w.now.Add(w.leapt)
	at := next(now.Add(-l.beside), in)
	if at == 0 {
		return
	}
	left := at.Add(l.beside).Sub(now)
	if left <= 0 || edge != faults.TooLate && in != nil && in.NotAfter != 0 && at.Add(l.beside) > in.NotAfter {
		return
	}
	w.leap(left)
	w.landed = w.current
	l.set = false
	w.noteLanding(edge)
	w.faultStruck(faultBoundary)
}

// nextExpiry returns when the next lease of another holder ends, 0 for never.
func (w *world) nextExpiry(now protocol.Time, in *engine.ClaimInput) protocol.Time {
	next := protocol.Time(0)
	for id := range w.lanesInAll() {
		l, ok := w.store.Lane(protocol.LaneID(id))
		if ok && !l.Holder.IsZero() && l.Holder != in.Holder {
			next = sooner(next, l.ExpiresAt, now)
		}
	}
	return next
}

// nextDue returns when the next delivery of a lane of the claim's holder falls
// due, 0 for never.
func (w *world) nextDue(now protocol.Time, in *engine.ClaimInput) protocol.Time {
	next := protocol.Time(0)
	for _, d := range w.checks.facts.deliveries {
		if d == nil || d.fate != pending {
			continue
		}
		row, ok := w.store.Delivery(d.id)
		if !ok || row.AvailableAt <= now {
			continue
		}
		if l, ok := w.store.Lane(row.Lane); ok && l.Holder == in.Holder {
			next = sooner(next, row.AvailableAt, now)
		}
	}
	return next
}

// notAfter returns when the claim comes too late.
func notAfter(_ protocol.Time, in *engine.ClaimInput) protocol.Time { return in.NotAfter }

// nextOld returns when the next dead letter is old enough to go, 0 for never.
func (w *world) nextOld(now protocol.Time, _ *engine.ClaimInput) protocol.Time {
	next := protocol.Time(0)
	for _, d := range w.checks.facts.deliveries {
		if d == nil || d.fate != deadLetter {
			continue
		}
		if row, ok := w.store.Delivery(d.id); ok && row.Status == protocol.Dead {
			next = sooner(next, row.DiedAt.Add(w.purgedAge()), now)
		}
	}
	return next
}

// sooner returns the earlier of two instants, of which at counts only after
// now, and next only if it is not 0.
func sooner(next, at, now protocol.Time) protocol.Time {
	if at <= now || next != 0 && next <= at {
		return next
	}
	return at
}

func (w *world) noteLanding(edge faults.Edge) {
	switch edge {
	case faults.Expiry:
		probeAtExpiry.Hit()
	case faults.Due:
		probeAtDue.Hit()
	case faults.TooLate:
		probeAtNotAfter.Hit()
	case faults.OldEnough:
		probeAtOldEnough.Hit()
	}
}

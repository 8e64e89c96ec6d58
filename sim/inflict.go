package sim

import (
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

var _ faults.World = (*world)(nil)

// Lease implements [faults.World].
func (w *world) Lease() time.Duration { return w.knobs.Lease }

// Crash implements [faults.World].
func (w *world) Crash(worker int, down time.Duration) bool {
	return w.workers[worker-1].crash(down, false)
}

// Orphan implements [faults.World].
func (w *world) Orphan(worker int, down time.Duration, late bool) bool {
	w.workers[worker-1].orphan = orphanPlan{armed: true, late: late, down: down}
	w.deferred = true
	return false // it counts when it strikes
}

// Pause implements [faults.World].
func (w *world) Pause(worker int, d time.Duration, asleep bool) bool {
	p := w.workers[worker-1].process
	if p == nil || p.paused {
		return false
	}
	p.pause(d, asleep)
	return true
}

// Skew implements [faults.World].
func (w *world) Skew(worker int, jump time.Duration, drift int) bool {
	c := &w.workers[worker-1].clock
	c.rebase(w.now)
	c.wall += int64(jump)
	c.drift = drift
	if p := w.workers[worker-1].process; p != nil {
		p.harm()
	}
	return true
}

// Shutdown implements [faults.World].
func (w *world) Shutdown(worker int, grace, down time.Duration) bool {
	return w.workers[worker-1].stop(grace, down)
}

// Deploy implements [faults.World].
func (w *world) Deploy(worker, variant int) bool {
	k := w.workers[worker-1]
	set := uint32(variant) & w.ofGroup(k.group)
	if set == 0 || set == k.handlers {
		return false
	}
	k.handlers = set
	if !k.stop(w.knobs.Lease/4, w.unit()) && k.process == nil {
		return true // the next start has them
	}
	return true
}

// Leap implements [faults.World].
func (w *world) Leap(lane int, past time.Duration) bool {
	row, ok := w.store.Lane(protocol.LaneID(lane))
	if !ok || row.Holder.IsZero() {
		return false
	}
	left := row.ExpiresAt.Sub(w.now.Add(w.leapt)) + past
	if left <= 0 {
		return false
	}
	w.leap(left)
	return true
}

// Requeue implements [faults.World].
func (w *world) Requeue(n int) bool {
	var dead []protocol.DeliveryID
	for _, d := range w.checks.facts.deliveries {
		if d != nil && d.fate == deadLetter && len(dead) < n {
			dead = append(dead, d.id)
		}
	}
	if len(dead) == 0 || w.down {
		return false
	}
	way := w.tape.Choose(filters, LabelFilter, 0)
	t := w.spawn(operatorRole, operatorClient, func() {
		if way != byIDs {
			w.requeueBy(way, n, dead[len(dead)-1])
			return
		}
		operate(w, (*simstore.Store).Requeue, engine.RequeueInput{IDs: dead}) // an error leaves them dead
	})
	t.start()
	return true
}

// Purge implements [faults.World].
func (w *world) Purge(quarters int) bool {
	if w.down {
		return false
	}
	ages := agesOf(w.tape.Choose(len(multiplesOfAge), LabelAges, 0), w.knobs.Lease*time.Duration(quarters)/4)
	t := w.spawn(operatorRole, operatorClient, func() {
		// An error leaves the rest for the next time.
		done, _ := w.purge(w.store, ages, func() (engine.PurgeReply, error) {
			return operate(w, (*simstore.Store).Purge, engine.PurgeInput{
				DeadAfter: ages.DeadAfter, EventsAfter: ages.EventsAfter, HistoryAfter: ages.HistoryAfter, Batch: 3,
			})
		})
		if done.Dead+done.Events+done.History+done.Swept > 0 {
			w.faultStruck(faultPurge)
		}
	})
	t.start()
	w.deferred = true
	return false // it counts when it has deleted something
}

// Unsubscribe implements [faults.World].
func (w *world) Unsubscribe(handler int, bury bool) bool {
	if handler >= len(w.handlers) {
		return false
	}
	w.leaving = leaving{h: w.handlers[handler], bury: bury}
	w.deferred = true
	return false // it counts when it is done
}

// LeapAll implements [faults.World].
func (w *world) LeapAll() { w.leap(w.knobs.Lease) }

// leap moves the store's clock.
func (w *world) leap(d time.Duration) {
	w.leapt += d
	w.checks.conserving.leapt = w.now
	w.harmAll()
}

// Hint implements [faults.World].
func (w *world) Hint() {
	for _, k := range w.workers {
		if k.process != nil {
			w.in(w.unit(), (*nudge)(k.process), 0)
		}
	}
}

// CrashAll implements [faults.World].
func (w *world) CrashAll(down time.Duration) bool {
	any := false
	for _, k := range w.workers {
		any = k.crash(down, false) || any
	}
	return any
}

// Outage implements [faults.World].
func (w *world) Outage(d time.Duration, silent bool) bool {
	w.away = max(w.away, w.now.Add(d))
	w.silent = silent
	return true
}

// Partition implements [faults.World].
func (w *world) Partition(worker int, d time.Duration, silent bool) bool {
	k := w.workers[worker-1]
	k.away, k.silent = max(k.away, w.now.Add(d)), silent
	return k.process != nil
}

// Exhaust implements [faults.World].
func (w *world) Exhaust(worker int, d time.Duration) bool {
	k := w.workers[worker-1]
	k.busy = max(k.busy, w.now.Add(d))
	return k.process != nil
}

// Reset implements [faults.World].
func (w *world) Reset(worker int) bool {
	p := w.workers[worker-1].process
	any := false
	for _, t := range w.tasks {
		if p == nil || t.owner != p {
			continue
		}
		if r := t.message; r != nil && r.waiting == t && r.answer == noAnswer {
			r.failIn(0, false)
			any = true
		} else if t.tx != nil && !t.tx.dropped && (r == nil || r.call != callCommit) {
			t.tx.drop()
			any = true
		}
	}
	return any
}

// CrashStore implements [faults.World].
func (w *world) CrashStore(lost int, down time.Duration) bool {
	if w.down {
		return false
	}
	position, durable := w.store.Position(), w.store.Durable()
	tail := position - durable
	keep := position - (tail*int64(lost)+999)/1000
	if lost > 0 && keep == position {
		w.deferred = true
		w.ambush = ambush{lost: lost, down: down} // nothing would be lost now
		return false
	}
	w.crashStore(keep)
	w.down, w.silent = true, false
	w.downGen++
	w.in(down, (*storeStart)(w), w.downGen)
	return true
}

// storeStart is the end of the store's downtime.
type storeStart world

func (s *storeStart) fire(gen uint64) bool {
	w := (*world)(s)
	if gen != w.downGen {
		return false
	}
	w.down = false
	return true
}

// FailOver implements [faults.World]. A snapshot store acknowledges what a
// majority has (protocol.md: majority write concern), so it loses only what
// nobody was told of; a locking store's replica may lack more.
func (w *world) FailOver(missing int, after faults.Moment) bool {
	if after != faults.AtOnce {
		w.lurking = lurking{missing: missing, after: after}
		w.deferred = true
		return false // it counts when it strikes
	}
	position := w.store.Position()
	keep := max(position-int64(missing), 0)
	if w.knobs.Semantics == protocol.Snapshot {
		keep = max(keep, min(w.acknowledged, position))
	}
	if w.down || keep == position {
		return false
	}
	w.crashStore(keep)
	return true
}

// crashStore ends the store's process: what it was doing is gone, and of its
// commits those up to keep are left.
func (w *world) crashStore(keep int64) {
	w.storeLife++
	victims := w.victims[:0]
	for _, t := range w.tasks {
		if t.role == serverRole || t.role == operatorRole {
			victims = append(victims, t)
		}
	}
	w.victims = victims
	for i, t := range victims {
		t.kill()
		if r := t.message; r != nil {
			r.leave()
			r.failIn(w.unit(), false)
		}
		victims[i] = nil
	}
	w.store.Crash(keep)
	if w.observe != nil {
		w.observe.crashed(w, w.store.Position())
	}
	if w.acknowledged > w.store.Position() {
		probeLostWord.Hit()
	}
	w.acknowledged = min(w.acknowledged, w.store.Position())
	w.history.rewound(w.store.Position())
	w.checks.rewound(w.store.Position())
}

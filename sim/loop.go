package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// epoch is the virtual time at which every run starts: a date that makes
// nanoseconds and years in a log recognisable.
const epoch protocol.Time = 1_767_225_600_000_000_000 // 2026-01-01

// at schedules an event.
func (w *world) at(t protocol.Time, who actor, arg uint64) {
	w.sequence++
	w.heap.push(event{at: t, seq: w.sequence, who: who, arg: arg})
}

// in schedules an event after d.
func (w *world) in(d time.Duration, who actor, arg uint64) { w.at(w.now.Add(d), who, arg) }

// advance moves the clock for one step of the task.
func (w *world) advance(t protocol.Time, id uint32) {
	w.now = t
	w.steps++
	w.print.add(uint64(t))
	w.print.add(uint64(id))
}

// loop handles events until the run is over or the heap is empty.
func (w *world) loop() {
	for len(w.heap) > 0 && !w.over {
		e := w.heap.pop()
		before := w.now
		w.now = e.at
		if !e.who.fire(e.arg) {
			w.now = before // it never happened
			continue
		}
		w.steps++
		w.print.add(uint64(e.at))
		w.print.add(e.arg)
		w.watch()
	}
}

// scheduler is what simstore sees of the world.
type scheduler struct{ w *world }

var (
	errReset = errors.New("connection reset by peer")
	errAway  = fmt.Errorf("connection refused: %w", engine.ErrNotSent)
)

// Now implements [simstore.Scheduler]: virtual time, plus what the store's
// clock leapt.
func (s scheduler) Now() protocol.Time { return s.w.now.Add(s.w.leapt) }

// Enter implements [simstore.Scheduler].
func (s scheduler) Enter() {
	if t := s.w.current; t != nil {
		t.mustLive()
	}
}

// Leave implements [simstore.Scheduler].
func (s scheduler) Leave() {}

// Pause implements [simstore.Scheduler].
func (s scheduler) Pause(ctx context.Context, p simstore.Point) error {
	w := s.w
	t := w.current
	if t == nil {
		return nil // a look from outside of the simulation
	}
	t.mustLive()
	if err := w.statementFault(t, p); err != nil {
		return err
	}
	life := w.storeLife
	w.notePoint(t, p)
	t.sleep(w.timeAt(t))
	w.land(t, p)
	return w.interrupted(ctx, t, life)
}

// interrupted says why a statement cannot go on: its server is gone, or its
// caller.
func (w *world) interrupted(ctx context.Context, t *task, life int) error {
	if t.role == runRole && t.unreachable() || life != w.storeLife || t.tx != nil && t.tx.dropped {
		return errReset
	}
	return ctx.Err()
}

// unreachable reports whether the worker of a run does not reach the store.
func (t *task) unreachable() bool {
	return t.w.cut() || t.owner != nil && t.w.now < t.owner.worker.away
}

// Block implements [simstore.Scheduler].
func (s scheduler) Block(ctx context.Context, p simstore.Point, deadline protocol.Time) error {
	w := s.w
	t := w.current
	if t == nil {
		panic("sim: a look from outside waits for a lock")
	}
	life := w.storeLife
	until := protocol.Time(0)
	if deadline != 0 {
		until = deadline.Add(-w.leapt)
	}
	w.notePoint(t, p)
	w.blocked = append(w.blocked, t)
	woken := t.park(until)
	w.unblock(t)
	if err := w.interrupted(ctx, t, life); err != nil {
		return err
	}
	if !woken {
		return context.DeadlineExceeded
	}
	return nil
}

// unblock takes a task off the list of those that wait for a lock.
func (w *world) unblock(t *task) {
	for i, b := range w.blocked {
		if b == t {
			w.blocked = append(w.blocked[:i], w.blocked[i+1:]...)
			return
		}
	}
}

// Wake implements [simstore.Scheduler].
func (s scheduler) Wake() {
	for _, t := range s.w.blocked {
		t.wake(s.w.statementTime(t.client))
	}
}

// Durations are multiples of a unit, a small fraction of the lease, so that
// what matters (who is slower, by how many leases) does not depend on it.
var multiples = [...]time.Duration{1, 2, 3, 5, 8, 16, 40, 120}

func (w *world) unit() time.Duration { return w.knobs.Lease / 2048 }

// statementTime draws how long a statement takes.
func (w *world) statementTime(client int) time.Duration {
	if w.knobs.Steady {
		return w.unit() * multiples[w.slowness[client]]
	}
	return w.unit() * multiples[w.tape.Choose(len(multiples), LabelStatement, client)]
}

// travelTime draws how long a request or reply travels.
func (w *world) travelTime(l Label, client int, call callKind) time.Duration {
	if w.knobs.Steady {
		return w.unit() * multiples[w.slowness[client]]
	}
	return w.unit() * multiples[w.tape.Choose(len(multiples), l, client<<callBits|int(call))]
}

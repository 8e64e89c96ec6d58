package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// drains is the name of the promise that the liveness phase checks: with
// faults stopped and one live worker per handler, every delivery completes or
// is dead, and no lane stays with the dead.
const drains = "Drains"

// stage is how far a run has come.
type stage uint8

const (
	safety   stage = iota // faults strike
	draining              // faults have stopped
	stopping              // everything is done; the workers shut down
	ended
)

// watch looks after every event whether the run's stage ends.
func (w *world) watch() {
	switch w.stage {
	case safety:
		if w.steps >= w.knobs.Steps && (w.plan.recorded == nil || w.publishing == 0) || w.done() {
			w.endSafety()
		}
	case draining:
		if w.changed {
			w.changed = false
			if w.done() && !w.heldByDead() {
				w.endDraining()
				w.watch() // nobody may be alive to stop
				return
			}
		}
		w.checkBound("the deliveries did not drain")
	case stopping:
		if w.running() == 0 {
			w.stage, w.over = ended, true
			w.checkFree()
			return
		}
		w.checkBound("a worker did not stop")
	}
}

// done reports whether everything was published, and has completed or died.
func (w *world) done() bool { return w.publishing == 0 && w.checks.facts.open == 0 }

// endSafety stops the faults and leaves only some of the workers alive.
func (w *world) endSafety() {
	w.stage, w.calm, w.changed = draining, true, true
	w.away = 0
	for _, k := range w.workers {
		k.away, k.busy = 0, 0
	}
	w.stopPublishing = w.plan.recorded == nil
	w.slowness = make([]uint8, len(w.slowness))
	survivors := w.chooseSurvivors()
	w.cover(survivors)
	for _, k := range survivors {
		k.orphan = orphanPlan{}
		if k.process == nil {
			k.startIn(0)
		}
	}
	w.deadline = w.now.Add(w.bound())
	w.lastStep = w.steps + spinning
}

// spinning is how many steps may pass after the faults have stopped: far more
// than the bound in time leaves room for, unless time stands still.
const spinning = 5_000_000

// chooseSurvivors draws who lives on; the others die now, and for good. The
// last of a group lives when nobody else of it does.
func (w *world) chooseSurvivors() []*worker {
	var survivors []*worker
	for i, k := range w.workers {
		last := i+w.knobs.Groups >= len(w.workers)
		if w.tape.Choose(2, LabelSurvivor, k.id) == 0 || last && firstOf(survivors, k.group) == nil {
			survivors = append(survivors, k)
			continue
		}
		k.crash(0, false)
		k.buried = true
	}
	return survivors
}

// firstOf returns the first worker of a group, nil when there is none.
func firstOf(workers []*worker, group int) *worker {
	for _, k := range workers {
		if k.group == group {
			return k
		}
	}
	return nil
}

// cover makes sure that each handler has a survivor that serves it.
func (w *world) cover(survivors []*worker) {
	for group := range w.knobs.Groups {
		missing := w.ofGroup(group)
		for _, k := range survivors {
			missing &^= k.handlers
		}
		if missing != 0 {
			k := firstOf(survivors, group)
			k.handlers |= missing
			k.crash(0, false)
		}
	}
}

// bound is how long draining may take: what waits for a backoff, a pause, a
// handler's timeout or a dead worker's lease is at most a few leases away, and
// each delivery may have to wait for its turn. Where the store lost commits, a
// subscription may be among them, and with it the number of a group; workers
// write it anew once a minute.
func (w *world) bound() time.Duration {
	lease := w.knobs.Lease
	again := time.Duration(0)
	if w.checks.losses > 0 {
		again = time.Minute
	}
	hung := time.Duration(w.knobs.Timeout+1) * lease // a run may hang until it is retired
	return again + 30*lease + 2*hung + time.Duration(w.checks.facts.open)*lease/8
}

func (w *world) checkBound(what string) {
	if w.now > w.deadline || w.steps > w.lastStep {
		w.checks.fail(drains, drains, "%s within %v: %s", what, w.deadline.Sub(w.calmSince()), w.stuck())
	}
}

func (w *world) calmSince() protocol.Time { return w.deadline.Add(-w.bound()) }

// lanes returns the lanes as the store has them.
func (w *world) lanes() []protocol.Lane {
	lanes := make([]protocol.Lane, 0, w.lanesInAll())
	for id := range w.lanesInAll() {
		if lane, ok := w.store.Lane(protocol.LaneID(id)); ok {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// heldByDead reports whether a lane is held by a process that is not alive.
func (w *world) heldByDead() bool {
	for _, lane := range w.lanes() {
		if !lane.Holder.IsZero() && !w.lives(lane.Holder) {
			return true
		}
	}
	return false
}

// processOf returns the process with the holder, alive or not.
func (w *world) processOf(h protocol.Holder) *process {
	for _, p := range w.processes {
		if p.holder == h {
			return p
		}
	}
	return nil
}

func (w *world) lives(h protocol.Holder) bool {
	for _, k := range w.workers {
		if k.process != nil && k.process.holder == h {
			return true
		}
	}
	return false
}

// running counts the processes that are alive.
func (w *world) running() int {
	n := 0
	for _, k := range w.workers {
		if k.process != nil {
			n++
		}
	}
	return n
}

// endDraining shuts the survivors down.
func (w *world) endDraining() {
	w.stage = stopping
	w.deadline = w.now.Add(10 * w.knobs.Lease)
	for _, k := range w.workers {
		k.buried = true
		if p := k.process; p != nil && !p.stopping {
			p.pledge.stopAt = w.now
			p.stopping, p.orderly = true, !p.paused && w.leapt == 0 && p.losses == w.checks.losses
			p.input(engine.Stop{Grace: w.knobs.Lease / 4})
		}
	}
}

// checkFree finds lanes that an orderly shutdown left behind. Of those that
// were under way when the faults stopped nothing is asked: their worker may
// have given up on the store, and then its lanes expire. The same goes after a
// leap of the store's clock, for which a worker's last call may come too late,
// and of lanes that a failover gave back to a worker that does not know of it.
func (w *world) checkFree() {
	for _, lane := range w.lanes() {
		if p := w.processOf(lane.Holder); p != nil && p.orderly {
			w.checks.fail(drains, drains, "lane %d is still held by %s after an orderly shutdown", lane.ID, lane.Holder.Short())
		}
	}
}

// stuck says what did not drain, and why as far as it can be seen.
func (w *world) stuck() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pending", w.checks.facts.open)
	now := w.now.Add(w.leapt)
	n := 0
	for _, d := range w.store.Snapshot().Deliveries {
		if d.Status != protocol.Pending {
			continue
		}
		if n++; n > mostExplained {
			b.WriteString(", …")
			break
		}
		fmt.Fprintf(&b, "; #%d %s of %s lane %d key %q due in %v attempts %d takeovers %d",
			d.ID, d.Handler, d.Event, d.Lane, d.Key, d.AvailableAt.Sub(now), d.Attempts, d.Takeovers)
	}
	for _, lane := range w.lanes() {
		if lane.Holder.IsZero() && len(lane.Stuck) == 0 && len(lane.Lost) == 0 {
			continue
		}
		life := "alive"
		if !w.lives(lane.Holder) {
			life = "dead"
		}
		fmt.Fprintf(&b, "; lane %d held by %s (%s) for %v, in flight %d, stuck %d, lost %d", lane.ID,
			lane.Holder.Short(), life, lane.ExpiresAt.Sub(now), len(lane.InFlight), len(lane.Stuck), len(lane.Lost))
	}
	fmt.Fprintf(&b, "; %d workers alive, %d publishers at work", w.running(), w.publishing)
	for _, k := range w.workers {
		if k.process != nil {
			k.process.describe(&b)
		}
	}
	return b.String()
}

// String says what describe does, on a line of its own.
func (p *process) String() string {
	var b strings.Builder
	p.describe(&b)
	return b.String()
}

// describe says what a worker does, what it waits for, and what keeps it from the
// deliveries that are pending.
func (p *process) describe(b *strings.Builder) {
	w := p.w
	at := p.clock.read(w.now)
	fmt.Fprintf(b, "\n  %s: %s", p.worker.short(), p.machine.Describe(at))
	if p.paused {
		b.WriteString("; it is paused")
	}
	if p.wakeAt != 0 {
		fmt.Fprintf(b, "; asked to be woken in %v", p.wakeAt.Sub(w.now))
	}
	for _, r := range p.runs {
		fmt.Fprintf(b, "; runs #%d for %v", r.run.Picked.Lease.Delivery, at.Mono-r.began)
		if late := at.Mono - r.began - r.handler.timeout(); late > 0 && !r.cancelled {
			fmt.Fprintf(b, ", %v past its timeout, and was never cancelled", late)
		}
	}
	n := 0
	for _, d := range w.checks.facts.deliveries {
		if d == nil || d.fate != pending {
			continue
		}
		if n++; n > mostExplained {
			break
		}
		why := w.checks.conserving.waits(p, d, &engine.ClaimInput{}).why
		if why == "" {
			why = "it could claim it"
		}
		fmt.Fprintf(b, "; #%d: %s", d.id, why)
	}
}

// mostExplained bounds the deliveries of which a report says what holds them.
const mostExplained = 5

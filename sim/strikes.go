package sim

import (
	"context"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/probe"
	"github.com/relaybus-go/relaybus/store/simstore"
)

var (
	probeLate    = probe.New("sim: a request was served after its client gave up")
	probeGaveUp  = probe.New("sim: a client gave up on a call")
	probePoison  = probe.New("sim: a poison delivery killed its worker")
	probeEarlier = probe.NewRare("sim: picks or a verdict were read at an earlier commit than they were written")
)

// The kinds that the simulator itself must know.
var (
	faultPoison      = faults.Index("poison")
	faultLoseCommit  = faults.Index("losecommit")
	faultUnsubscribe = faults.Index("unsubscribe")
	faultExpire      = faults.Index("expire")
	faultPurge       = faults.Index("purge")
	faultFailOver    = faults.Index("failover")
	faultOrphan      = faults.Index("orphan")
)

// enabled reports whether faults of the kind may strike now.
func (w *world) enabled(i int) bool { return !w.calm && w.knobs.Faults.Has(i) }

// sortFaults lists the kinds of this run by when they are asked about.
func (w *world) sortFaults() {
	kinds := faults.All()
	w.fired, w.worked = make([]int, len(kinds)), make([]int, len(kinds))
	for i, k := range kinds {
		if !w.knobs.Faults.Has(i) {
			continue
		}
		switch k.Target {
		case faults.OnMessage:
			w.messageFaults = append(w.messageFaults, i)
		case faults.OnCommit:
			w.commitFaults = append(w.commitFaults, i)
		case faults.OnStatement:
			w.statementFaults = append(w.statementFaults, i)
		case faults.OnRun:
			w.runFaults = append(w.runFaults, i)
		case faults.OnBatch:
			w.batchFaults = append(w.batchFaults, i)
		case faults.OnWorld, faults.OnWorker, faults.OnLane:
			w.timedFaults = append(w.timedFaults, i)
		}
	}
}

// draw asks whether the kind strikes, and how.
func (w *world) draw(i, actor int) int {
	if w.calm {
		return 0
	}
	return w.tape.Choose(faults.All()[i].Variants+1, faultLabel(i), actor)
}

func (w *world) faultFired(i int)  { w.fired[i]++ }
func (w *world) faultWorked(i int) { w.worked[i]++ }

// fateOf decides what becomes of a request.
func (w *world) fateOf(r *request) (f faults.Fate) {
	kinds := w.messageFaults
	if r.call == callCommit {
		kinds = w.commitFaults
	}
	if w.now < r.from.muted && endsRuns(r.call) && !w.calm {
		f.LoseRequest = true
		return f
	}
	for _, i := range kinds {
		if v := w.draw(i, r.from.id<<callBits|int(r.call)); v > 0 {
			w.faultFired(i)
			r.struck = i
			faults.All()[i].Message(w, v, &f)
			if !f.LoseReply {
				w.faultWorked(i) // a lost reply counts once there was one
			}
		}
	}
	if f.Mute > 0 {
		r.from.muted = w.now.Add(f.Mute)
	}
	return f
}

// endsRuns reports whether the call ends runs.
func endsRuns(call callKind) bool { return call >= callCompleteMany && call <= callRelease }

// statementFault returns the error that a statement raises, if any.
func (w *world) statementFault(t *task, p simstore.Point) error {
	for _, i := range w.statementFaults {
		v := w.draw(i, t.client)
		if v == 0 {
			continue
		}
		if err := faults.All()[i].Statement(faults.Statement{Call: p.Call, Step: p.Step}, v); err != nil {
			w.faultFired(i)
			w.faultWorked(i)
			return err
		}
	}
	return nil
}

// Timed faults are asked about once per tick and strike at one of a few
// instants within it.
const (
	ticksPerLease = 8
	slotsPerTick  = 16
)

func (w *world) tickLength() time.Duration { return w.knobs.Lease / ticksPerLease }

// ticker is the world as the receiver of its ticks.
type ticker world

func (t *ticker) fire(uint64) bool {
	w := (*world)(t)
	if w.calm {
		return false
	}
	w.tick++
	w.changePace()
	for _, i := range w.timedFaults {
		switch k := faults.All()[i]; k.Target {
		case faults.OnWorker:
			for _, worker := range w.workers {
				w.planStrike(i, worker.id)
			}
		case faults.OnLane:
			for lane := range w.knobs.Lanes {
				w.planStrike(i, lane)
			}
		default:
			w.planStrike(i, 0)
		}
	}
	w.in(w.tickLength(), t, 0)
	return true
}

// changePace draws who is slow from now on.
func (w *world) changePace() {
	if !w.knobs.Steady {
		return
	}
	for client := range w.slowness {
		if v := w.tape.Choose(len(multiples), LabelPriority, client); v > 0 {
			w.slowness[client] = uint8(v)
		}
	}
}

// planStrike draws whether the kind strikes the target within this tick.
func (w *world) planStrike(i, target int) {
	variants := faults.All()[i].Variants
	v := w.tape.Choose(variants*slotsPerTick+1, faultLabel(i), target) - 1
	if v < 0 {
		return
	}
	slot := time.Duration(v / variants)
	s := &strike{w: w, kind: i, target: target, variant: 1 + v%variants}
	w.in(slot*w.tickLength()/slotsPerTick, s, uint64(i))
}

// strike is a timed fault about to happen.
type strike struct {
	w                     *world
	kind, target, variant int
}

func (s *strike) fire(uint64) bool {
	w := s.w
	if w.calm {
		return false
	}
	w.faultFired(s.kind)
	worked := faults.All()[s.kind].Strike(w, s.target, s.variant)
	if worked {
		w.faultWorked(s.kind)
	}
	if w.observe != nil {
		w.observe.struck(w, s, worked)
	}
	return true
}

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
	return true
}

// Shutdown implements [faults.World].
func (w *world) Shutdown(worker int, grace, down time.Duration) bool {
	return w.workers[worker-1].stop(grace, down)
}

// Deploy implements [faults.World].
func (w *world) Deploy(worker, variant int) bool {
	k := w.workers[worker-1]
	set := uint32(variant) & (1<<len(w.handlers) - 1)
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
	w.leapt += left
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
	t := w.spawn(operatorRole, operatorClient, func() {
		w.store.Requeue(context.Background(), dead) // an error leaves them dead
	})
	t.start()
	return true
}

// Purge implements [faults.World].
func (w *world) Purge(quarters int) bool {
	if w.down {
		return false
	}
	age := w.knobs.Lease * time.Duration(quarters) / 4
	t := w.spawn(operatorRole, operatorClient, func() {
		// An error leaves the rest for the next time.
		done, _ := w.store.Purge(context.Background(), simstore.PurgePolicy{DeadAfter: age, EventsAfter: age, HistoryAfter: age, Batch: 3})
		if done.Dead+done.Events+done.History+done.Swept > 0 {
			w.faultWorked(faultPurge)
		}
	})
	t.start()
	return false // it counts when it has deleted something
}

// Unsubscribe implements [faults.World].
func (w *world) Unsubscribe(handler int, bury bool) bool {
	if handler >= len(w.handlers) {
		return false
	}
	w.leaving = leaving{h: w.handlers[handler], bury: bury}
	return false // it counts when it is done
}

// leaving is a handler that is removed while it runs.
type leaving struct {
	h    *handlerSpec
	bury bool
}

// running tells of a body that began.
func (w *world) bodyBegan(r *handlerRun) {
	if w.leaving.h == r.handler && !w.calm {
		w.in(4*w.unit(), (*removal)(w), 0)
	}
}

// removal is the moment at which a handler is removed.
type removal world

func (m *removal) fire(uint64) bool {
	w := (*world)(m)
	l := w.leaving
	if w.calm || w.down || l.h == nil {
		return false
	}
	w.leaving = leaving{}
	w.faultWorked(faultUnsubscribe)
	t := w.spawn(operatorRole, operatorClient, func() {
		for _, event := range l.h.events {
			// An error leaves the handler as it is.
			w.store.Unsubscribe(context.Background(), protocol.EventHandler{Event: event, Handler: l.h.name}, l.bury)
		}
	})
	t.start()
	return true
}

// LeapAll implements [faults.World].
func (w *world) LeapAll() { w.leapt += w.knobs.Lease }

// leapPlan is a leap of the store's clock that waits for a run.
type leapPlan struct{ duringRun, duringCommit bool }

// LeapDuring implements [faults.World].
func (w *world) LeapDuring(commit bool) {
	if commit {
		w.leaping.duringCommit = true
	} else {
		w.leaping.duringRun = true
	}
}

// leapBeside ends the lease of the run's lane while the run goes on, and
// reports whether it did. Its process stands still for a moment, or it would
// renew the lease at once.
func (w *world) leapBeside(r *handlerRun, armed *bool) bool {
	if !*armed || w.calm || r.over || r.p.paused || !r.handler.transactional || !w.Leap(int(r.run.Picked.Lease.Lane), 1) {
		return false
	}
	*armed = false
	w.faultWorked(faultExpire)
	w.Hint()
	r.p.pause(80*w.unit(), false)
	return true
}

// fire implements [actor]: the moment of a leap during the run.
func (r *handlerRun) fire(uint64) bool {
	return r.p.alive && r.running && r.p.w.leapBeside(r, &r.p.w.leaping.duringRun)
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

// CrashStore implements [faults.World].
func (w *world) CrashStore(lost int, down time.Duration) bool {
	if w.down {
		return false
	}
	position, durable := w.store.Position(), w.store.Durable()
	tail := position - durable
	keep := position - (tail*int64(lost)+999)/1000
	if lost > 0 && keep == position {
		w.ambush = ambush{lost: lost, down: down} // nothing would be lost now
		return false
	}
	w.crashStore(keep)
	w.down, w.silent = true, false
	w.downGen++
	w.in(down, (*storeStart)(w), w.downGen)
	return true
}

// ambush is a crash of the store that waits for a commit it can lose.
type ambush struct {
	lost int
	down time.Duration
	set  bool
}

// lurking is a failover that waits for its moment.
type lurking struct {
	missing int
	after   faults.Moment
	claimed protocol.Holder // who was granted something
	set     bool
}

// lurk begins a failover shortly after the commit it waits for: late enough
// for its client to have heard of it.
func (w *world) lurk(c simstore.Committed) {
	if w.lurking.missing == 0 || w.lurking.set || c.Position == 0 {
		return
	}
	for _, a := range c.Actions {
		if w.lurking.awaits(w, a) {
			w.lurking.set = true
			w.in(6*w.unit(), (*sprungFailover)(w), 0)
			return
		}
	}
}

// awaits reports whether the action is what the failover waits for.
func (l *lurking) awaits(w *world, a protocol.Action) bool {
	switch a := a.(type) {
	case protocol.CompleteMany:
		return l.after == faults.AfterCompletion || l.after == faults.AfterHead && w.leads(a.Leases[len(a.Leases)-1])
	case protocol.Complete:
		return l.after == faults.AfterCompletion || l.after == faults.AfterHead && w.leads(a.Lease)
	case protocol.Reschedule, protocol.Bury:
		return l.after == faults.AfterFailure
	case protocol.Claim:
		l.claimed = a.Holder
		return len(a.Picks) > 0 && (l.after == faults.AfterClaim || l.after == faults.AfterFirstClaim && a.Number <= 2)
	}
	return false
}

// leads reports whether a follower of the delivery is in flight.
func (w *world) leads(lease protocol.Lease) bool {
	for _, d := range w.checks.facts.lane(lease.Lane).inFlight {
		if d.granted.After == lease.Delivery {
			return true
		}
	}
	return false
}

// sprungFailover is the moment of a lurking failover.
type sprungFailover world

func (s *sprungFailover) fire(uint64) bool {
	w := (*world)(s)
	l := w.lurking
	w.lurking = lurking{}
	if w.calm || !w.FailOver(l.missing, faults.AtOnce) {
		return false
	}
	for _, k := range w.workers {
		if l.after == faults.AfterFirstClaim && k.process != nil && k.process.holder != l.claimed {
			k.crash(0, false)
		}
	}
	w.faultWorked(faultFailOver)
	return true
}

// spring crashes the store a moment after a commit that is not durable yet.
func (w *world) spring(c simstore.Committed) {
	w.lurk(c)
	if w.ambush.lost == 0 || !c.Async || w.ambush.set {
		return
	}
	w.ambush.set = true
	w.in(4*w.unit(), (*sprung)(w), 0)
}

// sprung is the end of an ambush.
type sprung world

func (s *sprung) fire(uint64) bool {
	w := (*world)(s)
	a := w.ambush
	w.ambush = ambush{}
	if w.calm || w.store.Position() == w.store.Durable() {
		return false
	}
	if w.CrashStore(a.lost, a.down) {
		w.faultWorked(faultLoseCommit)
	}
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
	w.acknowledged = min(w.acknowledged, w.store.Position())
	w.checks.rewound(w.store.Position())
}

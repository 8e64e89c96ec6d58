package sim

import (
	"time"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// The kinds that the simulator itself must know.
var (
	faultBoundary    = faults.Index("boundary")
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
		case faults.OnRow:
			w.rowFaults = append(w.rowFaults, i)
		case faults.OnRun:
			w.runFaults = append(w.runFaults, i)
		case faults.OnBatch:
			w.batchFaults = append(w.batchFaults, i)
		case faults.OnWorld, faults.OnWorker, faults.OnLane:
			w.timedFaults = append(w.timedFaults, i)
		}
	}
}

// strikesInTime reports whether kinds with the target are asked about at every
// tick.
func strikesInTime(t faults.Target) bool {
	return t == faults.OnWorld || t == faults.OnWorker || t == faults.OnLane
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

// faultStruck notes that a fault which waited for its moment has struck.
func (w *world) faultStruck(i int) {
	w.faultWorked(i)
	if w.observe != nil {
		w.observe.sprung(w, i)
	}
}

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
	if p.Delivery != 0 && !w.calm {
		return w.rowFault(t, p)
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
			for lane := range w.lanesInAll() {
				w.planStrike(i, lane)
			}
		default:
			w.planStrike(i, 0)
		}
	}
	if w.tape.Choose(2, LabelLook, 0) > 0 {
		w.look()
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
	w.deferred = false
	worked := faults.All()[s.kind].Strike(w, s.target, s.variant)
	if worked {
		w.faultWorked(s.kind)
	}
	if w.observe != nil {
		w.observe.struck(w, s, worked)
	}
	return true
}

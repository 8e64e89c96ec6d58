package sim

import (
	"math/rand/v2"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
)

// Options say what to run.
type Options struct {
	// Seed decides everything that is not set here.
	Seed uint64
	// Faults are the kinds that may strike.
	Faults faults.Set
	// Store is "pg" for row locks, "mongo" for snapshots; drawn when empty.
	Store string
	// Workers, Lanes, Events, Keys and Steps replace what the seed draws;
	// 0: drawn. Keys −1: no keys.
	Workers, Lanes, Events, Keys, Steps int
	// Workload is a recorded workload; nil: drawn.
	Workload *Workload
	// Blind leaves the lock-step model out, so that only the direct checkers
	// judge.
	Blind bool
	// Histories records the history of calls whatever the seed, and judges it;
	// without it every 20th seed is judged. A schedule is only with it.
	Histories bool
	// HistoryAlone leaves the lock-step model and the direct checkers out, so
	// that only the history of calls is judged, of every seed.
	HistoryAlone bool
	// Schedule replays the choices of a schedule instead of drawing them.
	Schedule *Schedule
	observe  observer
	unjudged bool // no history, whatever the seed
}

// Watch lets a log, a trace or both be written; nil: not that one.
func (o *Options) Watch(l *Log, t *Trace) {
	if t != nil {
		t.seed = o.Seed
	}
	switch {
	case l != nil && t != nil:
		o.observe = both{l, t}
	case l != nil:
		o.observe = l
	case t != nil:
		o.observe = t
	}
}

// Verdict is how a run ended.
type Verdict uint8

// The verdicts, worst last.
const (
	Clean Verdict = iota
	Stalled
	Illegal
	Unsafe
	Refused
	Diverged
)

// String returns the verdict in one word.
func (v Verdict) String() string {
	return [...]string{"clean", "stalled", "illegal", "unsafe", "refused", "diverged"}[v]
}

// FaultCount is how often a kind of fault struck, and how often that changed
// anything.
type FaultCount struct {
	Kind   string `json:"kind"`
	Fired  int    `json:"fired"`
	Worked int    `json:"worked"`
}

// Report is what became of one run.
type Report struct {
	Seed       uint64
	Hash       uint64
	Knobs      Knobs
	Virtual    time.Duration
	Wall       time.Duration
	Steps      int
	Faults     []FaultCount // kinds that fired
	Published  int
	Deliveries int
	Completed  int
	Dead       int
	Lost       int // commits that crashes took back
	Verdict    Verdict
	Violation  *Violation
	History    *History // nil when it was not recorded
	Choices    []Choice
	Skipped    int // choices of a schedule that were never asked for
}

// Store names the store's semantics as the flag -store does.
func (r *Report) Store() string { return storeName(r.Knobs.Semantics) }

// knobsOf draws the knobs of a seed and applies what the options fix.
func knobsOf(o *Options) (Knobs, *rand.Rand) {
	r := rand.New(rand.NewPCG(o.Seed, streamOf(1<<32)))
	k := drawKnobs(r, o.Faults)
	k.Pool = drawPool(rand.New(rand.NewPCG(o.Seed, streamOf(1<<32+1))))
	o.fix(&k)
	return k, r
}

// fix applies what the options say to the knobs.
func (o *Options) fix(k *Knobs) {
	switch o.Store {
	case "pg":
		k.Semantics = protocol.Locking
	case "mongo":
		k.Semantics = protocol.Snapshot
	}
	override(&k.Workers, o.Workers)
	override(&k.Lanes, o.Lanes)
	override(&k.Events, o.Events)
	override(&k.Keys, o.Keys)
	override(&k.Steps, o.Steps)
	k.Keys = max(k.Keys, 0)
}

func override(knob *int, value int) {
	if value != 0 {
		*knob = value
	}
}

// judgedSeeds is how many seeds there are for each whose history is judged.
const judgedSeeds = 20

// recorded reports whether the history of calls is recorded and judged.
func (o *Options) recorded() bool {
	return !o.unjudged && (o.Histories || o.HistoryAlone || o.calledFor())
}

// calledFor reports whether the seed, or the schedule, asks for its history.
func (o *Options) calledFor() bool {
	if o.Schedule != nil {
		return o.Schedule.Checker == linearizability
	}
	return o.Seed%judgedSeeds == 0
}

// runner runs seeds one after another on one goroutine.
type runner struct{ pool coroutines }

func (r *runner) close() { r.pool.close() }

// run runs one seed, or one schedule.
func (r *runner) run(o *Options) (rep Report) {
	began := stopwatch()
	var d driver
	var knobs Knobs
	var replay *replayed
	if o.Schedule != nil {
		knobs = o.Schedule.Knobs
		replay = newReplayed(o.Schedule.Choices)
		d = replay
	} else {
		var source *rand.Rand
		knobs, source = knobsOf(o)
		d = newSeeded(o.Seed, knobs.odds(source))
	}
	rep = r.runWith(o, knobs, d)
	rep.Seed = o.Seed
	if replay != nil {
		rep.Skipped = replay.skipped()
	}
	rep.Wall = began()
	return rep
}

// runWith runs a world with the knobs and choices given.
func (r *runner) runWith(o *Options, knobs Knobs, d driver) Report {
	w := newWorld(knobs, d, &r.pool)
	w.observe, w.checks.model.blind, w.checks.deaf = o.observe, o.Blind || o.HistoryAlone, o.HistoryAlone
	if o.recorded() {
		w.history = &history{w: w, most: mostCalls}
	}
	w.play(o.Workload)
	judged := w.judgeHistory()
	rep := w.report()
	rep.History = judged
	return rep
}

// play runs the world to its end. A panic of the engine, of the store or of
// the simulator is a broken invariant like any other.
func (w *world) play(recorded *Workload) {
	defer w.close()
	defer func() {
		w.current = nil
		if r := recover(); r != nil {
			w.checks.panicked(r)
		}
	}()
	if recorded != nil {
		w.record(recorded)
	} else {
		w.populate()
	}
	w.loop()
	if !w.over {
		w.checks.fail(drains, drains, "nothing is scheduled any more: %s", w.stuck())
	}
	w.checks.finish(w.stage == ended)
}

func (w *world) report() Report {
	c := &w.checks
	rep := Report{
		Hash: uint64(w.print), Knobs: w.knobs, Virtual: w.now.Sub(epoch), Steps: w.steps,
		Lost: c.lost, Violation: c.violation, Choices: w.tape.choices,
	}
	for i, k := range faults.All() {
		if w.fired[i] > 0 || w.worked[i] > 0 {
			rep.Faults = append(rep.Faults, FaultCount{k.Name, w.fired[i], w.worked[i]})
		}
	}
	rep.Published = w.plan.next
	for _, d := range c.facts.deliveries {
		if d == nil {
			continue
		}
		rep.Deliveries++
		switch d.fate {
		case completed:
			rep.Completed++
		case deadLetter:
			rep.Dead++
		}
	}
	rep.Verdict = verdictOf(c.violation)
	return rep
}

func verdictOf(v *Violation) Verdict {
	switch {
	case v == nil:
		return Clean
	case v.Invariant == drains:
		return Stalled
	case v.Checker == linearizability:
		return Illegal
	case v.Invariant == refusal:
		return Refused
	default:
		return Unsafe
	}
}

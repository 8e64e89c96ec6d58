package sim

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/faults"
)

// Exploration bounds an exhaustive search through the runs of one small world.
type Exploration struct {
	// Deviations is the most choices in which a run differs from the calm one.
	Deviations int
	// Runs is the most runs; 0: no bound.
	Runs int
}

// Explored is what an exploration did.
type Explored struct {
	Knobs Knobs
	Runs  []int // by the number of their deviations
	Hash  uint64
	// Exhausted: every run within the bound of deviations was made.
	Exhausted bool
	// Failed is the first run that broke a promise, nil when none did. None
	// with fewer deviations does.
	Failed *Report
}

// Explore runs a small world in every way that differs from its calm run in at
// most so many choices: first in none, then in one, then in two. It stops at
// the first failure. Options fix what they name, and their seed is not used;
// the same options give the same runs in the same order.
//
// What is tried: every fault that may strike, with all its variants; how
// handlers end; who hears of a commit; and of each delay the longest. Timed
// faults strike at a few of the instants of a tick. Not tried: other
// workloads, jitter, and who is dead for good when faults stop.
func Explore(o Options, x Exploration) Explored {
	e := &explorer{o: o, x: x}
	defer e.r.close()
	e.found = Explored{Knobs: smallKnobsOf(&o), Hash: fnvOffset, Exhausted: true}
	for depth := 0; depth <= x.Deviations && e.more(); depth++ {
		e.found.Runs = append(e.found.Runs, 0)
		e.descend(nil, depth)
	}
	return e.found
}

// smallKnobsOf are those of a world small enough to explore: two workers, one
// lane, three events of one key, a plain and a transactional handler.
func smallKnobsOf(o *Options) Knobs {
	k := Knobs{
		Lanes: 1, Batch: 2, Lease: 5 * time.Second, Window: 2 * time.Millisecond, Workers: 2, Keys: 1, Events: 3,
		Types: 1, Handlers: 2, Groups: 1, MaxAttempts: 2, Concurrency: 2, Timeout: 1, AsyncClaims: true,
		Hints: true, Steps: 400, Faults: o.Faults,
	}
	o.fix(&k)
	return k
}

// calmAnswer is what the calm run of an exploration answers: the workers have
// subscribed when the first two events are published in one transaction, the
// third comes when those are done, and handlers take long enough for something
// to happen meanwhile.
func calmAnswer(at Coordinate) int {
	switch {
	case at.Label == LabelWork:
		return 6
	case at.Label == LabelGap && at.Actor == 1:
		return 3
	case at.Label == LabelGap && at.Actor == 2:
		return 4
	case at.Label == LabelBatch && at.Actor == 1:
		return 1
	}
	return 0
}

// explorer is a depth-first search. A run with one deviation more is the same
// run up to that choice, so deviations are added in the order in which choices
// are asked for, and no set of them is tried twice.
type explorer struct {
	r     runner
	o     Options
	x     Exploration
	made  int // runs, those that only looked for choices among them
	found Explored
	each  func(path []Choice, rep *Report) // of a test
}

func (e *explorer) more() bool { return e.found.Exhausted && e.found.Failed == nil }

// descend makes every run that has the deviations of path and so many more.
func (e *explorer) descend(path []Choice, more int) {
	if e.x.Runs > 0 && e.made >= e.x.Runs {
		e.found.Exhausted = false
		return
	}
	e.made++
	d := &deviating{path: path, collect: more > 0}
	rep := e.r.runWith(&e.o, e.found.Knobs, d)
	if more == 0 {
		e.note(path, &rep)
		return
	}
	for _, q := range d.asked {
		for _, v := range q.values() {
			e.descend(append(slices.Clip(path), Choice{q.at, int32(v)}), more-1)
			if !e.more() {
				return
			}
		}
	}
}

func (e *explorer) note(path []Choice, rep *Report) {
	e.found.Runs[len(path)]++
	(*fingerprint)(&e.found.Hash).add(rep.Hash)
	if rep.Violation != nil {
		e.found.Failed = rep
	}
	if e.each != nil {
		e.each(path, rep)
	}
}

// deviating answers with the choices of its path, in order, and as the calm
// run otherwise. It collects what it is asked behind the last of them.
type deviating struct {
	path    []Choice
	collect bool
	asked   []question
}

// question is a choice that a run asked for.
type question struct {
	at Coordinate
	n  int
}

func (d *deviating) draw(n int, at Coordinate) int {
	switch {
	case len(d.path) > 0 && d.path[0].Coordinate == at:
		v := int(d.path[0].Value)
		d.path = d.path[1:]
		return v
	case len(d.path) == 0 && d.collect:
		d.asked = append(d.asked, question{at, n})
	}
	return min(calmAnswer(at), n-1)
}

// instants are those of a tick at which an exploration lets timed faults
// strike: before anything was published, twice while the first handlers run,
// and when they are done.
var instants = [...]int{0, 4, 6, 10}

// values returns the answers to try in place of the calm one.
func (q question) values() []int {
	first, last := 1, q.n-1
	switch l := q.at.Label; {
	case labels[l].concern == workload && l != LabelWake, l == LabelWork, l == LabelTimer, l == LabelJitter, l == LabelSurvivor:
		return nil
	case labels[l].concern == schedule:
		first = last
	case l >= firstFault && strikesInTime(faults.All()[l-firstFault].Target):
		return instantsOf(last / slotsPerTick)
	}
	values := make([]int, 0, last)
	for v := first; v <= last; v++ {
		values = append(values, v)
	}
	return values
}

// instantsOf returns the values with which a timed fault strikes in each of
// its variants at one of the instants.
func instantsOf(variants int) []int {
	values := make([]int, 0, len(instants)*variants)
	for _, slot := range instants {
		for v := range variants {
			values = append(values, 1+slot*variants+v)
		}
	}
	return values
}

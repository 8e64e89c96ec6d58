package sim

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Batch says which seeds to run.
type Batch struct {
	// First is the first seed; Seeds is how many follow from there.
	First uint64
	Seeds int
	// For bounds the real time in place of Seeds; 0: no bound.
	For time.Duration
	// Cores is how many run at once; 0: as many as there are.
	Cores int
	// Recheck runs every so many-th seed twice and compares the hashes; 0:
	// none.
	Recheck int
}

// Many runs the seeds of a batch across cores and tells each of every report
// in the order of the seeds, until it returns false. It is the one place of
// the simulator with goroutines: a seed runs on one of them from its beginning
// to its end.
func Many(o Options, b Batch, each func(Report) bool) {
	m := &many{o: o, b: b, began: time.Now(), waiting: map[uint64]Report{}, each: each}
	cores := b.Cores
	if cores <= 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	var group sync.WaitGroup
	for range cores {
		group.Add(1)
		go func() {
			defer group.Done()
			m.work()
		}()
	}
	group.Wait()
}

type many struct {
	o     Options
	b     Batch
	began time.Time
	next  atomic.Uint64
	ended atomic.Bool

	mu      sync.Mutex
	told    uint64
	waiting map[uint64]Report // done before one that stands earlier
	each    func(Report) bool
}

// work runs seeds until there are no more.
func (m *many) work() {
	r := &runner{}
	defer r.close()
	for {
		i := m.next.Add(1) - 1
		if m.ended.Load() || m.b.For == 0 && i >= uint64(m.b.Seeds) || m.b.For > 0 && time.Since(m.began) > m.b.For {
			return
		}
		o := m.o
		o.Seed = m.b.First + i
		rep := r.run(&o)
		if m.b.Recheck > 0 && i%uint64(m.b.Recheck) == 0 {
			recheck(r, &o, &rep)
		}
		m.tell(i, rep)
	}
}

// recheck runs a seed again, unrecorded: it must take the same steps.
func recheck(r *runner, o *Options, rep *Report) {
	unrecorded := *o
	unrecorded.unjudged = true
	again := r.run(&unrecorded)
	if again.Hash == rep.Hash {
		return
	}
	rep.Verdict = Diverged
	rep.Violation = &Violation{
		Checker: "determinism", Invariant: "determinism",
		Detail: fmt.Sprintf("two runs of seed %d have the hashes %016x and %016x", o.Seed, rep.Hash, again.Hash),
	}
}

// tell hands reports on in the order of their seeds.
func (m *many) tell(i uint64, rep Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[i] = rep
	for !m.ended.Load() {
		rep, ok := m.waiting[m.told]
		if !ok {
			return
		}
		delete(m.waiting, m.told)
		m.told++
		if !m.each(rep) {
			m.ended.Store(true)
		}
	}
}

// stopwatch returns a function that says how much real time has passed. Real
// time is reported and decides nothing.
func stopwatch() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// One runs one seed or schedule.
func One(o Options) Report {
	r := &runner{}
	defer r.close()
	return r.run(&o)
}

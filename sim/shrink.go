package sim

import (
	"math/rand/v2"
	"slices"
	"sort"
)

// Shrunk is a failure reduced to little more than what it needs.
type Shrunk struct {
	Schedule Schedule
	Report   Report // of the reduced schedule
	Runs     int    // how many runs the reduction took
}

// shrinker reduces one failure. A candidate is kept when it still fails with
// the same checker and invariant.
type shrinker struct {
	r      *runner
	o      Options
	target Violation
	best   Schedule
	report Report
	runs   int
	budget int
}

// shrinkBudget bounds the runs of one reduction.
const shrinkBudget = 6000

// Shrink reduces the failure of a report made with these options. Choices are
// set back to calm, first whole labels (latencies before faults), then whole
// actors, then ever smaller pieces; the knobs are turned down in between.
func Shrink(o Options, failed Report) (Shrunk, bool) {
	r := &runner{}
	defer r.close()
	s := &shrinker{r: r, o: o, target: *failed.Violation, budget: shrinkBudget}
	s.o.observe = nil
	s.o.Histories = failed.Verdict == Illegal
	if !s.try(Schedule{Seed: o.Seed, Knobs: failed.Knobs, Choices: failed.Choices}) {
		return Shrunk{}, false
	}
	s.reduceAll()
	best, report := s.best, s.report
	starts := 0
	for seed := uint64(1); seed <= smallWorlds && starts < smallStarts && len(best.Choices) > shortEnough; seed++ {
		if !s.drawSmall(seed) {
			continue
		}
		starts++
		s.reduceAll()
		if len(s.best.Choices) < len(best.Choices) {
			best, report = s.best, s.report
		}
	}
	best.Checker = s.target.Checker
	return Shrunk{Schedule: best, Report: report, Runs: s.runs}, true
}

// A reduction that got stuck above shortEnough choices is tried again from
// small worlds: one that fails in the same way with few events is a better
// start than what the first failure has too much of. smallWorlds bounds how
// many are drawn, smallStarts how many are reduced.
const (
	shortEnough = 12
	smallWorlds = 5000
	smallStarts = 10
)

// reduceAll repeats all reductions until none helps any more.
func (s *shrinker) reduceAll() {
	s.budget = s.runs + shrinkBudget
	for before := -1; before != s.size() && s.runs < s.budget; {
		before = s.size()
		s.dropLabels()
		s.turnDown()
		s.dropActors()
		s.dropChunks()
	}
}

// drawSmall draws another run with the knobs and faults of the best one so
// far, and makes it the best when it fails in the same way.
func (s *shrinker) drawSmall(seed uint64) bool {
	k := s.best.Knobs
	k.Events, k.Workers, k.Keys = min(k.Events, 8), min(k.Workers, 3), min(k.Keys, 2)
	k.Steady = k.Steady || seed%2 == 0 // slowness in few choices
	r := rand.New(rand.NewPCG(seed, streamOf(2<<32)))
	s.runs++
	o := s.o
	o.Schedule = &Schedule{Knobs: k}
	rep := s.r.runWith(&o, k, newSeeded(seed, k.odds(r)))
	if !s.same(rep.Violation) {
		return false
	}
	s.budget = s.runs + 1
	return s.try(Schedule{Seed: s.o.Seed, Knobs: k, Choices: rep.Choices})
}

// same reports whether a run failed in the way that is being reduced.
func (s *shrinker) same(v *Violation) bool {
	return v != nil && v.Checker == s.target.Checker && v.Invariant == s.target.Invariant
}

// size is what the reduction makes smaller.
func (s *shrinker) size() int {
	k := &s.best.Knobs
	return 1000*len(s.best.Choices) + 10*(k.Events+k.Workers+k.Keys+k.Lanes+k.Handlers+k.Types) + k.Batch + k.Concurrency + k.MaxAttempts
}

// try runs a candidate and keeps it when it fails in the same way. Choices
// that were never asked for, or came after the failure, fall away.
func (s *shrinker) try(candidate Schedule) bool {
	if s.runs >= s.budget {
		return false
	}
	s.runs++
	o := s.o
	o.Schedule = &candidate
	rep := s.r.run(&o)
	if !s.same(rep.Violation) {
		return false
	}
	candidate.Choices = slices.Clone(rep.Choices)
	s.best, s.report = candidate, rep
	return true
}

// without tries the best schedule without the choices that drop names.
func (s *shrinker) without(drop func(i int, c Choice) bool) bool {
	candidate := s.best
	candidate.Choices = nil
	for i, c := range s.best.Choices {
		if !drop(i, c) {
			candidate.Choices = append(candidate.Choices, c)
		}
	}
	return len(candidate.Choices) < len(s.best.Choices) && s.try(candidate)
}

// dropLabels drops all choices of one label after the other.
func (s *shrinker) dropLabels() {
	for l := range labels {
		s.without(func(_ int, c Choice) bool { return c.Label == Label(l) })
	}
}

// dropActors drops all choices of one label about one actor.
func (s *shrinker) dropActors() {
	type group struct {
		label Label
		actor int32
	}
	var groups []group
	for _, c := range s.best.Choices {
		groups = append(groups, group{c.Label, c.Actor})
	}
	sort.Slice(groups, func(i, j int) bool {
		a, b := groups[i], groups[j]
		return a.label < b.label || a.label == b.label && a.actor < b.actor
	})
	for _, g := range slices.Compact(groups) {
		s.without(func(_ int, c Choice) bool { return c.Label == g.label && c.Actor == g.actor })
	}
}

// dropChunks is delta debugging: halves, quarters, down to single choices.
func (s *shrinker) dropChunks() {
	for size := (len(s.best.Choices) + 1) / 2; size >= 1; size /= 2 {
		for from := 0; from < len(s.best.Choices); {
			to := from + size
			if !s.without(func(i int, _ Choice) bool { return i >= from && i < to }) {
				from = to
			}
			if s.runs >= s.budget {
				return
			}
		}
	}
}

// turnDown reduces the knobs: counts by halves and ones, switches to off.
func (s *shrinker) turnDown() {
	counts := []func(*Knobs) *int{
		func(k *Knobs) *int { return &k.Events },
		func(k *Knobs) *int { return &k.Workers },
		func(k *Knobs) *int { return &k.Handlers },
		func(k *Knobs) *int { return &k.Types },
		func(k *Knobs) *int { return &k.Groups },
		func(k *Knobs) *int { return &k.Keys },
		func(k *Knobs) *int { return &k.Lanes },
		func(k *Knobs) *int { return &k.Batch },
		func(k *Knobs) *int { return &k.Concurrency },
		func(k *Knobs) *int { return &k.MaxAttempts },
	}
	for _, field := range counts {
		s.reduce(field)
	}
	for _, field := range [...]func(*Knobs) *int{
		func(k *Knobs) *int { return &k.LanesPerClaim },
		func(k *Knobs) *int { return &k.Gather },
		func(k *Knobs) *int { return &k.Retention },
	} {
		s.zero(field)
	}
	switches := []func(*Knobs) *bool{
		func(k *Knobs) *bool { return &k.History },
		func(k *Knobs) *bool { return &k.Split },
		func(k *Knobs) *bool { return &k.Uneven },
		func(k *Knobs) *bool { return &k.Delays },
		func(k *Knobs) *bool { return &k.Backlog },
		func(k *Knobs) *bool { return &k.AsyncClaims },
		func(k *Knobs) *bool { return &k.Hints },
	}
	for _, field := range switches {
		candidate := s.best
		if on := field(&candidate.Knobs); *on {
			*on = false
			s.try(candidate)
		}
	}
	if candidate := s.best; candidate.Knobs.Limits != 0 {
		candidate.Knobs.Limits = 0
		s.try(candidate)
	}
	s.dropFaults()
}

// reduce makes one count as small as it can be.
func (s *shrinker) reduce(field func(*Knobs) *int) {
	for {
		now := *field(&s.best.Knobs)
		smaller := false
		for _, n := range [...]int{1, now / 2, now - 1} {
			candidate := s.best
			*field(&candidate.Knobs) = n
			if n >= 1 && n < now && s.try(candidate) {
				smaller = true
				break
			}
		}
		if !smaller {
			return
		}
	}
}

// zero takes a count away whose 0 means what most runs do.
func (s *shrinker) zero(field func(*Knobs) *int) {
	candidate := s.best
	if n := field(&candidate.Knobs); *n != 0 {
		*n = 0
		s.try(candidate)
	}
}

// dropFaults leaves only the kinds that are used in the set.
func (s *shrinker) dropFaults() {
	candidate := s.best
	for i := firstFault; int(i) < len(labels); i++ {
		used := slices.ContainsFunc(s.best.Choices, func(c Choice) bool { return c.Label == i })
		if !used {
			candidate.Knobs.Faults = candidate.Knobs.Faults.Without(int(i - firstFault))
		}
	}
	if candidate.Knobs.Faults != s.best.Knobs.Faults {
		s.try(candidate)
	}
}

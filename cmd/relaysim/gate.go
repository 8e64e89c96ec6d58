package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/probe"
)

// A batch of worthAWord seeds says what it did not reach. One of judgedFrom
// fails for it: the rarest probe that is not declared rare is hit by one seed
// in 215, so a batch of this size misses it less than once in a billion.
const (
	worthAWord = 500
	judgedFrom = 5000
)

// exitCodes stands in the help.
const exitCodes = `
exit codes: 0 clean, 1 a promise was broken, 2 usage, 3 the work did not drain,
4 a history is not linearizable, 5 the store did what the protocol does not
allow, 6 two runs of one seed differed, 7 a clean batch of 5,000 seeds or more
with every fault and no limits missed a situation or fault it claims to test
`

// shortfall is what a batch claims to test and did not: then a clean verdict
// says less than it seems to.
type shortfall struct {
	missed []string // probes that are not rare, and were not hit
	silent []string // kinds of faults that never fired …
	idle   []string // … or fired and never changed an outcome
}

func (t *summary) shortfall(kinds []*faults.Kind, wanted faults.Set, probes []probe.Count) shortfall {
	var s shortfall
	for _, p := range probes {
		if p.Hits == 0 && !p.Rare {
			s.missed = append(s.missed, p.Name)
		}
	}
	for i, k := range kinds {
		switch {
		case !wanted.Has(i):
		case t.fired[i] == 0:
			s.silent = append(s.silent, k.Name)
		case t.worked[i] == 0:
			s.idle = append(s.idle, k.Name)
		}
	}
	return s
}

func (s *shortfall) none() bool { return len(s.missed)+len(s.silent)+len(s.idle) == 0 }

func (s *shortfall) print(w io.Writer) {
	if s.silent != nil {
		fmt.Fprintf(w, "faults that never fired: %s\n", strings.Join(s.silent, ", "))
	}
	if s.idle != nil {
		fmt.Fprintf(w, "faults that never changed an outcome: %s\n", strings.Join(s.idle, ", "))
	}
	if s.missed != nil {
		fmt.Fprintf(w, "probes never hit:\n  %s\n", strings.Join(s.missed, "\n  "))
	}
}

// wide reports whether the seeds draw everything themselves. Fewer kinds of
// faults or a fixed number of workers may make a situation impossible.
func (s *settings) wide() bool {
	return s.options.Faults == faults.Every() && s.store == "" && s.options.Workload == nil &&
		s.workers == 0 && s.lanes == 0 && s.events == 0 && s.options.Keys == 0 && s.steps == 0
}

// judge says what a clean batch did not reach, and fails a wide and large one
// for it.
func (s *settings) judge(t *summary) int {
	if t.seeds < min(worthAWord, s.judgedFrom) {
		return exitClean
	}
	out := s.stdout
	if s.json {
		out = s.stderr // one JSON object a line is all that stdout holds
	}
	short := t.shortfall(faults.All(), s.options.Faults, probe.Counts())
	if short.none() {
		return exitClean
	}
	short.print(out)
	if t.seeds < s.judgedFrom || !s.wide() {
		return exitClean
	}
	fmt.Fprintf(out, "the batch is clean but does not reach what it claims to test: a change closed a way to the situations above; open it again, or withdraw the probe or fault\n%s\n",
		s.command(s.seed)+fmt.Sprintf(" -seeds %d", t.seeds))
	return exitUnreached
}

// printReached counts the probes that the batch hit.
func printReached(w io.Writer, probes []probe.Count) {
	var all, hit [2]int // rare ones apart
	for _, p := range probes {
		i := 0
		if p.Rare {
			i = 1
		}
		all[i]++
		if p.Hits > 0 {
			hit[i]++
		}
	}
	fmt.Fprintf(w, "probes hit: %d of %d, and %d of %d rare ones\n", hit[0], all[0], hit[1], all[1])
}

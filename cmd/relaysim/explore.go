package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/sim"
)

// The bounds of an exploration when nobody names others: all kinds of faults,
// one at a time, take two seconds; two at a time take minutes even with two
// kinds.
const (
	usualDeviations = 1
	usualRuns       = 100_000
)

// checkExplore refuses what an exploration has no use for.
func (s *settings) checkExplore(given map[string]bool) error {
	if !s.explore {
		if given["deviations"] || given["runs"] {
			return errors.New("-deviations and -runs bound -explore, which is missing")
		}
		return nil
	}
	for _, name := range []string{"seed", "seeds", "for", "workload", "replay", "trace", "v"} {
		if given[name] {
			return fmt.Errorf("-explore tries every choice of a small world itself: -%s does not go with it", name)
		}
	}
	if s.deviations < 0 || s.deviations > 100 || s.runs < 0 {
		return fmt.Errorf("-deviations is %d and -runs is %d: want numbers from 0, and at most 100 deviations", s.deviations, s.runs)
	}
	return nil
}

// runExplore explores the small world on both families of stores, or on the
// one that was named.
func (s *settings) runExplore() int {
	stores := []string{"pg", "mongo"}
	if s.store != "" {
		stores = []string{s.store}
	}
	for _, store := range stores {
		o := s.options
		o.Store = store
		began := time.Now()
		found := sim.Explore(o, sim.Exploration{Deviations: s.deviations, Runs: s.runs})
		s.printExplored(store, &found, time.Since(began))
		if found.Failed != nil {
			s.explainExplored(store, found.Failed)
			return exitOf(found.Failed.Verdict)
		}
	}
	return exitClean
}

func (s *settings) printExplored(store string, found *sim.Explored, took time.Duration) {
	verdict := sim.Clean
	if found.Failed != nil {
		verdict = found.Failed.Verdict
	}
	total := 0
	for _, n := range found.Runs {
		total += n
	}
	if s.json {
		text, err := json.Marshal(struct {
			Store     string `json:"store"`
			Knobs     string `json:"knobs"`
			Runs      []int  `json:"runs"`
			Exhausted bool   `json:"exhausted"`
			Hash      string `json:"hash"`
			Verdict   string `json:"verdict"`
		}{store, found.Knobs.String(), found.Runs, found.Exhausted, fmt.Sprintf("%016x", found.Hash), verdict.String()})
		if err != nil {
			panic(err) // every field is a number or a string
		}
		fmt.Fprintf(s.stdout, "%s\n", text)
		return
	}
	reach := fmt.Sprintf("all with deviations up to %d", s.deviations)
	switch {
	case found.Failed != nil:
		reach = "up to the first failure"
	case !found.Exhausted:
		reach = fmt.Sprintf("stopped at the bound of %d runs", s.runs)
	}
	fmt.Fprintf(s.stdout, "explored %-5s hash %016x runs %d (%s by deviations), %s, wall %.1fs, verdict %s\n",
		store, found.Hash, total, strings.Trim(fmt.Sprint(found.Runs), "[]"), reach, took.Seconds(), verdict)
}

// explainExplored says what is wrong, and how to see it again. The last line
// is the command.
func (s *settings) explainExplored(store string, rep *sim.Report) {
	out := s.stdout
	if s.json {
		out = s.stderr // one JSON object a line is all that stdout holds
	}
	schedule := sim.Schedule{Checker: rep.Violation.Checker, Mutant: planted(), Knobs: rep.Knobs, Choices: rep.Choices}
	fmt.Fprintf(out, "  %s\n  at step %d, as a schedule:\n\n%s\n", rep.Violation, rep.Violation.Step, schedule.String())
	if s.shrink {
		s.reduce(out, rep)
	}
	s.store = store
	fmt.Fprintln(out, s.commandWith("-explore", "-deviations", fmt.Sprint(s.deviations), "-runs", fmt.Sprint(s.runs)))
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/sim"
)

// exitOf maps a verdict to the exit code.
func exitOf(v sim.Verdict) int {
	switch v {
	case sim.Unsafe:
		return exitUnsafe
	case sim.Stalled:
		return exitStalled
	case sim.Illegal:
		return exitIllegal
	case sim.Refused:
		return exitRefused
	case sim.Diverged:
		return exitDiverging
	default:
		return exitClean
	}
}

func (s *settings) runSeeds() int {
	if s.many {
		return s.runMany()
	}
	return s.runOne()
}

// runOne runs one seed.
func (s *settings) runOne() int {
	o := s.options
	if s.verbose {
		fmt.Fprintln(s.stdout, sim.Legend)
	}
	trace, closeTrace, err := s.openTrace(s.trace)
	if err != nil {
		return fail(s.stderr, "-trace: %v", err)
	}
	var log *sim.Log
	if s.verbose {
		log = &sim.Log{Out: s.stdout}
	}
	o.Watch(log, trace)
	rep := sim.One(o)
	if err := closeTrace(); err != nil {
		return fail(s.stderr, "-trace: %v", err)
	}
	s.print(&rep)
	if rep.Violation == nil {
		err = s.draw(s.words(), &rep)
	} else {
		err = s.explain(&rep)
	}
	if err != nil {
		return fail(s.stderr, "-html: %v", err)
	}
	return exitOf(rep.Verdict)
}

// openTrace opens the file of a trace; without a path there is none.
func (s *settings) openTrace(path string) (*sim.Trace, func() error, error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	t := &sim.Trace{Out: file}
	return t, func() error {
		if err := file.Close(); t.Err == nil {
			t.Err = err
		}
		return t.Err
	}, nil
}

// runMany runs many seeds and stops at the first that fails.
func (s *settings) runMany() int {
	if s.trace != "" {
		return s.runTraced()
	}
	code := exitClean
	var total summary
	began := time.Now()
	sim.Many(s.options, sim.Batch{First: s.seed, Seeds: s.seeds, For: s.duration, Recheck: 20}, func(rep sim.Report) bool {
		total.add(&rep)
		if s.json || rep.Verdict != sim.Clean {
			s.print(&rep)
		}
		if rep.Verdict == sim.Clean {
			return true
		}
		code = exitOf(rep.Verdict)
		if err := s.explain(&rep); err != nil {
			code = fail(s.stderr, "-html: %v", err)
		}
		return false
	})
	if code != exitClean {
		return code
	}
	if !s.json {
		total.print(s.stdout, time.Since(began))
	}
	if s.html != "" {
		fmt.Fprintf(s.words(), "nothing was drawn: no seed failed\n")
	}
	return s.judge(&total)
}

// runTraced runs many seeds one after another, each with a trace of its own.
func (s *settings) runTraced() int {
	if s.seeds == 0 {
		return fail(s.stderr, "-trace of many seeds needs -seeds")
	}
	if err := os.MkdirAll(s.trace, 0o777); err != nil {
		return fail(s.stderr, "-trace: %v", err)
	}
	for i := range s.seeds {
		o := s.options
		o.Seed += uint64(i)
		trace, closeTrace, err := s.openTrace(filepath.Join(s.trace, fmt.Sprintf("%d.ndjson", o.Seed)))
		if err != nil {
			return fail(s.stderr, "-trace: %v", err)
		}
		o.Watch(nil, trace)
		rep := sim.One(o)
		if err := closeTrace(); err != nil {
			return fail(s.stderr, "-trace: %v", err)
		}
		s.print(&rep)
		if rep.Violation != nil {
			if err := s.explain(&rep); err != nil {
				return fail(s.stderr, "-html: %v", err)
			}
			return exitOf(rep.Verdict)
		}
	}
	return exitClean
}

// print prints the one line of a seed.
func (s *settings) print(rep *sim.Report) {
	if s.json {
		printJSON(s.stdout, rep)
		return
	}
	fmt.Fprintln(s.stdout, line(rep))
}

// line is the report of a seed in one line.
func line(rep *sim.Report) string {
	var struck []string
	for _, f := range rep.Faults {
		if f.Fired > 0 {
			struck = append(struck, fmt.Sprintf("%s:%d", f.Kind, f.Fired))
		}
	}
	if struck == nil {
		struck = []string{"none"}
	}
	history := ""
	if rep.History != nil {
		history = fmt.Sprintf("history %s (%d calls) ", rep.History.Status(), rep.History.Calls)
	}
	return fmt.Sprintf("seed %-6d hash %016x store %-5s virtual %9.3fs wall %6.1fms steps %5d deliveries %d (%d completed, %d dead) faults %s %sverdict %s",
		rep.Seed, rep.Hash, rep.Store(), rep.Virtual.Seconds(), float64(rep.Wall.Microseconds())/1000, rep.Steps,
		rep.Deliveries, rep.Completed, rep.Dead, strings.Join(struck, " "), history, rep.Verdict)
}

func printJSON(w io.Writer, rep *sim.Report) {
	out := struct {
		Seed       uint64           `json:"seed"`
		Hash       string           `json:"hash"`
		Store      string           `json:"store"`
		Knobs      string           `json:"knobs"`
		VirtualMS  int64            `json:"virtual_ms"`
		WallMicros int64            `json:"wall_us"`
		Steps      int              `json:"steps"`
		Faults     []sim.FaultCount `json:"faults"`
		Published  int              `json:"published"`
		Deliveries int              `json:"deliveries"`
		Completed  int              `json:"completed"`
		Dead       int              `json:"dead"`
		Verdict    string           `json:"verdict"`
		History    *historyJSON     `json:"history,omitempty"`
		Checker    string           `json:"checker,omitempty"`
		Invariant  string           `json:"invariant,omitempty"`
		Detail     string           `json:"detail,omitempty"`
		FailedStep int              `json:"failed_step,omitempty"`
	}{
		rep.Seed, fmt.Sprintf("%016x", rep.Hash), rep.Store(), rep.Knobs.String(), rep.Virtual.Milliseconds(),
		rep.Wall.Microseconds(), rep.Steps, rep.Faults, rep.Published, rep.Deliveries, rep.Completed, rep.Dead,
		rep.Verdict.String(), historyOf(rep.History), "", "", "", 0,
	}
	if v := rep.Violation; v != nil {
		out.Checker, out.Invariant, out.Detail, out.FailedStep = v.Checker, v.Invariant, v.Detail, v.Step
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // every field is a number or a string
	}
	fmt.Fprintf(w, "%s\n", text)
}

// historyJSON is what became of a recorded history; open calls have no answer,
// lost ones the store took back.
type historyJSON struct {
	Status string `json:"status"`
	Calls  int    `json:"calls"`
	Open   int    `json:"open"`
	Lost   int    `json:"lost"`
}

func historyOf(h *sim.History) *historyJSON {
	if h == nil {
		return nil
	}
	return &historyJSON{h.Status().String(), h.Calls, h.Open, h.Lost}
}

// words is where sentences go: with -json one object a line is all that stdout
// holds.
func (s *settings) words() io.Writer {
	if s.json {
		return s.stderr
	}
	return s.stdout
}

// explain says what is wrong with a failed seed, and how to see it again. The
// last line is the command.
func (s *settings) explain(rep *sim.Report) error {
	out := s.words()
	fmt.Fprintf(out, "  %s\n  at step %d, %d choices\n", rep.Violation, rep.Violation.Step, len(rep.Choices))
	if s.shrink && rep.Verdict != sim.Diverged {
		s.reduce(out, rep)
	}
	err := s.draw(out, rep)
	fmt.Fprintln(out, s.command(rep.Seed))
	return err
}

// reduce prints the schedule of the reduced failure.
func (s *settings) reduce(out io.Writer, rep *sim.Report) {
	o := s.options
	o.Seed = rep.Seed
	small, ok := sim.Shrink(o, *rep)
	if !ok {
		fmt.Fprintln(out, "  the failure does not repeat as a schedule")
		return
	}
	small.Schedule.Mutant = planted()
	fmt.Fprintf(out, "  reduced to %d choices in %d runs: %s\n\n%s\n", len(small.Schedule.Choices), small.Runs, small.Report.Violation, small.Schedule.String())
}

// command reproduces one seed.
func (s *settings) command(seed uint64) string { return s.commandWith("-seed", fmt.Sprint(seed)) }

// commandWith is the command line that does what these flags say, with all that
// was fixed.
func (s *settings) commandWith(what ...string) string {
	words := []string{"go", "run"}
	if name := planted(); name != "" {
		words = append([]string{"RELAYBUS_MUTANT=" + name}, append(words, "-tags", "relaybus_mutants")...)
	}
	words = append(append(words, "./cmd/relaysim"), append(what, "-faults", s.options.Faults.String())...)
	for _, f := range []struct {
		name, value string
		given       bool
	}{
		{"-store", s.store, s.store != ""},
		{"-workers", fmt.Sprint(s.workers), s.workers != 0},
		{"-lanes", fmt.Sprint(s.lanes), s.lanes != 0},
		{"-events", fmt.Sprint(s.events), s.events != 0},
		{"-keys", fmt.Sprint(s.keys), s.options.Keys != 0},
		{"-steps", fmt.Sprint(s.steps), s.steps != 0},
		{"-workload", s.workload, s.workload != ""},
		{"-histories", "", s.options.Histories},
	} {
		if f.given {
			words = append(words, f.name)
			if f.value != "" {
				words = append(words, f.value)
			}
		}
	}
	return strings.Join(words, " ")
}

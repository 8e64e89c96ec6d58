package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/sim"
)

// settings are the parsed flags.
type settings struct {
	args           []string
	stdout, stderr io.Writer

	seed     uint64
	seeds    int
	duration time.Duration
	many     bool // -seeds or -for was given
	faults   string
	store    string
	workers  int
	lanes    int
	events   int
	keys     int
	steps    int
	workload string
	replay   paths
	trace    string
	shrink   bool
	html     string
	json     bool
	verbose  bool

	explore    bool
	deviations int
	runs       int

	judgedFrom int // seeds from which a batch fails for what it did not reach

	options sim.Options
}

// paths is a flag that may be repeated.
type paths []string

func (p *paths) String() string     { return strings.Join(*p, ",") }
func (p *paths) Set(v string) error { *p = append(*p, v); return nil }

const usage = `relaysim runs the relaybus engine against a simulated store and checks every promise.

usage: relaysim [flags]            run seeds, replay schedules, or explore
       relaysim mutants [flags]    run the planted bugs; every one must be caught

`

func newFlags(s *settings) *flag.FlagSet {
	f := flag.NewFlagSet("relaysim", flag.ContinueOnError)
	f.Uint64Var(&s.seed, "seed", 1, "the seed, or the first of many")
	f.IntVar(&s.seeds, "seeds", 0, "how many `seeds` to run, across all cores")
	f.DurationVar(&s.duration, "for", 0, "how long to run seeds, in place of -seeds")
	f.StringVar(&s.faults, "faults", "all", "the fault `kinds`: all, none, or a list like crash,expire")
	f.StringVar(&s.store, "store", "", "pg (row locks) or mongo (snapshots); drawn per seed by default")
	f.IntVar(&s.workers, "workers", 0, "how many workers; drawn by default")
	f.IntVar(&s.lanes, "lanes", 0, "how many lanes; drawn by default")
	f.IntVar(&s.events, "events", 0, "how many events are published; drawn by default")
	f.IntVar(&s.keys, "keys", 0, "how many keys events have; drawn by default")
	f.IntVar(&s.steps, "steps", 0, "how many steps faults may strike for; drawn by default")
	f.StringVar(&s.workload, "workload", "", "publish the events of this `file`: one JSON object a line with at, id, type, key, payload")
	f.Var(&s.replay, "replay", "replay this schedule, or every schedule of this `folder`; repeatable")
	f.StringVar(&s.trace, "trace", "", "write what the store did as NDJSON to this `file`, or with many seeds to files in this folder")
	f.BoolVar(&s.options.Histories, "histories", false, "judge the history of calls of every seed, not only of every 20th")
	f.StringVar(&s.html, "html", "", "draw an illegal history to this `file`: that of the seed, or of the first of many that fails")
	f.BoolVar(&s.shrink, "shrink", false, "reduce a failure and print its schedule")
	f.BoolVar(&s.explore, "explore", false, "in place of seeds, try every choice of one small world")
	f.IntVar(&s.deviations, "deviations", usualDeviations, "with -explore, in how many choices a run may differ from the calm one")
	f.IntVar(&s.runs, "runs", usualRuns, "with -explore, how many `runs` to make at most on each store; 0: as many as it takes")
	f.BoolVar(&s.json, "json", false, "print one JSON object per seed")
	f.BoolVar(&s.verbose, "v", false, "print one line per event, and a legend")
	return f
}

// parse reads the flags; ok is false when there is nothing to run.
func parse(args []string, stderr io.Writer) (s *settings, code int, ok bool) {
	s = &settings{judgedFrom: judgedFrom}
	f := newFlags(s)
	f.SetOutput(io.Discard)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usage)
			f.SetOutput(stderr)
			f.PrintDefaults()
			fmt.Fprint(stderr, exitCodes)
			fmt.Fprintf(stderr, "\n-v prints %s\n\nfault kinds:\n", sim.Legend)
			for _, k := range faults.All() {
				fmt.Fprintf(stderr, "  %-14s %s\n", k.Name, k.Says)
			}
			return s, exitClean, false
		}
		return s, fail(stderr, "%v; -h lists the flags", err), false
	}
	if f.NArg() > 0 {
		return s, fail(stderr, "unexpected argument %q; -h lists the flags", f.Arg(0)), false
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	if err := s.check(given); err != nil {
		return s, fail(stderr, "%v", err), false
	}
	return s, exitClean, true
}

// check refuses what cannot be run, and prepares the options.
func (s *settings) check(given map[string]bool) error {
	set, err := faults.Parse(s.faults)
	if err != nil {
		return fmt.Errorf("-faults: %w", err)
	}
	if s.store != "" && s.store != "pg" && s.store != "mongo" {
		return fmt.Errorf("-store is %q: want pg or mongo", s.store)
	}
	for _, n := range []struct {
		name      string
		value     int
		low, high int
	}{
		{"seeds", s.seeds, 1, 1 << 30},
		{"workers", s.workers, 1, sim.MaxWorkers},
		{"lanes", s.lanes, 1, sim.MaxLanes},
		{"events", s.events, 1, sim.MaxEvents},
		{"keys", s.keys, 0, sim.MaxKeys},
		{"steps", s.steps, 1, sim.MaxSteps},
	} {
		if given[n.name] && (n.value < n.low || n.value > n.high) {
			return fmt.Errorf("-%s is %d: want a number from %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	if given["for"] && (s.duration <= 0 || s.duration > 30*24*time.Hour) {
		return fmt.Errorf("-for is %v: want a duration up to 720h", s.duration)
	}
	if given["seeds"] && given["for"] {
		return errors.New("-seeds and -for exclude each other")
	}
	s.many = given["seeds"] || given["for"]
	if s.verbose && s.many {
		return errors.New("-v prints a line per event: give one -seed, not -seeds or -for")
	}
	if err := s.checkExplore(given); err != nil {
		return err
	}
	s.options = sim.Options{
		Seed: s.seed, Faults: set, Store: s.store,
		Workers: s.workers, Lanes: s.lanes, Events: s.events, Keys: s.keys, Steps: s.steps,
		Histories: s.options.Histories || s.html != "" && !s.many,
	}
	if given["keys"] && s.keys == 0 {
		s.options.Keys = -1
	}
	if err := s.checkHTML(); err != nil {
		return err
	}
	return s.readWorkload()
}

func (s *settings) readWorkload() error {
	if s.workload == "" {
		return nil
	}
	file, err := os.Open(s.workload)
	if err != nil {
		return fmt.Errorf("-workload: %w", err)
	}
	defer file.Close()
	if s.options.Workload, err = sim.ReadWorkload(file); err != nil {
		return fmt.Errorf("-workload %s: %w", s.workload, err)
	}
	return nil
}

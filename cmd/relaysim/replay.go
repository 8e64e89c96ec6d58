package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/sim"
)

// scheduleSuffix is how the files of a folder of schedules end.
const scheduleSuffix = ".schedule"

// named is a schedule with the file it came from.
type named struct {
	path string
	sim.Schedule
}

// runReplay replays schedules: each must end clean, and fail with its checker
// when the mutant that its header names is planted.
func (s *settings) runReplay() int {
	schedules, err := readSchedules(s.replay)
	if err != nil {
		return fail(s.stderr, "-replay: %v", err)
	}
	if !mutant.Enabled {
		for i := range schedules {
			if schedules[i].Mutant != "" {
				return rebuilt(s.args, s.stdout, s.stderr)
			}
		}
	}
	code := exitClean
	for i := range schedules {
		if c := s.replayOne(&schedules[i]); code == exitClean {
			code = c
		}
	}
	return code
}

// replayOne replays one schedule, without and then with its mutant.
func (s *settings) replayOne(n *named) int {
	mutant.Select("")
	rep := s.play(n)
	s.printReplay(n, &rep, "")
	if rep.Violation != nil {
		fmt.Fprintf(s.stdout, "  %s\n%s\n", rep.Violation, "go run ./cmd/relaysim -v -replay "+n.path)
		return exitOf(rep.Verdict)
	}
	if n.Mutant == "" {
		return exitClean
	}
	mutant.Select(mutant.Name(n.Mutant))
	defer mutant.Select("")
	rep = s.play(n)
	s.printReplay(n, &rep, n.Mutant)
	if rep.Violation == nil || n.Checker != "" && rep.Violation.Checker != n.Checker {
		fmt.Fprintf(s.stdout, "  the mutant %s must fail with %s\n", n.Mutant, n.Checker)
		return exitUnsafe
	}
	return exitClean
}

func (s *settings) play(n *named) sim.Report {
	o := s.options
	o.Seed = n.Seed
	o.Schedule = &n.Schedule
	if s.verbose {
		o.Watch(&sim.Log{Out: s.stdout}, nil)
	}
	return sim.One(o)
}

func (s *settings) printReplay(n *named, rep *sim.Report, planted string) {
	if s.json {
		printJSON(s.stdout, rep)
		return
	}
	with := "as it is"
	if planted != "" {
		with = "mutant " + planted
	}
	fired := ""
	if rep.Violation != nil {
		fired = " (" + rep.Violation.Checker + ")"
	}
	fmt.Fprintf(s.stdout, "replay %s, %s: %d choices, %d skipped, hash %016x, verdict %s%s\n",
		n.path, with, len(n.Choices), rep.Skipped+n.Unknown, rep.Hash, rep.Verdict, fired)
}

// readSchedules reads files, and every schedule of folders, sorted by name.
func readSchedules(from []string) ([]named, error) {
	var schedules []named
	for _, path := range from {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files := []string{path}
		if info.IsDir() {
			if files, err = schedulesIn(path); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			schedule, err := readSchedule(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			schedules = append(schedules, named{file, *schedule})
		}
	}
	return schedules, nil
}

func schedulesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), scheduleSuffix) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	if files == nil {
		return nil, errors.New(folder + " holds no file that ends in " + scheduleSuffix)
	}
	return files, nil
}

func readSchedule(path string) (*sim.Schedule, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return sim.ParseSchedule(file)
}

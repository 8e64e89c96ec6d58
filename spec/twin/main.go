// Command twin runs the Go twins of the modules of spec/tla and compares what
// they find with what suite.txt says of TLC.
//
//	go run ./spec/twin                      all small configs
//	go run ./spec/twin -full                the large ones too (minutes, gigabytes)
//	go run ./spec/twin AsyncCommit          the small configs of a module
//	go run ./spec/twin -v AsyncCommit/BrokenAsyncCommitHolder
//	                                        one config, with its counterexample
//
// MODULE/CONFIG need not be in suite.txt: then there is nothing to compare.
//
// Exit codes: 0 all as TLC, 1 something is not, 2 it could not be run.
package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/relaybus-go/relaybus/spec/internal/command"
	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/mirror"
)

func main() {
	// Steps leave much behind that nobody needs again, and what is kept is small.
	debug.SetGCPercent(400)
	command.Main(run)
}

type settings struct {
	*command.Flags
	dir     string
	full    bool
	verbose bool
	limit   int
	out     io.Writer
}

func run(_ context.Context, args []string, stdout, stderr io.Writer) int {
	f := command.New("twin", "[flags] [MODULE or MODULE/CONFIG ...]", stderr)
	s := &settings{Flags: f, out: stdout}
	f.StringVar(&s.dir, "dir", "spec/tla", "the `folder` of the modules, configs and suite.txt")
	f.BoolVar(&s.full, "full", false, "run the large configs too")
	f.BoolVar(&s.verbose, "v", false, "print counterexamples")
	f.IntVar(&s.limit, "limit", 16_000_000, "stop a config at this many `states`; each takes up to 300 bytes")
	if code, ok := f.Read(args); !ok {
		return code
	}
	entries, err := s.choose(f.Args())
	if err != nil {
		return s.Unable(err)
	}
	code := command.Expected
	for i := range entries {
		same, err := s.compare(&entries[i])
		if err != nil {
			return s.Unable(err)
		}
		if !same {
			code = command.Unexpected
		}
	}
	return code
}

// choose returns the lines of the suite that the arguments name, all when
// there are none.
func (s *settings) choose(args []string) ([]suite.Entry, error) {
	entries, err := mirror.ReadSuite(s.dir)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = mirror.Modules()
	}
	var chosen []suite.Entry
	for _, arg := range args {
		module, config, one := strings.Cut(arg, "/")
		before := len(chosen)
		for _, e := range entries {
			if one && e.Name() == arg || !one && e.Module == module && (s.full || !e.Large) {
				chosen = append(chosen, e)
			}
		}
		if _, err := mirror.Of(module); err != nil {
			return nil, err
		}
		if one && len(chosen) == before {
			chosen = append(chosen, suite.Entry{Module: module, Config: config, Distinct: -1, Depth: -1})
		}
	}
	return chosen, nil
}

// tell prints a counterexample: each action, and what it changed.
func (s *settings) tell(trace []mirror.Step) {
	for i := range trace {
		before := &trace[max(i-1, 0)]
		if i == 0 {
			before = nil
		}
		fmt.Fprintf(s.out, "%3d %s\n", i+1, trace[i].Action)
		for _, line := range trace[i].Changed(before) {
			fmt.Fprintf(s.out, "      %s\n", line)
		}
	}
}

func (s *settings) compare(e *suite.Entry) (same bool, err error) {
	r, err := mirror.Run(s.dir, e, s.limit)
	if err != nil {
		return false, err
	}
	differs := ""
	if e.Expect != "" {
		differs = r.Differs(e)
	}
	fmt.Fprintf(s.out, "%-50s %-22s %10d distinct, depth %d, %v, %d states/s\n",
		e.Name(), r.Verdict(), r.Distinct, r.Depth, r.Elapsed.Round(1e6), r.PerSecond())
	if differs != "" {
		fmt.Fprintf(s.out, "%s: %s\n", e.Name(), differs)
	}
	if s.verbose {
		s.tell(r.Trace)
	}
	return differs == "", nil
}

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
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/relaybus-go/relaybus/spec/mirror"
)

// The exit codes.
const (
	exitSame   = 0
	exitDiffer = 1
	exitUnable = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type settings struct {
	dir     string
	full    bool
	verbose bool
	limit   int
	out     io.Writer
}

func run(args []string, out, errs io.Writer) int {
	s := settings{out: out}
	flags := flag.NewFlagSet("twin", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&s.dir, "dir", "spec/tla", "folder of the modules, configs and suite.txt")
	flags.BoolVar(&s.full, "full", false, "run the large configs too")
	flags.BoolVar(&s.verbose, "v", false, "print counterexamples")
	flags.IntVar(&s.limit, "limit", 16_000_000, "stop a config at this many states; each takes up to 300 bytes")
	if flags.Parse(args) != nil {
		return exitUnable
	}
	entries, err := s.choose(flags.Args())
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitUnable
	}
	status := exitSame
	for i := range entries {
		same, err := s.compare(&entries[i])
		if err != nil {
			fmt.Fprintln(errs, err)
			return exitUnable
		}
		if !same {
			status = exitDiffer
		}
	}
	return status
}

// choose returns the lines of the suite that the arguments name, all when
// there are none.
func (s *settings) choose(args []string) ([]mirror.Entry, error) {
	suite, err := mirror.ReadSuite(s.dir)
	if err != nil {
		return nil, fmt.Errorf("%w (run from the root of the repository, or set -dir)", err)
	}
	if len(args) == 0 {
		args = mirror.Modules()
	}
	var chosen []mirror.Entry
	for _, arg := range args {
		module, config, one := strings.Cut(arg, "/")
		before := len(chosen)
		for _, e := range suite {
			if one && e.Name() == arg || !one && e.Module == module && (s.full || !e.Large) {
				chosen = append(chosen, e)
			}
		}
		if _, err := mirror.Of(module); err != nil {
			return nil, err
		}
		if one && len(chosen) == before {
			chosen = append(chosen, mirror.Entry{Module: module, Config: config, Distinct: -1, Depth: -1})
		}
	}
	return chosen, nil
}

func (s *settings) compare(e *mirror.Entry) (same bool, err error) {
	r, err := e.Run(s.dir, s.limit)
	if err != nil {
		return false, err
	}
	differs := ""
	if e.Expect != "" {
		differs = e.Differs(r)
	}
	verdict := r.Violated
	if verdict == "" {
		verdict = mirror.Pass
	}
	fmt.Fprintf(s.out, "%-50s %-22s %10d distinct, depth %d, %v, %d states/s\n",
		e.Name(), verdict, r.Distinct, r.Depth, r.Elapsed.Round(1e6), r.PerSecond())
	if differs != "" {
		fmt.Fprintf(s.out, "%s: %s\n", e.Name(), differs)
	}
	if s.verbose {
		for i, line := range r.Trace {
			fmt.Fprintf(s.out, "%3d %s\n", i+1, line)
		}
	}
	return differs == "", nil
}

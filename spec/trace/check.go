package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// verdict is what the specification says of a trace.
type verdict struct {
	accepted bool
	// The event that was refused, by its line in the file; 0 when TLC could
	// not evaluate one.
	line   int
	action string
	guard  string // the first that failed, or "verdict" when all held
	had    string // what the store had of the lanes and rows that it is about
}

// checker runs batches of traces through TLC.
type checker struct {
	tool     *tlc.Tool
	dir      string // of the modules
	modules  []string
	batch    int // traces in one run of TLC
	parallel int
	heap     string
	progress func(done, of int)
}

const (
	rootModule = "Trace"
	config     = "TraceBatches.cfg"
)

func newChecker(dir string) (*checker, error) {
	modules, err := tlc.Closure(dir, rootModule)
	if err != nil {
		return nil, fmt.Errorf("no %s.tla in %s: run from the root of the repository, or set -dir", rootModule, dir)
	}
	tool, err := tlc.Find()
	if err != nil {
		return nil, err
	}
	return &checker{tool: tool, dir: dir, modules: modules, batch: 200, parallel: 1}, nil
}

// check returns a verdict per trace. It is an error if TLC cannot be run.
func (c *checker) check(ctx context.Context, traces []*trace) (map[*trace]verdict, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	verdicts := map[*trace]verdict{}
	var mu sync.Mutex
	var group sync.WaitGroup
	room := make(chan struct{}, c.parallel)
	for _, batch := range batches(traces, c.batch) {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			found, err := c.checkBatch(ctx, batch)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				cancel(err)
				return
			}
			for i, v := range found {
				verdicts[batch[i]] = v
			}
			if c.progress != nil {
				c.progress(len(verdicts), len(traces))
			}
		})
	}
	group.Wait()
	return verdicts, context.Cause(ctx)
}

// checkBatch runs TLC over a batch. A trace in which TLC cannot evaluate an
// event ends the run for all: it is refused, and the others are run again.
func (c *checker) checkBatch(ctx context.Context, batch []*trace) ([]verdict, error) {
	module, names, err := generate(batch)
	if err != nil {
		return nil, err
	}
	out, err := c.tool.Check(ctx, tlc.Run{
		Files:  append([]string{filepath.Join(c.dir, config)}, c.modules...),
		Module: rootModule + ".tla", Config: config, Heap: c.heap, Brief: true,
		Extra: map[string][]byte{batchModule + ".tla": []byte(module)},
	})
	if err != nil {
		return nil, err
	}
	if out.Verdict == tlc.Pass {
		verdicts, err := readVerdicts(out.Printed, len(batch))
		for i := range verdicts {
			verdicts[i].had = names.Replace(verdicts[i].had)
		}
		return verdicts, err
	}
	bad := culprit(out)
	if bad < 0 || bad >= len(batch) {
		return nil, fmt.Errorf("TLC gave up on a batch of %d traces: %s", len(batch), out.Message)
	}
	rest := append(append([]*trace(nil), batch[:bad]...), batch[bad+1:]...)
	var verdicts []verdict
	if len(rest) > 0 {
		if verdicts, err = c.checkBatch(ctx, rest); err != nil {
			return nil, err
		}
	}
	undecided := verdict{guard: "evaluation", had: out.Message}
	return append(verdicts[:bad:bad], append([]verdict{undecided}, verdicts[bad:]...)...), nil
}

// culprit is the index of the trace in whose behaviour TLC met an error, −1 if
// it does not say.
func culprit(o *tlc.Outcome) int {
	if len(o.Trace) == 0 {
		return -1
	}
	for _, v := range o.Trace[len(o.Trace)-1].Variables {
		if n, err := strconv.Atoi(v.Value); v.Name == "trace" && err == nil {
			return n - 1
		}
	}
	return -1
}

var printed = regexp.MustCompile(`<< ?"(accepted|refused)", (\d+)(?:, (\d+), "(\w+)", "([^"]*)", (.*))? ?>>$`)

// readVerdicts reads what the model printed; long values go over several lines.
func readVerdicts(lines []string, traces int) ([]verdict, error) {
	verdicts := make([]verdict, traces)
	told := make([]bool, traces)
	for _, text := range statements(lines) {
		m := printed.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("TLC printed %.200q, which is no verdict", text)
		}
		n, _ := strconv.Atoi(m[2])
		if n < 1 || n > traces {
			return nil, fmt.Errorf("TLC printed a verdict on trace %d of %d", n, traces)
		}
		line, _ := strconv.Atoi(m[3])
		verdicts[n-1] = verdict{m[1] == "accepted", line, m[4], m[5], strings.TrimSpace(m[6])}
		told[n-1] = true
	}
	for i := range told {
		if !told[i] {
			return nil, fmt.Errorf("TLC said nothing of trace %d of %d", i+1, traces)
		}
	}
	return verdicts, nil
}

// statements joins the lines of each printed tuple with single spaces.
func statements(lines []string) []string {
	var all []string
	for _, line := range lines {
		if strings.HasPrefix(line, "<<") || len(all) == 0 {
			all = append(all, line)
			continue
		}
		all[len(all)-1] += " " + strings.TrimSpace(line)
	}
	return all
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// result is an entry with what TLC made of it.
type result struct {
	entry
	outcome *tlc.Outcome
	verdict string // the outcome's, with the property's name where TLC gives none
	wrong   string // "" when everything is as expected
	files   sums   // what was checked
}

// errTimeout is the cause of a run that took longer than -timeout.
var errTimeout = errors.New("timeout")

// check runs one config. An error means that TLC could not be run.
func (s *settings) check(ctx context.Context, tool *tlc.Tool, e entry) (result, error) {
	files, err := tlc.Closure(s.dir, e.module)
	if err != nil {
		return result{}, err
	}
	before, err := sumsOf(s.dir, &e)
	if err != nil {
		return result{}, err
	}
	config := filepath.Join(s.dir, e.config+".cfg")
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimeout)
	defer cancel()
	run := tlc.Run{Files: append(files, config), Module: e.module + ".tla", Config: e.config + ".cfg", Heap: cmp.Or(s.heap, "2g"), Brief: !e.large}
	if e.large {
		run.Workers, run.Heap = s.workers, cmp.Or(s.heap, "4g")
		run.Progress = func(line string) { s.say("%s: %s", e.config, line) }
	}
	outcome, err := tool.Check(ctx, run)
	switch {
	case errors.Is(err, errTimeout):
		return result{entry: e, outcome: &tlc.Outcome{Wall: s.timeout}, verdict: "timeout", wrong: fmt.Sprintf("not done after %v (-timeout)", s.timeout)}, nil
	case err != nil:
		return result{}, fmt.Errorf("%s: %w", e.name(), err)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		return result{}, err
	}
	r := judge(e, outcome, tlc.Checks(string(text)), run.Workers)
	r.files = before
	if after, err := sumsOf(s.dir, &e); err != nil || after != before {
		r.wrong = "its files changed while TLC ran: run it again"
	}
	return r, nil
}

// judge compares an outcome with what the suite expects. TLC does not name a
// violated temporal property: it is the expected one where the config checks
// no other. The depth that several workers find is not the breadth-first one,
// so it is compared only where one worker ran.
func judge(e entry, o *tlc.Outcome, checks []string, workers int) result {
	r := result{entry: e, outcome: o, verdict: o.Verdict}
	if o.Verdict == tlc.Temporal && len(checks) == 1 {
		r.verdict = checks[0]
	}
	var wrong []string
	if r.verdict != e.expect {
		wrong = append(wrong, fmt.Sprintf("expected %s, got %s", e.expect, r.verdict))
	} else {
		if e.distinct >= 0 && o.Distinct != e.distinct {
			wrong = append(wrong, fmt.Sprintf("expected %d distinct states, got %d", e.distinct, o.Distinct))
		}
		if e.depth >= 0 && int64(o.Depth) != e.depth && workers <= 1 {
			wrong = append(wrong, fmt.Sprintf("expected depth %d, got %d", e.depth, o.Depth))
		}
	}
	r.wrong = strings.Join(wrong, "; ")
	return r
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

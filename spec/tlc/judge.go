package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// result is an entry with what TLC made of it.
type result struct {
	suite.Entry
	outcome *tlc.Outcome
	verdict string     // the outcome's, with the property's name where TLC gives none
	wrong   string     // "" when everything is as expected
	sums    suite.Sums // of what was checked
}

// errTimeout is the cause of a run that took longer than -timeout.
var errTimeout = errors.New("timeout")

// checkOne runs one config. An error means that TLC could not be run.
func (s *settings) checkOne(ctx context.Context, tool *tlc.Tool, e suite.Entry) (result, error) {
	files, err := e.Files(s.dir)
	if err != nil {
		return result{}, err
	}
	before, err := e.Sums(s.dir)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errTimeout)
	defer cancel()
	run := tlc.Run{Files: files, Module: e.Module + ".tla", Config: e.Config + ".cfg", Heap: cmp.Or(s.heap, "2g"), Brief: !e.Large}
	if e.Large {
		run.Workers, run.Heap = s.workers, cmp.Or(s.heap, "4g")
		run.Progress = func(line string) { s.say("%s: %s", e.Config, line) }
	}
	outcome, err := tool.Check(ctx, run)
	switch {
	case errors.Is(err, errTimeout):
		return result{Entry: e, outcome: &tlc.Outcome{Wall: s.timeout}, verdict: "timeout", wrong: fmt.Sprintf("not done after %v (-timeout)", s.timeout)}, nil
	case err != nil:
		return result{}, fmt.Errorf("%s: %w", e.Name(), err)
	}
	config, err := e.ReadConfig(s.dir)
	if err != nil {
		return result{}, err
	}
	r := judge(e, outcome, config.Checks(), run.Workers)
	r.sums = before
	if after, err := e.Sums(s.dir); err != nil || after != before {
		r.wrong = "its files changed while TLC ran: run it again"
	}
	return r, nil
}

// judge compares an outcome with what the suite expects. TLC does not name a
// violated temporal property: it is the expected one where the config checks
// no other. The depth that several workers find is not the breadth-first one,
// so it is compared only where one worker ran.
func judge(e suite.Entry, o *tlc.Outcome, checks []string, workers int) result {
	r := result{Entry: e, outcome: o, verdict: o.Verdict}
	if o.Verdict == tlc.Temporal && len(checks) == 1 {
		r.verdict = checks[0]
	}
	var wrong []string
	if r.verdict != e.Expect {
		wrong = append(wrong, fmt.Sprintf("expected %s, got %s", e.Expect, r.verdict))
	} else {
		if e.Distinct >= 0 && o.Distinct != e.Distinct {
			wrong = append(wrong, fmt.Sprintf("expected %d distinct states, got %d", e.Distinct, o.Distinct))
		}
		if e.Depth >= 0 && o.Depth != e.Depth && workers <= 1 {
			wrong = append(wrong, fmt.Sprintf("expected depth %d, got %d", e.Depth, o.Depth))
		}
	}
	r.wrong = strings.Join(wrong, "; ")
	return r
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

package main

import (
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// A broken config that passes is as bad as a good one that fails: the guard is
// not needed, or the model cannot see why.
func TestJudge(t *testing.T) {
	good := suite.Entry{Expect: tlc.Pass, Distinct: 5, Depth: 4}
	broken := suite.Entry{Expect: "Small", Distinct: -1, Depth: 3}
	for _, c := range []struct {
		story   string
		entry   suite.Entry
		outcome tlc.Outcome
		checks  []string
		workers int
		want    string // a part of what is wrong, "" for nothing
	}{
		{"passes", good, tlc.Outcome{Verdict: tlc.Pass, Distinct: 5, Depth: 4}, nil, 0, ""},
		{"other count", good, tlc.Outcome{Verdict: tlc.Pass, Distinct: 6, Depth: 4}, nil, 0, "expected 5 distinct states, got 6"},
		{"other depth", good, tlc.Outcome{Verdict: tlc.Pass, Distinct: 5, Depth: 5}, nil, 1, "expected depth 4, got 5"},
		{"other depth of several workers", good, tlc.Outcome{Verdict: tlc.Pass, Distinct: 5, Depth: 5}, nil, 2, ""},
		{"is refuted", good, tlc.Outcome{Verdict: "Small"}, nil, 0, "expected pass, got Small"},
		{"cannot be read", good, tlc.Outcome{Verdict: tlc.Failed}, nil, 0, "got error"},
		{"refutes", broken, tlc.Outcome{Verdict: "Small", Depth: 3}, nil, 0, ""},
		{"broken but passes", broken, tlc.Outcome{Verdict: tlc.Pass, Depth: 3}, nil, 0, "expected Small, got pass"},
		{"refutes something else", broken, tlc.Outcome{Verdict: "KeyOrder", Depth: 3}, nil, 0, "expected Small, got KeyOrder"},
		{"a longer way", broken, tlc.Outcome{Verdict: "Small", Depth: 4}, nil, 0, "expected depth 3, got 4"},
		{"the only property", broken, tlc.Outcome{Verdict: tlc.Temporal, Depth: 3}, []string{"Small"}, 0, ""},
		{"one of two properties", broken, tlc.Outcome{Verdict: tlc.Temporal, Depth: 3}, []string{"Small", "Else"}, 0, "got temporal"},
	} {
		r := judge(c.entry, &c.outcome, c.checks, c.workers)
		if (c.want == "") != (r.wrong == "") || !strings.Contains(r.wrong, c.want) {
			t.Errorf("%s: %q, want %q", c.story, r.wrong, c.want)
		}
	}
}

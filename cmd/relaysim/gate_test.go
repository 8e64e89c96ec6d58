package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/probe"
)

// judged runs a batch that is judged from its first seed on.
func judged(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	s, code, ok := parse(args, &errs)
	if !ok {
		t.Fatalf("exit %d, %s", code, errs.String())
	}
	s.args, s.stdout, s.stderr, s.judgedFrom = args, &out, &errs, 1
	code = s.runSeeds()
	return code, out.String(), errs.String()
}

// unreachable is a situation that never happens.
var unreachable = probe.New("relaysim: a test declared this, and nothing hits it")

// A clean batch that misses a probe fails with a code of its own, and says
// which.
func TestBatchThatMissesAProbe(t *testing.T) {
	code, out, _ := judged(t, "-seeds", "40", "-seed", "3")
	if code != exitUnreached || !strings.Contains(out, "40 seeds clean: ") || !strings.Contains(out, "\n  relaysim: a test declared this, and nothing hits it\n") {
		t.Errorf("exit %d, %s", code, out)
	}
	if lines := strings.Split(strings.TrimSpace(out), "\n"); lines[len(lines)-1] != "go run ./cmd/relaysim -seed 3 -faults all -seeds 40" {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	code, out, errs := judged(t, "-seeds", "40", "-json")
	if code != exitUnreached || strings.Count(out, "\n") != 40 || !strings.Contains(errs, "nothing hits it") {
		t.Errorf("-json: exit %d, stderr %s", code, errs)
	}
}

// What a batch cannot be expected to reach it only reports.
func TestNarrowBatchIsNotJudged(t *testing.T) {
	for _, limit := range [][]string{
		{"-faults", "crash,expire"}, {"-store", "pg"}, {"-workers", "2"}, {"-lanes", "2"}, {"-events", "9"}, {"-keys", "0"}, {"-steps", "900"},
	} {
		code, out, _ := judged(t, append(limit, "-seeds", "10")...)
		if code != exitClean || !strings.Contains(out, "nothing hits it") {
			t.Errorf("%v: exit %d, %s", limit, code, out)
		}
	}
	if code, out, _ := call("-seeds", "10"); code != exitClean || strings.Contains(out, "nothing hits it") {
		t.Errorf("10 seeds: exit %d, %s", code, out)
	}
}

// A kind of fault that strikes and changes nothing fails a batch, and so does
// one that never strikes.
func TestBatchWithAFaultWithoutEffect(t *testing.T) {
	unreachable.Hit()
	defer probe.Reset()
	kind := faults.All()[faults.Index("skew")]
	strike, rate := kind.Strike, kind.Rate
	defer func() { kind.Strike, kind.Rate = strike, rate }()

	kind.Strike = func(faults.World, int, int) bool { return false }
	code, out, _ := judged(t, "-seeds", "300")
	if code != exitUnreached || !strings.Contains(out, "faults that never changed an outcome: skew\n") {
		t.Errorf("exit %d, %s", code, out)
	}
	kind.Rate = 0
	code, out, _ = judged(t, "-seeds", "300")
	if code != exitUnreached || !strings.Contains(out, "faults that never fired: skew\n") {
		t.Errorf("exit %d, %s", code, out)
	}
}

// A batch that reaches everything passes.
func TestShortfall(t *testing.T) {
	kinds := faults.All()[:3]
	all := faults.Set(0).With(0).With(1).With(2)
	probes := []probe.Count{{Name: "a", Hits: 1}, {Name: "b", Rare: true}}
	var total summary
	for i := range kinds {
		total.fired[i], total.worked[i] = 2, 1
	}
	if s := total.shortfall(kinds, all, probes); !s.none() {
		t.Errorf("%+v", s)
	}
	probes[0].Hits, total.worked[1], total.fired[2] = 0, 0, 0
	s := total.shortfall(kinds, all, probes)
	if !slices.Equal(s.missed, []string{"a"}) || !slices.Equal(s.idle, []string{kinds[1].Name}) || !slices.Equal(s.silent, []string{kinds[2].Name}) {
		t.Errorf("%+v", s)
	}
	if s := total.shortfall(kinds, all.Without(1).Without(2), probes); s.idle != nil || s.silent != nil {
		t.Errorf("kinds that were not asked for: %+v", s)
	}
}

func TestHelpNamesTheExitCodes(t *testing.T) {
	if _, _, errs := call("-h"); !strings.Contains(errs, "6 two runs of one seed differed, 7 a clean batch") {
		t.Error(errs)
	}
}

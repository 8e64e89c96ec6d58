package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

const tiny = "testdata/tiny"

// folder copies testdata/tiny, with changes: a file's new text, "" to delete.
func folder(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	for name, text := range changes {
		file := filepath.Join(dir, name)
		if text == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// suiteWith is the suite of testdata/tiny with another line for one config.
func suiteWith(t *testing.T, config, line string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tiny, "suite.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for old := range strings.Lines(string(text)) {
		if f := strings.Fields(old); f[1] == config {
			old = line
		}
		lines = append(lines, strings.TrimSpace(old))
	}
	return map[string]string{"suite.txt": strings.Join(lines, "\n") + "\n"}
}

func TestSuite(t *testing.T) {
	suite, err := readSuite(tiny)
	if err != nil {
		t.Fatal(err)
	}
	if len(suite) != 4 {
		t.Fatalf("%d entries", len(suite))
	}
	want := entry{module: "Tiny", config: "TinyLivePass", large: true, expect: tlc.Pass, distinct: 5, depth: 5, minutes: 1, shows: "it gets there"}
	if suite[1] != want {
		t.Errorf("%+v, want %+v", suite[1], want)
	}
	if suite[2].distinct != -1 || suite[2].expect != "Small" {
		t.Errorf("%+v", suite[2])
	}
}

// The suite and the folder must say the same, or something is never checked.
func TestRefusedSuites(t *testing.T) {
	for _, c := range []struct {
		story   string
		changes map[string]string
		want    string
	}{
		{"a line whose config is missing", map[string]string{"TinyPass.cfg": ""}, "no config TinyPass.cfg"},
		{"a line whose module is missing", suiteWith(t, "TinyPass", "Gone TinyPass small pass 5 5 1 x"), "no module Gone.tla"},
		{"a config that no line lists", map[string]string{"TinyMore.cfg": "SPECIFICATION Spec\n"}, "TinyMore.cfg is in no line"},
		{"a module that no config reaches", map[string]string{"Other.tla": "---- MODULE Other ----\n====\n"}, "Other.tla is in no line"},
		{"a config listed twice", suiteWith(t, "BrokenTiny", "Tiny TinyPass small pass 5 5 1 x"), "listed twice"},
		{"too few columns", suiteWith(t, "TinyPass", "Tiny TinyPass small pass 5 5 1"), "7 columns"},
		{"an unknown size", suiteWith(t, "TinyPass", "Tiny TinyPass huge pass 5 5 1 x"), `size is "huge"`},
		{"no number", suiteWith(t, "TinyPass", "Tiny TinyPass small pass many 5 1 x"), `distinct is "many"`},
		{"an expectation that the config does not check", suiteWith(t, "BrokenTiny", "Tiny BrokenTiny small NoSuch - 5 1 x"), "BrokenTiny.cfg does not check"},
		{"a Broken config expected to pass", suiteWith(t, "BrokenTiny", "Tiny BrokenTiny small pass 5 5 1 x"), "must refute"},
		{"no suite", map[string]string{"suite.txt": ""}, "no suite in the folder"},
	} {
		dir := folder(t, c.changes)
		suite, err := readSuite(dir)
		if err == nil {
			err = unlisted(dir, suite)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.story, err, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	suite, err := readSuite(tiny)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arguments string
		full      bool
		want      string
	}{
		{"", false, "TinyPass BrokenTiny TinyProbesEnd"},
		{"", true, "TinyPass TinyLivePass BrokenTiny TinyProbesEnd"},
		{"TinyLivePass", false, "TinyLivePass"},
		{"Tiny/TinyLivePass", false, "TinyLivePass"},
		{"Broken* *Probes*", false, "BrokenTiny TinyProbesEnd"},
		{"Tiny/*", false, "TinyPass BrokenTiny TinyProbesEnd"},
		{"Tiny", true, "TinyPass TinyLivePass BrokenTiny TinyProbesEnd"},
		{"BrokenTiny TinyPass.cfg", false, "TinyPass BrokenTiny"},
	} {
		entries, err := choose(suite, strings.Fields(c.arguments), c.full)
		var names []string
		for i := range entries {
			names = append(names, entries[i].config)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.arguments, got, err, c.want)
		}
	}
	for _, argument := range []string{"Nobody", "Tiny/Nobody", "*Live?ass"} {
		if entries, err := choose(suite, []string{argument}, false); err == nil {
			t.Errorf("%q chose %v", argument, entries)
		}
	}
}

// A broken config that passes is as bad as a good one that fails: the guard is
// not needed, or the model cannot see why.
func TestJudge(t *testing.T) {
	good := entry{expect: tlc.Pass, distinct: 5, depth: 4}
	broken := entry{expect: "Small", distinct: -1, depth: 3}
	for _, c := range []struct {
		story   string
		entry   entry
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

package suite

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
	entries, err := Read(tiny)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 {
		t.Fatalf("%d entries", len(entries))
	}
	want := Entry{Module: "Tiny", Config: "TinyLivePass", Large: true, Expect: tlc.Pass, Distinct: 5, Depth: 5, Minutes: 1, Shows: "it gets there"}
	if entries[1] != want {
		t.Errorf("%+v, want %+v", entries[1], want)
	}
	if entries[2].Distinct != -1 || entries[2].Expect != "Small" {
		t.Errorf("%+v", entries[2])
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
		entries, err := Read(dir)
		if err == nil {
			err = Unlisted(dir, entries)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.story, err, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	entries, err := Read(tiny)
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
		named, err := Choose(entries, strings.Fields(c.arguments), c.full)
		var names []string
		for i := range named {
			names = append(names, named[i].Config)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.arguments, got, err, c.want)
		}
	}
	for _, argument := range []string{"Nobody", "Tiny/Nobody", "*Live?ass"} {
		if named, err := Choose(entries, []string{argument}, false); err == nil {
			t.Errorf("%q chose %v", argument, named)
		}
	}
}

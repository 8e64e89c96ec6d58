package tlc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// read parses a recorded output of TLC 2.18.
func read(t *testing.T, name string) *Outcome {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	o, err := Read(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name, verdict string
		distinct      int64
		depth         int
		message       string // a part of it
	}{
		{"pass", Pass, 5, 5, ""},
		{"broken", "Small", 5, 5, ""},
		{"init", "NotZero", 0, 1, ""},
		{"action", "Rises", 3, 4, ""},
		{"live", Temporal, 5, 5, ""},
		{"loop", Temporal, 3, 3, ""},
		{"dead", Deadlock, 5, 5, ""},
		{"undefined", Failed, 0, 0, "The invariant Nope"},
		{"eval", Failed, 1, 1, "should be an integer"},
		{"syntax", Failed, 0, 0, "at line 4, column 15"},
	} {
		o := read(t, c.name)
		if o.Verdict != c.verdict || o.Distinct != c.distinct || o.Depth != c.depth {
			t.Errorf("%s: verdict %q, %d distinct, depth %d", c.name, o.Verdict, o.Distinct, o.Depth)
		}
		if (c.message == "") != (o.Message == "") || !strings.Contains(o.Message, c.message) {
			t.Errorf("%s: message %q", c.name, o.Message)
		}
		if o.Version != "2.18" || !o.ended {
			t.Errorf("%s: version %q, ended %v", c.name, o.Version, o.ended)
		}
	}
}

func TestCounterexample(t *testing.T) {
	o := read(t, "broken")
	if len(o.Trace) != 5 || o.Trace[0].Action != "" || o.Trace[4].Action != "Up" {
		t.Fatalf("trace %+v", o.Trace)
	}
	if want := []Variable{{"x", "4"}, {"y", `"a"`}}; !slices.Equal(o.Trace[4].Variables, want) {
		t.Errorf("last state %v, want %v", o.Trace[4].Variables, want)
	}
	if note := read(t, "live").Trace[4].Note; !strings.Contains(note, "stutters") {
		t.Errorf("note %q", note)
	}
	if note := read(t, "loop").Trace[2].Note; note != "goes back to state 1 by Step" {
		t.Errorf("note %q", note)
	}
}

// A value may go over several lines, and so may the states that TLC prints
// inside the message of a violation.
func TestLongValues(t *testing.T) {
	for _, name := range []string{"init", "loop"} {
		first := read(t, name).Trace[0]
		if len(first.Variables) != 2 || !strings.HasSuffix(first.Variables[0].Value, "claim |-> 3]} ]") || first.Variables[1] != (Variable{"x", "0"}) {
			t.Errorf("%s: %q", name, first.Variables)
		}
	}
}

func TestPrinted(t *testing.T) {
	if o := read(t, "action"); !slices.Contains(o.Printed, `<<"accepted", 2>>`) {
		t.Errorf("printed %q", o.Printed)
	}
	if o := read(t, "pass"); len(o.Printed) != 0 {
		t.Errorf("printed %q", o.Printed)
	}
}

// Output that stops in the middle is no verdict.
func TestCutOff(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "pass.txt"))
	if err != nil {
		t.Fatal(err)
	}
	cut := strings.Index(string(text), "Finished in")
	o, err := Read(strings.NewReader(string(text[:cut])), nil)
	if err != nil || o.ended {
		t.Errorf("ended %v, %v", o.ended, err)
	}
}

func TestClosure(t *testing.T) {
	files, err := Closure("testdata/modules", "Root")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	if want := []string{"Deep.tla", "Leaf.tla", "Middle.tla", "Root.tla"}; !slices.Equal(names, want) {
		t.Errorf("closure %v, want %v", names, want)
	}
	if _, err := Closure("testdata/modules", "Nobody"); err == nil {
		t.Error("a missing module has a closure")
	}
}

// The sum is over names and texts, so that neither can change unseen.
func TestSum(t *testing.T) {
	dir := t.TempDir()
	sum := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := Sum([]string{file})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := sum("A.tla", "x")
	if a != sum("A.tla", "x") || a == sum("A.tla", "y") || a == sum("B.tla", "x") {
		t.Error("sums do not tell files apart")
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/sim"
	"github.com/relaybus-go/relaybus/spec/internal/command"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

const modules = "../tla"

func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), append([]string{"-dir", modules}, args...), &out, &err)
	return code, out.String(), err.String()
}

// simulated writes traces of seeds, half of them with each store, and returns
// their folder. Two numbers of lanes make four runs of TLC.
func simulated(t *testing.T, seeds int) string {
	t.Helper()
	dir := t.TempDir()
	for seed := range seeds {
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.ndjson", seed)))
		if err != nil {
			t.Fatal(err)
		}
		o := sim.Options{Seed: uint64(seed), Faults: faults.Every(), Store: []string{"pg", "mongo"}[seed%2], Lanes: 2 + seed/2%2, Steps: 600}
		trace := &sim.Trace{Out: file}
		o.Watch(nil, trace)
		sim.One(o)
		if err := file.Close(); err != nil || trace.Err != nil {
			t.Fatal(err, trace.Err)
		}
	}
	return dir
}

// TestTraces is the whole way: the simulator's traces are accepted, and of a
// second look at them exactly those are refused in which a field was changed.
func TestTraces(t *testing.T) {
	if _, err := tlc.Find(); err != nil {
		t.Fatal(err)
	}
	dir := simulated(t, 24)
	code, out, errs := call("-events", "80", dir)
	if code != command.Expected || !strings.Contains(out, "24 accepted, 0 refused") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = call("-events", "80", "-corrupt", "16", dir)
	if code != command.Expected || !strings.Contains(out, "16 of 16 changed traces refused where they were changed; 8 unchanged ones") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

const head = `{"format":1,"semantics":"locking","lanes":1,"seed":7}` + "\n"

// lines writes a trace of these lines behind a header.
func lines(t *testing.T, lines ...string) string {
	t.Helper()
	return file(t, head+strings.Join(lines, "\n")+"\n")
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.ndjson")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	subscribe  = `{"action":"Subscribe","position":1,"args":{"Group":"g","Handlers":[{"Event":"paid","Handler":"mail"}],"Revive":false,"Lanes":[0],"Now":1000}}`
	chargeLost = `{"action":"ChargeLost","position":%d,"args":{"Lane":0,"Refused":[],"Charged":[]}}`
)

// A refusal names the line, the guard, and both sides.
func TestRefusalIsExplained(t *testing.T) {
	if _, err := tlc.Find(); err != nil {
		t.Fatal(err)
	}
	code, out, _ := call(lines(t, subscribe, fmt.Sprintf(chargeLost, 2)))
	if code != command.Unexpected {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{`t.ndjson:3: ChargeLost is refused by guard "lost"`, `the event: {"Charged":[],"Lane":0,"Refused":[]}`, "lost |-> {}"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Bad input gets one clear sentence and exit 2, and nothing is run.
func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		story string
		args  []string
		want  string
	}{
		{"nothing", nil, "no trace given"},
		{"no such file", []string{"/nonexistent/x"}, "neither a trace nor a folder"},
		{"no traces", []string{t.TempDir()}, "holds no traces"},
		{"a flag", []string{"-batch", "0", "x"}, "-batch"},
		{"an unknown flag", []string{"-nonsense"}, "-h lists"},
		{"no header", []string{file(t, subscribe+"\n")}, "t.ndjson:1: is no header"},
		{"a later format", []string{file(t, `{"format":2}`+"\n")}, "format 2"},
		{"other semantics", []string{file(t, `{"format":1,"semantics":"eventual","lanes":1}`+"\n")}, "eventual"},
		{"no lanes", []string{file(t, `{"format":1,"semantics":"locking"}`+"\n")}, "lanes is 0"},
		{"no events", []string{file(t, head)}, "no events"},
		{"no JSON", []string{lines(t, "roses")}, "t.ndjson:2: is no JSON"},
		{"no position", []string{lines(t, `{"action":"Claim","args":{}}`)}, "no position"},
		{"an unknown action", []string{lines(t, `{"action":"Clam","position":1}`)}, `"Clam"`},
		{"a missing field", []string{lines(t, `{"action":"ChargeLost","position":1,"args":{"Lane":0,"Refused":[]}}`)}, "t.ndjson:2: ChargeLost: has no Charged"},
		{"another type", []string{lines(t, `{"action":"ChargeLost","position":1,"args":{"Lane":"0","Refused":[],"Charged":[]}}`)}, "is no"},
		{"a number too large", []string{lines(t, `{"action":"ChargeLost","position":1,"args":{"Lane":9999999999,"Refused":[],"Charged":[]}}`)}, "32 bits"},
		{"more than there are", []string{"-corrupt", "2", lines(t, subscribe)}, "not so many"},
	} {
		code, out, errs := call(c.args...)
		if code != command.Unable || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %q, %q", c.story, code, out, errs)
		}
	}
}

func TestNoJava(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if code, _, errs := call(lines(t, subscribe)); code != command.Unable || !strings.HasPrefix(errs, "trace: no java on the PATH") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// Ranks keep every comparison, and 0 stays what it is.
func TestRanks(t *testing.T) {
	times := []protocol.Time{9e18, 5, 0, 5, 1767225600000000001, 1767225600000000000, -3}
	r := rank(times)
	for _, a := range times {
		for _, b := range times {
			if (a < b) != (r.of(a) < r.of(b)) || (a == b) != (r.of(a) == r.of(b)) {
				t.Errorf("%d and %d have ranks %d and %d", a, b, r.of(a), r.of(b))
			}
		}
	}
	if r.of(0) != 0 || rank(nil).of(0) != 0 {
		t.Error("0 is not 0")
	}
}

// The sums of an action are those of its now and of the later of its clocks,
// and no sum wraps round.
func TestSums(t *testing.T) {
	args := map[string]any{"Now": number64(10), "Clock": number64(15)}
	if got := fmt.Sprint(sums(args, 7)); got != "[{10 17} {15 22}]" {
		t.Error(got)
	}
	args["Clock"] = number64(0)
	if got := fmt.Sprint(sums(args, 1<<63-1)); got != "[{10 9223372036854775807}]" {
		t.Error(got)
	}
}

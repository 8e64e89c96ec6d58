package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

func number64(n int64) json.Number { return json.Number(fmt.Sprint(n)) }

// read reads one trace of these lines.
func read(t *testing.T, text ...string) *trace {
	t.Helper()
	trace, err := readTrace(lines(t, text...), 0)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

const claim = `{"action":"Claim","position":2,"args":{"Lane":0,"Holder":"a0000000000000000000000000000001","Number":2,"Handlers":["mail"],
 "Running":[{"Delivery":7,"Claim":1,"Lane":0,"Handler":"mail","Key":"k"}],"Picks":[],"SuspectRunning":false,"Renew":true,
 "TTL":30,"Now":2000,"Clock":0,"NotAfter":0,"Unstuck":[],"Seen":1}}`

var update = flag.Bool("update", false, "write the example batch in spec/tla")

// TestExample wants the batch in spec/tla to be that of testdata/example.
func TestExample(t *testing.T) {
	var traces []*trace
	for _, file := range []string{"testdata/example/1.ndjson", "testdata/example/4.ndjson"} {
		read, err := readTrace(file, 0)
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, read)
	}
	text, _, err := generate(traces)
	if err != nil {
		t.Fatal(err)
	}
	file := modules + "/" + batchModule + ".tla"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != text {
		t.Errorf("%s is not what testdata/example becomes (%v): go test ./spec/trace -run Example -update", file, err)
	}
	for number, line := range strings.Split(text, "\n") {
		if len(line) > 100 {
			t.Errorf("line %d has %d columns", number+1, len(line))
		}
	}
}

func TestGenerate(t *testing.T) {
	one := read(t, subscribe, strings.ReplaceAll(claim, "\n", ""))
	text, names, err := generate([]*trace{one, one})
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, ",\n  ", ",")
	for _, want := range []string{
		"*)\nBatchSemantics == \"locking\"\nBatchModulus == 1\n",
		"OfChargeLost(lane, refused, charged) ==\n  [lane |-> lane, refused |-> refused, charged |-> charged]\n",
		"V0 == {OfPair(\"paid\",\"mail\")}\n",
		`OfLine(2,"Subscribe",1,TRUE,OfSubscribe("g",V0,FALSE,{0},1))`, // the claim reads what it left
		"V1 == {\"mail\"}\nV2 == OfRunning(7,1,0,\"mail\",\"k\")\n",
		`OfLine(3,"Claim",2,FALSE,OfClaim(0,"~h0",2,V1,{V2},<<>>,FALSE,TRUE,{<<2,3>>},2,0,0,{},1))`,
		"Traces == <<T1,T2>>\n",
		`<<"mail",0,`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := names.Replace(`holder |-> "~h0", key |-> "~h"`); got != `holder |-> "a0000000000000000000000000000001", key |-> "~h"` {
		t.Errorf("put back: %s", got)
	}
	if n := strings.Count(text, "OfRunning(7"); n != 1 {
		t.Errorf("a set that repeats is written %d times", n)
	}
}

// Texts that TLA+ cannot write, and those that look like one of ours, get
// numbers; different ones different numbers.
func TestNames(t *testing.T) {
	g := &generator{names: map[string]string{}}
	texts := []string{"order.placed", "", "über", `a"b`, `a\b`, "~0", "~h0", strings.Repeat("x", 41), "a\nb"}
	seen := map[string]string{}
	for _, text := range texts {
		name := g.name(text)
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both %q", text, other, name)
		}
		seen[name] = text
		if strings.ContainsAny(name, "\"\\\nü") || g.name(text) != name {
			t.Errorf("%q is %q, then %q", text, name, g.name(text))
		}
	}
	if g.name("order.placed") != "order.placed" {
		t.Error("a plain text is not itself")
	}
}

// Stores are kept where something later refers to them: a crash takes
// positions back, commits without an action have none.
func TestMark(t *testing.T) {
	at := func(position int64, seen int64) string {
		return fmt.Sprintf(`{"action":"Release","position":%d,"args":{"Leases":[],"Verdicts":[],"Seen":%d}}`, position, seen)
	}
	crash := func(position int64) string { return fmt.Sprintf(`{"action":"StoreCrash","position":%d}`, position) }
	for _, c := range []struct {
		story string
		lines []string
		keep  string // the lines that are kept, from 2
	}{
		{"nothing refers", []string{at(1, 0), at(2, 0)}, "[]"},
		{"a read of an earlier store", []string{at(1, 0), at(2, 0), at(3, 1)}, "[2]"},
		{"several actions at a position", []string{at(1, 0), at(1, 0), at(2, 1)}, "[3]"},
		{"a commit without an action", []string{at(1, 0), at(5, 0), at(6, 4)}, "[2]"},
		{"a crash", []string{at(1, 0), at(2, 0), at(3, 0), crash(2), at(3, 0)}, "[3]"},
		{"a crash that leaves nothing", []string{at(1, 0), crash(0), at(1, 0)}, "[]"},
		{"a read behind a crash", []string{at(1, 0), at(2, 0), crash(1), at(2, 0), at(3, 2)}, "[2 5]"},
		{"an evaluation", []string{at(1, 0), at(0, 1), at(2, 1)}, "[2]"},
	} {
		kept := []int{}
		for _, e := range read(t, c.lines...).events {
			if e.keep {
				kept = append(kept, e.line)
			}
		}
		if got := fmt.Sprint(kept); got != c.keep {
			t.Errorf("%s: kept %s, want %s", c.story, got, c.keep)
		}
	}
}

// Verdicts are told by TLC's prints; long ones go over several lines.
func TestReadVerdicts(t *testing.T) {
	printed := []string{
		`<<"accepted", 2>>`,
		`<< "refused",`, `   1,`, `   17,`, `   "Claim",`, `   "in flight",`, `   [lanes |-> <<>>, rows |-> <<>>] >>`,
		`<<"refused", 3, 4, "Bury", "row", [rows |-> (1 :> 2)]>>`,
	}
	got, err := readVerdicts(printed, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []verdict{{line: 17, action: "Claim", guard: "in flight", had: "[lanes |-> <<>>, rows |-> <<>>]"}, {accepted: true}, {line: 4, action: "Bury", guard: "row", had: "[rows |-> (1 :> 2)]"}}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("trace %d: %+v, want %+v", i+1, got[i], want[i])
		}
	}
	for _, bad := range [][]string{{`<<"accepted", 9>>`}, {`<<"odd", 1>>`}, {`<<"accepted", 1>>`}} {
		if v, err := readVerdicts(bad, 3); err == nil {
			t.Errorf("%q was read as %+v", bad, v)
		}
	}
}

func TestBatches(t *testing.T) {
	of := func(semantics string, lanes int32) *trace {
		return &trace{header: header{Semantics: semantics, Lanes: lanes}}
	}
	var sizes []string
	for _, b := range batches([]*trace{of("snapshot", 1), of("locking", 2), of("locking", 1), of("locking", 2), of("locking", 2)}, 2) {
		sizes = append(sizes, fmt.Sprint(b[0].Semantics, b[0].Lanes, " x ", len(b)))
	}
	if got, want := strings.Join(sizes, ", "), "locking1 x 1, locking2 x 2, locking2 x 1, snapshot1 x 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

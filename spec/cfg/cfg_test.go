package cfg

import (
	"reflect"
	"strings"
	"testing"
)

const example = `\* One lane.
SPECIFICATION Spec
CONSTANTS
  Workers = {w1, w2}   (* two, so that
                          one can take over *)
  MaxClaims = 3
  Async = TRUE
  Without = {"holder", "claim"}
CONSTANT Nobody = none
CONSTANT LaneOf <- OneLane
CONSTANT Poison = {2, 1}
CONSTANT Semantics = "locking"
INVARIANTS TypeOK FencedOut
INVARIANT NothingDropped
PROPERTY Drains
VIEW Seen
CHECK_DEADLOCK FALSE
`

func TestParse(t *testing.T) {
	got, err := Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Specification: "Spec",
		Constants: map[string]Value{
			"Workers":   {Kind: Set, Elements: []Value{{Kind: Model, Text: "w1"}, {Kind: Model, Text: "w2"}}},
			"MaxClaims": {Kind: Int, Int: 3},
			"Async":     {Kind: Bool, Bool: true},
			"Without":   {Kind: Set, Elements: []Value{{Kind: String, Text: "holder"}, {Kind: String, Text: "claim"}}},
			"Nobody":    {Kind: Model, Text: "none"},
			"LaneOf":    {Kind: Operator, Text: "OneLane"},
			"Poison":    {Kind: Set, Elements: []Value{{Kind: Int, Int: 2}, {Kind: Int, Int: 1}}},
			"Semantics": {Kind: String, Text: "locking"},
		},
		Invariants: []string{"TypeOK", "FencedOut", "NothingDropped"},
		Properties: []string{"Drains"},
		View:       "Seen",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if checks := got.Checks(); !reflect.DeepEqual(checks, []string{"TypeOK", "FencedOut", "NothingDropped", "Drains"}) {
		t.Errorf("it checks %q", checks)
	}
}

func TestDeadlockIsCheckedUnlessSwitchedOff(t *testing.T) {
	c, err := Parse("SPECIFICATION Spec")
	if err != nil || !c.CheckDeadlock {
		t.Errorf("CheckDeadlock = %v, %v; TLC checks it by default", c.CheckDeadlock, err)
	}
}

func TestReader(t *testing.T) {
	c, err := Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(c)
	if r.Size("Workers") != 2 || r.Int("MaxClaims") != 3 || !r.Bool("Async") {
		t.Error("wrong values")
	}
	if got := r.Strings("Without"); !reflect.DeepEqual(got, []string{"claim", "holder"}) {
		t.Errorf("Without = %q", got)
	}
	if r.Operator("LaneOf") != "OneLane" || r.String("Semantics") != "locking" || !reflect.DeepEqual(r.Ints("Poison"), []int{1, 2}) {
		t.Error("wrong operator, string or numbers")
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "Nobody is given, but nothing reads it") {
		t.Errorf("Err = %v; a constant that nobody reads must not pass", err)
	}
	r.Int("MaxCrashes")
	r.Bool("MaxClaims")
	r.Strings("Workers")
	for _, want := range []string{"MaxCrashes is missing", "MaxClaims is of another kind", "Workers: an element"} {
		if err := r.Err(); !strings.Contains(err.Error(), want) {
			t.Errorf("Err = %v; want %q", err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"SYMMETRY Permutations",
		"CONSTANT N <- 2",
		"CONSTANT N < 2",
		"CONSTANT N = 1 N = 2",
		"CONSTANT S = {1 2}",
		"CONSTANT S = {1, 2",
		"CONSTANT N =",
		"SPECIFICATION",
		`CONSTANT S = "open`,
		"(* open",
		"INVARIANTS TypeOK 3",
	} {
		if c, err := Parse(text); err == nil {
			t.Errorf("%q was read as %+v", text, c)
		}
	}
}

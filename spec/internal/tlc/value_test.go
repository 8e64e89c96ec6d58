package tlc

import (
	"slices"
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		"3":                        "3",
		"-3":                       "-3",
		"1..3":                     "1..3",
		`"a b, [c]"`:               `"a b, [c]"`,
		"{ }":                      "{}",
		"<< >>":                    "<<>>",
		"{2, 1}":                   "{1, 2}",
		"[ b |-> {},\n  a |-> 1 ]": "[a |-> 1, b |-> {}]",
		"<< <<1>>, [x |-> m1] >>":  "<<<<1>>, [x |-> m1]>>",
		"( 0 :> [a |-> TRUE] @@\n  [e |-> \"t\"] :> 2 )": `(0 :> [a |-> TRUE] @@ [e |-> "t"] :> 2)`,
	} {
		v, err := parseValue(text)
		if err != nil || v.String() != want {
			t.Errorf("%q: %s, %v; want %s", text, v, err, want)
		}
	}
	for _, text := range []string{"", "{1", "[a 1]", "(1 :> )", "1 2", "}", `"open`} {
		if v, err := parseValue(text); err == nil {
			t.Errorf("%q was read as %s", text, v)
		}
	}
}

func TestChanges(t *testing.T) {
	state := func(variables ...string) *State {
		s := &State{}
		for _, v := range variables {
			name, text, _ := strings.Cut(v, " = ")
			s.Variables = append(s.Variables, Variable{name, text})
		}
		return s
	}
	before := state("n = 1", `store = [lanes |-> (0 :> [epoch |-> 1, list |-> {1, 2}]), log |-> <<5>>, same |-> {}]`, "odd = ~")
	after := state("n = 1", `store = [lanes |-> (0 :> [list |-> {2, 3}, epoch |-> 2] @@ 4 :> 7), log |-> <<>>, same |-> {}]`, "odd = ~~")
	want := []string{
		"store.lanes[0].epoch = 2 (was 1)",
		"store.lanes[0].list with 3",
		"store.lanes[0].list without 1",
		"store.lanes[4] = 7",
		"store.log[1] is gone",
		"odd = ~~", // no value that we know: as it is
	}
	if got := Changes(before, after); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	want = []string{"n = 1", "store.lanes = (0 :> [epoch |-> 1, list |-> {1, 2}])", "store.log = <<5>>", "store.same = {}", "odd = ~"}
	if got := Changes(nil, before); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

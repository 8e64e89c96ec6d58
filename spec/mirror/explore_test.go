package mirror

import (
	"reflect"
	"slices"
	"testing"
)

// jugs is the old riddle: a jug of three gallons, one of five, and a tap.
type jugs struct{}

type water struct{ small, big int }

func (jugs) Init(add func(water)) { add(water{}) }

func (jugs) Next(s water, step func(string, water)) {
	pour := min(s.small, 5-s.big)
	back := min(s.big, 3-s.small)
	step("FillSmall", water{small: 3, big: s.big})
	step("FillBig", water{small: s.small, big: 5})
	step("EmptySmall", water{big: s.big})
	step("EmptyBig", water{small: s.small})
	step("SmallToBig", water{small: s.small - pour, big: s.big + pour})
	step("BigToSmall", water{small: s.small + back, big: s.big - back})
}

func (jugs) Invariants() []Invariant[water] {
	return []Invariant[water]{
		{"TypeOK", func(s water) bool { return 0 <= s.small && s.small <= 3 && 0 <= s.big && s.big <= 5 }},
		{"NeverFour", func(s water) bool { return s.big != 4 }},
	}
}

// The figures are those that TLC gives for the same system.
func TestExploreCountsAsTLC(t *testing.T) {
	r, err := Explore(jugs{}, []string{"TypeOK"}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Complete || r.Distinct != 16 || r.Generated != 97 || r.Depth != 8 || r.Violated != "" {
		t.Errorf("got %+v", r)
	}
}

func TestExploreFindsAShortestTrace(t *testing.T) {
	r, err := Explore(jugs{}, []string{"TypeOK", "NeverFour"}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if r.Complete || r.Violated != "NeverFour" || r.Depth != 7 || len(r.Trace) != 7 {
		t.Fatalf("got %+v", r)
	}
	var actions []string
	for _, step := range r.Trace {
		actions = append(actions, step.Action)
	}
	want := []string{"Init", "FillBig", "BigToSmall", "EmptySmall", "BigToSmall", "FillBig", "BigToSmall"}
	if !reflect.DeepEqual(actions, want) {
		t.Errorf("trace %q\nwant  %q", actions, want)
	}
}

func TestStepTellsWhatChanged(t *testing.T) {
	first := Step{"Init", "clock: 1\nlane 0: free\nworker v: up\ncall Claim of v: late\ncall Claim of w: late\n"}
	second := Step{"Claim", "clock: 1\nlane 0: held\nlane 1: free\ncall Claim of w: late\nKeyOrder is broken\n"}
	if got := first.Changed(nil); len(got) != 5 {
		t.Errorf("of the first state %q", got)
	}
	want := []string{"lane 0: held", "lane 1: free", "KeyOrder is broken", "without worker v", "without call Claim of v"}
	if got := second.Changed(&first); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	one, other := Step{"Init", "{1 2}"}, Step{"Fill", "{1 3}"}
	if got := other.Changed(&one); !slices.Equal(got, []string{"{1 3}"}) {
		t.Errorf("of one line %q", got)
	}
}

func TestExploreStopsAtTheLimit(t *testing.T) {
	r, err := Explore(jugs{}, nil, 5)
	if err != nil || r.Complete || r.Distinct != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestExploreRefusesAnUnknownInvariant(t *testing.T) {
	if _, err := Explore(jugs{}, []string{"NeverFive"}, 5); err == nil {
		t.Error("an invariant that nobody checks passed")
	}
}

// grid has many states, so that the index grows and chunks fill up.
type grid struct{ size int16 }

func (grid) Init(add func([2]int16)) { add([2]int16{}) }

func (g grid) Next(s [2]int16, step func(string, [2]int16)) {
	for i := range s {
		if next := s; s[i] < g.size-1 {
			next[i]++
			step("Move", next)
		}
	}
}

func (grid) Invariants() []Invariant[[2]int16] { return nil }

func TestExploreManyStates(t *testing.T) {
	r, err := Explore(grid{300}, nil, 1<<20)
	if err != nil || r.Distinct != 300*300 || r.Depth != 599 || r.Generated != 1+2*300*299 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func BenchmarkExplore(b *testing.B) {
	for b.Loop() {
		if r, err := Explore(grid{1000}, nil, 1<<30); err != nil || !r.Complete {
			b.Fatal(r, err)
		}
	}
}

package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/faults"
)

func someFaults(t *testing.T, list string) faults.Set {
	t.Helper()
	set, err := faults.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A world that deviates from calm in one choice keeps every promise, whichever
// choice it is.
func TestExploreOneDeviation(t *testing.T) {
	set, runs := faults.Every(), 1000
	if raceEnabled || testing.Short() {
		set, runs = someFaults(t, "crash"), 100
	}
	for _, store := range []string{"pg", "mongo"} {
		e := Explore(Options{Faults: set, Store: store}, Exploration{Deviations: 1})
		if e.Failed != nil {
			t.Fatalf("%s: %v", store, e.Failed.Violation)
		}
		if !e.Exhausted || e.Runs[0] != 1 || e.Runs[1] < runs {
			t.Errorf("%s: %v runs, exhausted %t", store, e.Runs, e.Exhausted)
		}
	}
}

// No run is made twice, none is left out, and each is what its path says.
func TestExploreIsExhaustive(t *testing.T) {
	o := Options{Faults: someFaults(t, "poison"), Store: "pg", Workers: 1, Events: 1, Steps: 60}
	e := &explorer{o: o, x: Exploration{Deviations: 2}}
	defer e.r.close()
	e.found = Explored{Knobs: smallKnobsOf(&o), Exhausted: true, Runs: make([]int, 3)}
	made := map[string]bool{}
	e.each = func(path []Choice, rep *Report) {
		key := fmt.Sprint(path)
		if made[key] {
			t.Errorf("%s twice", key)
		}
		made[key] = true
		text := (&Schedule{Knobs: rep.Knobs, Choices: rep.Choices}).String()
		for _, c := range path {
			if !strings.Contains(text, c.String()+"\n") {
				t.Errorf("the run of %s lacks %s", key, c)
			}
		}
	}
	for depth := range 3 {
		e.descend(nil, depth)
	}
	// The same by brute force: after each single deviation, the questions
	// that its run asks later.
	want := 0
	single := e.asks(nil)
	for i, c := range single {
		want += len(e.asks([]Choice{c}))
		if !made[fmt.Sprint([]Choice{c})] {
			t.Errorf("deviation %d, %s, was left out", i, c)
		}
	}
	if e.found.Runs[0] != 1 || e.found.Runs[1] != len(single) || e.found.Runs[2] != want || want < len(single) {
		t.Errorf("%v runs, want 1, %d and %d", e.found.Runs, len(single), want)
	}
}

// asks returns every deviation that may follow a path.
func (e *explorer) asks(path []Choice) []Choice {
	d := &deviating{path: path, collect: true}
	e.r.runWith(&e.o, e.found.Knobs, d)
	var all []Choice
	for _, q := range d.asked {
		for _, v := range q.values() {
			all = append(all, Choice{q.at, int32(v)})
		}
	}
	return all
}

// The same options give the same runs; a bound that is too small is said.
func TestExploreIsDeterministic(t *testing.T) {
	o := Options{Faults: someFaults(t, "losereply"), Store: "mongo"}
	a, b := Explore(o, Exploration{Deviations: 1}), Explore(o, Exploration{Deviations: 1})
	if a.Hash != b.Hash || len(a.Runs) != 2 {
		t.Errorf("%v and %v", a, b)
	}
	few := Explore(o, Exploration{Deviations: 1, Runs: 20})
	if few.Exhausted || few.Hash == a.Hash || few.Runs[0]+few.Runs[1] >= 20 {
		t.Errorf("20 runs: %v, exhausted %t", few.Runs, few.Exhausted)
	}
}

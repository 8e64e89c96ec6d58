package sim

import (
	"runtime"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// fewer returns n, or less when the machine is slow or in a hurry.
func fewer(n int) int {
	if raceEnabled || testing.Short() {
		return max(n/20, 3)
	}
	return n
}

func wantClean(t *testing.T, rep *Report) {
	t.Helper()
	if rep.Violation != nil {
		t.Errorf("seed %d: %v", rep.Seed, rep.Violation)
	}
}

// Every promise holds under every kind of fault, on both families of stores.
func TestSeedsAreClean(t *testing.T) {
	Many(Options{Faults: faults.Every()}, Batch{First: 1, Seeds: fewer(500)}, func(rep Report) bool {
		wantClean(t, &rep)
		return !t.Failed()
	})
}

// Each kind does what it says by itself: over a batch of seeds it strikes, and
// changes something.
func TestEveryKindStrikesAlone(t *testing.T) {
	for i, k := range faults.All() {
		t.Run(k.Name, func(t *testing.T) {
			fired, worked := 0, 0
			Many(Options{Faults: faults.Set(0).With(i)}, Batch{First: 1, Seeds: fewer(200)}, func(rep Report) bool {
				wantClean(t, &rep)
				for _, f := range rep.Faults {
					if f.Kind == k.Name {
						fired, worked = fired+f.Fired, worked+f.Worked
					}
				}
				return true
			})
			if fired == 0 {
				t.Error("it never fired")
			}
			if worked == 0 && fewer(200) == 200 {
				t.Error("it never changed anything")
			}
		})
	}
}

// Without faults everything that is published is completed, but for what the
// handlers themselves gave up, which a bus may delete after its retention.
func TestCalmRunsComplete(t *testing.T) {
	Many(Options{}, Batch{First: 1, Seeds: fewer(100)}, func(rep Report) bool {
		wantClean(t, &rep)
		gone := rep.Deliveries - rep.Completed - rep.Dead
		if gone < 0 || gone > 0 && rep.Knobs.Retention == 0 || rep.Deliveries == 0 {
			t.Errorf("seed %d: %d deliveries, %d completed, %d dead", rep.Seed, rep.Deliveries, rep.Completed, rep.Dead)
		}
		return !t.Failed()
	})
}

// A seed is a run: the same steps whatever ran before on the same goroutine,
// and on how many goroutines.
func TestSameSeedSameRun(t *testing.T) {
	const seeds = 30
	var alone [seeds]uint64
	for i := range alone {
		rep := One(Options{Seed: uint64(i), Faults: faults.Every()})
		alone[i] = rep.Hash
	}
	different := map[uint64]bool{}
	Many(Options{Faults: faults.Every()}, Batch{First: 0, Seeds: seeds, Cores: 3}, func(rep Report) bool {
		if rep.Hash != alone[rep.Seed] {
			t.Errorf("seed %d: %016x alone, %016x among others", rep.Seed, alone[rep.Seed], rep.Hash)
		}
		different[rep.Hash] = true
		return true
	})
	if len(different) != seeds {
		t.Errorf("%d seeds gave %d runs", seeds, len(different))
	}
}

// The choices of a run, replayed, are that run.
func TestReplayIsTheSameRun(t *testing.T) {
	for seed := range uint64(fewer(60)) {
		rep := One(Options{Seed: seed, Faults: faults.Every()})
		text := (&Schedule{Seed: seed, Knobs: rep.Knobs, Choices: rep.Choices}).String()
		read, err := ParseSchedule(strings.NewReader(text))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again := One(Options{Schedule: read})
		if again.Hash != rep.Hash || again.Skipped != 0 || read.Unknown != 0 {
			t.Errorf("seed %d: %016x drawn, %016x replayed, %d choices skipped, %d unknown",
				seed, rep.Hash, again.Hash, again.Skipped, read.Unknown)
		}
	}
}

// Every task is stopped when a run ends, however it ends.
func TestNothingLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	for seed := range uint64(20) {
		One(Options{Seed: seed, Faults: faults.Every(), Steps: 1 + 37*int(seed)})
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}

// What is watched runs as it does unwatched.
func TestObserversChangeNothing(t *testing.T) {
	for seed := range uint64(5) {
		o := Options{Seed: seed, Faults: faults.Every()}
		plain := One(o)
		var log, trace strings.Builder
		o.Watch(&Log{Out: &log}, &Trace{Out: &trace})
		if watched := One(o); watched.Hash != plain.Hash {
			t.Errorf("seed %d: %016x, watched %016x", seed, plain.Hash, watched.Hash)
		}
		if !strings.Contains(log.String(), "= TakeOver") || !strings.Contains(trace.String(), `"action":"TakeOver"`) {
			t.Errorf("seed %d: log or trace has no takeover", seed)
		}
	}
}

// Flags win over what the seed draws.
func TestOptionsOverrideTheSeed(t *testing.T) {
	rep := One(Options{Seed: 5, Store: "mongo", Workers: 2, Lanes: 3, Events: 7, Keys: -1, Steps: 100})
	k := rep.Knobs
	if rep.Store() != "mongo" || k.Workers != 2 || k.Lanes != 3 || k.Events != 7 || k.Keys != 0 || k.Steps != 100 {
		t.Errorf("knobs are %v", k)
	}
}

// Without planted bugs nothing may be switched on.
func TestNoMutantInAnOrdinaryBuild(t *testing.T) {
	if !mutant.Enabled && len(mutant.All()) > 0 {
		t.Error("an ordinary build declares planted bugs")
	}
}

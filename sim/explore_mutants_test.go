//go:build relaybus_mutants

package sim

import (
	"testing"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Each of these bugs needs one choice that is not calm, and the exploration
// tries them all: what it finds it finds for certain, and the schedule replays.
func TestExploreFindsMutants(t *testing.T) {
	for _, c := range []struct {
		name    mutant.Name
		store   string
		checker string
	}{
		{"abandoned-claim-forgotten", "pg", "OneEndPerLease"},
		{"cancelled-run-charged", "pg", "ChargedOnce"},
		{"claim-without-number-check", "mongo", modelName},
		{"complete-gone-row-applied", "pg", modelName},
		{"complete-without-holder-check", "pg", modelName},
		{"handlers-memory-dropped", "mongo", modelName},
		{"idle-lanes-never-given-back", "pg", drains},
		{"late-claim-forgotten", "mongo", "OneEndPerLease"},
		{"lost-complete-committed", "pg", "AtMostOneCompletion"},
		{"lost-not-charged", "mongo", modelName},
		{"snapshot-completion-ignores-conflict", "mongo", modelName},
		{"takeover-of-own-lane", "pg", modelName},
		{"unknown-commit-taken-as-success", "pg", modelName},
	} {
		t.Run(string(c.name), func(t *testing.T) {
			mutant.Select(c.name)
			defer mutant.Select("")
			e := Explore(Options{Faults: faults.Every(), Store: c.store}, Exploration{Deviations: 1})
			if e.Failed == nil {
				t.Fatalf("%v runs, and nobody noticed", e.Runs)
			}
			if got := e.Failed.Violation.Checker; got != c.checker {
				t.Errorf("%s fired, want %s", got, c.checker)
			}
			schedule := &Schedule{Knobs: e.Failed.Knobs, Choices: e.Failed.Choices}
			if again := One(Options{Schedule: schedule}); again.Hash != e.Failed.Hash || again.Skipped > 0 {
				t.Errorf("the schedule gives another run: %016x, explored %016x", again.Hash, e.Failed.Hash)
			}
			mutant.Select("")
			if rep := One(Options{Schedule: schedule}); rep.Violation != nil {
				t.Errorf("without the bug it fails as well: %v", rep.Violation)
			}
		})
	}
}

//go:build relaybus_mutants

package sim

import (
	"testing"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/linearize"
)

// firstFailure runs seeds until one fails.
func firstFailure(o Options, seeds int) (found Report, ok bool) {
	Many(o, Batch{First: 1, Seeds: seeds}, func(rep Report) bool {
		if rep.Violation != nil {
			found, ok = rep, true
		}
		return !ok
	})
	return found, ok
}

// A failure is reduced to a story that can be told, whoever found it: a
// checker, the lock-step model, or the liveness phase.
func TestShrink(t *testing.T) {
	for _, name := range []mutant.Name{"takeover-forgets-charge", "lost-complete-committed", "backoff-never-due", "suspects-not-counted"} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Select(name)
			defer mutant.Select("")
			o := Options{Faults: faults.Every()}
			failed, ok := firstFailure(o, 400)
			if !ok {
				t.Fatal("it survived 400 seeds")
			}
			o.Seed = failed.Seed
			small, ok := Shrink(o, failed)
			if !ok {
				t.Fatal("the failure does not repeat as a schedule")
			}
			const goal = 15
			if n := len(small.Schedule.Choices); n > goal {
				t.Errorf("%d choices are left, want at most %d:\n%s", n, goal, &small.Schedule)
			}
			if v := small.Report.Violation; v.Checker != failed.Violation.Checker || v.Invariant != failed.Violation.Invariant {
				t.Errorf("reduced %v to %v", failed.Violation, v)
			}
			mutant.Select("")
			if rep := One(Options{Schedule: &small.Schedule}); rep.Violation != nil {
				t.Errorf("without the bug it fails as well: %v", rep.Violation)
			}
		})
	}
}

// Every planted bug is caught.
func TestMutants(t *testing.T) {
	for _, info := range mutant.All() {
		t.Run(string(info.Name), func(t *testing.T) {
			mutant.Select(info.Name)
			defer mutant.Select("")
			if _, ok := firstFailure(Options{Faults: faults.Every()}, 400); !ok {
				t.Errorf("nobody noticed in 400 seeds: %s", info.Says)
			}
		})
	}
}

// The direct checkers are not decoration: without the lock-step model most
// planted bugs are caught all the same, each by the promise that it breaks.
func TestDirectCheckersAlone(t *testing.T) {
	for name, checker := range map[mutant.Name]string{
		"lost-complete-committed":         "AtMostOneCompletion",
		"dead-claimable":                  "DeadStaysDead",
		"claim-shows-uncommitted":         "NothingInvented",
		"handlers-memory-dropped":         "CompletedStaysDone",
		"unique-on-event-only":            "NoLostDelivery",
		"takeover-keeps-epoch":            "FencedOut",
		"takeover-charges-twice":          "ChargedOnce",
		"takeover-one-tick-early":         "OneHolderPerLane",
		"takeover-of-another-group":       "OneGroupPerHolder",
		"suspects-not-counted":            "InnocentNeighbours",
		"lane-from-event-id":              "KeyOrder",
		"relinquish-with-work-in-flight":  "NothingDropped",
		"limit-ignored":                   "LimitKept",
		"picks-beyond-limit":              "GrantsInBounds",
		"unknown-commit-taken-as-failure": "OneEndPerLease",
		"backoff-never-due":               drains,
	} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Select(name)
			defer mutant.Select("")
			seen := false
			Many(Options{Faults: faults.Every(), Blind: true}, Batch{First: 1, Seeds: 400}, func(rep Report) bool {
				seen = rep.Violation != nil && rep.Violation.Checker == checker
				return !seen
			})
			if !seen {
				t.Errorf("%s never fired", checker)
			}
		})
	}
}

// Nor are the models of linearize: what clients asked and were told is enough
// to see each of the five promises broken.
func TestHistoriesAlone(t *testing.T) {
	for name, property := range map[mutant.Name]linearize.Property{
		"takeover-keeps-epoch":            linearize.LaneOwnership,
		"renewal-by-former-owner":         linearize.LaneOwnership,
		"takeover-of-another-group":       linearize.LaneOwnership,
		"not-after-ignored":               linearize.LaneOwnership,
		"unique-on-event-only":            linearize.AtLeastOnce,
		"dead-claimable":                  linearize.AtLeastOnce,
		"unknown-commit-taken-as-success": linearize.AtLeastOnce,
		"settled-by-completing":           linearize.EffectivelyOnce,
		"lost-complete-committed":         linearize.EffectivelyOnce,
		"lane-from-event-id":              linearize.KeyOrder,
		"key-order-ignores-running":       linearize.KeyOrder,
		"takeover-charges-twice":          linearize.AttemptCharging,
		"takeovers-reset-on-failure":      linearize.AttemptCharging,
	} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Select(name)
			defer mutant.Select("")
			seen := false
			Many(Options{Faults: faults.Every(), HistoryAlone: true}, Batch{First: 1, Seeds: 400}, func(rep Report) bool {
				if rep.Violation != nil && (rep.Verdict != Illegal || rep.Violation.Checker != linearizability) {
					t.Errorf("seed %d: %v", rep.Seed, rep.Violation)
				}
				seen = rep.History.Report.Result(property).Status == linearize.Illegal
				return !seen
			})
			if !seen {
				t.Errorf("%s was never found to be broken", property)
			}
		})
	}
}

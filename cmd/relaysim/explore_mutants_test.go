//go:build relaybus_mutants

package main

import (
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/sim"
)

// A failure is printed as a schedule that fails again, with the command that
// finds it as the last line.
func TestExploreReportsAFailure(t *testing.T) {
	mutant.Select("takeover-of-own-lane")
	defer mutant.Select("")
	code, out, _ := call("-explore", "-faults", "outage", "-store", "mongo")
	if code != exitRefused || !strings.Contains(out, "up to the first failure") {
		t.Fatalf("exit %d, %s", code, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, "./cmd/relaysim -explore -deviations 1 -runs 100000 -faults outage -store mongo") {
		t.Errorf("the last line is %q", last)
	}
	text := out[strings.Index(out, "format: "):]
	schedule, err := sim.ParseSchedule(strings.NewReader(text[:strings.LastIndex(strings.TrimSpace(text), "\n")]))
	if err != nil {
		t.Fatal(err)
	}
	if rep := sim.One(sim.Options{Schedule: schedule}); rep.Violation == nil || rep.Violation.Checker != schedule.Checker {
		t.Errorf("the schedule ends with %v, want %s", rep.Violation, schedule.Checker)
	}
}

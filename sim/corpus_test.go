package sim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// corpus reads every schedule of testdata/corpus.
func corpus(t *testing.T) map[string]*Schedule {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "corpus", "*.schedule"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	schedules := map[string]*Schedule{}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		schedule, err := ParseSchedule(file)
		file.Close()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		schedules[filepath.Base(path)] = schedule
	}
	return schedules
}

// Every failure that was ever reduced ends clean now; and in a build with
// planted bugs, the bug that it was reduced for is still caught by it.
func TestCorpus(t *testing.T) {
	for name, schedule := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			if schedule.Story == "" {
				t.Error("it has no story")
			}
			rep := One(Options{Schedule: schedule})
			wantClean(t, &rep)
			if !mutant.Enabled || schedule.Mutant == "" {
				return
			}
			mutant.Select(mutant.Name(schedule.Mutant))
			defer mutant.Select("")
			rep = One(Options{Schedule: schedule})
			if rep.Violation == nil || rep.Violation.Checker != schedule.Checker {
				t.Errorf("with %s: %v, want %s to fire", schedule.Mutant, rep.Violation, schedule.Checker)
			}
		})
	}
}

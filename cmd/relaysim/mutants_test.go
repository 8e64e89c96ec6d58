//go:build relaybus_mutants

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/linearize"
	"github.com/relaybus-go/relaybus/sim"
)

// A failure says what is wrong, and its last line repeats it.
func TestFailureEndsWithItsCommand(t *testing.T) {
	for name, want := range map[string]int{
		"dead-claimable":    exitRefused,
		"limit-ignored":     exitUnsafe,
		"backoff-never-due": exitStalled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("RELAYBUS_MUTANT", name)
			mutant.Select(mutant.Name(name))
			defer mutant.Select("")
			code, out, _ := call("-seeds", "400", "-shrink")
			if code != want {
				t.Errorf("exit %d, want %d", code, want)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "RELAYBUS_MUTANT="+name+" go run -tags relaybus_mutants ./cmd/relaysim -seed ") {
				t.Errorf("the last line is %q", last)
			}
			if !strings.Contains(out, "format: 1") {
				t.Error("there is no reduced schedule")
			}
			again, _, _ := call(strings.Fields(last)[6:]...)
			if again != want {
				t.Errorf("the command exits with %d", again)
			}
		})
	}
}

// An illegal history has an exit code of its own and is drawn, for one seed and
// for the first of many that fails.
func TestIllegalHistory(t *testing.T) {
	for _, c := range []struct {
		name   string
		mutant mutant.Name
		args   []string
		want   int
	}{
		{"one seed", "refused-renewal-reported", nil, exitIllegal},
		{"many seeds", "refused-renewal-reported", []string{"-seeds", "3", "-histories", "-shrink"}, exitIllegal},
		{"another checker fired first", "handlers-memory-dropped", []string{"-seeds", "1"}, exitRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			mutant.Select(c.mutant)
			defer mutant.Select("")
			t.Setenv("RELAYBUS_MUTANT", string(c.mutant))
			c.args = append(c.args, "-seed", firstIllegal(t))
			file := filepath.Join(t.TempDir(), "picture.html")
			code, out, errs := call(append(c.args, "-html", file)...)
			if code != c.want || errs != "" || !strings.Contains(out, file+" shows the illegal history of seed ") {
				t.Errorf("exit %d, %q %q", code, out, errs)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, "RELAYBUS_MUTANT="+string(c.mutant)+" go run -tags relaybus_mutants ./cmd/relaysim -seed ") {
				t.Errorf("the last line is %q", last)
			} else if again, _, _ := call(strings.Fields(last)[6:]...); again != c.want {
				t.Errorf("the command exits with %d", again)
			}
			if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), " is broken in ") {
				t.Errorf("%v: %d bytes", err, len(text))
			}
		})
	}
}

// firstIllegal returns the first seed whose history is illegal.
func firstIllegal(t *testing.T) (seed string) {
	t.Helper()
	sim.Many(sim.Options{Faults: faults.Every(), Histories: true}, sim.Batch{First: 1, Seeds: 400}, func(rep sim.Report) bool {
		if rep.History.Status() == linearize.Illegal {
			seed = fmt.Sprint(rep.Seed)
		}
		return seed == ""
	})
	if seed == "" {
		t.Fatal("no history of 400 seeds is illegal")
	}
	return seed
}

func TestMutantsTable(t *testing.T) {
	code, out, errs := call("mutants", "-only", "dead-claimable,takeover-keeps-epoch", "-enough", "2", "-shrink")
	if code != exitClean || errs != "" || strings.Count(out, "caught") != 2 || !strings.Contains(out, "2 mutants, 0 survived") {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
	code, out, _ = call("mutants", "-only", "purge-trusts-first-look", "-faults", "none", "-seeds", "3")
	if code == exitClean || !strings.Contains(out, "SURVIVED") {
		t.Errorf("a survivor: exit %d, %q", code, out)
	}
	if code, _, errs := call("mutants", "-only", "nothing"); code != exitUsage || !strings.Contains(errs, `unknown mutant "nothing"`) {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// A corpus written by the command replays: clean as it is, failing with its
// mutant.
func TestCorpusRoundTrip(t *testing.T) {
	folder := t.TempDir()
	if code, _, errs := call("mutants", "-only", "limit-ignored", "-enough", "1", "-corpus", folder); code != exitClean {
		t.Fatalf("exit %d, %q", code, errs)
	}
	files, _ := os.ReadDir(folder)
	if len(files) != 1 {
		t.Fatalf("%d files", len(files))
	}
	code, out, _ := call("-replay", folder)
	if code != exitClean || !strings.Contains(out, "as it is") || !strings.Contains(out, "mutant limit-ignored") {
		t.Errorf("exit %d, %q", code, out)
	}
}

package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/spec/cfg"
	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

const specDir = "../tla"

// limit keeps the test to seconds. `go run ./spec/twin -full` runs the rest.
const limit = 300_000

// TestTwins runs every configuration of a module with a twin, unless TLC found
// more than limit states in it. If it fails, module and twin have drifted
// apart, or a figure in suite.txt is not TLC's.
func TestTwins(t *testing.T) {
	entries, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, e := range entries {
		if e.Distinct > limit || e.Large {
			continue
		}
		covered[e.Module] = true
		t.Run(e.Config, func(t *testing.T) {
			r, err := Run(specDir, &e, limit)
			if err != nil {
				t.Fatal(err)
			}
			if differs := r.Differs(&e); differs != "" {
				t.Error(differs)
				for _, step := range r.Trace {
					t.Log(step.Action)
				}
			}
		})
	}
	for _, module := range Modules() {
		if !covered[module] {
			t.Errorf("suite.txt has no small configuration of %s, whose twin is therefore not compared", module)
		}
	}
}

// TestRulePutBack runs each Broken configuration with all rules on: it must
// find nothing, or the configuration would be refuted for another reason than
// the rule it is named after.
func TestRulePutBack(t *testing.T) {
	entries, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Config, "Broken") {
			continue
		}
		c, err := e.ReadConfig(specDir)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Constants["Without"].Elements) == 0 {
			t.Errorf("%s takes no rule away", e.Config)
		}
		c.Constants["Without"] = cfg.Value{Kind: cfg.Set}
		twin, err := Of(e.Module)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := twin(c, limit/3); err != nil || r.Violated != "" {
			t.Errorf("%s with its rule: %q, %v", e.Config, r.Violated, err)
		}
	}
}

// TestLargeConfigsAreUnderstood reads what TestTwins does not run, and takes
// the first few thousand states.
func TestLargeConfigsAreUnderstood(t *testing.T) {
	entries, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.Large {
			continue
		}
		if r, err := Run(specDir, &e, 5000); err != nil || r.Violated != "" {
			t.Errorf("%s: %s, %v", e.Name(), r.Violated, err)
		}
	}
}

// A twin that read past a constant, a rule or a property would agree with TLC by
// accident.
func TestEveryTwinRefusesWhatItCannotCheck(t *testing.T) {
	entries, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, e := range entries {
		if tried[e.Module] {
			continue
		}
		tried[e.Module] = true
		for what, spoil := range map[string]func(*cfg.Config){
			"a constant that is not the module's": func(c *cfg.Config) { c.Constants["Spare"] = cfg.Value{} },
			"a missing constant":                  func(c *cfg.Config) { delete(c.Constants, "Without") },
			"an unknown rule": func(c *cfg.Config) {
				c.Constants["Without"] = cfg.Value{Kind: cfg.Set, Elements: []cfg.Value{{Kind: cfg.String, Text: "hodler"}}}
			},
			"an unknown invariant": func(c *cfg.Config) { c.Invariants = append(c.Invariants, "NoSuch") },
			"a property":           func(c *cfg.Config) { c.Properties = []string{"Drains"} },
			"deadlocks":            func(c *cfg.Config) { c.CheckDeadlock = true },
			"a view":               func(c *cfg.Config) { c.View = "Seen" },
			"another formula":      func(c *cfg.Config) { c.Specification = "FairSpec" },
		} {
			c, err := e.ReadConfig(specDir)
			if err != nil {
				t.Fatal(err)
			}
			spoil(&c)
			twin, err := Of(e.Module)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := twin(c, 10); err == nil {
				t.Errorf("%s: the twin accepted %s", e.Module, what)
			}
		}
	}
}

// A record goes before a figure in suite.txt, unless its files have changed.
func TestRecordsGoBeforeTheSuite(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		sum, err := tlc.Sum([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	module := write("AsyncCommit.tla", "---- MODULE AsyncCommit ----\n====\n")
	good, broken := write("Good.cfg", "SPECIFICATION Spec\n"), write("Bad.cfg", "INVARIANT FencedOut\n")
	write("Old.cfg", "SPECIFICATION Spec\n")
	write("Tiny.tla", "---- MODULE Tiny ----\n====\n")
	write("Tiny.cfg", "SPECIFICATION Spec\n")
	write("suite.txt", "AsyncCommit Good small pass 1 2 1 x\nTiny Tiny small pass 7 7 1 no twin\n"+
		"AsyncCommit Bad large FencedOut - 4 1 x\nAsyncCommit Old small pass 1 2 1 x\n")
	write("results.json", fmt.Sprintf(`[
		{"module":"AsyncCommit","config":"Good","moduleSHA256":%q,"configSHA256":%q,"distinct":30,"depth":18,"verdict":"pass"},
		{"module":"AsyncCommit","config":"Bad","moduleSHA256":%q,"configSHA256":%q,"distinct":732,"depth":10,"verdict":"FencedOut"},
		{"module":"AsyncCommit","config":"Old","moduleSHA256":%q,"configSHA256":"0","distinct":9,"depth":9,"verdict":"pass"}]`,
		module, good, module, broken, module))
	got, err := ReadSuite(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []suite.Entry{
		{Module: "AsyncCommit", Config: "Good", Expect: tlc.Pass, Distinct: 30, Depth: 18, Minutes: 1, Shows: "x"},
		{Module: "AsyncCommit", Config: "Bad", Large: true, Expect: "FencedOut", Distinct: -1, Depth: 10, Minutes: 1, Shows: "x"},
		{Module: "AsyncCommit", Config: "Old", Expect: tlc.Pass, Distinct: 1, Depth: 2, Minutes: 1, Shows: "x"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDiffers(t *testing.T) {
	passes := suite.Entry{Expect: tlc.Pass, Distinct: 10, Depth: 3}
	broken := suite.Entry{Expect: "FencedOut", Distinct: -1, Depth: 9}
	for _, c := range []struct {
		entry  suite.Entry
		result Result
		same   bool
	}{
		{passes, Result{Distinct: 10, Depth: 3, Complete: true}, true},
		{passes, Result{Distinct: 11, Depth: 3, Complete: true}, false},
		{passes, Result{Distinct: 10, Depth: 4, Complete: true}, false},
		{passes, Result{Distinct: 10, Depth: 3}, false},
		{passes, Result{Distinct: 10, Depth: 3, Violated: "TypeOK"}, false},
		{broken, Result{Depth: 9, Violated: "FencedOut"}, true},
		{broken, Result{Depth: 8, Violated: "FencedOut"}, false},
		{broken, Result{Depth: 9, Violated: "TypeOK"}, false},
		{broken, Result{Depth: 9, Complete: true}, false},
	} {
		if differs := c.result.Differs(&c.entry); (differs == "") != c.same {
			t.Errorf("%+v against %+v: %q", c.entry, c.result, differs)
		}
	}
}

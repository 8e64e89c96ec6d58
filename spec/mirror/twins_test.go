package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/spec/cfg"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

const specDir = "../tla"

// limit keeps the test to seconds. `go run ./spec/twin -full` runs the rest.
const limit = 300_000

// TestTwins runs every configuration of a module with a twin, unless TLC found
// more than limit states in it. If it fails, module and twin have drifted
// apart, or a figure in suite.txt is not TLC's.
func TestTwins(t *testing.T) {
	suite, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, e := range suite {
		if e.Distinct > limit || e.Large {
			continue
		}
		covered[e.Module] = true
		t.Run(e.Config, func(t *testing.T) {
			r, err := e.Run(specDir, limit)
			if err != nil {
				t.Fatal(err)
			}
			if differs := e.Differs(r); differs != "" {
				t.Error(differs)
				for _, line := range r.Trace {
					t.Log(line)
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
	suite, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range suite {
		if !strings.HasPrefix(e.Config, "Broken") {
			continue
		}
		c, err := cfg.Read(filepath.Join(specDir, e.Config+".cfg"))
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
	suite, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range suite {
		if !e.Large {
			continue
		}
		if r, err := e.Run(specDir, 5000); err != nil || r.Violated != "" {
			t.Errorf("%s: %s, %v", e.Name(), r.Violated, err)
		}
	}
}

// A twin that read past a constant, a rule or a property would agree with TLC by
// accident.
func TestEveryTwinRefusesWhatItCannotCheck(t *testing.T) {
	suite, err := ReadSuite(specDir)
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, e := range suite {
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
			"another formula":      func(c *cfg.Config) { c.Specification = "FairSpec" },
		} {
			c, err := cfg.Read(filepath.Join(specDir, e.Config+".cfg"))
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
	good, broken := write("Good.cfg", "SPECIFICATION Spec\n"), write("Broken.cfg", "INVARIANT FencedOut\n")
	write("Old.cfg", "SPECIFICATION Spec\n")
	write("suite.txt", "AsyncCommit Good small pass 1 2 1 x\n# a comment\n\nTiny Tiny small pass 7 7 1 no twin\n"+
		"AsyncCommit.tla Broken.cfg large FencedOut - 4 1 x\nAsyncCommit Old small pass 1 2 1 x\n")
	write("results.json", fmt.Sprintf(`[
		{"module":"AsyncCommit","config":"Good","moduleSHA256":%q,"configSHA256":%q,"distinct":30,"depth":18,"verdict":"pass"},
		{"module":"AsyncCommit","config":"Broken","moduleSHA256":%q,"configSHA256":%q,"distinct":732,"depth":10,"verdict":"FencedOut"},
		{"module":"AsyncCommit","config":"Old","moduleSHA256":%q,"configSHA256":"0","distinct":9,"depth":9,"verdict":"pass"}]`,
		module, good, module, broken, module))
	got, err := ReadSuite(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{Module: "AsyncCommit", Config: "Good", Expect: Pass, Distinct: 30, Depth: 18},
		{Module: "AsyncCommit", Config: "Broken", Large: true, Expect: "FencedOut", Distinct: -1, Depth: 10},
		{Module: "AsyncCommit", Config: "Old", Expect: Pass, Distinct: 1, Depth: 2},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDiffers(t *testing.T) {
	passes := Entry{Expect: Pass, Distinct: 10, Depth: 3}
	broken := Entry{Expect: "FencedOut", Distinct: -1, Depth: 9}
	for _, c := range []struct {
		entry  Entry
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
		if differs := c.entry.Differs(c.result); (differs == "") != c.same {
			t.Errorf("%+v against %+v: %q", c.entry, c.result, differs)
		}
	}
}

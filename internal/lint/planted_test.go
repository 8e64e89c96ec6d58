package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// planted is a small tree and what one rule must say about it.
type planted struct {
	rule  string
	story string
	files map[string]string
	want  []string // one part of each message; none: the tree is clean
}

// Text that this file must not hold as such.
const (
	work = "/wo" + "rk/"
	host = "proxy.gol" + "ang.org"
)

var cases = []planted{
	{"syntax", "a file with a missing brace", map[string]string{"engine/a.go": "package engine\nfunc f() {"},
		[]string{"does not parse"}},
	{"syntax", "what another module or testdata holds is not ours", map[string]string{
		"tools/go.mod": "module x", "tools/a.go": "package", "sim/testdata/a.go": "package",
	}, nil},

	{"imports", "the protocol leans on nothing of ours", importing("engine/protocol", "internal/probe"),
		[]string{"engine/protocol must not import github.com/relaybus-go/relaybus/internal/probe: of our packages it may import none"}},
	{"imports", "the engine knows no store", importing("engine", "store/simstore"),
		[]string{"of our packages it may import only engine/protocol"}},
	{"imports", "the independent oracle must not read the protocol", importing("linearize", "engine/protocol"),
		[]string{"not even in a test"}},
	{"imports", "not even its tests", map[string]string{"linearize/a_test.go": "package linearize\nimport _ \"" + Module + "/engine/protocol\"\n"},
		[]string{"not even in a test"}},
	{"imports", "stores do not know each other", importing("store/mongo", "store/postgres"), []string{"not even in a test"}},
	{"imports", "the simulator runs without a database", importing("sim", "store/postgres"), []string{"not even in a test"}},
	{"imports", "faults strike every store alike", importing("faults", "store/mongo"), []string{"not even in a test"}},
	{"imports", "simstore stands alone", importing("store/simstore", "store/postgres"), []string{"not even in a test"}},
	{"imports", "users of the engine download nothing", map[string]string{"engine/a.go": "package engine\nimport _ \"example.org/x\"\n"},
		[]string{"of other modules it may import none"}},
	{"imports", "a new package needs a row", map[string]string{"engine/extra/a.go": "package extra\n"}, []string{"no row of the import table"}},
	{"imports", "what is allowed", map[string]string{
		"engine/a.go":         "package engine\nimport (\n\t\"fmt\"\n\t_ \"" + Module + "/engine/protocol\"\n)\n",
		"engine/a_test.go":    "package engine_test\nimport (\n\t_ \"" + Module + "/store/simstore\"\n\t_ \"pgregory.net/rapid\"\n)\n",
		"sim/shrink/a.go":     "package shrink\nimport _ \"" + Module + "/sim\"\n",
		"linearize/a.go":      "package linearize\nimport _ \"github.com/anishathalye/porcupine\"\n",
		"store/postgres/a.go": "package postgres\nimport _ \"github.com/jackc/pgx/v5/pgxpool\"\n",
	}, nil},

	{"purity", "goroutines and channels", map[string]string{"engine/protocol/a.go": "package protocol\n" +
		"func f() {\n\tc := make(chan int)\n\tgo f()\n\tc <- 1\n\t<-c\n\tfor range c {\n\t}\n\tselect {}\n}\n"},
		[]string{"channel in", "range over a channel", "go statement", "channel send", "channel receive", "select"}},
	{"purity", "clocks, by call and by value", map[string]string{"engine/dispatcher_retry.go": "package engine\nimport (\n\t\"context\"\n\t\"time\"\n)\n" +
		"var now = time.Now\nfunc f() {\n\ttime.Sleep(1)\n\ttime.NewTimer(1)\n\ttime.Since(time.Time{})\n\ttime.After(1)\n\tcontext.WithTimeout(nil, 1)\n}\n"},
		[]string{"time.Now", "time.After", "context.WithTimeout", "time.Sleep", "time.NewTimer", "time.Since"}},
	{"purity", "a renamed import", map[string]string{"faults/a.go": "package faults\nimport clock \"time\"\nvar now = clock.Now\n"}, []string{"time.Now"}},
	{"purity", "a dot import", map[string]string{"faults/a.go": "package faults\nimport . \"time\"\nvar now = Now\n"}, []string{"dot import"}},
	{"purity", "the global source of randomness", map[string]string{"sim/a.go": "package sim\nimport (\n\t\"crypto/rand\"\n\told \"math/rand\"\n\tnew \"math/rand/v2\"\n)\n" +
		"var r, a, b, c = rand.Reader, old.Int(), new.IntN(3), new.New(new.NewPCG(1, 2))\n"},
		[]string{"import of crypto/rand", "math/rand.Int", "math/rand/v2.IntN"}},
	{"purity", "loops over maps", map[string]string{"store/simstore/a.go": "package simstore\nimport \"maps\"\ntype rows map[int]int\n" +
		"func f(m rows) {\n\tfor range m {\n\t}\n\tfor range maps.Keys(m) {\n\t}\n}\nfunc g[M ~map[K]V, K comparable, V any](m M) {\n\tfor range m {\n\t}\n}\n"},
		[]string{"a.go:11: range over a map", "a.go:5: range over a map", "maps.Keys"}},
	{"purity", "a map behind another package of ours", map[string]string{
		"engine/protocol/a.go": "package protocol\ntype Index map[string]int\n",
		"sim/a.go":             "package sim\nimport \"" + Module + "/engine/protocol\"\nfunc f(x struct{ protocol.Index }) {\n\tfor range x.Index {\n\t}\n}\n",
	}, []string{"sim/a.go:4: range over a map"}},
	{"purity", "a loop nobody can judge", map[string]string{"sim/a.go": "package sim\nfunc f() {\n\tfor range undefined {\n\t}\n}\n"},
		[]string{"does not type-check"}},
	{"purity", "an error is reported once, where it is", map[string]string{
		"sim/a.go":    "package sim\nimport _ \"" + Module + "/faults\"\n",
		"faults/a.go": "package faults\nvar x = undefined\n",
	}, []string{"faults: does not type-check"}},
	{"purity", "the protocol neither waits nor locks", map[string]string{"engine/protocol/a.go": "package protocol\nimport (\n\t_ \"context\"\n\t_ \"sync\"\n)\n"},
		[]string{"import of context", "import of sync"}},
	{"purity", "only the simulator suspends tasks", map[string]string{
		"store/simstore/a.go": "package simstore\nimport \"iter\"\nvar pull = iter.Pull[int]\n",
		"sim/a.go":            "package sim\nimport \"iter\"\nvar pull = iter.Pull[int]\n",
	}, []string{"store/simstore/a.go:3: iter.Pull"}},
	{"purity", "goroutines in the wrong file of the engine", map[string]string{"engine/bus.go": "package engine\nimport \"time\"\nfunc f() {\n\tgo f()\n\ttime.Now()\n}\n"},
		[]string{"go statement", "time.Now"}},
	{"purity", "the four files that may, and what everybody may", map[string]string{
		"engine/run.go":          "package engine\nimport \"time\"\nfunc f() {\n\tgo f()\n\ttime.Now()\n}\n",
		"engine/bus.go":          "package engine\nfunc g(done chan int) { <-done }\n",
		"store/simstore/live.go": "package simstore\nimport (\n\t\"sync\"\n\t\"time\"\n)\nvar mu sync.Mutex\nvar now = time.Now\n",
		"sim/many.go":            "package sim\nimport \"time\"\nfunc f() {\n\tgo f()\n\ttime.Now()\n}\n",
		"sim/context.go":         "package sim\nfunc done() <-chan struct{} { return nil }\n",
		"sim/a_test.go":          "package sim\nfunc g() { go g() }\n",
		"sim/a.go": "package sim\nimport (\n\t\"maps\"\n\t\"slices\"\n\t\"time\"\n)\n" +
			"func h(m map[int]int) {\n\tfor range slices.Sorted(maps.Keys(m)) {\n\t}\n\tm[1], _ = m[2]\n\t_ = time.Unix(0, 0).Add(time.Second)\n}\n",
	}, nil},
	{"purity", "many.go may not depend on map order", map[string]string{"sim/many.go": "package sim\nfunc f(m map[int]int) {\n\tfor range m {\n\t}\n}\n"},
		[]string{"range over a map"}},

	{"comments", "everything exported", map[string]string{"a/a.go": "package a\ntype T struct{}\nfunc (T) M() {}\nfunc F() {}\nconst C = 1\nvar V, w = 1, 2\ntype (\n\tU int\n)\n"},
		[]string{"a: no file has a package comment", "type T", "T.M", "F has no", "const C", "var V", "type U"}},
	{"comments", "the fields of a configuration", map[string]string{"a/a.go": "// Package a.\npackage a\n// PoolConfig is.\ntype PoolConfig struct {\n\t// A is.\n\tA int\n\tB int // is\n\tC int\n\td int\n}\n"},
		[]string{"PoolConfig.C"}},
	{"comments", "one comment for a group of values; none for what is hidden", map[string]string{
		"a/a.go":      "// Package a.\npackage a\n// The values.\nconst (\n\tA = 1\n\tB = 2\n)\ntype t struct{}\nfunc (t) Error() string { return \"\" }\n",
		"a/a_test.go": "package a\nfunc TestX() {}\n",
	}, nil},

	{"documents", "links", map[string]string{"README.md": "# The idea\n[a](CORRECTNESS.md) [b](docs/adr) [c](#the-idea) [d](#gone) [e](https://example.org) [f](docs/adr/0001.md#what-holds-it)\n",
		"docs/adr/0001.md": "## What holds it?\n[up](../../README.md)\n"},
		[]string{"CORRECTNESS.md: there is no", "no such heading"}},
	{"documents", "names", map[string]string{
		"README.md": "`engine.New()` `engine.Old` `State.Claim` `State.Gone` `Absent.X` `engine.Config.Group` `engine.Config.Gone` `time.Now` `Store.Claim`\n",
		"engine/a.go": "package engine\nfunc New() {}\ntype Config struct{ Group string }\ntype State int\nfunc (*State) Claim() {}\n" +
			"type Store interface{ Claim() }\n",
	}, []string{"engine.Old", "State.Gone", "no type Absent", "engine.Config.Gone"}},
	{"documents", "paths, files, tests, targets and mutants", map[string]string{
		"docs/a.md": "`engine/a.go` `engine/gone.go` `engine/...` `./engine` `gone.go` `a.go` `gone.tla` `other/gone` `make lint` `make gone` `TestA` `TestGone` " +
			"`mutant:known` `mutant:gone` `go run ./engine` `relaysim -seed 1`\n```\n`engine/gone.go` [x](gone.md)\n```\n",
		"engine/a.go":      "package engine\nimport \"" + mutantPackage + "\"\nvar all = []mutant.Info{{Name: \"known\"}}\n",
		"engine/a_test.go": "package engine\nfunc TestA() {}\n",
		"Makefile":         "lint: ## check\n\tgo test ./internal/lint\n",
	}, []string{"engine/gone.go", "`gone.go`", "make gone", "TestGone", "mutant:gone"}},
	{"documents", "a changelog may name what is gone", map[string]string{"CHANGELOG.md": "`engine/gone.go`\n", "engine/a.go": "package engine\n"}, nil},

	{"snippet", "code that nothing compiles", map[string]string{
		"README.md":              "# x\n```go\nf()\ng()\n```\n```go\nh()\n```\n",
		"engine/example_test.go": "package engine_test\nfunc x() {\nf()\ng()\n}\n",
	}, []string{"begins with \"h()\""}},
	{"snippet", "no code", map[string]string{"README.md": "# x\n", "engine/example_test.go": "package engine_test\n"}, []string{"no block of Go"}},

	{"actions", "an action without its method", map[string]string{
		"engine/protocol/action.go": "package protocol\ntype A struct{}\nfunc (A) Name() string { return \"A\" }\ntype B struct{}\nfunc (B) Name() string { return \"C\" }\n",
		"engine/protocol/state.go":  "package protocol\ntype State struct{}\nfunc (*State) A(A) {}\n",
	}, []string{"action B calls itself", "B has no method State.B"}},
	{"actions", "no actions where they are looked for", map[string]string{"engine/protocol/state.go": "package protocol\ntype State struct{}\n"},
		[]string{"no action types found"}},
	{"actions", "both sides alike", map[string]string{
		"engine/protocol/action.go": "package protocol\ntype A struct{}\nfunc (A) Name() string { return \"A\" }\n",
		"engine/protocol/state.go":  "package protocol\ntype State struct{}\nfunc (*State) A(A) {}\nfunc (*State) Hash() {}\n",
	}, nil},

	{"invariants", "a name on one side only", promising("| `KeyOrder`, `Lost` | `Else` |\n| `Drains` (liveness) | |\n",
		"var Invariants = []string{\"KeyOrder\", other}\nconst other = \"FencedOut\"\n"),
		[]string{"Lost is not in protocol.Invariants", "Drains is not in protocol.Invariants", "the simulator never names the liveness property Drains", "FencedOut is not in CORRECTNESS.md"}},
	{"invariants", "no names at all", promising("", "var Invariants = []string{f()}\n"),
		[]string{"no table with a column", "lists no names"}},
	{"invariants", "both sides alike", promising("| `KeyOrder` | |\n| `FencedOut` | |\n",
		"var Invariants = []struct{ Name string }{{Name: \"KeyOrder\"}, {\"FencedOut\"}}\n"), nil},

	{"spec", "names on one side only", specified(map[string]string{
		"spec/tla/Lease.tla":      "(* Gone == *)\nClaimEffect == TRUE\nTakeOverEffect == TRUE\nTakeOverRefusal == TRUE\nExtraEffect == TRUE\nExtraRefusals == TRUE\n",
		"spec/tla/Relaybus.tla":   "EXTENDS Invariants, Lease, Environment\nNext == \\/ Act(1) \\/ ExtraEffect \\/ Crash \\* TakeOverEffect\nAct(w) == ClaimEffect\n",
		"spec/tla/Finish.tla":     "",
		"spec/tla/Invariants.tla": "Odd == TRUE\n",
		"spec/tla/Small.cfg":      "INVARIANTS KeyOrder Odd\nCONSTANT N = 1\n",
		"spec/tla/suite.txt":      "# Relaybus Small\nRelaybus Other small pass 1 1 1 x\n",
		"spec/tla/faults.txt":     "crash Environment!Crash\ncrash Environment!Crash\nlate Environment!Late\npause Environment!Stop\n",
	}), []string{"Extra is not in engine/protocol/action.go", "Claim has an effect and no ClaimRefusal", "TakeOver is an action that no step",
		"no module defines KeyOrder", "checks Odd", "Small.cfg: is not in the suite table", "Finish.tla: is not in the suite table",
		"crash has two lines", "late is Environment!Late, which no Next leads to", "want a fault and the module!action", "pause is not in faults"}},
	{"spec", "an action and a fault are missing", specified(map[string]string{
		"spec/tla/Lease.tla":    "ClaimEffect == TRUE\nClaimRefusal == TRUE\n",
		"spec/tla/Relaybus.tla": "EXTENDS Invariants, Lease, Environment\nNext == ClaimEffect \\/ Crash \\/ Late\n",
		"spec/tla/faults.txt":   "crash Environment!Crash\n",
	}), []string{"TakeOver is not in the modules", "late is not in spec/tla/faults.txt"}},
	{"spec", "a rule is missing", specified(map[string]string{
		"engine/protocol/guards.go": "package protocol\nvar Rules = []string{\"Claim.holder\", \"Claim.odd\"}\n",
		"spec/tla/spare.txt":        "Claim.odd     -   no reason\n",
		"spec/tla/BrokenSmall.cfg":  "CONSTANT Without = {\"Claim.holder\"}\n",
		"spec/tla/suite.txt":        "Relaybus Small small pass 1 1 1 x\nRelaybus BrokenSmall small KeyOrder 1 1 1 x\n",
		"spec/tla/Finish.tla":       "Holds == Guard(\"Claim.holder\", TRUE) /\\ Rule(\"End.row lane\") \\* \"Claim.gone\"\n",
		"spec/tla/Relaybus.tla":     "EXTENDS Invariants, Lease, Finish, Environment\nNext == ClaimEffect \\/ TakeOverEffect \\/ Crash \\/ Late\n",
	}), []string{"Claim.odd is not in the modules", "End.row lane is not in protocol.Rules"}},
	{"spec", "a rule that is neither needed nor explained", specified(map[string]string{
		"engine/protocol/guards.go": "package protocol\nvar Rules = []string{\"Claim.a\", \"Claim.b\", \"Claim.c\", \"Claim.d\", \"Claim.e\", \"Claim.f\", \"Claim.g\"}\n",
		"spec/tla/Environment.tla":  "Crash == TRUE\nLate == TRUE\n",
		"spec/tla/Lease.tla":        "ClaimEffect(s) == Rule(\"Claim.a\") /\\ Rule(\"Claim.b\") /\\ Rule(\"Claim.c\") /\\ Rule(\"Claim.d\")\n  /\\ Rule(\"Claim.e\") /\\ Rule(\"Claim.f\") /\\ Rule(\"Claim.g\")\nClaimRefusal(s) == TRUE\nTakeOverEffect == TRUE\nTakeOverRefusals == TRUE\n",
		"spec/tla/BrokenSmall.cfg":  "CONSTANT Without = {\"Claim.a\"}\n",
		"spec/tla/BrokenTwo.cfg":    "CONSTANT Without = {\"Claim.b\", \"Claim.g\"}\n",
		"spec/tla/Small.cfg":        "CONSTANT Without = {\"Claim.d\"}\nINVARIANT KeyOrder\n",
		"spec/tla/suite.txt":        "Relaybus Small small pass 1 1 1 x\nRelaybus BrokenSmall small KeyOrder 1 1 1 x\nRelaybus BrokenTwo small KeyOrder 1 1 1 x\n",
		"spec/tla/spare.txt": "# a comment\n\nClaim.a   -   needed\nClaim.c   Relaybus/None   gone\nClaim.d   Relaybus/Small   it does\n" +
			"Claim.e   Relaybus/Small   it does not\nClaim.f   Relaybus/Small\nClaim.x   -   unknown\n",
	}), []string{"Claim.a is taken away by", "there is no configuration Relaybus/None", "Relaybus/Small does not do without Claim.e",
		"want a rule", "takes Claim.b away", "takes Claim.f away", "takes Claim.g away", "Claim.x is no rule"}},
	{"spec", "a module that is wide, has tabs, or is not ASCII", specified(map[string]string{
		"spec/tla/Invariants.tla": "KeyOrder == TRUE\n" + strings.Repeat("x", 101) + "\n\tx\n\\* \u00fc\n" + strings.Repeat("x", 100) + "\n",
	}), []string{"Invariants.tla:2: modules are ASCII", "Invariants.tla:3: modules are ASCII", "Invariants.tla:4: modules are ASCII"}},
	{"spec", "a configuration that nothing can read", specified(map[string]string{"spec/tla/Small.cfg": "INVARIANTS = KeyOrder\n"}),
		[]string{"Small.cfg: cannot be read"}},
	{"spec", "both sides alike", specified(nil), nil},

	{"faults", "in the wrong file, unexplained, unlisted, not in the model", map[string]string{
		"faults/crash.go":  "package faults\nvar crash = &Kind{Name: \"crash\", Says: \"kills\"}\nvar pause = &Kind{Name: \"pause\"}\n",
		"CORRECTNESS.md":   "| fault | says |\n|---|---|\n| `crash` | |\n| `late` | |\n",
		"faults/faults.go": "package faults\ntype Kind struct{ Name, Says string }\nvar kinds = []*Kind{crash}\n",
	}, []string{"late is not in faults", "pause is not in CORRECTNESS.md", "pause belongs in faults/pause.go", "pause has no Says", "pause is not in the variable kinds"}},
	{"faults", "each in its place", map[string]string{
		"faults/crash.go":  "package faults\nvar crash = &Kind{Name: \"crash\", Says: \"kills\"}\n",
		"faults/late.go":   "package faults\nvar late = Kind{Name: \"late\", Says: \"delays\"}\n",
		"faults/faults.go": "package faults\nvar kinds = []*Kind{crash, late}\n",
		"CORRECTNESS.md":   "| fault | says |\n|---|---|\n| `crash`, `late` | |\n",
	}, nil},

	{"mutants", "declared and planted do not match", map[string]string{"sim/a.go": "package sim\nimport \"" + mutantPackage + "\"\n" +
		"const b = \"b\"\nvar all = []mutant.Info{{Name: \"a\"}, {Name: b}, {Name: \"c\"}, {Name: \"a\"}}\n" +
		"func f(n mutant.Name) bool { return mutant.On(\"a\") || mutant.On(b) || mutant.On(\"d\") || mutant.On(n) }\n"},
		[]string{"\"c\" is declared but planted nowhere", "\"a\" is declared twice", "\"d\" is in no", "wants a literal"}},
	{"mutants", "declared in one package, planted in another", map[string]string{
		"sim/a.go":    "package sim\nimport \"" + mutantPackage + "\"\nvar all = []mutant.Info{{Name: \"a\", Says: \"x\"}}\n",
		"engine/a.go": "package engine\nimport \"" + mutantPackage + "\"\nvar on = mutant.On(\"a\")\n",
	}, nil},

	{"probes", "undeclared, unexplained, never hit, twice, and no catalogue", map[string]string{"sim/a.go": "package sim\nimport \"" + probePackage + "\"\n" +
		"var (\n\t// It is.\n\ta = probe.New(\"a\")\n\tb = probe.New(\"b\")\n\t// It is.\n\tc = probe.NewRare(\"c\")\n\t// It is.\n\td = probe.New(\"a\")\n\t// It is.\n\te = probe.New(name)\n)\n" +
		"func f() {\n\ta.Hit()\n\tb.Hit()\n\td.Hit()\n\te.Hit()\n\tg := probe.New(\"g\")\n}\n"},
		[]string{"\"b\" has no comment", "\"c\" is declared and never hit", "\"a\" stands in sim/a.go already", "wants a literal name", "a.go:19: declare a probe", "docs/probes.md: is not what"}},
	{"probes", "hit in a test or by another package's variable only", map[string]string{
		"sim/a.go":      "package sim\nimport \"" + probePackage + "\"\n// It is.\nvar a = probe.New(\"a\")\n",
		"sim/a_test.go": "package sim\nfunc f() { a.Hit() }\n",
		"engine/a.go":   "package engine\nfunc f(a x) { a.Hit() }\n",
	}, []string{"\"a\" is declared and never hit", "docs/probes.md"}},
	{"probes", "all is well", func() map[string]string {
		files := map[string]string{"sim/a.go": "package sim\nimport \"" + probePackage + "\"\n// It is.\nvar a = probe.New(\"a\")\nfunc f() { a.Hit() }\n"}
		tree, _ := parse(fstest.MapFS{"sim/a.go": {Data: []byte(files["sim/a.go"])}}, []string{"sim/a.go"})
		files[ProbePage] = ProbeCatalogue(tree)
		return files
	}(), nil},

	{"places", "a path of this machine and a registry", map[string]string{"a.md": "see " + work + "x\n\nfrom https://" + host + "/x\n", "b.sh": "cd " + work + "main\n"},
		[]string{"a.md:1", "a.md:3", "b.sh:1"}},
	{"places", "paths that everybody has", map[string]string{"a.md": "docs" + work + "x, ~" + work + ", /tmp/x, https://example.org\n", "b.bin": "\x00" + work + "x"}, nil},
}

func importing(dir, target string) map[string]string {
	return map[string]string{dir + "/a.go": "package p\n\nimport _ \"" + Module + "/" + target + "\"\n"}
}

func promising(rows, invariants string) map[string]string {
	return map[string]string{
		"CORRECTNESS.md":                "| invariant | check |\n|---|---|\n" + rows + "\n`Elsewhere`\n",
		"engine/protocol/invariants.go": "package protocol\n" + invariants,
		"sim/a.go":                      "package sim\n",
	}
}

func specified(files map[string]string) map[string]string {
	all := map[string]string{
		"engine/protocol/action.go":     "package protocol\ntype Claim struct{}\nfunc (Claim) Name() string { return \"Claim\" }\ntype TakeOver struct{}\nfunc (TakeOver) Name() string { return \"TakeOver\" }\n",
		"engine/protocol/invariants.go": "package protocol\nvar Invariants = []string{\"KeyOrder\"}\n",
		"faults/faults.go":              "package faults\nvar crash = &Kind{Name: \"crash\"}\nvar late = &Kind{Name: \"late\"}\n",
		"spec/tla/Lease.tla":            "(* Gone == *)\nClaimEffect(s) == TRUE\nClaimRefusal(s) == TRUE\nTakeOverEffect == TRUE\nTakeOverRefusals == TRUE\n",
		"spec/tla/Environment.tla":      "Crash == TRUE\nLate == TRUE\n",
		"spec/tla/Invariants.tla":       "KeyOrder == TRUE\n",
		"spec/tla/Relaybus.tla":         "EXTENDS Invariants,\n  Lease, Environment\nNext == \\/ \\E w \\in Workers: Act(w)\n  \\/ Crash \\/ Late\nAct(w) == ClaimEffect(w) \\/ TakeOverEffect\n",
		"spec/tla/Small.cfg":            "INVARIANT KeyOrder \\* Odd\nCHECK_DEADLOCK FALSE\n",
		"spec/tla/faults.txt":           "# kind action\ncrash Environment!Crash\nlate Environment!Late because\n",
		"spec/tla/suite.txt":            "# a comment\nRelaybus Small small pass 1 1 1 x\n",
	}
	maps.Copy(all, files)
	return all
}

// TestPlanted shows that every rule can fail, and fails only where it should.
func TestPlanted(t *testing.T) {
	fails := map[string]bool{}
	for _, c := range cases {
		fails[c.rule] = fails[c.rule] || len(c.want) > 0
		t.Run(c.rule+"/"+c.story, func(t *testing.T) {
			rule := Rules[slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == c.rule })]
			fsys := fstest.MapFS{}
			for name, text := range c.files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			tree, err := parse(fsys, slices.Collect(maps.Keys(c.files)))
			if err != nil {
				t.Fatal(err)
			}
			if rule.Asleep != nil && rule.Asleep(tree) != "" {
				t.Fatalf("the rule sleeps: %s", rule.Asleep(tree))
			}
			expect(t, rule.Check(tree), c.want)
		})
	}
	for _, rule := range Rules {
		if !fails[rule.Name] {
			t.Errorf("rule %s has no planted violation: nobody knows whether it can fail", rule.Name)
		}
		if rule.Asleep != nil {
			empty, _ := parse(fstest.MapFS{}, nil)
			if rule.Asleep(empty) == "" {
				t.Errorf("rule %s is awake in an empty tree", rule.Name)
			}
		}
	}
}

// expect compares problems with parts of their messages, in any order.
func expect(t *testing.T, got []Problem, want []string) {
	t.Helper()
	left := slices.Clone(want)
	for _, problem := range got {
		i := slices.IndexFunc(left, func(part string) bool { return strings.Contains(problem.String(), part) })
		if i < 0 {
			t.Errorf("not expected: %s", problem)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, part := range left {
		t.Errorf("missing: %q", part)
	}
}

package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// row is one line of the import table.
type row struct {
	// dir is a folder, or a folder and everything below it ("cmd/...").
	dir string
	// ours are the packages of this module that it may import.
	ours []string
	// third are the modules of others that it may import.
	third []string
	// never binds tests too: what a test of this package must not import.
	never []string
}

const (
	anyModule = "*"
	realStore = "store/postgres store/mongo"
)

var (
	stores = strings.Fields(realStore)
	core   = []string{"engine", "engine/protocol", "internal/mutant", "internal/probe"}
	stored = append([]string{"internal/picks"}, core...)
)

// table says who may import whom. A package that no row names is a violation:
// a new package is a decision, and its row says what it may lean on. Tests may
// import anything but what never says.
var table = []row{
	{dir: "engine/protocol"},
	{dir: "engine", ours: []string{"engine/protocol", "internal/mutant", "internal/probe"}},
	{dir: "store/simstore", ours: stored, never: stores},
	{dir: "store/postgres", ours: stored, third: []string{"github.com/jackc/pgx/v5", "github.com/pressly/goose/v3"}, never: []string{"store/mongo"}},
	{dir: "store/mongo", ours: stored, third: []string{"go.mongodb.org/mongo-driver/v2"}, never: []string{"store/postgres"}},
	{dir: "store/storetest", ours: append([]string{"linearize"}, core...), third: []string{"pgregory.net/rapid"}},
	{dir: "faults", ours: core, never: stores},
	{dir: "sim/...", ours: append([]string{"sim/...", "faults", "linearize", "store/simstore", "internal/picks"}, core...), never: stores},
	{dir: "linearize", ours: []string{"engine"}, third: []string{"github.com/anishathalye/porcupine"}, never: []string{"engine/protocol"}},
	{dir: "spec/...", ours: []string{"spec/...", "engine/protocol"}, never: stores},
	{dir: "cmd/relaysim", ours: append([]string{"sim/...", "faults", "linearize", "store/simstore"}, core...), never: stores},
	{dir: "cmd/relaybus", ours: append([]string{"store/...", "internal/..."}, core...), third: []string{anyModule}},
	{dir: "examples/...", ours: []string{"engine", "store/..."}, third: []string{anyModule}},
	{dir: "internal/bench", ours: []string{"engine", "engine/protocol", "store/postgres"}, third: []string{"github.com/jackc/pgx/v5"}},
	{dir: "internal/drive", ours: append([]string{"sim", "store/simstore"}, core...), never: stores},
	{dir: "internal/lint", ours: []string{"spec/cfg"}},
	{dir: "internal/picks", ours: core, never: stores},
	{dir: "internal/mutant"},
	{dir: "internal/probe"},
	{dir: "internal/pgcluster"},
	{dir: "internal/testdb", ours: []string{"internal/pgcluster"}, third: []string{anyModule}},
}

func rowOf(dir string) *row {
	for i := range table {
		if covers(table[i].dir, dir) {
			return &table[i]
		}
	}
	return nil
}

// covers reports whether the pattern ("a/b" or "a/...") names dir.
func covers(pattern, dir string) bool {
	parent, deep := strings.CutSuffix(pattern, "/...")
	return dir == parent || deep && strings.HasPrefix(dir, parent+"/")
}

func coversAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, dir) })
}

func checkImports(t *Tree) []Problem {
	ps := &problems{tree: t}
	for _, dir := range t.dirs() {
		r := rowOf(dir)
		if r == nil {
			ps.add(dir, "no row of the import table names this package: add one to internal/lint that says what it may import")
			continue
		}
		for _, f := range t.packages[dir].Files {
			for _, spec := range f.Syntax.Imports {
				target, _ := strconv.Unquote(spec.Path.Value)
				if why := r.refuses(target, f.Test); why != "" {
					ps.at(spec.Pos(), "%s must not import %s: %s", dir, target, why)
				}
			}
		}
	}
	return ps.sorted()
}

// refuses says why the row forbids an import, "" when it does not.
func (r *row) refuses(target string, test bool) string {
	ours, isOurs := strings.CutPrefix(target, Module+"/")
	switch {
	case isOurs && coversAny(r.never, ours):
		return "not even in a test"
	case test || isStandard(target):
		return ""
	case isOurs && coversAny(r.ours, ours):
		return ""
	case isOurs:
		return "of our packages it may import " + orNone(r.ours)
	case slices.ContainsFunc(r.third, func(m string) bool { return m == anyModule || covers(m+"/...", target) }):
		return ""
	default:
		return "of other modules it may import " + orNone(r.third)
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return "only " + quoted(names)
}

// isStandard: packages of the standard library have no dot in their first
// element.
func isStandard(target string) bool {
	first, _, _ := strings.Cut(path.Clean(target), "/")
	return !strings.Contains(first, ".")
}

// Package lint keeps docs/adr and the architecture true: who may import whom,
// which packages stay pure, which names stand on both sides of a seam. Its
// rules run as ordinary Go tests over the checkout, so everybody who runs the
// tests runs them, with nothing to install.
//
// A rule reads source text and reports each violation with the reason. It
// assumes that the code compiles where types matter (a range over a map). It
// does not judge style; gofmt, go vet and staticcheck do.
//
// Every rule has a planted violation in its tests that it must report: a lint
// that cannot fail is worthless.
package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Problem is one violation of a rule.
type Problem struct {
	Where string // a path, with a line where there is one
	What  string // what is wrong and what to do
}

// String returns "where: what".
func (p Problem) String() string { return p.Where + ": " + p.What }

// Rule is one thing that stays true of the whole tree.
type Rule struct {
	Name  string
	Says  string // the rule in one sentence
	Check func(*Tree) []Problem
	// Asleep, when set, says why the rule has nothing to compare yet; "" means
	// that it is awake.
	Asleep func(*Tree) string
}

// Rules are all rules, in the order they run.
var Rules = []Rule{
	{Name: "syntax", Says: "every Go file parses", Check: checkSyntax},
	{Name: "imports", Says: "packages import only what the import table allows", Check: checkImports},
	{Name: "purity", Says: "what the simulator runs has no clock, goroutine, channel, global randomness or map order", Check: checkPurity},
	{Name: "comments", Says: "every exported name is documented", Check: checkComments},
	{Name: "documents", Says: "links and names in the documents resolve", Check: checkDocuments},
	{Name: "snippet", Says: "the README's Go code is compiled by an example", Check: checkSnippet, Asleep: snippetAsleep},
	{Name: "actions", Says: "every action type has the State method of its name", Check: checkActions, Asleep: actionsAsleep},
	{Name: "invariants", Says: "protocol.Invariants and CORRECTNESS.md list the same names", Check: checkInvariants, Asleep: invariantsAsleep},
	{Name: "spec", Says: "spec/tla and Go use the same names for actions, invariants and faults", Check: checkSpec, Asleep: specAsleep},
	{Name: "faults", Says: "every fault kind has a documented file of its own", Check: checkFaults, Asleep: faultsAsleep},
	{Name: "mutants", Says: "every mutant is declared once and planted somewhere", Check: checkMutants},
	{Name: "probes", Says: "every probe is declared once, explained, hit somewhere, and in the catalogue", Check: checkProbes},
	{Name: "places", Says: "no tracked file names a path of one machine or the host of a registry", Check: checkPlaces},
}

// problems collects the violations of one rule.
type problems struct {
	tree *Tree
	list []Problem
}

func (ps *problems) add(where, format string, arguments ...any) {
	ps.list = append(ps.list, Problem{Where: where, What: fmt.Sprintf(format, arguments...)})
}

func (ps *problems) at(pos token.Pos, format string, arguments ...any) {
	position := ps.tree.fset.Position(pos)
	ps.add(fmt.Sprintf("%s:%d", position.Filename, position.Line), format, arguments...)
}

func (ps *problems) sorted() []Problem {
	slices.SortStableFunc(ps.list, func(a, b Problem) int { return cmp.Compare(a.Where, b.Where) })
	return slices.Compact(ps.list)
}

func checkSyntax(t *Tree) []Problem { return t.broken }

// compare reports names that stand on one side only.
func (ps *problems) compare(left []string, leftName string, right []string, rightName string) {
	for _, name := range left {
		if !slices.Contains(right, name) {
			ps.add(leftName, "%s is not in %s", name, rightName)
		}
	}
	for _, name := range right {
		if !slices.Contains(left, name) {
			ps.add(rightName, "%s is not in %s", name, leftName)
		}
	}
}

// stringsIn returns the values of all string literals below n, in order.
func stringsIn(n ast.Node) []string {
	var found []string
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := literal(n); ok {
			found = append(found, s)
		}
		return true
	})
	return found
}

// quoted joins names for a message.
func quoted(names []string) string { return strings.Join(names, ", ") }

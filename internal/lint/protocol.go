package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

const (
	protocolDir = "engine/protocol"
	actionFile  = protocolDir + "/action.go"
	promises    = "CORRECTNESS.md"
)

// actionsOf maps each type of engine/protocol that has a method Name to the
// string the method returns.
func actionsOf(t *Tree) map[string]*ast.FuncDecl {
	actions := map[string]*ast.FuncDecl{}
	for _, f := range t.files(protocolDir) {
		if f.Path != actionFile {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			if m, ok := decl.(*ast.FuncDecl); ok && m.Recv != nil && m.Name.Name == "Name" {
				actions[receiverName(m)] = m
			}
		}
	}
	return actions
}

// methodsOf returns the exported methods of a type of the folder.
func methodsOf(t *Tree, dir, owner string) []string {
	var methods []string
	for _, f := range t.files(dir) {
		for _, decl := range f.Syntax.Decls {
			if m, ok := decl.(*ast.FuncDecl); ok && m.Recv != nil && m.Name.IsExported() && receiverName(m) == owner {
				methods = append(methods, m.Name.Name)
			}
		}
	}
	return methods
}

func actionsAsleep(t *Tree) string {
	if !declares(t, protocolDir, "State") {
		return "engine/protocol has no type State yet"
	}
	return ""
}

// declares reports whether the folder's ordinary files declare a type.
func declares(t *Tree, dir, name string) bool {
	for _, f := range t.files(dir) {
		if f.Syntax.Scope.Lookup(name) != nil {
			return true
		}
	}
	return false
}

func checkActions(t *Tree) []Problem {
	ps := &problems{tree: t}
	methods := methodsOf(t, protocolDir, "State")
	actions := actionsOf(t)
	for _, name := range sortedKeys(actions) {
		if said := stringsIn(actions[name]); !slices.Equal(said, []string{name}) {
			ps.at(actions[name].Pos(), "action %s calls itself %q: one name for one idea", name, said)
		}
		if !slices.Contains(methods, name) {
			ps.at(actions[name].Pos(), "action %s has no method State.%s", name, name)
		}
	}
	if len(actions) == 0 {
		ps.add(actionFile, "no action types found: has the file moved? internal/lint reads them here")
	}
	return ps.sorted()
}

func invariantsOf(t *Tree) (names []string, found bool) { return listed(t, "Invariants") }

// listed returns the names in a variable of engine/protocol, in order; found is
// false when there is no such variable. An element may be a string, a constant,
// or a struct whose Name (or first value) is one.
func listed(t *Tree, variable string) (names []string, found bool) {
	for _, f := range t.files(protocolDir) {
		for _, list := range valuesOf(f.Syntax, variable) {
			found = true
			for _, element := range list.Elts {
				if name, ok := nameIn(t, protocolDir, element); ok {
					names = append(names, name)
				}
			}
		}
	}
	return names, found
}

// valuesOf returns the composite literals assigned to a package variable.
func valuesOf(f *ast.File, variable string) []*ast.CompositeLit {
	var found []*ast.CompositeLit
	for _, decl := range f.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if value.Names[0].Name == variable && len(value.Values) == 1 {
				if list, ok := value.Values[0].(*ast.CompositeLit); ok {
					found = append(found, list)
				}
			}
		}
	}
	return found
}

// nameIn reads the name out of one element of a declared list.
func nameIn(t *Tree, dir string, element ast.Expr) (string, bool) {
	if text, ok := stringValue(t, dir, element); ok {
		return text, true
	}
	value, ok := element.(*ast.CompositeLit)
	if !ok || len(value.Elts) == 0 {
		return "", false
	}
	if name := field(t, dir, value, "Name"); name != "" {
		return name, true
	}
	return stringValue(t, dir, value.Elts[0])
}

func isIdent(n ast.Expr, name string) bool {
	id, ok := n.(*ast.Ident)
	return ok && id.Name == name
}

// stringValue evaluates a string literal or a constant of the same package
// that is one.
func stringValue(t *Tree, dir string, n ast.Expr) (string, bool) {
	if text, ok := literal(n); ok {
		return text, true
	}
	id, ok := n.(*ast.Ident)
	if !ok {
		return "", false
	}
	for _, f := range t.files(dir) {
		for _, decl := range f.Syntax.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if name.Name == id.Name && i < len(value.Values) {
						return stringValue(t, dir, value.Values[i])
					}
				}
			}
		}
	}
	return "", false
}

func invariantsAsleep(t *Tree) string {
	if _, found := invariantsOf(t); !found {
		return "engine/protocol declares no Invariants yet"
	}
	return ""
}

// checkInvariants compares protocol.Invariants with the column "invariant" of
// the tables in CORRECTNESS.md. A cell that says "(liveness)" names a property
// of whole runs, which no single State can break; the simulator must name it.
func checkInvariants(t *Tree) []Problem {
	ps := &problems{tree: t}
	declared, _ := invariantsOf(t)
	if len(declared) == 0 {
		ps.add(protocolDir, "Invariants lists no names that internal/lint can read: use string literals or constants")
	}
	promised := spansIn(column(string(t.text[promises]), "invariant"), "")
	if len(promised) == 0 {
		ps.add(promises, "no table with a column \"invariant\"")
	}
	ps.compare(declared, "protocol.Invariants", promised, promises)
	for _, name := range spansIn(column(string(t.text[promises]), "invariant"), "(liveness)") {
		if len(t.files("sim")) > 0 && !mentions(t, "sim", name) {
			ps.add(promises, "the simulator never names the liveness property %s", name)
		}
	}
	return ps.sorted()
}

// spansIn returns the code spans of the cells that contain mark.
func spansIn(cells []string, mark string) []string {
	var names []string
	for _, cell := range cells {
		if !strings.Contains(cell, mark) {
			continue
		}
		for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
			names = append(names, span[1])
		}
	}
	return names
}

// mentions reports whether a string literal below dir is or holds the name.
func mentions(t *Tree, dir, name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	for _, d := range t.dirs() {
		if !covers(dir+"/...", d) {
			continue
		}
		for _, f := range t.files(d) {
			if slices.ContainsFunc(stringsIn(f.Syntax), word.MatchString) {
				return true
			}
		}
	}
	return false
}

package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	faultsDir     = "faults"
	mutantPackage = Module + "/internal/mutant"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// faultKind is one declaration of a kind of fault.
type faultKind struct {
	file     string
	variable string
	value    *ast.CompositeLit
	says     string
}

// faultKinds finds the variables of package faults that hold a Kind with a
// Name.
func faultKinds(t *Tree) map[string]faultKind {
	kinds := map[string]faultKind{}
	for _, f := range t.files(faultsDir) {
		for _, decl := range f.Syntax.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				for i := range value.Values {
					kind := faultKind{file: f.Path, variable: value.Names[i].Name, value: kindLiteral(value.Values[i])}
					kind.says = field(t, faultsDir, kind.value, "Says")
					if name := field(t, faultsDir, kind.value, "Name"); name != "" {
						kinds[name] = kind
					}
				}
			}
		}
	}
	return kinds
}

// kindLiteral returns the literal in Kind{…} or &Kind{…}, else an empty one.
func kindLiteral(n ast.Expr) *ast.CompositeLit {
	if address, ok := n.(*ast.UnaryExpr); ok {
		n = address.X
	}
	if value, ok := n.(*ast.CompositeLit); ok && isIdent(value.Type, "Kind") {
		return value
	}
	return &ast.CompositeLit{}
}

// field returns the string that a literal gives one of its fields, or "".
func field(t *Tree, dir string, value *ast.CompositeLit, name string) string {
	for _, element := range value.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok && isIdent(pair.Key, name) {
			text, _ := stringValue(t, dir, pair.Value)
			return text
		}
	}
	return ""
}

func faultsAsleep(t *Tree) string {
	if len(faultKinds(t)) == 0 {
		return "package faults declares no kind yet"
	}
	return ""
}

// checkFaults wants each kind declared in faults/<kind>.go, explained, listed
// in the variable kinds, and named in the fault model of CORRECTNESS.md.
func checkFaults(t *Tree) []Problem {
	ps := &problems{tree: t}
	kinds := faultKinds(t)
	listed := listedKinds(t)
	for _, name := range sortedKeys(kinds) {
		kind := kinds[name]
		if want := path.Join(faultsDir, name+".go"); kind.file != want {
			ps.at(kind.value.Pos(), "fault %s belongs in %s", name, want)
		}
		if kind.says == "" {
			ps.at(kind.value.Pos(), "fault %s has no Says: explain it in one line", name)
		}
		if !slices.Contains(listed, kind.variable) {
			ps.at(kind.value.Pos(), "fault %s is not in the variable kinds, so it never strikes", name)
		}
	}
	ps.compare(sortedKeys(kinds), faultsDir, spansIn(column(string(t.text[promises]), "fault"), ""), promises)
	return ps.sorted()
}

// listedKinds returns the variables in the list kinds of package faults.
func listedKinds(t *Tree) []string {
	var names []string
	for _, f := range t.files(faultsDir) {
		for _, list := range valuesOf(f.Syntax, "kinds") {
			for _, element := range list.Elts {
				if id, ok := element.(*ast.Ident); ok {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

// declaredMutants maps each mutant's name to the places of its declarations:
// elements of a []mutant.Info.
func declaredMutants(t *Tree) map[string][]ast.Node {
	declared := map[string][]ast.Node{}
	eachFile(t, func(dir string, f *File, imports map[string]string) {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			list, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			array, ok := list.Type.(*ast.ArrayType)
			if !ok || !isMutant(dir, array.Elt, imports, "Info") {
				return true
			}
			for _, element := range list.Elts {
				if name, ok := nameIn(t, dir, element); ok {
					declared[name] = append(declared[name], element)
				}
			}
			return true
		})
	})
	return declared
}

// isMutant reports whether an expression is mutant.<name>, or <name> within
// package mutant itself.
func isMutant(dir string, n ast.Expr, imports map[string]string, name string) bool {
	target, found := selector(n, imports)
	return target == mutantPackage && found == name || dir == "internal/mutant" && isIdent(n, name)
}

func eachFile(t *Tree, visit func(dir string, f *File, imports map[string]string)) {
	for _, dir := range t.dirs() {
		for _, f := range t.files(dir) {
			visit(dir, f, importsOf(f.Syntax))
		}
	}
}

// checkMutants wants every mutant.On to name a declared mutant, and every
// declared mutant to be planted.
func checkMutants(t *Tree) []Problem {
	ps := &problems{tree: t}
	declared := declaredMutants(t)
	planted := map[string]bool{}
	eachFile(t, func(dir string, f *File, imports map[string]string) {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || dir == "internal/mutant" || !isMutant(dir, call.Fun, imports, "On") || len(call.Args) != 1 {
				return true
			}
			name, ok := stringValue(t, dir, call.Args[0])
			switch {
			case !ok:
				ps.at(call.Pos(), "mutant.On wants a literal or a constant of its package, so that git grep finds the plant")
			case declared[name] == nil:
				ps.at(call.Pos(), "mutant %q is in no []mutant.Info", name)
			}
			planted[name] = true
			return true
		})
	})
	for _, name := range sortedKeys(declared) {
		if !planted[name] {
			ps.at(declared[name][0].Pos(), "mutant %q is declared but planted nowhere", name)
		}
		for _, again := range declared[name][1:] {
			ps.at(again.Pos(), "mutant %q is declared twice", name)
		}
		if strings.TrimSpace(name) == "" {
			ps.at(declared[name][0].Pos(), "a mutant without a name")
		}
	}
	return ps.sorted()
}

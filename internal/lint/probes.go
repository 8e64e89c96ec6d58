package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

const (
	probePackage = Module + "/internal/probe"
	// ProbePage is the catalogue of probes, which is made from the source.
	ProbePage = "docs/probes.md"
)

// declaredProbe is one probe.New or probe.NewRare of a package variable.
type declaredProbe struct {
	name, variable, dir, file, says string
	rare                            bool
	at                              ast.Node
}

// probesOf finds the probes of every package but their own, in the order of
// files and lines, and the calls that declare one where none may be.
func probesOf(t *Tree) (probes []declaredProbe, strays []ast.Node) {
	eachFile(t, func(dir string, f *File, imports map[string]string) {
		declared := map[ast.Node]bool{}
		for _, decl := range f.Syntax.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				if len(value.Values) != 1 {
					continue
				}
				name, rare, ok := probeCall(value.Values[0], imports)
				if !ok {
					continue
				}
				declared[value.Values[0]] = true
				p := declaredProbe{
					name: name, variable: value.Names[0].Name, dir: dir, file: f.Path, rare: rare, at: value,
					says: strings.Join(strings.Fields(value.Doc.Text()+" "+value.Comment.Text()), " "),
				}
				if !group.Lparen.IsValid() && p.says == "" {
					p.says = strings.Join(strings.Fields(group.Doc.Text()), " ")
				}
				probes = append(probes, p)
			}
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if call, ok := n.(ast.Expr); ok && !declared[n] {
				if _, _, ok := probeCall(call, imports); ok {
					strays = append(strays, n)
				}
			}
			return true
		})
	})
	return probes, strays
}

// probeCall reads probe.New("name") and probe.NewRare("name").
func probeCall(n ast.Expr, imports map[string]string) (name string, rare, ok bool) {
	call, isCall := n.(*ast.CallExpr)
	if !isCall || len(call.Args) != 1 {
		return "", false, false
	}
	target, function := selector(call.Fun, imports)
	if target != probePackage || function != "New" && function != "NewRare" {
		return "", false, false
	}
	name, _ = literal(call.Args[0])
	return name, function == "NewRare", true
}

// checkProbes wants each probe declared once, as a variable of its package with
// a literal name and a comment, hit somewhere, and listed in the catalogue.
func checkProbes(t *Tree) []Problem {
	ps := &problems{tree: t}
	probes, strays := probesOf(t)
	for _, n := range strays {
		ps.at(n.Pos(), "declare a probe as a variable of its package, one a line: elsewhere the catalogue does not find it")
	}
	hit := hitProbes(t)
	first := map[string]declaredProbe{}
	for _, p := range probes {
		switch before, twice := first[p.name]; {
		case p.name == "":
			ps.at(p.at.Pos(), "a probe wants a literal name")
		case twice:
			ps.at(p.at.Pos(), "probe %q stands in %s already", p.name, before.file)
		case p.says == "":
			ps.at(p.at.Pos(), "probe %q has no comment: say what it means that this happened", p.name)
		case !hit[p.dir+" "+p.variable]:
			ps.at(p.at.Pos(), "probe %q is declared and never hit", p.name)
		}
		first[p.name] = p
	}
	if len(probes) > 0 && string(t.text[ProbePage]) != ProbeCatalogue(t) {
		ps.add(ProbePage, "is not what the source says: run go test ./internal/lint -write")
	}
	return ps.sorted()
}

// hitProbes returns "folder variable" of every variable.Hit() outside of tests.
func hitProbes(t *Tree) map[string]bool {
	hit := map[string]bool{}
	eachFile(t, func(dir string, f *File, _ map[string]string) {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Hit" {
				if variable, ok := method.X.(*ast.Ident); ok {
					hit[dir+" "+variable.Name] = true
				}
			}
			return true
		})
	})
	return hit
}

// ProbeCatalogue renders the catalogue of probes as a page.
func ProbeCatalogue(t *Tree) string {
	var b strings.Builder
	b.WriteString(`# Probes

A probe is a named point in the code that counts how often a situation occurred.
Each one below is a situation that some rule of the protocol exists for. A batch
of 5,000 seeds or more with every fault and no limits must hit every probe that
is not rare, or ` + "`relaysim`" + ` says which it missed and exits with code 7: a clean
verdict of a simulator that no longer gets there is worth little. Smaller
batches only say so.

This page is made from the source: ` + "`go test ./internal/lint -write`" + `.

| probe | rare | declared in | what it means |
|---|---|---|---|
`)
	probes, _ := probesOf(t)
	for _, p := range probes {
		rare := ""
		if p.rare {
			rare = "rare"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", p.name, rare, p.file, strings.ReplaceAll(p.says, "|", `\|`))
	}
	return b.String()
}

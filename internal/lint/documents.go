package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	codeSpan     = regexp.MustCompile("`([^`\n]+)`")
	markdownLink = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`^#{1,6} +(.*?)\s*$`)
	fence        = regexp.MustCompile("^\\s*(```|~~~)")
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

	packageName = regexp.MustCompile(`^([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?$`)
	memberName  = regexp.MustCompile(`^([A-Z]\w*)\.([A-Z]\w*)$`)
	fileName    = regexp.MustCompile(`^[\w.-]+\.(?:go|md|sql|tla|cfg|sh|txt|mod|ndjson)$`)
	makeTarget  = regexp.MustCompile(`^make ([a-z][\w-]*)`)
	mutantName  = regexp.MustCompile(`^mutant:(\S+)$`)
	testName    = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)
)

// checkDocuments follows the relative links of every Markdown file and looks
// up what stands in backticks: `package.Name`, `Type.Member`, paths and file
// names, tests, `make target`, `mutant:name`. A changelog may name what is
// gone, so only its links are followed.
func checkDocuments(t *Tree) []Problem {
	d := &documents{problems: problems{tree: t}, names: indexNames(t)}
	for _, name := range t.paths {
		if path.Ext(name) != ".md" || strings.Contains(name, "testdata/") {
			continue
		}
		for number, line := range prose(string(t.text[name])) {
			where := fmt.Sprintf("%s:%d", name, number)
			for _, link := range markdownLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				d.link(where, name, link[1])
			}
			if path.Base(name) == "CHANGELOG.md" {
				continue
			}
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				if why := d.unresolved(strings.TrimSuffix(span[1], "()")); why != "" {
					d.add(where, "`%s`: %s", span[1], why)
				}
			}
		}
	}
	return d.sorted()
}

type documents struct {
	problems
	names nameIndex
}

// prose yields the numbered lines of a document outside fenced blocks.
func prose(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		number, fenced := 0, false
		for line := range strings.Lines(text) {
			number++
			if fence.MatchString(line) {
				fenced = !fenced
			} else if !fenced && !yield(number, strings.TrimRight(line, "\r\n")) {
				return
			}
		}
	}
}

func (d *documents) link(where, from, target string) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}
	file, anchor, _ := strings.Cut(target, "#")
	if file == "" {
		file = from
	} else {
		file = path.Join(path.Dir(from), file)
	}
	switch {
	case !d.tree.exists(file):
		d.add(where, "link to %s: there is no %s", target, file)
	case anchor != "" && path.Ext(file) == ".md" && !slices.Contains(anchors(string(d.tree.text[file])), anchor):
		d.add(where, "link to %s: %s has no such heading", target, file)
	}
}

// anchors returns the link targets of a document's headings, as GitHub makes
// them.
func anchors(text string) []string {
	var list []string
	for _, line := range prose(text) {
		if found := heading.FindStringSubmatch(line); found != nil {
			plain := notInAnchors.ReplaceAllString(strings.ToLower(found[1]), "")
			list = append(list, strings.ReplaceAll(plain, " ", "-"))
		}
	}
	return list
}

// unresolved says why a code span names nothing, "" when it resolves or is
// not of a kind that can be looked up.
func (d *documents) unresolved(span string) string {
	if found := makeTarget.FindStringSubmatch(span); found != nil {
		if !regexp.MustCompile(`(?m)^` + found[1] + `:`).Match(d.tree.text["Makefile"]) {
			return "the Makefile has no such target"
		}
		return ""
	}
	if found := mutantName.FindStringSubmatch(span); found != nil {
		if !d.names.mutants[found[1]] {
			return "no []mutant.Info declares it"
		}
		return ""
	}
	if testName.MatchString(span) {
		if !d.names.tests[span] {
			return "no such test"
		}
		return ""
	}
	if found := packageName.FindStringSubmatch(span); found != nil {
		return d.names.inPackage(found[1], found[2], found[3])
	}
	if found := memberName.FindStringSubmatch(span); found != nil {
		return d.names.inType(found[1], found[2])
	}
	return d.missingFile(span)
}

// missingFile judges spans that look like a path of the tree (their first
// element is a folder of it) or like the name of a file of a kind it has.
func (d *documents) missingFile(span string) string {
	if strings.ContainsAny(span, " *?<>{}|=$,…") {
		return ""
	}
	clean := strings.TrimPrefix(span, "./")
	first, _, isPath := strings.Cut(clean, "/")
	if isPath {
		if d.tree.folders[first] && !d.tree.exists(strings.TrimSuffix(clean, "/...")) {
			return "no such file or folder"
		}
		return ""
	}
	if fileName.MatchString(span) && d.names.extensions[path.Ext(span)] && !d.names.files[span] {
		return "no file of that name"
	}
	return ""
}

// nameIndex is what documents may name.
type nameIndex struct {
	packages   map[string]map[string]bool // exported names by package name
	members    map[string]map[string]bool // exported methods and fields by type name, over all packages
	tests      map[string]bool
	mutants    map[string]bool
	files      map[string]bool // by base name
	extensions map[string]bool
}

func indexNames(t *Tree) nameIndex {
	x := nameIndex{
		packages: map[string]map[string]bool{}, members: map[string]map[string]bool{},
		tests: map[string]bool{}, mutants: map[string]bool{}, files: map[string]bool{}, extensions: map[string]bool{},
	}
	for _, name := range t.paths {
		x.files[path.Base(name)] = true
		x.extensions[path.Ext(name)] = true
	}
	for name := range declaredMutants(t) {
		x.mutants[name] = true
	}
	for _, p := range t.packages {
		if x.packages[p.Name()] == nil {
			x.packages[p.Name()] = map[string]bool{}
		}
		for _, f := range p.Files {
			for _, decl := range f.Syntax.Decls {
				if f.Test {
					if test, ok := decl.(*ast.FuncDecl); ok {
						x.tests[test.Name.Name] = true
					}
				} else {
					x.declare(x.packages[p.Name()], decl)
				}
			}
		}
	}
	return x
}

func (x nameIndex) declare(exported map[string]bool, decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv != nil {
			x.member(receiverName(decl), decl.Name)
		} else {
			exported[decl.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				exported[spec.Name.Name] = true
				x.declareType(spec)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					exported[name.Name] = true
				}
			}
		}
	}
}

func (x nameIndex) declareType(spec *ast.TypeSpec) {
	x.member(spec.Name.Name)
	var fields *ast.FieldList
	switch body := spec.Type.(type) {
	case *ast.StructType:
		fields = body.Fields
	case *ast.InterfaceType:
		fields = body.Methods
	default:
		return
	}
	for _, field := range fields.List {
		x.member(spec.Name.Name, field.Names...)
	}
}

func (x nameIndex) member(owner string, names ...*ast.Ident) {
	if x.members[owner] == nil {
		x.members[owner] = map[string]bool{}
	}
	for _, name := range names {
		x.members[owner][name.Name] = true
	}
}

func (x nameIndex) inPackage(pkg, name, member string) string {
	exported, ours := x.packages[pkg]
	switch {
	case !ours:
		return "" // somebody else's
	case !exported[name]:
		return "package " + pkg + " exports no " + name
	case member != "":
		return x.inType(name, member)
	}
	return ""
}

func (x nameIndex) inType(owner, member string) string {
	members, ours := x.members[owner]
	switch {
	case !ours:
		return "no type " + owner
	case !members[member]:
		return "type " + owner + " has no " + member
	}
	return ""
}

// column returns the cells below a header of that name in all Markdown tables.
func column(text, header string) []string {
	var cells []string
	at := -1
	for _, line := range prose(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "|") {
			at = -1
			continue
		}
		row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if found := slices.IndexFunc(row, func(cell string) bool { return strings.TrimSpace(cell) == header }); found >= 0 {
			at = found
		} else if at >= 0 && at < len(row) && strings.Trim(row[at], " -:") != "" {
			cells = append(cells, strings.TrimSpace(row[at]))
		}
	}
	return cells
}

package lint

import (
	"bytes"
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the module path that imports of our own packages start with.
const Module = "github.com/relaybus-go/relaybus"

// Tree is the source of the repository as the rules see it.
type Tree struct {
	fset     *token.FileSet
	text     map[string][]byte // by slash-separated path from the root
	paths    []string          // sorted
	folders  map[string]bool
	packages map[string]*Package // by folder
	broken   []Problem
	types    *checker
}

// Package is the Go files of one folder, tests included.
type Package struct {
	Dir   string
	Files []*File
}

// File is one parsed Go file.
type File struct {
	Path   string
	Test   bool
	Built  bool // part of an ordinary build on linux/amd64, without tags
	Syntax *ast.File
}

// Name is the package's name in its ordinary files, "" when there are none.
func (p *Package) Name() string {
	for _, f := range p.Files {
		if !f.Test {
			return f.Syntax.Name.Name
		}
	}
	return ""
}

// Load reads the checkout at root: what git tracks or would track, or every
// file where there is no git.
func Load(root string) (*Tree, error) {
	fsys := os.DirFS(root)
	list := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if out, err := list.Output(); err == nil {
		return parse(fsys, strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"))
	}
	var paths []string
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() {
			paths = append(paths, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return parse(fsys, paths)
}

// parse reads the named files of fsys. Folders with a go.mod of their own are
// other modules and folders named testdata are data: their text is kept and
// their Go files are not parsed.
func parse(fsys fs.FS, paths []string) (*Tree, error) {
	t := &Tree{
		fset:     token.NewFileSet(),
		text:     map[string][]byte{},
		folders:  map[string]bool{".": true},
		packages: map[string]*Package{},
	}
	t.types = newChecker(t)
	for _, name := range paths {
		text, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) || isFolder(fsys, name) {
			continue // deleted but still in the index, or a submodule
		}
		if err != nil {
			return nil, err
		}
		t.text[name] = text
		t.paths = append(t.paths, name)
		for dir := path.Dir(name); !t.folders[dir]; dir = path.Dir(dir) {
			t.folders[dir] = true
		}
	}
	slices.Sort(t.paths)
	for _, name := range t.paths {
		if strings.HasSuffix(name, ".go") && t.inModule(path.Dir(name)) {
			t.parseFile(name)
		}
	}
	return t, nil
}

func isFolder(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

func (t *Tree) inModule(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		base := path.Base(dir)
		if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || t.has(path.Join(dir, "go.mod")) {
			return false
		}
	}
	return true
}

func (t *Tree) parseFile(name string) {
	syntax, err := parser.ParseFile(t.fset, name, t.text[name], parser.ParseComments)
	if err != nil {
		t.broken = append(t.broken, Problem{Where: name, What: "does not parse: " + err.Error()})
		return
	}
	dir := path.Dir(name)
	p := t.packages[dir]
	if p == nil {
		p = &Package{Dir: dir}
		t.packages[dir] = p
	}
	p.Files = append(p.Files, &File{
		Path:   name,
		Test:   strings.HasSuffix(name, "_test.go"),
		Built:  t.built(name),
		Syntax: syntax,
	})
}

// built asks go/build whether the ordinary build has the file.
func (t *Tree) built(name string) bool {
	build := build.Default
	build.GOOS, build.GOARCH, build.BuildTags = "linux", "amd64", nil
	build.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(t.text[name])), nil
	}
	match, err := build.MatchFile(path.Dir(name), path.Base(name))
	return match && err == nil
}

func (t *Tree) has(file string) bool {
	_, ok := t.text[file]
	return ok
}

// exists reports whether name is a file or a folder of the tree.
func (t *Tree) exists(name string) bool {
	name = path.Clean(name)
	return t.has(name) || t.folders[name]
}

// dirs returns the folders that hold Go packages, sorted.
func (t *Tree) dirs() []string {
	dirs := make([]string, 0, len(t.packages))
	for dir := range t.packages {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

// files returns the parsed files of the folder that are no tests, or none.
func (t *Tree) files(dir string) []*File {
	p := t.packages[dir]
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
}

// matching returns the paths that match a glob pattern, sorted.
func (t *Tree) matching(pattern string) []string {
	return slices.DeleteFunc(slices.Clone(t.paths), func(name string) bool {
		match, _ := path.Match(pattern, name)
		return !match
	})
}

// importsOf maps the local name of each import of f to its path.
func importsOf(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		name := strings.TrimPrefix(path.Base(target), "go-")
		if version := path.Base(target); len(version) > 1 && version[0] == 'v' && strings.Trim(version[1:], "0123456789") == "" {
			name = path.Base(path.Dir(target))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = target
	}
	return names
}

// literal returns the value of a string literal.
func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// selector returns the import path and name of an expression like pkg.Name,
// given the imports of its file.
func selector(n ast.Node, imports map[string]string) (target, name string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok || pkg.Obj != nil { // Obj: a local variable shadows the package
		return "", ""
	}
	return imports[pkg.Name], sel.Sel.Name
}

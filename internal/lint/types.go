package lint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// checker type-checks our packages from source. Other packages come from the
// export data of the build cache, which the go command finds.
type checker struct {
	tree    *Tree
	done    map[string]*checked // by folder
	foreign types.Importer
}

type checked struct {
	pkg  *types.Package
	info *types.Info
	err  error // what is wrong with the package itself
	// inherited: the error is that of another pure package.
	inherited bool
}

func newChecker(t *Tree) *checker {
	c := &checker{tree: t, done: map[string]*checked{}}
	c.foreign = importer.ForCompiler(t.fset, "gc", exportData)
	return c
}

// check returns the types of the folder's ordinary files.
func (c *checker) check(dir string) (*types.Info, error) {
	if err := findExportData(c.foreignImports(dir)); err != nil {
		return nil, err
	}
	done := c.load(dir)
	if done.inherited {
		return done.info, nil // reported for the other package
	}
	return done.info, done.err
}

func (c *checker) load(dir string) *checked {
	if done := c.done[dir]; done != nil {
		return done
	}
	done := &checked{info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	c.done[dir] = done
	var files []*ast.File
	for _, f := range c.tree.files(dir) {
		if f.Built {
			files = append(files, f.Syntax)
		}
	}
	config := types.Config{Importer: importerFunc(func(target string) (*types.Package, error) {
		dir, ours := strings.CutPrefix(target, Module+"/")
		if !ours {
			return c.foreign.Import(target)
		}
		if c.tree.packages[dir] == nil {
			return nil, errors.New("no such folder: " + dir)
		}
		imported := c.load(dir)
		pure := bansOf(dir+"/any.go")&mapOrder != 0 // and so reported itself
		done.inherited = done.inherited || pure && imported.err != nil
		return imported.pkg, imported.err
	})}
	done.pkg, done.err = config.Check(Module+"/"+dir, c.tree.fset, files, done.info)
	return done
}

type importerFunc func(target string) (*types.Package, error)

// Import implements [types.Importer].
func (f importerFunc) Import(target string) (*types.Package, error) { return f(target) }

// foreignImports lists what the folder's ordinary files and those of our
// packages that they lead to import from elsewhere.
func (c *checker) foreignImports(dir string) []string {
	var list []string
	seen := map[string]bool{"unsafe": true}
	queue := []string{dir}
	for len(queue) > 0 {
		dir, queue = queue[0], queue[1:]
		for _, f := range c.tree.files(dir) {
			for _, spec := range f.Syntax.Imports {
				target, _ := literal(spec.Path)
				if seen[target] {
					continue
				}
				seen[target] = true
				if next, ours := strings.CutPrefix(target, Module+"/"); ours {
					queue = append(queue, next)
				} else {
					list = append(list, target)
				}
			}
		}
	}
	return list
}

var exports = struct {
	sync.Mutex
	asked map[string]bool
	file  map[string]string // export data by import path
}{asked: map[string]bool{}, file: map[string]string{}}

// findExportData asks the go command, once, where the export data of the
// packages and of all they import lies.
func findExportData(targets []string) error {
	exports.Lock()
	defer exports.Unlock()
	list := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	unknown := 0
	for _, target := range targets {
		if !exports.asked[target] {
			exports.asked[target] = true
			unknown++
			list = append(list, target)
		}
	}
	if unknown == 0 {
		return nil
	}
	command := exec.Command("go", list...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("go list -export: %w\n%s", err, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		target, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports.file[target] = file
	}
	return nil
}

// exportData opens the export data of a package that is not ours.
func exportData(target string) (io.ReadCloser, error) {
	exports.Lock()
	file := exports.file[target]
	exports.Unlock()
	if file == "" {
		return nil, errors.New("no export data for " + target)
	}
	return os.Open(file)
}

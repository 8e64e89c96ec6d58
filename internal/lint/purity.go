package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// ban is a set of things that pure code must not do.
type ban uint

const (
	goroutines ban = 1 << iota // go statements, context.AfterFunc
	channels                   // making one, select, send, receive, range
	clocks                     // reading the time, timers, contexts with deadlines
	randomness                 // global sources: math/rand functions, crypto/rand, maphash
	mapOrder                   // range over a map, or over its keys unsorted
	locks                      // sync and sync/atomic
	contexts                   // context
	coroutines                 // iter.Pull
)

const deterministic = goroutines | channels | clocks | randomness | mapOrder

// purity says what the files of a folder must not do. Every row that matches
// a file binds it.
type purity struct {
	dir    string // a folder, or a folder and everything below it
	files  string // a pattern for file names
	except string // one file name that is exempt
	bans   ban
}

// purities: everything that the simulator runs. run.go is the one file of
// engine that touches the world, live.go the one of simstore, many.go the one
// of sim (it runs seeds across cores and must still not depend on map order).
var purities = []purity{
	{dir: "engine/protocol/...", files: "*.go", bans: deterministic | locks | contexts | coroutines},
	{dir: "engine", files: "*.go", except: "run.go", bans: goroutines | clocks | mapOrder},
	{dir: "engine", files: "dispatcher*.go", bans: deterministic | coroutines},
	{dir: "engine", files: "execute.go", bans: deterministic | coroutines},
	{dir: "store/simstore", files: "*.go", except: "live.go", bans: deterministic | locks | coroutines},
	{dir: "sim/...", files: "*.go", except: "many.go", bans: deterministic},
	{dir: "sim", files: "many.go", bans: randomness | mapOrder},
	{dir: "faults", files: "*.go", bans: deterministic | locks | coroutines},
}

func bansOf(file string) ban {
	var bans ban
	dir, base := path.Split(file)
	for _, p := range purities {
		match, _ := path.Match(p.files, base)
		if match && base != p.except && covers(p.dir, path.Clean(dir)) {
			bans |= p.bans
		}
	}
	return bans
}

func checkPurity(t *Tree) []Problem {
	ps := &problems{tree: t}
	for _, dir := range t.dirs() {
		ordered := false
		for _, f := range t.files(dir) {
			bans := bansOf(f.Path)
			ps.impure(f.Syntax, bans)
			ordered = ordered || bans&mapOrder != 0
		}
		if ordered {
			ps.loops(dir)
		}
	}
	return ps.sorted()
}

// impure reports what one file does against bans, loops aside.
func (ps *problems) impure(f *ast.File, bans ban) {
	report := func(n ast.Node, b ban, what string) {
		if bans&b != 0 {
			ps.at(n.Pos(), "%s in code that the simulator runs on one thread: %s", what, instead[b])
		}
	}
	for _, spec := range f.Imports {
		target, _ := literal(spec.Path)
		if b, ok := bannedImports[target]; ok {
			report(spec, b, "import of "+target)
		}
		if spec.Name != nil && spec.Name.Name == "." && bans != 0 {
			ps.at(spec.Pos(), "a dot import hides what this file uses: import it by name")
		}
	}
	imports := importsOf(f)
	sorted := map[ast.Node]bool{} // maps.Keys(m) within slices.Sorted
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n, goroutines, "go statement")
		case *ast.SelectStmt:
			report(n, channels, "select")
		case *ast.SendStmt:
			report(n, channels, "channel send")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				report(n, channels, "channel receive")
			}
		case *ast.CallExpr:
			// A channel type alone does nothing: a context of the simulator
			// needs one in Done.
			if _, ok := firstArgument(n).(*ast.ChanType); ok && isIdent(n.Fun, "make") {
				report(n, channels, "channel")
			}
			if target, name := selector(n.Fun, imports); target == "slices" && (name == "Sorted" || name == "SortedFunc") {
				if call, ok := firstArgument(n).(*ast.CallExpr); ok {
					sorted[call.Fun] = true
				}
			}
		case *ast.SelectorExpr:
			if target, name := selector(n, imports); target != "" && !sorted[n] {
				if b := bannedName(target, name); b != 0 {
					report(n, b, target+"."+name)
				}
			}
		}
		return true
	})
}

func firstArgument(call *ast.CallExpr) ast.Expr {
	if len(call.Args) == 0 {
		return nil
	}
	return call.Args[0]
}

var instead = map[ban]string{
	goroutines: "return an effect and let run.go act",
	channels:   "return an effect and let run.go act",
	clocks:     "take the time as an argument",
	randomness: "draw from the source given at construction",
	mapOrder:   "sort first (slices.Sorted(maps.Keys(m))) or keep a sorted slice",
	locks:      "one thread needs no lock",
	contexts:   "the protocol neither waits nor is cancelled",
	coroutines: "only sim suspends tasks",
}

var bannedImports = map[string]ban{
	"sync":          locks,
	"sync/atomic":   locks,
	"context":       contexts,
	"crypto/rand":   randomness,
	"hash/maphash":  randomness,
	"testing/quick": randomness,
}

var bannedNames = map[string]map[ban]string{
	"time": {clocks: "Now Since Until Sleep After AfterFunc NewTimer NewTicker Tick"},
	"context": {
		clocks:     "WithTimeout WithTimeoutCause WithDeadline WithDeadlineCause",
		goroutines: "AfterFunc",
	},
	"maps": {mapOrder: "Keys Values All"},
	"iter": {coroutines: "Pull Pull2"},
}

// bannedName returns the ban that a selector pkg.Name falls under, or 0.
func bannedName(target, name string) ban {
	if target == "math/rand" || target == "math/rand/v2" {
		// Constructors and types are fine; every other function of these
		// packages draws from the global source.
		if strings.HasPrefix(name, "New") || slices.Contains([]string{"Rand", "Source", "PCG", "ChaCha8", "Zipf"}, name) {
			return 0
		}
		return randomness
	}
	for b, names := range bannedNames[target] {
		if slices.Contains(strings.Fields(names), name) {
			return b
		}
	}
	return 0
}

// loops reports loops over maps and channels in the folder's files, from
// their types.
func (ps *problems) loops(dir string) {
	info, err := ps.tree.types.check(dir)
	if err != nil {
		ps.add(dir, "does not type-check, so its loops cannot be judged: %v", err)
		return
	}
	for _, f := range ps.tree.files(dir) {
		if !f.Built {
			continue
		}
		bans := bansOf(f.Path)
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			loop, ok := n.(*ast.RangeStmt)
			if !ok || info.Types[loop.X].Type == nil {
				return true
			}
			over := info.Types[loop.X].Type
			if _, ok := over.Underlying().(*types.Chan); ok && bans&channels != 0 {
				ps.at(loop.Pos(), "range over a channel in code that the simulator runs on one thread: %s", instead[channels])
			}
			if isMap(over) && bans&mapOrder != 0 {
				ps.at(loop.Pos(), "range over a map visits in another order each run: %s", instead[mapOrder])
			}
			return true
		})
	}
}

// isMap reports whether t is a map, or a type parameter that may be one.
func isMap(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface: // the constraint of a type parameter
		for i := range u.NumEmbeddeds() {
			if isMap(u.EmbeddedType(i)) {
				return true
			}
		}
	case *types.Union:
		for i := range u.Len() {
			if isMap(u.Term(i).Type()) {
				return true
			}
		}
	}
	return false
}

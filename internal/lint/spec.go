package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	specDir    = "spec/tla"
	rootModule = specDir + "/Relaybus.tla"
	faultsFile = specDir + "/faults.txt"
	suiteFile  = specDir + "/suite.txt"
)

// environment is the module whose actions are faults, not actions of stores.
const environment = specDir + "/Environment.tla"

func specAsleep(t *Tree) string {
	if !t.folders[specDir] {
		return "there is no folder spec/tla yet"
	}
	return ""
}

// checkSpec compares the specification with the code: the disjuncts of Next
// in Relaybus.tla with the action types; Invariants.tla with
// protocol.Invariants; faults.txt with the fault kinds and the actions of
// Environment.tla; and every module and configuration with suite.txt.
func checkSpec(t *Tree) []Problem {
	ps := &problems{tree: t}
	ps.specActions()
	ps.specInvariants()
	ps.specFaults()
	ps.specSuite()
	return ps.sorted()
}

func (ps *problems) specActions() {
	t := ps.tree
	var named []string
	inEnvironment := operators(t, environment)
	for _, word := range tlaName.FindAllString(body(t, rootModule, "Next"), -1) {
		if slices.Contains(allOperators(t), word) && !slices.Contains(inEnvironment, word) && !slices.Contains(named, word) {
			named = append(named, word)
		}
	}
	ps.compare(sortedKeys(actionsOf(t)), actionFile, named, rootModule)
}

func (ps *problems) specInvariants() {
	t := ps.tree
	known, _ := invariantsOf(t)
	const module = specDir + "/Invariants.tla"
	for _, name := range known {
		if !slices.Contains(allOperators(t), name) {
			ps.add(module, "no module defines %s", name)
		}
	}
	for _, file := range t.matching(specDir + "/*.cfg") {
		for _, name := range checkedBy(string(t.text[file])) {
			if !slices.Contains(known, name) && slices.Contains(operators(t, module), name) {
				ps.add(file, "checks %s, which is no invariant of engine/protocol", name)
			}
		}
	}
}

// specFaults reads faults.txt: on each line a kind and the environment action
// that it is an instance of, as the kind itself says.
func (ps *problems) specFaults() {
	t := ps.tree
	kinds := faultKinds(t)
	var mapped []string
	for line := range strings.Lines(string(t.text[faultsFile])) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		mapped = append(mapped, fields[0])
		switch kind, known := kinds[fields[0]]; {
		case len(fields) < 2 || !slices.Contains(operators(t, environment), fields[1]):
			ps.add(faultsFile, "%q: want a fault and an action of Environment.tla", strings.TrimSpace(line))
		case known && kind.action != fields[1]:
			ps.add(faultsFile, "%s is mapped to %s, but %s says %s", fields[0], fields[1], kind.file, kind.action)
		}
	}
	ps.compare(sortedKeys(kinds), faultsDir, mapped, faultsFile)
}

func (ps *problems) specSuite() {
	t := ps.tree
	suite := strings.Fields(string(t.text[suiteFile]))
	for _, file := range append(t.matching(specDir+"/*.tla"), t.matching(specDir+"/*.cfg")...) {
		if base := path.Base(file); !slices.Contains(suite, base) && !slices.Contains(suite, strings.TrimSuffix(base, path.Ext(base))) {
			ps.add(file, "is not in the suite table %s", suiteFile)
		}
	}
}

var (
	tlaName     = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	tlaOperator = regexp.MustCompile(`(?m)^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?:\([^)=]*\))?[ \t]*==`)
	tlaComment  = regexp.MustCompile(`(?s)\(\*.*?\*\)|\\\*[^\n]*`)
)

func tlaText(t *Tree, module string) string {
	return tlaComment.ReplaceAllString(string(t.text[module]), "")
}

// operators lists what a module defines, in order.
func operators(t *Tree, module string) []string {
	var names []string
	for _, match := range tlaOperator.FindAllStringSubmatch(tlaText(t, module), -1) {
		names = append(names, match[1])
	}
	return names
}

func allOperators(t *Tree) []string {
	var names []string
	for _, module := range t.matching(specDir + "/*.tla") {
		names = append(names, operators(t, module)...)
	}
	return names
}

// body returns the text of an operator, up to the next one.
func body(t *Tree, module, name string) string {
	text := tlaText(t, module)
	starts := tlaOperator.FindAllStringSubmatchIndex(text, -1)
	for i, start := range starts {
		if text[start[2]:start[3]] == name {
			end := len(text)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			return text[start[1]:end]
		}
	}
	return ""
}

// checkedBy lists the invariants and properties that a configuration names.
func checkedBy(config string) []string {
	var names []string
	section := ""
	for _, word := range strings.Fields(tlaComment.ReplaceAllString(config, "")) {
		switch {
		case slices.Contains(cfgKeywords, word):
			section = word
		case strings.HasPrefix(section, "INVARIANT") || strings.HasPrefix(section, "PROPERT"):
			names = append(names, word)
		}
	}
	return names
}

var cfgKeywords = strings.Fields(`CONSTANT CONSTANTS SPECIFICATION INIT NEXT INVARIANT INVARIANTS PROPERTY PROPERTIES
	CONSTRAINT CONSTRAINTS ACTION_CONSTRAINT ACTION_CONSTRAINTS SYMMETRY VIEW CHECK_DEADLOCK ALIAS POSTCONDITION`)

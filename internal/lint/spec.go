package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

const (
	specDir    = "spec/tla"
	rootModule = "Relaybus"
	faultsFile = specDir + "/faults.txt"
	suiteFile  = specDir + "/suite.txt"
	spareFile  = specDir + "/spare.txt"
)

// actionModules hold the actions on the store, each as what refuses it and
// what it effects.
var actionModules = []string{"Publish", "Lease", "Finish", "Operate"}

func specAsleep(t *Tree) string {
	if !t.folders[specDir] {
		return "there is no folder spec/tla yet"
	}
	return ""
}

// checkSpec compares the specification with the code: the actions on the store
// with the action types, and the rules that they name with protocol.Rules, of
// which each is shown to be needed or explained in spare.txt;
// Invariants.tla with protocol.Invariants; faults.txt
// with the fault kinds and the actions of modules; and every module and
// configuration with suite.txt.
func checkSpec(t *Tree) []Problem {
	ps := &problems{tree: t}
	ps.specActions()
	ps.specRules()
	ps.specSpare()
	ps.specInvariants()
	ps.specFaults()
	ps.specSuite()
	ps.specText()
	return ps.sorted()
}

// specActions wants for each action type an operator of its name that ends in
// Effect, one that ends in Refusal (or Refusals, where leases are judged one by
// one), and a way to it from Relaybus' Next; and no others.
func (ps *problems) specActions() {
	t := ps.tree
	performed := reach(t, rootModule, "Next")
	var named []string
	for _, module := range actionModules {
		all := operators(t, module)
		for _, operator := range all {
			name, ok := strings.CutSuffix(operator, "Effect")
			if !ok {
				continue
			}
			named = append(named, name)
			if !slices.Contains(all, name+"Refusal") && !slices.Contains(all, name+"Refusals") {
				ps.add(moduleFile(module), "%s has an effect and no %sRefusal", name, name)
			}
			if !performed[operator] {
				ps.add(moduleFile(module), "%s is an action that no step of %s performs", name, rootModule)
			}
		}
	}
	ps.compare(sortedKeys(actionsOf(t)), actionFile, named, "the modules "+strings.Join(actionModules, ", "))
}

// specRules wants every rule that a configuration can take away from an action
// to be one that protocol.State can do without, and no others.
func (ps *problems) specRules() {
	named := map[string]bool{}
	for _, module := range actionModules {
		for _, match := range tlaRule.FindAllStringSubmatch(tlaText(ps.tree, module), -1) {
			named[match[1]] = true
		}
	}
	rules, _ := listed(ps.tree, "Rules")
	ps.compare(rules, "protocol.Rules", sortedKeys(named), "the modules "+strings.Join(actionModules, ", "))
}

// specSpare wants each rule to be taken away by a Broken configuration, or a
// line in spare.txt: the rule, a module/configuration or -, and why. A
// configuration of the root module that it names must do without the rule.
func (ps *problems) specSpare() {
	t := ps.tree
	broken, without := map[string]bool{}, map[string][]string{}
	for _, file := range t.matching(specDir + "/*.cfg") {
		config, err := cfg.Parse(string(t.text[file]))
		if err != nil {
			continue // specInvariants tells
		}
		name := strings.TrimSuffix(path.Base(file), ".cfg")
		rules := config.Constants["Without"].Elements
		for _, rule := range rules {
			without[name] = append(without[name], rule.Text)
			broken[rule.Text] = broken[rule.Text] || len(rules) == 1 && strings.HasPrefix(name, "Broken")
		}
	}
	rules, _ := listed(t, "Rules")
	spared := map[string]bool{}
	for line := range strings.Lines(string(t.text[spareFile])) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := tlaSpare.FindStringSubmatch(line)
		if fields == nil {
			ps.add(spareFile, "%q: want a rule, a module/configuration or -, and why", line)
			continue
		}
		rule, module, config := fields[1], fields[2], fields[3]
		switch {
		case !slices.Contains(rules, rule):
			ps.add(spareFile, "%s is no rule of an action", rule)
		case broken[rule]:
			ps.add(spareFile, "%s is taken away by a Broken configuration", rule)
		case module != "" && !t.has(specDir+"/"+config+".cfg"):
			ps.add(spareFile, "%s: there is no configuration %s/%s", rule, module, config)
		case module == rootModule && !slices.Contains(without[config], rule):
			ps.add(spareFile, "%s/%s does not do without %s", module, config, rule)
		}
		spared[rule] = true
	}
	for _, rule := range rules {
		if !broken[rule] && !spared[rule] {
			ps.add(spareFile, "no Broken configuration takes %s away, and there is no line for it", rule)
		}
	}
}

func (ps *problems) specInvariants() {
	t := ps.tree
	known, _ := invariantsOf(t)
	defined := allOperators(t)
	for _, name := range known {
		if !slices.Contains(defined, name) {
			ps.add(moduleFile("Invariants"), "no module defines %s", name)
		}
	}
	for _, file := range t.matching(specDir + "/*.cfg") {
		config, err := cfg.Parse(string(t.text[file]))
		if err != nil {
			ps.add(file, "cannot be read: %v", err)
		}
		for _, name := range config.Checks() {
			if !slices.Contains(known, name) && slices.Contains(operators(t, "Invariants"), name) {
				ps.add(file, "checks %s, which is no invariant of engine/protocol", name)
			}
		}
	}
}

// specFaults reads faults.txt: on each line a kind and the module!action that
// it is an instance of. The action must be one that some module's Next leads
// to.
func (ps *problems) specFaults() {
	t := ps.tree
	performed := map[string]bool{}
	for _, file := range t.matching(specDir + "/*.tla") {
		for name := range reach(t, moduleName(file), "Next") {
			performed[name] = true
		}
	}
	var mapped []string
	for line := range strings.Lines(string(t.text[faultsFile])) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if slices.Contains(mapped, fields[0]) {
			ps.add(faultsFile, "%s has two lines", fields[0])
		}
		mapped = append(mapped, fields[0])
		module, action := "", ""
		if len(fields) > 1 {
			module, action, _ = strings.Cut(fields[1], "!")
		}
		switch {
		case !slices.Contains(operators(t, module), action):
			ps.add(faultsFile, "%q: want a fault and the module!action that it is", strings.TrimSpace(line))
		case !performed[action]:
			ps.add(faultsFile, "%s is %s, which no Next leads to", fields[0], fields[1])
		}
	}
	ps.compare(sortedKeys(faultKinds(t)), faultsDir, mapped, faultsFile)
}

// specSuite wants each configuration in the suite, and each module there or
// extended by another; spec/tlc checks the rest.
func (ps *problems) specSuite() {
	t := ps.tree
	var listed []string
	for line := range strings.Lines(string(t.text[suiteFile])) {
		if fields := strings.Fields(line); len(fields) > 1 && !strings.HasPrefix(fields[0], "#") {
			listed = append(listed, fields[0]+".tla", fields[1]+".cfg")
		}
	}
	for _, module := range t.matching(specDir + "/*.tla") {
		for _, used := range tlaUses.FindAllStringSubmatch(tlaText(t, moduleName(module)), -1) {
			for _, name := range tlaName.FindAllString(used[1], -1) {
				listed = append(listed, name+".tla")
			}
		}
	}
	for _, file := range append(t.matching(specDir+"/*.tla"), t.matching(specDir+"/*.cfg")...) {
		if !slices.Contains(listed, path.Base(file)) {
			ps.add(file, "is not in the suite table %s", suiteFile)
		}
	}
}

// specText wants modules that every editor and printer shows alike.
func (ps *problems) specText() {
	const widest = 100
	for _, file := range ps.tree.matching(specDir + "/*.tla") {
		number := 0
		for line := range strings.Lines(string(ps.tree.text[file])) {
			number++
			line = strings.TrimRight(line, "\n")
			if len(line) > widest || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
				ps.add(fmt.Sprintf("%s:%d", file, number), "modules are ASCII without tabs, at most %d columns wide", widest)
			}
		}
	}
}

var (
	tlaName     = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	tlaOperator = regexp.MustCompile(`(?m)^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?:\([^)=]*\))?[ \t]*==`)
	tlaRule     = regexp.MustCompile(`"([A-Z]\w*\.[a-z][a-z -]*)"`)
	tlaSpare    = regexp.MustCompile(`^([A-Z]\w*\.[a-z][a-z -]*?)\s{2,}(?:-|(\w+)/(\w+))\s+\S.*$`)
	tlaUses     = regexp.MustCompile(`\b(?:EXTENDS|INSTANCE)\s+(\w+(?:\s*,\s*\w+)*)`)
	tlaComment  = regexp.MustCompile(`(?s)\(\*.*?\*\)|\\\*[^\n]*`)
)

func moduleFile(module string) string { return specDir + "/" + module + ".tla" }

func moduleName(file string) string { return strings.TrimSuffix(path.Base(file), ".tla") }

func tlaText(t *Tree, module string) string {
	return tlaComment.ReplaceAllString(string(t.text[moduleFile(module)]), "")
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
	for _, file := range t.matching(specDir + "/*.tla") {
		names = append(names, operators(t, moduleName(file))...)
	}
	return names
}

// extended lists a module of the folder and those that it extends.
func extended(t *Tree, module string) []string {
	list := []string{module}
	for i := 0; i < len(list); i++ {
		for _, used := range tlaUses.FindAllStringSubmatch(tlaText(t, list[i]), -1) {
			for _, name := range tlaName.FindAllString(used[1], -1) {
				if t.has(moduleFile(name)) && !slices.Contains(list, name) {
					list = append(list, name)
				}
			}
		}
	}
	return list
}

// reach returns the operators that a module's operator leads to, by their
// names in the module and in those that it extends.
func reach(t *Tree, module, from string) map[string]bool {
	bodies := map[string]string{}
	for _, module := range extended(t, module) {
		bodiesOf(t, module, bodies)
	}
	reached := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if body, ok := bodies[name]; ok && !reached[name] {
			reached[name] = true
			for _, word := range tlaName.FindAllString(body, -1) {
				visit(word)
			}
		}
	}
	visit(from)
	return reached
}

// bodiesOf adds the text of each of a module's operators, up to the next one.
func bodiesOf(t *Tree, module string, bodies map[string]string) {
	text := tlaText(t, module)
	starts := tlaOperator.FindAllStringSubmatchIndex(text, -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		bodies[text[start[2]:start[3]]] = text[start[1]:end]
	}
}

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// entry is a line of suite.txt: a config and what TLC must say of it.
type entry struct {
	module string // without .tla
	config string // without .cfg
	large  bool
	expect string // tlc.Pass, or the invariant or property to be violated
	// distinct states, and the depth of the search or the number of states of
	// the counterexample; -1 where the line says nothing.
	distinct, depth int64
	minutes         int
	shows           string
}

func (e *entry) name() string { return e.module + "/" + e.config }

// readSuite reads suite.txt of a folder and refuses a line whose config is
// missing, or that expects what its config does not check.
func readSuite(dir string) ([]entry, error) {
	file := filepath.Join(dir, "suite.txt")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("no suite in the folder: %w (run from the root of the repository, or set -dir)", err)
	}
	var suite []entry
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		e, ok, err := parseLine(line)
		if err == nil && ok {
			err = e.check(dir, suite)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		if ok {
			suite = append(suite, e)
		}
	}
	return suite, nil
}

var heading = regexp.MustCompile(`(?m)^# (\w+): +(.*?)[ \t]*$`)

// readAbout reads the first sentence that the comments "# Module: text" of
// suite.txt say of each module.
func readAbout(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "suite.txt"))
	if err != nil {
		return nil, err
	}
	about := map[string]string{}
	for _, match := range heading.FindAllStringSubmatch(string(text), -1) {
		about[match[1]], _, _ = strings.Cut(match[2], ". ")
	}
	return about, nil
}

// parseLine reads "module config size expect distinct depth minutes shows…";
// ok is false for a comment or an empty line.
func parseLine(line string) (e entry, ok bool, err error) {
	f := strings.Fields(line)
	if len(f) == 0 || strings.HasPrefix(f[0], "#") {
		return e, false, nil
	}
	if len(f) < 8 {
		return e, false, fmt.Errorf("has %d columns: want module config size expect distinct depth minutes and in words what it shows", len(f))
	}
	e = entry{
		module: strings.TrimSuffix(f[0], ".tla"),
		config: strings.TrimSuffix(f[1], ".cfg"),
		large:  f[2] == "large",
		expect: f[3],
		shows:  strings.Join(f[7:], " "),
	}
	if f[2] != "large" && f[2] != "small" {
		return e, false, fmt.Errorf("size is %q: want small or large", f[2])
	}
	if e.distinct, err = count("distinct", f[4]); err != nil {
		return e, false, err
	}
	if e.depth, err = count("depth", f[5]); err != nil {
		return e, false, err
	}
	minutes, err := count("minutes", f[6])
	e.minutes = int(minutes)
	return e, err == nil, err
}

func count(column, text string) (int64, error) {
	if text == "-" {
		return -1, nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s is %q: want a number or -", column, text)
	}
	return n, nil
}

// check compares a line with the lines before it and with its files.
func (e *entry) check(dir string, before []entry) error {
	if slices.ContainsFunc(before, func(o entry) bool { return o.config == e.config }) {
		return fmt.Errorf("config %s is listed twice", e.config)
	}
	if _, err := os.Stat(filepath.Join(dir, e.module+".tla")); err != nil {
		return fmt.Errorf("there is no module %s.tla", e.module)
	}
	text, err := os.ReadFile(filepath.Join(dir, e.config+".cfg"))
	if err != nil {
		return fmt.Errorf("there is no config %s.cfg", e.config)
	}
	if e.expect != tlc.Pass && !slices.Contains(tlc.Checks(string(text)), e.expect) {
		return fmt.Errorf("expects %s to be violated, which %s.cfg does not check", e.expect, e.config)
	}
	if strings.HasPrefix(e.config, "Broken") && e.expect == tlc.Pass {
		return fmt.Errorf("expects %s to pass, but a Broken config is one that TLC must refute", e.config)
	}
	return nil
}

// unlisted refuses configs that no line lists, and modules that no listed
// config reaches.
func unlisted(dir string, suite []entry) error {
	reached := map[string]bool{}
	for i := range suite {
		files, err := tlc.Closure(dir, suite[i].module)
		if err != nil {
			return err
		}
		for _, file := range append(files, filepath.Join(dir, suite[i].config+".cfg")) {
			reached[file] = true
		}
	}
	for _, pattern := range []string{"*.tla", "*.cfg"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if !reached[file] {
				return fmt.Errorf("%s is in no line of suite.txt: add one, or delete the file", file)
			}
		}
	}
	return nil
}

// choose returns the entries that the arguments name: MODULE/CONFIG, MODULE,
// CONFIG, each with * and ? as in file names. Large ones are chosen only by
// their full name, or with full.
func choose(suite []entry, arguments []string, full bool) ([]entry, error) {
	chosen := make([]bool, len(suite))
	if len(arguments) == 0 {
		arguments = []string{"*"}
	}
	for _, argument := range arguments {
		pattern := strings.NewReplacer(".tla", "", ".cfg", "").Replace(argument)
		found := false
		for i := range suite {
			match, exact := suite[i].matches(pattern)
			found = found || match
			chosen[i] = chosen[i] || match && (exact || full || !suite[i].large)
		}
		if !found {
			return nil, fmt.Errorf("%q names no config of the suite: give MODULE/CONFIG, a module, a config, or a pattern with *", argument)
		}
	}
	var entries []entry
	for i := range suite {
		if chosen[i] {
			entries = append(entries, suite[i])
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("the arguments name large configs only: name one in full, or set -full")
	}
	return entries, nil
}

func (e *entry) matches(pattern string) (match, exact bool) {
	for _, name := range []string{e.name(), e.config, e.module} {
		if ok, _ := path.Match(pattern, name); ok {
			match = true
		}
	}
	return match, pattern == e.name() || pattern == e.config
}

// Package suite reads what spec/tla says of its configurations: suite.txt, with
// what TLC must find of each, and results.json, with what it found.
package suite

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/relaybus-go/relaybus/spec/cfg"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// Entry is a line of suite.txt: a configuration and what TLC must say of it.
type Entry struct {
	Module string // without .tla
	Config string // without .cfg
	Large  bool
	Expect string // tlc.Pass, or the invariant or property to be violated
	// Distinct states, and the depth of the search or the number of states of
	// the counterexample; -1 where the line says nothing.
	Distinct int64
	Depth    int
	Minutes  int
	Shows    string
}

// Name is module and configuration, as on a command line.
func (e *Entry) Name() string { return e.Module + "/" + e.Config }

func (e *Entry) configFile(dir string) string { return filepath.Join(dir, e.Config+".cfg") }

// ReadConfig reads the entry's configuration in the folder.
func (e *Entry) ReadConfig(dir string) (cfg.Config, error) { return cfg.Read(e.configFile(dir)) }

// Files lists the entry's module with all modules of the folder that it
// extends, and its configuration.
func (e *Entry) Files(dir string) ([]string, error) {
	files, err := tlc.Closure(dir, e.Module)
	return append(files, e.configFile(dir)), err
}

// Read reads suite.txt of a folder and refuses a line whose configuration is
// missing, or that expects what its configuration does not check.
func Read(dir string) ([]Entry, error) {
	file := filepath.Join(dir, "suite.txt")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("no suite in the folder: %w (run from the root of the repository, or set -dir)", err)
	}
	var entries []Entry
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		e, ok, err := parse(line)
		if err == nil && ok {
			err = e.check(dir, entries)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

var heading = regexp.MustCompile(`(?m)^# (\w+): +(.*?)[ \t]*$`)

// ReadAbout reads the first sentence that the comments "# Module: text" of
// suite.txt say of each module.
func ReadAbout(dir string) (map[string]string, error) {
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

// parse reads "module config size expect distinct depth minutes shows…"; ok is
// false for a comment or an empty line.
func parse(line string) (e Entry, ok bool, err error) {
	f := strings.Fields(line)
	if len(f) == 0 || strings.HasPrefix(f[0], "#") {
		return e, false, nil
	}
	if len(f) < 8 {
		return e, false, fmt.Errorf("has %d columns: want module config size expect distinct depth minutes and in words what it shows", len(f))
	}
	if f[2] != "large" && f[2] != "small" {
		return e, false, fmt.Errorf("size is %q: want small or large", f[2])
	}
	var figures [3]int64
	for i, column := range []string{"distinct", "depth", "minutes"} {
		if figures[i], err = count(column, f[4+i]); err != nil {
			return e, false, err
		}
	}
	return Entry{
		Module: strings.TrimSuffix(f[0], ".tla"), Config: strings.TrimSuffix(f[1], ".cfg"),
		Large: f[2] == "large", Expect: f[3],
		Distinct: figures[0], Depth: int(figures[1]), Minutes: int(figures[2]),
		Shows: strings.Join(f[7:], " "),
	}, true, nil
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
func (e *Entry) check(dir string, before []Entry) error {
	if slices.ContainsFunc(before, func(o Entry) bool { return o.Config == e.Config }) {
		return fmt.Errorf("config %s is listed twice", e.Config)
	}
	if _, err := os.Stat(filepath.Join(dir, e.Module+".tla")); err != nil {
		return fmt.Errorf("there is no module %s.tla", e.Module)
	}
	if _, err := os.Stat(e.configFile(dir)); err != nil {
		return fmt.Errorf("there is no config %s.cfg", e.Config)
	}
	config, err := e.ReadConfig(dir)
	switch {
	case err != nil:
		return err
	case e.Expect != tlc.Pass && !slices.Contains(config.Checks(), e.Expect):
		return fmt.Errorf("expects %s to be violated, which %s.cfg does not check", e.Expect, e.Config)
	case e.Expect == tlc.Pass && strings.HasPrefix(e.Config, "Broken"):
		return fmt.Errorf("expects %s to pass, but a Broken config is one that TLC must refute", e.Config)
	}
	return nil
}

// Unlisted refuses configurations that no line lists, and modules that no
// listed configuration reaches.
func Unlisted(dir string, entries []Entry) error {
	reached := map[string]bool{}
	for i := range entries {
		files, err := entries[i].Files(dir)
		if err != nil {
			return err
		}
		for _, file := range files {
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

// Choose returns the entries that the arguments name: MODULE/CONFIG, MODULE,
// CONFIG, each with * and ? as in file names. Large ones are chosen only by
// their full name, or with full.
func Choose(entries []Entry, arguments []string, full bool) ([]Entry, error) {
	chosen := make([]bool, len(entries))
	if len(arguments) == 0 {
		arguments = []string{"*"}
	}
	for _, argument := range arguments {
		pattern := strings.NewReplacer(".tla", "", ".cfg", "").Replace(argument)
		found := false
		for i := range entries {
			match, exact := entries[i].matches(pattern)
			found = found || match
			chosen[i] = chosen[i] || match && (exact || full || !entries[i].Large)
		}
		if !found {
			return nil, fmt.Errorf("%q names no config of the suite: give MODULE/CONFIG, a module, a config, or a pattern with *", argument)
		}
	}
	var named []Entry
	for i := range entries {
		if chosen[i] {
			named = append(named, entries[i])
		}
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("the arguments name large configs only: name one in full, or set -full")
	}
	return named, nil
}

func (e *Entry) matches(pattern string) (match, exact bool) {
	for _, name := range []string{e.Name(), e.Config, e.Module} {
		if ok, _ := path.Match(pattern, name); ok {
			match = true
		}
	}
	return match, pattern == e.Name() || pattern == e.Config
}

package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

// Entry is a line of suite.txt: a configuration and what TLC says of it.
type Entry struct {
	Module, Config string // without .tla and .cfg
	Large          bool
	// Expect is "pass", or the invariant that TLC finds violated.
	Expect string
	// Distinct is the number of distinct states of one that passes, -1 for
	// others and where no TLC run was recorded.
	Distinct int
	// Depth is that of the search, or the number of states of the
	// counterexample; -1 where no TLC run was recorded.
	Depth int
}

// Pass is what an Entry expects of a configuration without a violation.
const Pass = "pass"

// Name is module and configuration, as on a command line.
func (e *Entry) Name() string { return e.Module + "/" + e.Config }

// ReadSuite returns the lines of suite.txt in the folder that belong to
// modules with a twin and that the twin can explore, with the figures of
// results.json where it has any.
func ReadSuite(dir string) ([]Entry, error) {
	text, err := os.ReadFile(filepath.Join(dir, "suite.txt"))
	if err != nil {
		return nil, err
	}
	var entries []Entry
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		e, err := parseEntry(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("suite.txt:%d: %w", number, err)
		}
		if _, ok := twins[e.Module]; ok && !e.tlcOnly() {
			entries = append(entries, e)
		}
	}
	return entries, recorded(dir, entries)
}

// tlcOnly tells of configurations that the twin of their module cannot explore.
// That of Relaybus stands on protocol.State, which has no switch for a guard,
// and its Drains speak of the future.
func (e *Entry) tlcOnly() bool {
	return e.Module == "Relaybus" &&
		(strings.HasPrefix(e.Config, "Broken") || strings.HasPrefix(e.Config, "RelaybusDrains"))
}

// parseEntry reads module, config, size, expect, distinct and depth. An empty
// line or a comment gives the zero Entry.
func parseEntry(fields []string) (Entry, error) {
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return Entry{}, nil
	}
	if len(fields) < 6 {
		return Entry{}, fmt.Errorf("%d columns: want module config size expect distinct depth", len(fields))
	}
	distinct, err := figure(fields[4])
	if err != nil {
		return Entry{}, err
	}
	depth, err := figure(fields[5])
	return Entry{
		Module: strings.TrimSuffix(fields[0], ".tla"), Config: strings.TrimSuffix(fields[1], ".cfg"),
		Large: fields[2] == "large", Expect: fields[3], Distinct: distinct, Depth: depth,
	}, err
}

func figure(text string) (int, error) {
	if text == "-" {
		return -1, nil
	}
	return strconv.Atoi(strings.ReplaceAll(text, ",", ""))
}

// Run explores the twin with the entry's configuration from the folder.
func (e *Entry) Run(dir string, limit int) (Result, error) {
	twin, err := Of(e.Module)
	if err != nil {
		return Result{}, err
	}
	c, err := cfg.Read(filepath.Join(dir, e.Config+".cfg"))
	if err != nil {
		return Result{}, err
	}
	r, err := twin(c, limit)
	if err != nil {
		return r, fmt.Errorf("%s: %w", e.Name(), err)
	}
	return r, nil
}

// Differs says in what the twin's result is not TLC's; empty when in nothing.
func (e *Entry) Differs(r Result) string {
	violated := r.Violated
	if violated == "" {
		violated = Pass
	}
	switch {
	case !r.Complete && r.Violated == "":
		return fmt.Sprintf("the twin stopped at %d states without an end", r.Distinct)
	case violated != e.Expect:
		return fmt.Sprintf("the twin says %s, TLC %s", violated, e.Expect)
	case e.Distinct >= 0 && r.Distinct != e.Distinct:
		return fmt.Sprintf("the twin has %d distinct states, TLC %d", r.Distinct, e.Distinct)
	case e.Depth >= 0 && r.Depth != e.Depth:
		return fmt.Sprintf("the twin's depth is %d, TLC's %d", r.Depth, e.Depth)
	}
	return ""
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/relaybus-go/relaybus/spec/internal/command"
	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

// The markers in CORRECTNESS.md between which the table stands.
const (
	promises   = "CORRECTNESS.md"
	tableBegin = "<!-- written by go run ./spec/tlc -table -->"
	tableEnd   = "<!-- end of the table -->"
)

// writeTable puts the table into CORRECTNESS.md, two folders above the modules.
func (s *settings) writeTable() int {
	file := filepath.Join(s.dir, "..", "..", promises)
	text, err := os.ReadFile(file)
	if err != nil {
		return s.Unable(err)
	}
	table, err := evidence(s.dir)
	if err != nil {
		return s.Unable(err)
	}
	next, err := withTable(string(text), table)
	if err != nil {
		return s.Unable(fmt.Errorf("%s: %w", file, err))
	}
	if next != string(text) {
		err = os.WriteFile(file, []byte(next), 0o666)
	}
	if err != nil {
		return s.Unable(err)
	}
	return command.Expected
}

// withTable replaces what stands between the markers.
func withTable(text, table string) (string, error) {
	before, rest, begun := strings.Cut(text, tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		return "", fmt.Errorf("has no lines %q and %q", tableBegin, tableEnd)
	}
	return before + tableBegin + "\n\n" + table + "\n" + tableEnd + after, nil
}

// evidence is what TLC found: a table of the modules, and one of the rules that
// were taken away. What stands in results.json counts, and nothing else.
func evidence(dir string) (string, error) {
	entries, err := suite.Read(dir)
	if err != nil {
		return "", err
	}
	about, err := suite.ReadAbout(dir)
	if err != nil {
		return "", err
	}
	records, err := suite.ReadRecords(dir)
	if err != nil {
		return "", err
	}
	var modules []string
	rows := map[string]*moduleRow{}
	var broken strings.Builder
	for i := range entries {
		e := &entries[i]
		row := rows[e.Module]
		if row == nil {
			row = &moduleRow{}
			rows[e.Module] = row
			modules = append(modules, e.Module)
		}
		r, ok := records[e.Name()]
		row.add(kindOf(e), r, ok)
		if ok && kindOf(e) == isBroken {
			fmt.Fprintf(&broken, "| %s | %s | %s | %d |\n", e.Module, e.Shows, r.Verdict, r.Depth)
		}
	}
	var b strings.Builder
	b.WriteString("| module | about | configurations that hold | distinct states | situations shown to be reached | rules shown to be needed |\n|---|---|---|---|---|---|\n")
	for _, module := range modules {
		fmt.Fprintf(&b, "| %s | %s | %s\n", module, about[module], rows[module])
	}
	b.WriteString("\nEach rule that was taken away, the promise that TLC found broken, and the states\nof the shortest way there:\n\n| module | what is wrong | breaks | states |\n|---|---|---|---|\n")
	return b.String() + broken.String(), nil
}

// The kinds of configs, by their names.
const (
	isPassing = iota
	isProbe
	isBroken
)

func kindOf(e *suite.Entry) int {
	switch {
	case strings.HasPrefix(e.Config, "Broken"):
		return isBroken
	case e.Expect != tlc.Pass:
		return isProbe
	}
	return isPassing
}

// moduleRow counts the configs of a module by kind, and its distinct states.
type moduleRow struct {
	count, run [3]int
	distinct   int64
}

func (m *moduleRow) add(kind int, r suite.Record, ok bool) {
	m.count[kind]++
	if !ok {
		return
	}
	m.run[kind]++
	if kind == isPassing {
		m.distinct += r.Distinct
	}
}

func (m *moduleRow) String() string {
	return fmt.Sprintf("%s | %s | %s | %s |", m.of(isPassing), grouped(m.distinct), m.of(isProbe), m.of(isBroken))
}

// of is how many configs of a kind were run, and of how many where some were
// not.
func (m *moduleRow) of(kind int) string {
	if m.run[kind] == m.count[kind] {
		return fmt.Sprint(m.count[kind])
	}
	return fmt.Sprintf("%d of %d", m.run[kind], m.count[kind])
}

// grouped writes a number with a comma before every third digit from the end.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

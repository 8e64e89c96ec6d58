package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	suite, err := readSuite(s.dir)
	if err != nil {
		return s.unable(err)
	}
	records, err := readResults(s.dir)
	if err != nil {
		return s.unable(err)
	}
	file := filepath.Join(s.dir, "..", "..", promises)
	text, err := os.ReadFile(file)
	if err != nil {
		return s.unable(err)
	}
	table, err := evidence(s.dir, suite, records)
	if err != nil {
		return s.unable(err)
	}
	next, err := withTable(string(text), table)
	if err != nil {
		return s.unable(fmt.Errorf("%s: %w", file, err))
	}
	if next != string(text) {
		err = os.WriteFile(file, []byte(next), 0o666)
	}
	if err != nil {
		return s.unable(err)
	}
	return exitExpected
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
func evidence(dir string, suite []entry, records []record) (string, error) {
	about, err := readAbout(dir)
	if err != nil {
		return "", err
	}
	byName := map[string]record{}
	for _, r := range records {
		byName[r.name()] = r
	}
	var modules []string
	rows := map[string]*moduleRow{}
	var broken strings.Builder
	for i := range suite {
		e := &suite[i]
		row := rows[e.module]
		if row == nil {
			row = &moduleRow{}
			rows[e.module] = row
			modules = append(modules, e.module)
		}
		r, ok := byName[e.name()]
		row.add(e, r, ok)
		if ok && e.kind() == isBroken {
			fmt.Fprintf(&broken, "| %s | %s | %s | %d |\n", e.module, e.shows, r.Verdict, r.Depth)
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

func (e *entry) kind() int {
	switch {
	case strings.HasPrefix(e.config, "Broken"):
		return isBroken
	case e.expect != tlc.Pass:
		return isProbe
	}
	return isPassing
}

// moduleRow counts the configs of a module by kind, and its distinct states.
type moduleRow struct {
	count, run [3]int
	distinct   int64
}

func (m *moduleRow) add(e *entry, r record, ok bool) {
	kind := e.kind()
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

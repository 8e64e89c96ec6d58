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
	next, err := withTable(string(text), evidence(suite, records))
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

// evidence is the table of what TLC found, per module.
func evidence(suite []entry, records []record) string {
	byName := map[string]record{}
	for _, r := range records {
		byName[r.name()] = r
	}
	var b strings.Builder
	b.WriteString("| module | configuration | shows | TLC | distinct states | depth |\n|---|---|---|---|---|---|\n")
	for i := range suite {
		e := &suite[i]
		r, ok := byName[e.name()]
		said, distinct, depth := "not run", "", ""
		if ok {
			said, distinct, depth = r.Verdict, grouped(r.Distinct), fmt.Sprint(r.Depth)
		}
		if ok && r.Verdict != tlc.Pass {
			said, depth = "refutes "+r.Verdict, fmt.Sprint(r.Depth, " states")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", e.module, e.config, e.shows, said, distinct, depth)
	}
	return b.String()
}

// grouped writes a number with a comma before every third digit from the end.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

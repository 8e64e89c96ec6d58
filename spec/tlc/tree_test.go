package main

import (
	"os"
	"path/filepath"
	"testing"
)

const tree = "../tla" // the specification itself

// TestResultsAreCurrent wants a record of every config of the specification,
// made of the files as they are now. It needs no Java.
func TestResultsAreCurrent(t *testing.T) {
	suite, err := readSuite(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := unlisted(tree, suite); err != nil {
		t.Error(err)
	}
	records, err := readResults(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range stale(tree, suite, records) {
		t.Error(complaint)
	}
}

// TestTableIsCurrent wants the table of CORRECTNESS.md to be what -table
// writes.
func TestTableIsCurrent(t *testing.T) {
	suite, err := readSuite(tree)
	if err != nil {
		t.Fatal(err)
	}
	records, err := readResults(tree)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(tree, "..", "..", promises))
	if err != nil {
		t.Fatal(err)
	}
	table, err := evidence(tree, suite, records)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(text), table)
	if err != nil {
		t.Fatal(err)
	}
	if want != string(text) {
		t.Errorf("the table in %s is not that of results.json: run go run ./spec/tlc -table", promises)
	}
}

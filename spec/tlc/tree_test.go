package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/relaybus-go/relaybus/spec/internal/suite"
)

const tree = "../tla" // the specification itself

// TestResultsAreCurrent wants a record of every config of the specification,
// made of the files as they are now. It needs no Java.
func TestResultsAreCurrent(t *testing.T) {
	entries, err := suite.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.Unlisted(tree, entries); err != nil {
		t.Error(err)
	}
	records, err := suite.ReadRecords(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range records.Stale(tree, entries) {
		t.Error(complaint)
	}
}

// TestTableIsCurrent wants the table of CORRECTNESS.md to be what -table
// writes.
func TestTableIsCurrent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(tree, "..", "..", promises))
	if err != nil {
		t.Fatal(err)
	}
	table, err := evidence(tree)
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

package main

import (
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/spec/internal/suite"
)

func TestTable(t *testing.T) {
	dir := copied(t)
	entries, err := suite.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := suite.Record{Module: "Tiny", Config: "TinyPass", Verdict: "pass", Distinct: 1234567, Depth: 5}
	all := suite.Records{}
	for _, e := range entries {
		all.Add(suite.Record{Module: e.Module, Config: e.Config, Verdict: e.Expect, Distinct: 5, Depth: e.Depth})
	}
	all.Add(first)
	for _, c := range []struct {
		records suite.Records
		want    []string
	}{
		{all, []string{
			"| Tiny | a small thing that counts | 2 | 1,234,572 | 1 | 1 |\n",
			"| Tiny | the bound is needed | Small | 5 |\n",
		}},
		{suite.Records{"Tiny/TinyPass": first}, []string{"| Tiny | a small thing that counts | 1 of 2 | 1,234,567 | 0 of 1 | 0 of 1 |\n"}},
	} {
		if err := c.records.Write(dir, entries); err != nil {
			t.Fatal(err)
		}
		table, err := evidence(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(table, want) {
				t.Errorf("no %q in\n%s", want, table)
			}
		}
	}
}

func TestTableStandsBetweenMarkers(t *testing.T) {
	text, err := withTable("a\n"+tableBegin+"\nold\n"+tableEnd+"\nb\n", "new\n")
	if want := "a\n" + tableBegin + "\n\nnew\n\n" + tableEnd + "\nb\n"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := withTable("no markers", "new\n"); err == nil {
		t.Error("a document without markers was accepted")
	}
}

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// good returns the suite of testdata/tiny with records that fit.
func good(t *testing.T, dir string) ([]entry, []record) {
	t.Helper()
	suite, err := readSuite(dir)
	if err != nil {
		t.Fatal(err)
	}
	var records []record
	for i := range suite {
		e := &suite[i]
		files, err := sumsOf(dir, e)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record{
			Module: e.module, Config: e.config, ModuleSHA256: files.module, ConfigSHA256: files.config,
			Verdict: e.expect, Distinct: 5, Depth: e.depth,
		})
	}
	return suite, records
}

// Each way in which a record can be wrong is told.
func TestStale(t *testing.T) {
	for _, c := range []struct {
		story  string
		change func(t *testing.T, dir string, records []record) []record
		want   string
	}{
		{"nothing is wrong", func(_ *testing.T, _ string, r []record) []record { return r }, ""},
		{"a module changed", func(t *testing.T, dir string, r []record) []record {
			appendTo(t, filepath.Join(dir, "Tiny.tla"))
			return r
		}, "Tiny.tla, or a module that it extends, has changed"},
		{"a config changed", func(t *testing.T, dir string, r []record) []record {
			appendTo(t, filepath.Join(dir, "TinyPass.cfg"))
			return r
		}, "TinyPass.cfg has changed"},
		{"no record", func(_ *testing.T, _ string, r []record) []record { return r[1:] }, "TinyPass: has no record"},
		{"another count", func(_ *testing.T, _ string, r []record) []record { r[0].Distinct = 6; return r }, "not what suite.txt expects"},
		{"another verdict", func(_ *testing.T, _ string, r []record) []record { r[2].Verdict = "pass"; return r }, "not what suite.txt expects"},
		{"a record too many", func(_ *testing.T, _ string, r []record) []record {
			return append(r, record{Module: "Old", Config: "OldPass"})
		}, "Old/OldPass: has a record, but no line"},
	} {
		dir := folder(t, nil)
		suite, records := good(t, dir)
		complaints := stale(dir, suite, c.change(t, dir, records))
		found := slices.ContainsFunc(complaints, func(s string) bool { return strings.Contains(s, c.want) })
		if c.want == "" && len(complaints) > 0 || c.want != "" && !found {
			t.Errorf("%s: %q, want %q", c.story, complaints, c.want)
		}
	}
}

// A large config may wait for a free machine; a small one may not.
func TestWithoutRecord(t *testing.T) {
	for large, want := range map[bool]string{true: "", false: "has no record in results.json"} {
		e := entry{module: "Tiny", config: "TinyPass", large: large}
		if got := e.outdated(t.TempDir(), record{}, false); got != want {
			t.Errorf("large %v: %q, want %q", large, got, want)
		}
	}
}

func appendTo(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "\n"...), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestWriteResults(t *testing.T) {
	dir := folder(t, nil)
	suite, records := good(t, dir)
	if err := writeResults(dir, suite, records[2:]); err != nil {
		t.Fatal(err)
	}
	records[2].Generated = 7
	if err := writeResults(dir, suite, append(records[:1:1], records[2], record{Module: "Old", Config: "Old"})); err != nil {
		t.Fatal(err)
	}
	read, err := readResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []record{records[0], records[2], records[3]}; !slices.Equal(read, want) {
		t.Errorf("%+v, want %+v", read, want)
	}
}

func TestTable(t *testing.T) {
	suite, records := good(t, tiny)
	records[0].Distinct = 1234567
	for _, c := range []struct {
		records []record
		want    []string
	}{
		{records, []string{
			"| Tiny | a small thing that counts | 2 | 1,234,572 | 1 | 1 |\n",
			"| Tiny | the bound is needed | Small | 5 |\n",
		}},
		{records[:1], []string{"| Tiny | a small thing that counts | 1 of 2 | 1,234,567 | 0 of 1 | 0 of 1 |\n"}},
	} {
		table, err := evidence(tiny, suite, c.records)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(table, want) {
				t.Errorf("no %q in\n%s", want, table)
			}
		}
	}
	text, err := withTable("a\n"+tableBegin+"\nold\n"+tableEnd+"\nb\n", "new\n")
	if want := "a\n" + tableBegin + "\n\nnew\n\n" + tableEnd + "\nb\n"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := withTable("no markers", "new\n"); err == nil {
		t.Error("a document without markers was accepted")
	}
}

package suite

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// good returns the suite of testdata/tiny with records that fit.
func good(t *testing.T, dir string) ([]Entry, Records) {
	t.Helper()
	entries, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	records := Records{}
	for i := range entries {
		e := &entries[i]
		sums, err := e.Sums(dir)
		if err != nil {
			t.Fatal(err)
		}
		records.Add(Record{Module: e.Module, Config: e.Config, Sums: sums, Verdict: e.Expect, Distinct: 5, Depth: e.Depth})
	}
	return entries, records
}

// Each way in which a record can be wrong is told.
func TestStale(t *testing.T) {
	change := func(name string, change func(*Record)) func(*testing.T, string, Records) {
		return func(_ *testing.T, _ string, records Records) {
			r := records[name]
			change(&r)
			records[name] = r
		}
	}
	for _, c := range []struct {
		story  string
		change func(t *testing.T, dir string, records Records)
		want   string
	}{
		{"nothing is wrong", func(*testing.T, string, Records) {}, ""},
		{"a module changed", func(t *testing.T, dir string, _ Records) {
			appendTo(t, filepath.Join(dir, "Tiny.tla"))
		}, "Tiny.tla, or a module that it extends, has changed"},
		{"a config changed", func(t *testing.T, dir string, _ Records) {
			appendTo(t, filepath.Join(dir, "TinyPass.cfg"))
		}, "TinyPass.cfg has changed"},
		{"no record", func(_ *testing.T, _ string, records Records) {
			delete(records, "Tiny/TinyPass")
		}, "TinyPass: has no record in results.json"},
		{"another count", change("Tiny/TinyPass", func(r *Record) { r.Distinct = 6 }), "not what suite.txt expects"},
		{"another depth", change("Tiny/BrokenTiny", func(r *Record) { r.Depth++ }), "not what suite.txt expects"},
		{"another verdict", change("Tiny/BrokenTiny", func(r *Record) { r.Verdict = "pass" }), "not what suite.txt expects"},
		{"a record too many", func(_ *testing.T, _ string, records Records) {
			records.Add(Record{Module: "Old", Config: "OldPass"})
		}, "Old/OldPass: has a record, but no line"},
		// A large config may wait for a free machine.
		{"no record of a large one", func(_ *testing.T, _ string, records Records) {
			delete(records, "Tiny/TinyLivePass")
		}, ""},
	} {
		dir := folder(t, nil)
		entries, records := good(t, dir)
		c.change(t, dir, records)
		complaints := records.Stale(dir, entries)
		found := slices.ContainsFunc(complaints, func(s string) bool { return strings.Contains(s, c.want) })
		if c.want == "" && len(complaints) > 0 || c.want != "" && !found {
			t.Errorf("%s: %q, want %q", c.story, complaints, c.want)
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

func TestWriteRecords(t *testing.T) {
	dir := folder(t, nil)
	entries, records := good(t, dir)
	want := maps.Clone(records)
	records.Add(Record{Module: "Old", Config: "Old"})
	if err := records.Write(dir, entries); err != nil {
		t.Fatal(err)
	}
	if read, err := ReadRecords(dir); err != nil || !maps.Equal(read, want) {
		t.Errorf("%+v, %v; want %+v", read, err, want)
	}
	if read, err := ReadRecords(t.TempDir()); err != nil || len(read) != 0 {
		t.Errorf("a folder without records has %+v, %v", read, err)
	}
}

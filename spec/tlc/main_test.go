package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/spec/internal/command"
	"github.com/relaybus-go/relaybus/spec/internal/suite"
	"github.com/relaybus-go/relaybus/spec/internal/tlc"
)

const tiny = "../internal/suite/testdata/tiny"

// copied copies testdata/tiny.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// Bad input gets one clear sentence and exit 2, and nothing is run.
func TestBadInput(t *testing.T) {
	incomplete := copied(t)
	if err := os.Remove(filepath.Join(incomplete, "TinyPass.cfg")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-dir", t.TempDir()},
		{"-dir", tiny, "Nobody"},
		{"-dir", tiny, "-parallel", "0"},
		{"-dir", tiny, "-timeout", "soon"},
		{"-dir", tiny, "-table", "Tiny"},
		{"-nonsense"},
		{"-dir", incomplete},
		{"-dir", copied(t), "-table"},
	} {
		code, out, errs := call(args...)
		if code != command.Unable || out != "" || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "tlc: ") {
			t.Errorf("%q: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestNoJava(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, out, errs := call("-dir", tiny)
	if code != command.Unable || out != "" || !strings.HasPrefix(errs, "tlc: no java on the PATH") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// need fails, with the sentence that says what to install, where TLC cannot
// run: a suite that is not checked must not look like one that is.
func need(t *testing.T) {
	t.Helper()
	if _, err := tlc.Find(); err != nil {
		t.Fatal(err)
	}
}

// TestTLC runs everything end to end over a folder of four configs and one
// that does not do what its line says.
func TestTLC(t *testing.T) {
	need(t)
	dir := copied(t)
	code, out, errs := call("-dir", dir, "-full", "-write")
	if code != command.Expected || !strings.Contains(out, "all as expected: 4") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	entries, err := suite.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	records, err := suite.ReadRecords(dir)
	if err != nil || len(records) != 4 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if complaints := records.Stale(dir, entries); len(complaints) > 0 {
		t.Errorf("fresh records are stale: %q", complaints)
	}

	// The guard that the broken config leaves out is put back.
	config, err := os.ReadFile(filepath.Join(dir, "TinyPass.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "BrokenTiny.cfg"), config, 0o666); err != nil {
		t.Fatal(err)
	}
	code, out, _ = call("-dir", dir, "-write", "BrokenTiny")
	if code != command.Unexpected || !strings.Contains(out, "expected Small, got pass") {
		t.Errorf("a broken config that passes: exit %d\n%s", code, out)
	}
	again, err := suite.ReadRecords(dir)
	if err != nil {
		t.Fatal(err)
	}
	if complaints := again.Stale(dir, entries); len(complaints) != 1 || !strings.Contains(complaints[0], "BrokenTiny.cfg has changed") {
		t.Errorf("what did not end as expected was recorded: %q", complaints)
	}
}

// A counterexample is a story: one block per step, with what changed.
func TestCounterexampleIsPrinted(t *testing.T) {
	need(t)
	_, out, _ := call("-dir", tiny, "BrokenTiny")
	if want := "  1. initially\n     x = 0\n     y = \"a\"\n  2. Up\n     x = 1 (was 0)\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// A module that is edited while TLC reads its copy must not be recorded as what
// TLC checked.
func TestFilesChangeMeanwhile(t *testing.T) {
	dir := copied(t)
	said, err := filepath.Abs("../internal/tlc/testdata/pass.txt")
	if err != nil {
		t.Fatal(err)
	}
	java := filepath.Join(t.TempDir(), "java")
	script := "#!/bin/sh\necho >> " + filepath.Join(dir, "Tiny.tla") + "\ncat " + said + "\n"
	if err := os.WriteFile(java, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	entries, err := suite.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &settings{dir: dir, timeout: time.Minute, workers: 1}
	r, err := s.checkOne(context.Background(), &tlc.Tool{Java: java}, entries[0])
	if err != nil || !strings.Contains(r.wrong, "changed while TLC ran") {
		t.Errorf("%q, %v", r.wrong, err)
	}
}

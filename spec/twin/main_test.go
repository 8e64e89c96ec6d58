package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/spec/internal/command"
)

func TestRun(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"AsyncCommit.tla", "AsyncCommit.cfg", "BrokenAsyncCommitHolder.cfg", "BrokenRelaybusEndToken.cfg"} {
		text, err := os.ReadFile(filepath.Join("../tla", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, name), string(text))
	}
	good := "AsyncCommit AsyncCommit small pass 25996 22 1 x\n"
	for _, c := range []struct {
		name, suite string
		args        []string
		code        int
		says        string
	}{
		{"all as TLC", good, nil, command.Expected, "25996 distinct, depth 22"},
		{"another count", strings.Replace(good, "25996", "25997", 1), nil, command.Unexpected, "the twin has 25996 distinct states, TLC 25997"},
		{"another verdict", "AsyncCommit AsyncCommit small FencedOut - 3 1 x\n", []string{"AsyncCommit"}, command.Unexpected, "the twin says pass, TLC FencedOut"},
		{"a counterexample", "", []string{"-v", "AsyncCommit/BrokenAsyncCommitHolder"}, command.Expected, " 12 CompleteMany\n"},
		{"one of Relaybus, with the reason", "", []string{"-v", "Relaybus/BrokenRelaybusEndToken"}, command.Expected,
			"      without delivery #1 of e1/x\n"},
		{"and the promise that it breaks", "", []string{"-v", "Relaybus/BrokenRelaybusEndToken"}, command.Expected, "OneHolderPerLane is broken by lane 0: CompleteMany of "},
		{"stopped early", good, []string{"-limit", "100"}, command.Unexpected, "stopped at 100 states"},
		{"no twin", good, []string{"Tiny"}, command.Unable, "module Tiny has no twin"},
		{"no config", good, []string{"AsyncCommit/Missing"}, command.Unable, "Missing.cfg"},
		{"no flag", good, []string{"-fast"}, command.Unable, "flag provided but not defined"},
		{"no suite", "AsyncCommit\n", nil, command.Unable, "suite.txt:1: has 1 columns"},
	} {
		write(t, filepath.Join(folder, "suite.txt"), c.suite)
		var out bytes.Buffer
		if code := run(context.Background(), append([]string{"-dir", folder}, c.args...), &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in:\n%s", c.name, code, c.code, c.says, &out)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

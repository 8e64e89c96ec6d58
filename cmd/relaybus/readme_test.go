package main

import (
	"os"
	"strings"
	"testing"
)

// TestCommandsOfTheReadme runs every relaybus command that the README shows,
// against a schema with dead letters. What asks is told yes, and what watches
// looks once.
func TestCommandsOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	ran := 0
	for line := range strings.Lines(string(readme)) {
		command, _, _ := strings.Cut(line, "#")
		args, ok := strings.CutPrefix(strings.TrimSpace(command), "relaybus ")
		if !ok {
			continue
		}
		words := strings.Fields(args)
		switch words[0] {
		case "stats":
			words = []string{"stats"}
		case "purge":
			words = append(words, "--yes")
		}
		if got := w.command(words...); !strings.HasSuffix(strings.TrimSpace(got), "exit 0") {
			t.Errorf("relaybus %s: %s", args, got)
		}
		if ran++; words[0] == "migrate" {
			w.fill(t)
		}
	}
	if ran < 5 {
		t.Errorf("the README shows %d relaybus commands, want 5 or more", ran)
	}
}

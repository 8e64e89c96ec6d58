package main

import (
	"os"
	"strings"
	"testing"
)

// TestCommandsOfTheReadme runs every relaysim command that the README shows,
// and knows of every other one: a command that only looks right is worse than
// none.
func TestCommandsOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, line := range commands(string(readme)) {
		command, _, _ := strings.Cut(line, "#")
		args, ok := strings.CutPrefix(strings.TrimSpace(command), "go run ./cmd/relaysim ")
		switch {
		case ok:
			runCommand(t, strings.Fields(args))
			ran++
		case strings.TrimSpace(command) == "make test": // runs this test
		case strings.HasPrefix(command, "relaybus "), strings.HasPrefix(command, "export RELAYBUS_"), strings.HasPrefix(command, "go install "): // cmd/relaybus has a test of its own
		default:
			t.Errorf("nothing tests this command of the README: %s", line)
		}
	}
	if ran == 0 {
		t.Error("the README shows no relaysim command")
	}
}

// commands returns the lines of the blocks that name no language.
func commands(readme string) []string {
	var lines []string
	inside, shell := false, false
	for line := range strings.Lines(readme) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
			shell = inside && line == "```"
		case shell && line != "":
			lines = append(lines, line)
		}
	}
	return lines
}

func runCommand(t *testing.T, args []string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Errorf("relaysim %s: exit %d\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	}
	if strings.Count(stdout.String(), "\n") != 1 {
		t.Errorf("relaysim %s prints more than its one line:\n%s", strings.Join(args, " "), stdout.String())
	}
}

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the files of testdata: what people and machines see of each
// subcommand. go test ./cmd/relaybus -rewrite writes them anew.
//
//	relaybus    each input line is a command line, run on the schema
//	migrate     makes the tables
//	fill        puts a delivery of each kind into them
//	sql         runs a statement; SCHEMA is the schema's name
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "migrate":
				w.migrate(t)
			case "fill":
				w.fill(t)
			case "sql":
				w.sql(t, d.Input)
			case "relaybus":
				var out strings.Builder
				for _, line := range strings.Split(d.Input, "\n") {
					args := words(t, line)
					text := w.command(args...)
					checkJSON(t, args, text)
					out.WriteString(text)
				}
				return out.String()
			default:
				d.Fatalf(t, "no directive %s", d.Cmd)
			}
			return ""
		})
	})
}

// checkJSON: --json prints exactly one document on one line.
func checkJSON(t *testing.T, args []string, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, arg := range args {
		if arg == "--json" && !strings.Contains(text, "stderr:") && (len(lines) != 2 || !json.Valid([]byte(lines[0]))) {
			t.Errorf("%q is not one JSON document and the exit code:\n%s", args, text)
		}
	}
}

package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/store/postgres"
)

var update = flag.Bool("update", false, "write the table of locks into docs/postgres.md")

const guide = "../../docs/postgres.md"

func readGuide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentedLocks: the table of locks says what the statements say.
func TestDocumentedLocks(t *testing.T) {
	text := readGuide(t)
	block := regexp.MustCompile(`(?s)(<!-- locks: [^>]*-->\n).*?(<!-- end of locks -->)`)
	if !block.MatchString(text) {
		t.Fatalf("%s has no place for the table of locks", guide)
	}
	want := block.ReplaceAllStringFunc(text, func(old string) string {
		parts := block.FindStringSubmatch(old)
		return parts[1] + "\n" + locks(t) + "\n" + parts[2]
	})
	if want == text {
		return
	}
	if !*update {
		t.Fatalf("the table of locks in %s is not that of the headers in sql/: run go test ./store/postgres -run TestDocumentedLocks -update", guide)
	}
	if err := os.WriteFile(guide, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// locks makes the table from the headers.
func locks(t *testing.T) string {
	files, err := filepath.Glob("sql/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no statements: %v", err)
	}
	var b strings.Builder
	b.WriteString("| statement | locks |\n|---|---|\n")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		what, rest, ok := strings.Cut(header(string(text)), " Locks: ")
		if !ok {
			if strings.HasPrefix(filepath.Base(name), "settings") {
				continue // they set and lock nothing
			}
			t.Errorf("%s: its header does not say which locks it takes", name)
		}
		held, _, _ := strings.Cut(rest, " Safe alone: ")
		held, _, _ = strings.Cut(held, " $1")
		if held == "none." {
			continue
		}
		what, _, _ = strings.Cut(what, ":")
		what, _, _ = strings.Cut(what, ". ")
		fmt.Fprintf(&b, "| %s (%s) | %s |\n", filepath.Base(name), strings.TrimSuffix(what, "."), strings.TrimSuffix(held, "."))
	}
	return b.String()
}

// header returns the comment at the top of a statement in one line.
func header(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		words = append(words, strings.Fields(comment)...)
	}
	return strings.Join(words, " ")
}

// TestDocumentedQueries: every query of the guide runs, on a store with
// something in it.
func TestDocumentedQueries(t *testing.T) {
	s := seeded(t, postgres.Options{})
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(readGuide(t), -1)
	if len(blocks) < 5 {
		t.Fatalf("%d queries in %s: the test does not find them", len(blocks), guide)
	}
	for _, block := range blocks {
		sql := strings.NewReplacer("relaybus.", s.schema+".", "'relaybus'", "'"+s.schema+"'").Replace(block[1])
		rows, err := s.pool.Query(context.Background(), sql)
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
		}
	}
}

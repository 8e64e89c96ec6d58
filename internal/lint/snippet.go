package lint

import "strings"

const (
	readme      = "README.md"
	exampleFile = "engine/example_test.go"
	quickStart  = "store/postgres/quickstart_test.go"
)

func snippetAsleep(t *Tree) string {
	if !t.has(exampleFile) {
		return "there is no " + exampleFile + " yet"
	}
	return ""
}

// checkSnippet wants every Go block of the README in the compiled examples, line
// by line, so that what new users copy works.
func checkSnippet(t *Tree) []Problem {
	ps := &problems{tree: t}
	example := string(t.text[exampleFile]) + "\n" + string(t.text[quickStart])
	blocks := strings.Split(string(t.text[readme]), "\n```go\n")
	if len(blocks) == 1 {
		ps.add(readme, "no block of Go: show how to start")
	}
	for _, block := range blocks[1:] {
		code, _, _ := strings.Cut(block, "\n```")
		if !strings.Contains(example, code) {
			first, _, _ := strings.Cut(code, "\n")
			ps.add(readme, "the block that begins with %q is not in %s or %s as it stands, so nothing compiles it", first, exampleFile, quickStart)
		}
	}
	return ps.sorted()
}

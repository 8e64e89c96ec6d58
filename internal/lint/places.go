package lint

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Both lists are written in pieces so that this file does not name what it
// forbids.
var (
	machinePath  = regexp.MustCompile(`(^|[^A-Za-z0-9_.~-])(/(?:` + strings.Join([]string{"work", "root", "home"}, "|") + `)/[^\s"'` + "`" + `)]*)`)
	registryHost = regexp.MustCompile(strings.ReplaceAll(
		`\b(proxy!golang!org|sum!golang!org|goproxy!io|(index!|static!)?crates!io|pypi!org|files!pythonhosted!org|`+
			`registry!npmjs!org|repo1?!maven!(org|apache!org)|deb!debian!org|security!debian!org|registry-1!docker!io)\b`, "!", `\.`))
)

// checkPlaces reads every text file.
func checkPlaces(t *Tree) []Problem {
	ps := &problems{tree: t}
	for _, name := range t.paths {
		text := t.text[name]
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		number := 0
		for line := range bytes.Lines(text) {
			number++
			if found := machinePath.FindSubmatch(line); found != nil {
				ps.add(fmt.Sprintf("%s:%d", name, number), "%s is a path of one machine: nobody else has it", found[2])
			}
			if found := registryHost.Find(line); found != nil {
				ps.add(fmt.Sprintf("%s:%d", name, number), "%s is the host of a registry: name the package and let each client's settings find it", found)
			}
		}
	}
	return ps.sorted()
}

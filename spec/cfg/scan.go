package cfg

import (
	"fmt"
	"strings"
)

// keywords begin a statement, also those that Parse refuses.
var keywords = map[string]bool{
	"SPECIFICATION": true, "INIT": true, "NEXT": true,
	"CONSTANT": true, "CONSTANTS": true,
	"INVARIANT": true, "INVARIANTS": true, "PROPERTY": true, "PROPERTIES": true,
	"CONSTRAINT": true, "CONSTRAINTS": true, "ACTION_CONSTRAINT": true, "ACTION_CONSTRAINTS": true,
	"SYMMETRY": true, "VIEW": true, "ALIAS": true, "POSTCONDITION": true, "CHECK_DEADLOCK": true,
}

// scan splits a text into words, without its comments. A string keeps its
// quotes.
func scan(text string) ([]string, error) {
	var words []string
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return words, nil
		}
		n, comment := measure(text)
		if n == 0 {
			return nil, fmt.Errorf("cannot read %.20q", text)
		}
		if !comment {
			words = append(words, text[:n])
		}
		text = text[n:]
	}
}

// measure returns the length of the word or comment that text begins with, 0
// if it begins with neither.
func measure(text string) (n int, comment bool) {
	switch {
	case strings.HasPrefix(text, `\*`):
		return upTo(text, "\n", len(text)), true
	case strings.HasPrefix(text, "(*"):
		return upTo(text, "*)", 0), true
	case text[0] == '"':
		n := upTo(text[1:], `"`, -1)
		return n + 1, false
	case strings.HasPrefix(text, "<-"):
		return 2, false
	case strings.IndexByte("={},", text[0]) >= 0:
		return 1, false
	}
	for n < len(text) && (isLetter(text[n]) || isDigit(text[n]) || n == 0 && text[n] == '-') {
		n++
	}
	return n, false
}

// upTo returns the length of text up to and with the first end, or missing.
func upTo(text, end string, missing int) int {
	if i := strings.Index(text, end); i >= 0 {
		return i + len(end)
	}
	return missing
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

package engine

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanText(t *testing.T) {
	long := strings.Repeat("ä", MaxErrorText)
	for name, c := range map[string]struct{ in, want string }{
		"clean text is untouched":    {"no such order: 7 – sorry", "no such order: 7 – sorry"},
		"empty":                      {"", ""},
		"NUL":                        {"a\x00b", "a\uFFFDb"},
		"invalid UTF-8":              {"a\xff\xfeb", "a\uFFFDb"},
		"a literal escape is text":   {`\u0000`, `\u0000`},
		"exactly at the limit":       {strings.Repeat("x", MaxErrorText), strings.Repeat("x", MaxErrorText)},
		"cut between two characters": {long, strings.Repeat("ä", (MaxErrorText-len(cutMark))/2) + cutMark},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CleanText(c.in); got != c.want {
				t.Errorf("got %d bytes %.60q, want %d bytes %.60q", len(got), got, len(c.want), c.want)
			}
		})
	}
	if got := CleanText(strings.Repeat("\x00", MaxErrorText)); len(got) > MaxErrorText || !strings.HasSuffix(got, cutMark) {
		t.Errorf("replacements made the text grow to %d bytes", len(got))
	}
}

func FuzzCleanText(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\xff\xc3")
	f.Add(strings.Repeat("\xf0\x9f\x98", 5000))
	f.Add(strings.Repeat("é", MaxErrorText))
	f.Fuzz(func(t *testing.T, text string) {
		got := CleanText(text)
		if len(got) > MaxErrorText || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Fatalf("a store could not keep %q", got)
		}
		if CleanText(got) != got {
			t.Fatal("cleaning twice changes the text")
		}
		if len(text) <= MaxErrorText && utf8.ValidString(text) && !strings.Contains(text, "\x00") && got != text {
			t.Fatal("clean text was changed")
		}
	})
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/relaybus-go/relaybus/engine"
)

// printJSON writes one document on one line.
func (a *app) printJSON(document any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

// table aligns rows of cells.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if len(heads) > 0 {
		fmt.Fprintln(t, strings.Join(heads, "\t"))
	}
	return t
}

// row writes cells; an empty one is a dash, and what a terminal would obey is
// quoted.
func (t table) row(cells ...any) {
	for i, c := range cells {
		text := printable(fmt.Sprint(c))
		if text == "" {
			text = "-"
		}
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, text)
	}
	fmt.Fprintln(t)
}

// printable quotes a text that is not UTF-8 or holds what a terminal obeys
// instead of showing.
func printable(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return text
	}
	return strconv.Quote(text)
}

// short cuts a text for a table.
func short(text string, runes int) string {
	if r := []rune(text); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return text
}

// at prints a time of the store.
func at(t engine.StoreTime) string {
	if t == 0 {
		return ""
	}
	return t.Std().Format("2006-01-02T15:04:05.000Z")
}

// jsonTime is null for no time.
func jsonTime(t engine.StoreTime) *string {
	if t == 0 {
		return nil
	}
	text := t.Std().Format(time.RFC3339Nano)
	return &text
}

// ago prints how long ago a time was, or how far ahead it is.
func ago(now, t engine.StoreTime) string {
	switch d := now.Sub(t).Round(time.Second); {
	case t == 0:
		return ""
	case d < 0:
		return "in " + (-d).String()
	default:
		return d.String() + " ago"
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

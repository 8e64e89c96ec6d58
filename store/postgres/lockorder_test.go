package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lockModule has a table of what each statement locks, which the transactions of
// its model are made of.
const lockModule = "../../spec/tla/LockOrder.tla"

// rowLock is the locking of rows of one table by a statement, as in the module:
// how is ascending, one, skip or held.
type rowLock struct{ table, mode, how string }

var (
	modelStatement = regexp.MustCompile(`(?s)(\w+)\s*\|->\s*<<(.*?)>>`)
	modelLock      = regexp.MustCompile(`Locks\("(\w+)", "([A-Z ]+)", "(\w+)"\)`)
)

// modelLocks reads the table Statement of the module.
func modelLocks(t *testing.T) (locks map[string][]rowLock, rest string) {
	t.Helper()
	text, err := os.ReadFile(lockModule)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\nStatement == [")
	table, rest, found := strings.Cut(table, "\n]")
	if !found {
		t.Fatalf("%s has no table Statement", lockModule)
	}
	locks = map[string][]rowLock{}
	for _, s := range modelStatement.FindAllStringSubmatch(table, -1) {
		for _, l := range modelLock.FindAllStringSubmatch(s[2], -1) {
			locks[s[1]] = append(locks[s[1]], rowLock{l[1], l[2], l[3]})
		}
	}
	return locks, rest
}

// TestLockOrder: the module LockOrder has every statement that locks rows, with
// the tables, modes and orders that the statement's text and its header say, and
// its transactions are made of all of them.
func TestLockOrder(t *testing.T) {
	model, rest := modelLocks(t)
	files, err := filepath.Glob("sql/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no statements: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		for _, wrong := range lockDifferences(string(text), model[name]) {
			t.Errorf("%s: %s", file, wrong)
		}
		if len(model[name]) > 0 && !strings.Contains(rest, `"`+name+`"`) && !strings.Contains(rest, "Statement."+name) {
			t.Errorf("%s: %s has it in its table, and in no transaction", file, lockModule)
		}
		delete(model, name)
	}
	for name := range model {
		t.Errorf("%s has %s, and there is no such file", lockModule, name)
	}
}

// lockDifferences says in what a statement differs from the module.
func lockDifferences(text string, model []rowLock) []string {
	var wrong []string
	if said, ok := lockedByHeader(text); ok && !slices.Equal(said, model) {
		wrong = append(wrong, fmt.Sprintf("its header says %v, the module LockOrder %v", said, model))
	}
	done := lockedByText(text)
	if len(done) != len(model) {
		return append(wrong, fmt.Sprintf("it locks %v, in the module LockOrder %v", done, model))
	}
	for i, l := range done {
		if m := model[i]; l.table != m.table || l.mode != m.mode || l.how != m.how {
			wrong = append(wrong, fmt.Sprintf("it locks %v, in the module LockOrder %v", l, m))
		}
	}
	return wrong
}

// nouns are the tables by what headers call their rows.
var nouns = map[string]string{
	"lane": "lanes", "lanes": "lanes", "delivery": "deliveries", "deliveries": "deliveries", "events": "events", "slots": "slots",
	"subscription": "subscriptions", "subscriptions": "subscriptions", "subscriptions_version": "subscriptions_version", "groups": "groups", "completions": "completions",
}

var (
	headerEnd  = regexp.MustCompile(` (Safe alone:|Returns |\$1).*`)
	headerNoun = regexp.MustCompile(`\b(lanes?|delivery|deliveries|events|slots|subscriptions?|subscriptions_version|groups|completions)\b`)
	headerMode = regexp.MustCompile(`FOR (NO KEY UPDATE|KEY SHARE|UPDATE)`)
)

// lockedByHeader returns what the header of a statement says; ok is false where
// it refers to another one's.
func lockedByHeader(text string) (locks []rowLock, ok bool) {
	_, said, _ := strings.Cut(header(text), " Locks: ")
	said = headerEnd.ReplaceAllString(said, "")
	if strings.HasPrefix(said, "none beyond those of") {
		return nil, false
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(said, "; then ", ", then "), ", then ") {
		noun := headerNoun.FindString(part)
		if noun == "" || strings.HasPrefix(part, "none") || strings.Contains(part, "advisory") {
			continue
		}
		l := rowLock{table: nouns[noun], how: "one"}
		if mode := headerMode.FindStringSubmatch(part); mode != nil {
			l.mode = mode[1]
		}
		switch {
		case strings.Contains(part, "SKIP LOCKED"):
			l.how = "skip"
		case strings.Contains(part, "taken before"), strings.Contains(part, "has them already"):
			l.how = "held"
		case strings.Contains(part, "ascending"), strings.Contains(part, " order"):
			l.how = "ascending"
		}
		locks = append(locks, l)
	}
	return locks, true
}

var (
	subquery = regexp.MustCompile(`\bas (materialized )?\(`)
	// step is what locks a row, or names the table that the next clause is for.
	step = regexp.MustCompile(`\b(?:(insert into|update|delete from|from) relaybus\.(\w+)` +
		`|on conflict \([\w, ]+\) do update set (\w+)` +
		`|for (no key update|key share|update)( of \w+)?( skip locked)?)`)
	givenRows = regexp.MustCompile(`unnest\((\(select )?\$`)
	strength  = []string{"", "KEY SHARE", "NO KEY UPDATE", "UPDATE"}
)

// lockedByText returns what the text of a statement locks, each table once, in
// the order in which they come.
func lockedByText(text string) []rowLock {
	var locks []rowLock
	for _, part := range subquery.Split(bodyOf(text), -1) {
		table := ""
		for _, word := range step.FindAllStringSubmatch(part, -1) {
			l := rowLock{table: table}
			switch verb, column, clause := word[1], word[3], word[4]; {
			case verb == "update":
				l = rowLock{word[2], "NO KEY UPDATE", written(part)}
			case verb == "delete from":
				l = rowLock{word[2], "UPDATE", written(part)}
			case column == "number": // a key of groups, under the lock of that table
				l.mode, l.how = "UPDATE", "held"
			case column != "": // in the order of the rows to insert, if it has one
				l.mode, l.how = "NO KEY UPDATE", "one"
				if strings.Contains(part, "order by") {
					l.how = "ascending"
				}
			case clause != "" && word[6] != "":
				l.mode, l.how = strings.ToUpper(clause), "skip"
			case clause != "":
				l.mode, l.how = strings.ToUpper(clause), ordered(part)
			default:
				table = word[2]
				continue
			}
			locks = together(locks, l)
			if l.table == "subscriptions" && verbWrites(word) { // its triggers
				locks = together(locks, rowLock{"subscriptions_version", "NO KEY UPDATE", "one"})
			}
		}
	}
	return locks
}

// verbWrites reports whether a step writes rows, of which it may insert some.
func verbWrites(word []string) bool { return word[1] == "update" || word[3] != "" }

// bodyOf returns a statement without its comments, with single spaces.
func bodyOf(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		words = append(words, strings.Fields(code)...)
	}
	return strings.Join(words, " ")
}

// ordered tells how a part of a statement locks its rows: many in the order that
// it says or is given, or one.
func ordered(part string) string {
	if strings.Contains(part, "order by") || givenRows.MatchString(part) {
		return "ascending"
	}
	return "one"
}

// written tells how a part writes rows without locking them first: of many the
// order is anybody's guess, so they must be locked already.
func written(part string) string {
	if strings.Contains(part, "any(") || givenRows.MatchString(part) {
		return "held"
	}
	return ordered(part)
}

// together adds a lock: a later one of the same table may be stronger, or the
// one that a write before it in the text waits for.
func together(locks []rowLock, l rowLock) []rowLock {
	i := slices.IndexFunc(locks, func(o rowLock) bool { return o.table == l.table })
	if i < 0 {
		return append(locks, l)
	}
	if slices.Index(strength, l.mode) > slices.Index(strength, locks[i].mode) {
		locks[i].mode = l.mode
	}
	if locks[i].how == "held" {
		locks[i].how = l.how
	}
	return locks
}

// TestLockOrderSeesADifference: each kind of difference between a statement and
// the module is one that TestLockOrder tells of.
func TestLockOrderSeesADifference(t *testing.T) {
	model, _ := modelLocks(t)
	for _, c := range []struct{ name, rule, instead string }{
		{"take_over", " skip locked", ""},
		{"take_over", "SKIP LOCKED", ""},
		{"take_over", "for update", "for no key update"},
		{"complete_many", "order by f.id", ""},
		{"complete_many", "ascending", ""},
		{"complete_alone", "order by f.id", ""},
		{"publish", "order by e.id", ""},
		{"lock_slots", "for no key update", ""},
		{"publish", "Locks: events", "Locks: slots"},
		{"mark_removed", "; then subscriptions_version FOR NO", ""},
		{"bury", "for no key update", ""},
		{"bury", "the lane FOR NO KEY UPDATE", "the lane"},
		{"sweep_bury", "for key share", ""},
		{"requeue", "relaybus.lanes x where", "relaybus.events x where"},
		{"settle", "for key share", ""},
		{"retry_stuck", "id = $1", "id = any($1)"},
		{"claim", "x.lane = q.lane)", "x.lane = q.lane for update)"},
	} {
		text, err := os.ReadFile("sql/" + c.name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		changed := without(t, string(text), c.rule, c.instead)
		if len(lockDifferences(changed, model[c.name])) == 0 {
			t.Errorf("%s with %q in the place of %q passes", c.name, c.instead, c.rule)
		}
	}
	if len(lockDifferences("-- Locks: none.\nupdate relaybus.lanes set epoch = 1 where lane = $1", nil)) == 0 {
		t.Error("a statement that the module does not have passes")
	}
}

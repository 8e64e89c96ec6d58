package linearize

import (
	"fmt"
	"slices"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
)

// story is told twice: once as a correct store tells it, and once with one
// operation or one answer that breaks a rule.
type story struct {
	name   string
	rule   string // that the bad telling breaks
	breaks []Property
	family Family
	tell   func(b *book, bad bool)
}

const (
	applied   = engine.Applied
	leaseLost = engine.LeaseLost
)

func TestStories(t *testing.T) {
	for _, list := range [][]story{laneStories, lifeStories, onceStories, orderStories, chargeStories} {
		for _, s := range list {
			t.Run(fmt.Sprintf("%s/%s", s.breaks[0], s.name), func(t *testing.T) { testStory(t, s) })
		}
	}
}

func testStory(t *testing.T, s story) {
	good, bad := newBook(s.family), newBook(s.family)
	s.tell(good, false)
	s.tell(bad, true)
	if n := differences(good.Operations(), bad.Operations()); n != 1 {
		t.Errorf("the two tellings differ in %d operations, and not in one", n)
	}
	if r, found := statuses(t, good.History); len(found) > 0 {
		t.Errorf("the good telling is not accepted:\n%s", r)
	}
	r, found := statuses(t, bad.History)
	for _, p := range Properties() {
		want := OK
		if slices.Contains(s.breaks, p) {
			want = Illegal
		}
		if found[p] != want {
			t.Errorf("the bad telling breaks the rule %q; %s is %s, want %s\n%s", s.rule, p, found[p], want, r)
		}
	}
	if e := r.Result(s.breaks[0]).Explanation; !t.Failed() && testing.Verbose() {
		t.Logf("%s:\n%s", s.rule, e)
	}
}

// differences counts the operations that two histories do not share; one that
// is missing counts as one.
func differences(a, b []Operation) int {
	words := func(ops []Operation) []string {
		list := make([]string, len(ops))
		for i, o := range ops {
			list[i] = fmt.Sprintf("%+v", o)
		}
		return list
	}
	x, y := words(a), words(b)
	if len(x) != len(y) {
		if len(x) < len(y) {
			x, y = y, x
		}
		// The times of what follows the missing operation are the same.
		missing := 0
		for _, w := range x {
			if !slices.Contains(y, w) {
				missing++
			}
		}
		return missing
	}
	n := 0
	for i := range x {
		if x[i] != y[i] {
			n++
		}
	}
	return n
}

// only performs an operation in one of the tellings; time passes in both.
func (b *book) only(perform bool, op func()) {
	if perform {
		op()
		return
	}
	b.wait(2)
}

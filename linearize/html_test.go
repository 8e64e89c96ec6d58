package linearize

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// The picture of an illegal history says what is wrong and names the calls.
func TestPicture(t *testing.T) {
	for _, list := range [][]story{laneStories, lifeStories, onceStories, orderStories, chargeStories} {
		s := list[max(0, slices.IndexFunc(list, func(s story) bool { return len(s.breaks) == 1 }))]
		t.Run(s.breaks[0].String(), func(t *testing.T) {
			b := newBook(s.family)
			s.tell(b, true)
			r := Check(b.History, time.Minute)
			var page strings.Builder
			if err := WriteHTML(&page, r); err != nil {
				t.Fatal(err)
			}
			e := r.Result(s.breaks[0]).Explanation
			for _, want := range []string{e.Property.String() + " is broken in " + e.Partition, e.Misfits[0].Call, e.Misfits[0].Reasons[0]} {
				if !strings.Contains(page.String(), inScript(want)) {
					t.Errorf("the page does not say %q", want)
				}
			}
			if !strings.Contains(page.String(), `"Description":"client `) || strings.Contains(page.String(), "src=\"http") {
				t.Error("the page does not label the calls, or needs another file")
			}
		})
	}
}

// inScript is text as it stands in the script of a page.
func inScript(text string) string {
	return strings.NewReplacer(`"`, `\"`, "<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(text)
}

func TestNothingToDraw(t *testing.T) {
	b := newBook(Locking)
	laneStories[0].tell(b, false)
	if err := WriteHTML(io.Discard, Check(b.History, time.Minute)); !errors.Is(err, ErrNothingToDraw) {
		t.Errorf("a legal history: %v", err)
	}
}

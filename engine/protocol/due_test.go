package protocol

import (
	"math"
	"testing"
	"time"
)

func TestDueFrom(t *testing.T) {
	const now Time = 1000
	for _, c := range []struct {
		due  Due
		want Time
	}{
		{Due{}, now},
		{Due{Delay: time.Second}, now + Time(time.Second)},
		{Due{Delay: -time.Second}, now},
		{Due{Delay: math.MaxInt64}, math.MaxInt64},
		{Due{At: 5000}, 5000},
		{Due{At: 1}, now},
	} {
		if got := c.due.From(now); got != c.want {
			t.Errorf("%+v from %d: %d, want %d", c.due, now, got, c.want)
		}
	}
}

// Two stores of which one keeps what it need not would look different.
func TestDueIsNotKept(t *testing.T) {
	s := NewState(Locking, 2)
	p := PublishEvent{Event: Event{ID: "a", Type: "nobody's", Due: Due{Delay: 1}}, Result: Added}
	if o := s.Publish(Publish{Events: []PublishEvent{p}})[0]; !o.OK() {
		t.Fatal(o)
	}
	if e := s.events[0]; e.Due != (Due{}) {
		t.Errorf("the event keeps %+v", e.Due)
	}
}

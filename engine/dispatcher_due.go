package engine

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// dueTimes remembers when deliveries that this worker put off are due, so that
// it looks for them then and not with the next poll. It is a hint: whoever
// holds the lane by then finds them anyway.
type dueTimes struct {
	ticks []time.Duration // on the monotonic clock, ascending, no two equal
}

const (
	// dueTicks is into how many ticks a poll interval is divided: deliveries
	// due in the same one share a claim, at its end.
	dueTicks = 16
	// maxDueTimes bounds the memory; the latest are left to polls.
	maxDueTimes = 1024
)

func (t *dueTimes) note(due Instant, poll time.Duration) {
	step := max(poll/dueTicks, time.Millisecond)
	tick := (due.Mono + step - 1) / step * step
	i, known := slices.BinarySearch(t.ticks, tick)
	if known || i == maxDueTimes {
		return
	}
	if len(t.ticks) == maxDueTimes {
		t.ticks = t.ticks[:maxDueTimes-1]
	}
	t.ticks = slices.Insert(t.ticks, i, tick)
}

// reached forgets what is due by now and reports whether there was any.
func (t *dueTimes) reached(at Instant) bool {
	n, exact := slices.BinarySearch(t.ticks, at.Mono)
	if exact {
		n++
	}
	t.ticks = slices.Delete(t.ticks, 0, n)
	return n > 0
}

// wakeForDue asks for a claim when a delivery that was put off is due.
func (d *Dispatcher) wakeForDue(at Instant) {
	if d.phase != phaseRunning {
		return
	}
	if d.due.reached(at) && !mutant.On("due-time-forgotten") {
		d.claim.woken = true
	}
	if len(d.due.ticks) > 0 {
		d.wake.in(d.due.ticks[0] - at.Mono)
	}
}

package main

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// TLC counts in 32 bits and the store's clock in nanoseconds. No rule asks how
// far two times are apart, only which is the earlier; and every sum of a time
// and a duration that a rule asks for has its terms in one action. So the times
// of a trace, sums included, are replaced by their ranks, which keeps every
// comparison. 0, which means "never", stays 0.
//
// What is thereby trusted: that this program adds now and ttl, clock and ttl,
// now and delay rightly. Which of the sums counts, and what becomes of it, is
// still the specification's.
type ranks struct {
	sorted []protocol.Time
	zero   int
}

func rank(times []protocol.Time) *ranks {
	sorted := append(slices.Clone(times), 0)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	zero, _ := slices.BinarySearch(sorted, 0)
	return &ranks{sorted, zero}
}

func (r *ranks) of(t protocol.Time) int {
	i, found := slices.BinarySearch(r.sorted, t)
	if !found {
		panic("trace: a time that was not collected")
	}
	return i - r.zero
}

// sum is one time plus a duration.
type sum struct{ from, to protocol.Time }

// sums are those that the rules may ask for of an action's duration: from its
// now, and from its clock where it has one.
func sums(args map[string]any, d protocol.Time) []sum {
	now := timeIn(args, "Now")
	all := []sum{{now, plus(now, d)}}
	if clock := max(now, timeIn(args, "Clock")); clock != now {
		all = append(all, sum{clock, plus(clock, d)})
	}
	return all
}

package engine

import (
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Retention is what a bus deletes by itself, by [Operator.Purge], from time to
// time. The zero value deletes nothing: an operator does, or nobody.
//
// Every bus of the store whose Config says so takes part, one at a time. Give
// all of them the same ages: the shortest one counts.
type Retention struct {
	// DeadAfter, EventsAfter and HistoryAfter are those of [PurgeInput]: the
	// ages from which dead letters, events without deliveries and completions
	// go. Zero keeps that kind for ever.
	DeadAfter, EventsAfter, HistoryAfter time.Duration
	// Every is how often this bus looks, on average; default 10 minutes, from
	// 1 s to 24 h.
	Every time.Duration
}

const (
	defaultRetentionEvery = 10 * time.Minute
	// leastRetention: a day in the wrong unit must not delete everything, and
	// an event must outlive every transaction that may still publish its id.
	leastRetention = time.Minute
)

func (r Retention) on() bool { return r.DeadAfter > 0 || r.EventsAfter > 0 || r.HistoryAfter > 0 }

func (r Retention) input() PurgeInput {
	if mutant.On("retention-ages-swapped") {
		r.DeadAfter, r.EventsAfter = r.EventsAfter, r.DeadAfter
	}
	return PurgeInput{DeadAfter: r.DeadAfter, EventsAfter: r.EventsAfter, HistoryAfter: r.HistoryAfter, Yield: true}
}

func (r Retention) check() error {
	for _, age := range []struct {
		what  string
		value time.Duration
	}{
		{"Config.Retention.DeadAfter", r.DeadAfter},
		{"Config.Retention.EventsAfter", r.EventsAfter},
		{"Config.Retention.HistoryAfter", r.HistoryAfter},
	} {
		if age.value != 0 && age.value < leastRetention {
			return invalid("%s is %v: it must be 0, which keeps everything, or at least %v", age.what, age.value, leastRetention)
		}
	}
	return checkRange("Config.Retention.Every", r.Every, time.Second, 24*time.Hour)
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// metrics is what an adapter to a metrics and a tracing library would be: it
// knows nothing but the observations it is told.
type metrics struct {
	mu      sync.Mutex
	count   map[string]int // by handler and what happened
	busy    map[string]int // handlers that run now
	latency map[string]time.Duration
	waited  map[string]time.Duration // longest from publication to completion
	spans   []string
}

func newMetrics() *metrics {
	return &metrics{
		count: map[string]int{}, busy: map[string]int{},
		latency: map[string]time.Duration{}, waited: map[string]time.Duration{},
	}
}

func (m *metrics) Observe(o engine.Observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch o.Kind {
	case engine.ObservedStarted:
		m.busy[o.Handler]++
	case engine.ObservedReturned:
		m.busy[o.Handler]--
		m.latency[o.Handler] += o.Duration
		m.count[fmt.Sprintf("%s %s attempt %d", o.Handler, o.Outcome, o.Attempt)]++
		m.spans = append(m.spans, span(o))
	case engine.ObservedCompleted:
		m.count[o.Handler+" "+o.Kind]++
		m.waited[o.Handler] = max(m.waited[o.Handler], o.At.Sub(o.PublishedAt))
	case engine.ObservedRescheduled, engine.ObservedBuried:
		m.count[fmt.Sprintf("%s %s: %v", o.Handler, o.Kind, o.Err)]++
	}
}

// span prints a run as a tracing backend would show it.
func span(o engine.Observation) string {
	parent := "-"
	for _, h := range o.Headers {
		if h.Name == engine.HeaderTraceParent {
			parent = h.Value
		}
	}
	return fmt.Sprintf("%s > %s %s %s[%s] %d/%d took %v", parent, o.Handler, o.Type, o.Event, o.Key, o.Attempt, o.MaxAttempts, o.Duration)
}

// Metrics and traces can be written from observations alone.
func TestAnAdapterNeedsNothingButObservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newMetrics()
		b, err := engine.New(simstore.New(), engine.Config{Observer: seen, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		busy := errors.New("451 busy")
		must(t, engine.Handle(b, engine.Handler{Event: "sent", Name: "mail", MaxAttempts: 3},
			func(_ context.Context, e engine.Event[string]) error {
				time.Sleep(40 * time.Millisecond)
				switch {
				case e.Payload == "spam":
					return engine.Cancel(errors.New("not wanted"))
				case e.Payload == "later" && e.Attempt == 1:
					return engine.RetryAfter(time.Minute, busy)
				}
				return nil
			}))
		must(t, engine.HandleTx(b, engine.Handler{Event: "sent", Name: "ledger"},
			func(context.Context, *simstore.Tx, engine.Event[string]) error { return nil }))
		must(t, b.Start(t.Context()))
		began := time.Now()
		trace := []engine.Header{{Name: engine.HeaderTraceParent, Value: "00-aa-bb-01"}}
		must(t, b.PublishNow(t.Context(),
			engine.Message{ID: "e1", Type: "sent", Key: "ann", Payload: "now", Headers: trace},
			engine.Message{ID: "e2", Type: "sent", Key: "bob", Payload: "later"},
			engine.Message{ID: "e3", Type: "sent", Key: "cat", Payload: "spam"}))
		time.Sleep(2 * time.Minute)
		must(t, b.Stop(t.Context()))

		var got []string
		for _, what := range slices.Sorted(maps.Keys(seen.count)) {
			got = append(got, fmt.Sprintf("%d %s", seen.count[what], what))
		}
		slices.Sort(seen.spans)
		want := []string{
			"3 ledger Committed attempt 1",
			"3 ledger completed",
			"1 mail Cancelled attempt 1",
			"1 mail Failed attempt 1",
			"1 mail Succeeded attempt 1",
			"1 mail Succeeded attempt 2",
			"1 mail buried: not wanted",
			"2 mail completed",
			"1 mail rescheduled: 451 busy",
			"- > ledger sent e2[bob] 1/20 took 0s",
			"- > ledger sent e3[cat] 1/20 took 0s",
			"- > mail sent e2[bob] 1/3 took 40ms",
			"- > mail sent e2[bob] 2/3 took 40ms",
			"- > mail sent e3[cat] 1/3 took 40ms",
			"00-aa-bb-01 > ledger sent e1[ann] 1/20 took 0s",
			"00-aa-bb-01 > mail sent e1[ann] 1/3 took 40ms",
		}
		if got = append(got, seen.spans...); !slices.Equal(got, want) {
			t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if seen.busy["mail"] != 0 || seen.latency["mail"] != 160*time.Millisecond {
			t.Errorf("mail: %d run now, %v altogether", seen.busy["mail"], seen.latency["mail"])
		}
		if w := seen.waited["mail"]; w < time.Minute || w > time.Since(began) {
			t.Errorf("the longest way from publication to completion: %v", w)
		}
	})
}

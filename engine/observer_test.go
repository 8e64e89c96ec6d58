package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is an Observer that keeps what it is told, after calling first.
type recorder struct {
	mu    sync.Mutex
	all   []Observation
	first func()
}

func (r *recorder) Observe(o Observation) {
	if r.first != nil {
		r.first()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
}

func (r *recorder) of(kind string) []Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(o Observation) bool { return o.Kind != kind })
}

func TestObserverIsToldALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &recorder{}
		bus, store := startBus(t, Config{Observer: seen}, Handler{Retry: Exponential{}}, func(_ context.Context, e Event[[]byte]) error {
			time.Sleep(20 * time.Millisecond)
			switch e.ID {
			case "e1":
				return nil
			case "e2":
				return Snooze(time.Hour)
			case "e3":
				return Cancel(errPlain)
			}
			return errPlain
		})
		give(bus, store, 4)
		must(t, bus.PublishNow(t.Context(), Message{Type: "t"}, Message{Type: "t"}))
		must(t, bus.Stop(t.Context()))
		for kind, want := range map[string]int{
			ObservedClaimed: 1, ObservedStarted: 4, ObservedReturned: 4, ObservedPublished: 1, ObservedDropped: 0,
			ObservedCompleted: 1, ObservedSnoozed: 1, ObservedBuried: 1, ObservedRescheduled: 1,
		} {
			if got := seen.of(kind); len(got) != want {
				t.Errorf("%s: told %d times, want %d: %+v", kind, len(got), want, got)
			}
		}
		if o := seen.of(ObservedClaimed)[0]; o.Count != 4 {
			t.Errorf("claimed: %+v", o)
		}
		if o := seen.of(ObservedPublished)[0]; o.Count != 2 || o.Err != nil {
			t.Errorf("published: %+v", o)
		}
		outcomes := map[string]Outcome{}
		for _, o := range seen.of(ObservedReturned) {
			outcomes[o.Event] = o.Outcome
			if o.Duration != 20*time.Millisecond || o.Attempt != 1 || o.Handler != "h" || o.Type != "e" || o.Lane != 7 {
				t.Errorf("returned: %+v", o)
			}
		}
		if want := "map[e1:Succeeded e2:Snoozed e3:Cancelled e4:Failed]"; fmt.Sprint(outcomes) != want {
			t.Errorf("outcomes %v", outcomes)
		}
		calls := map[string]bool{}
		for _, o := range seen.of(ObservedCall) {
			calls[o.Call] = true
		}
		for _, name := range []string{"Subscribe", "Claim", "CompleteMany", "Reschedule", "Snooze", "Bury", "Relinquish"} {
			if !calls[name] {
				t.Errorf("no call of %s was told: %v", name, calls)
			}
		}
	})
}

// An observer that hangs costs observations, never leases.
func TestASlowObserverHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		seen := &recorder{first: func() { <-release }}
		bus, store := startBus(t, Config{Observer: seen}, Handler{}, nothing)
		for range 30 {
			give(bus, store, 100)
		}
		completed := 0
		for _, c := range callsOf[CompleteManyInput](store) {
			completed += len(c.Leases)
		}
		if completed != 3000 {
			t.Errorf("%d of 3000 completed behind an observer that hangs", completed)
		}
		close(release)
		settle()
		must(t, bus.Stop(t.Context()))
		dropped := 0
		for _, o := range seen.of(ObservedDropped) {
			dropped += o.Count
		}
		if dropped == 0 || dropped+len(seen.of(ObservedCompleted)) < 3000 {
			t.Errorf("%d dropped, %d completions told", dropped, len(seen.of(ObservedCompleted)))
		}
	})
}

func TestAnObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		seen := &recorder{first: func() { panic("no such metric") }}
		bus, store := startBus(t, Config{Observer: seen, Logger: slog.New(slog.NewTextHandler(&log, nil))}, Handler{}, nothing)
		give(bus, store, 1)
		must(t, bus.PublishNow(t.Context(), Message{Type: "t"}))
		must(t, bus.Stop(t.Context()))
		if count[CompleteManyInput](store) != 1 {
			t.Error("the delivery was not completed")
		}
		wantText(t, log.String(), "the observer panicked", "no such metric")
	})
}

package simstore

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// scenario is a story that a store must live through. The model is stepped
// beside it; what the story itself asserts is what a user would lose.
type scenario struct {
	name string
	says string
	only string // "locking" or "snapshot"; "" for both
	with func(*Options)
	run  func(b *bench)
}

// scenarios are all stories, by the file that they stand in.
func scenarios() []scenario {
	var all []scenario
	for _, list := range [][]scenario{leaseScenarios, chainScenarios, lostScenarios, raceScenarios, finishScenarios, publishScenarios, operateScenarios} {
		all = append(all, list...)
	}
	return all
}

// play runs a scenario in a semantics, if it is for it, and returns the store.
func (s scenario) play(t testing.TB, mode protocol.Semantics) *bench {
	if s.only != "" && s.only != mode.String() {
		return nil
	}
	var with []func(*Options)
	if s.with != nil {
		with = append(with, s.with)
	}
	b := newBench(t, mode, with...)
	s.run(b)
	return b
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			both(t, func(t *testing.T, mode protocol.Semantics) {
				s.play(t, mode)
				if t.Failed() {
					t.Log(s.says)
				}
			})
		})
	}
}

// TestStepsAreDocumented: whoever writes a Scheduler finds every step of every
// call in the comment of Point.
func TestStepsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("scheduler.go")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", "")), " ")
	for _, s := range scenarios() {
		for _, mode := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
			b := s.play(t, mode)
			if b == nil {
				continue
			}
			for _, p := range b.script.seen {
				if step := strings.TrimPrefix(p.Step, "block "); !strings.Contains(words, step) && step != "hold" {
					t.Errorf("%s: step %q of %s is not documented", s.name, step, p.Call)
				}
			}
		}
	}
}

// start returns a store with a handler "h" and published events, and a worker
// that has claimed what was due.
func (b *bench) start(ids ...string) *worker {
	b.Helper()
	b.subscribe("h")
	b.publish(ids...)
	w := b.worker("one", "h")
	w.claim()
	return w
}

// expect fails unless the condition holds.
func (b *bench) expect(ok bool, format string, args ...any) {
	b.Helper()
	if !ok {
		b.Fatalf(format, args...)
	}
}

// row returns a delivery that must be there.
func (b *bench) row(id protocol.DeliveryID) protocol.Delivery {
	b.Helper()
	d, ok := b.Delivery(id)
	b.expect(ok, "delivery #%d is gone", id)
	return d
}

// gone fails if a delivery has a row.
func (b *bench) gone(ids ...protocol.DeliveryID) {
	b.Helper()
	for _, id := range ids {
		_, ok := b.Delivery(id)
		b.expect(!ok, "delivery #%d is still there", id)
	}
}

// laneOfKey returns the lane of a delivery.
func (b *bench) laneOf(id protocol.DeliveryID) protocol.Lane {
	b.Helper()
	l, _ := b.Lane(b.row(id).Lane)
	return l
}

// expire lets every lease run out.
func (b *bench) expire() { b.pass(ttl + 1) }

// applied fails unless every end was Applied.
func (b *bench) applied(ended []engine.Ended) {
	b.Helper()
	for i, e := range ended {
		b.expect(e.Err == nil && e.Verdict == engine.Applied, "lease %d: %+v, want Applied", i, e)
	}
}

// lost fails unless every end was LeaseLost.
func (b *bench) lost(ended []engine.Ended) {
	b.Helper()
	for i, e := range ended {
		b.expect(e.Err == nil && e.Verdict == engine.LeaseLost, "lease %d: %+v, want LeaseLost", i, e)
	}
}

// effects counts the effects that committed transactions left.
func (b *bench) effects() int { return len(b.Snapshot().Rows) }

// noRoom makes a claim grant nothing.
func noRoom(in *engine.ClaimInput) { in.Limit, in.Room, in.MaxLanes = 0, 0, 0 }

// limit bounds what a claim grants.
func limit(n int) func(*engine.ClaimInput) {
	return func(in *engine.ClaimInput) { in.Limit, in.Room = n, n }
}

func sprint(args ...any) string { return fmt.Sprint(args...) }

package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// A worker holds a few dozen lanes at most. Events without keys spread over all
// 256, so it must give lanes back that have nothing and go round the others:
// once it did not, and nine events in ten waited for half a minute. The clock
// is synctest's, so the figures do not depend on the machine.
func TestEventsSpreadOverAllLanesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := simstore.New()
		var waited []time.Duration
		b := startBus(t, store, func(b *bus) error {
			return engine.Handle(b, engine.Handler{Event: "e", Name: "h", Concurrency: 1}, func(_ context.Context, e engine.Event[[]byte]) error {
				waited = append(waited, time.Since(e.PublishedAt))
				return nil
			})
		})
		const events = 1000
		for range events {
			must(t, b.PublishNow(t.Context(), engine.Message{Type: "e"}))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		stop(t, b)
		if len(waited) != events {
			t.Fatalf("%d of %d events were handled a minute after the last was published", len(waited), events)
		}
		slices.Sort(waited)
		if p99 := waited[events*99/100]; p99 > 2*time.Second {
			t.Errorf("one event in a hundred waited for %v or longer, with one published every 100 ms", p99)
		}
	})
}

// slowClaims is a store whose claims take as long as those of a busy server.
type slowClaims struct{ *simstore.Store }

func (s slowClaims) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Store.Claim(ctx, in)
}

func (s slowClaims) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	time.Sleep(2 * time.Millisecond)
	return s.Store.Relinquish(ctx, in)
}

// Of a thin stream each lane gives one event, and the next is in another. A claim
// that asked those again which gave one before, and looked for others behind a
// lane that had little to do with where the last one ended, made half of the
// events wait for 300 ms and the slowest for a second.
func TestThinStreamDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var waited []time.Duration
		b := startBus(t, slowClaims{simstore.New()}, func(b *bus) error {
			return engine.Handle(b, engine.Handler{Event: "e", Name: "h"}, func(_ context.Context, e engine.Event[[]byte]) error {
				mu.Lock()
				defer mu.Unlock()
				waited = append(waited, time.Since(e.PublishedAt))
				return nil
			})
		})
		const events = 5000
		for range events {
			must(t, b.PublishNow(t.Context(), engine.Message{Type: "e"}))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		stop(t, b)
		if len(waited) != events {
			t.Fatalf("%d of %d events were handled", len(waited), events)
		}
		slices.Sort(waited)
		if p99 := waited[events*99/100]; p99 > 300*time.Millisecond {
			t.Errorf("one event in a hundred waited for %v or longer, half of them for %v", p99, waited[events/2])
		}
	})
}

// badLane is a store in which a search for lanes that comes to lane 104 is in
// trouble: it fails, or it takes the lane over and gives it back.
type badLane struct {
	*simstore.Store
	fails bool
}

const bad = 104

func (s badLane) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	if in.MaxLanes == 0 || in.Behind == 0 || (bad-in.Behind-1+256)%256 >= 8 {
		return s.Store.Claim(ctx, in)
	}
	if s.fails {
		return engine.ClaimReply{}, fmt.Errorf("a row is locked: %w", engine.ErrRetryable)
	}
	in.MaxLanes = 0
	reply, err := s.Store.Claim(ctx, in)
	reply.GivenBack = append(reply.GivenBack, engine.LaneEpoch{Lane: bad})
	return reply, err
}

// A lane that cannot be had, or that gives nothing, does not keep the search
// for lanes from those behind it.
func TestLanesBehindABadOneDoNotWait(t *testing.T) {
	for name, fails := range map[string]bool{"fails": true, "gives nothing": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := map[string]bool{}
				b := startBus(t, badLane{simstore.New(), fails}, func(b *bus) error {
					return engine.Handle(b, engine.Handler{Event: "e", Name: "h", Concurrency: 1}, func(_ context.Context, e engine.Event[[]byte]) error {
						ran[e.Key] = true
						return nil
					})
				})
				for _, lane := range []engine.LaneID{100, 200} {
					must(t, b.PublishNow(t.Context(), engine.Message{Type: "e", Key: keyOf(lane)}))
					time.Sleep(time.Minute)
				}
				stop(t, b)
				if !ran[keyOf(100)] || !ran[keyOf(200)] {
					t.Errorf("of lanes 100 and 200 only these were served: %v", ran)
				}
			})
		})
	}
}

// keyOf returns a key of the lane.
func keyOf(lane engine.LaneID) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); protocol.LaneOf(0, protocol.DefaultLanes, key, "") == lane {
			return key
		}
	}
}

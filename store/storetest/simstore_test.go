package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// simHarness tests a live simstore; wrap may put another store before it.
func simHarness(semantics protocol.Semantics, wrap func(*simstore.Store) Subject[*simstore.Tx]) Harness[*simstore.Tx] {
	return Harness[*simstore.Tx]{
		Semantics: semantics,
		Open: func(testing.TB) *Opened[*simstore.Tx] {
			p := &pauses{at: map[string]func(){}, bad: map[engine.DeliveryID]bool{}}
			s := simstore.NewWith(simstore.Options{Semantics: semantics, Lanes: 16, Hook: p.reached})
			o := &Opened[*simstore.Tx]{
				Store: s, Expire: s.ExpireLane, MakeDue: s.MakeDue, Put: put, Count: counter(s),
				Crash:  func(context.Context) error { s.Crash(s.Durable()); return nil },
				Refuse: func(_ context.Context, id engine.DeliveryID, refuse bool) error { p.refuse(id, refuse); return nil },
				Pause:  func(at Point, do func()) bool { return p.set(steps[semantics][at], do) },
			}
			if wrap != nil {
				o.Store = wrap(s)
			}
			if semantics == protocol.Locking {
				o.Levels = []Level[*simstore.Tx]{
					{Name: "repeatable read", InTx: inTx(s, simstore.RepeatableRead)},
					{Name: "serializable", InTx: inTx(s, simstore.Serializable)},
				}
			}
			return o
		},
	}
}

// steps are where the pause points stand, as "call/step".
var steps = map[protocol.Semantics]map[Point]string{
	protocol.Locking: {
		LanesFound: "Claim/lock free lanes", CompleteBegan: "CompleteMany/lock lanes", EndBegan: "Reschedule/lock lane",
		DeadFound: "Purge/lock dead", EventsFound: "Purge/lock events", SubscriptionsRead: "Tx/insert events",
	},
	protocol.Snapshot: {
		LanesFound: "Claim/take over", CandidatesRead: "Claim/claim", CompleteBegan: "CompleteMany/delete", EndBegan: "Reschedule/write lane",
		DeadFound: "Purge/delete dead", EventsFound: "Purge/delete event", SubscriptionsRead: "Tx/insert events",
	},
}

// pauses runs what a case puts at a step, once, and refuses to write bad rows.
type pauses struct {
	mu  sync.Mutex
	at  map[string]func()
	bad map[engine.DeliveryID]bool
}

func (p *pauses) refuse(id engine.DeliveryID, refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bad[id] = refuse
}

var errBadRow = engine.Definite(errors.New("a trigger refuses this row"))

func (p *pauses) set(step string, do func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[step] = do
	return step != ""
}

func (p *pauses) reached(_ context.Context, at simstore.Point) error {
	p.mu.Lock()
	step := at.Call + "/" + at.Step
	do := p.at[step]
	delete(p.at, step)
	bad := p.bad[at.Delivery]
	p.mu.Unlock()
	if do != nil {
		do()
	}
	if bad {
		return errBadRow
	}
	return nil
}

var puts atomic.Int64

func put(ctx context.Context, tx *simstore.Tx, key, value string) error {
	return tx.Put(ctx, "effects of "+key, fmt.Sprint(puts.Add(1)), []byte(value))
}

func counter(s *simstore.Store) func(ctx context.Context, key string) (int, error) {
	return func(_ context.Context, key string) (int, error) {
		n := 0
		for _, r := range s.Snapshot().Rows {
			if r.Table == "effects of "+key {
				n++
			}
		}
		return n, nil
	}
}

func inTx(s *simstore.Store, isolation simstore.Isolation) func(context.Context, func(context.Context, *simstore.Tx) error) error {
	return func(ctx context.Context, fn func(context.Context, *simstore.Tx) error) error {
		tx, err := s.BeginTx(ctx, isolation)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
}

func TestSimstore(t *testing.T) {
	for _, s := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
		t.Run(s.String(), func(t *testing.T) {
			h := simHarness(s, nil)
			h.Parallel = true
			Run(t, h)
		})
	}
}

var _ engine.Operator = (*simstore.Store)(nil)

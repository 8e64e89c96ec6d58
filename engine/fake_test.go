package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// fakeTx is a transaction of fakeStore: what it would write.
type fakeTx struct {
	rows      []string
	events    []protocol.Event
	completed []Lease
}

// script is what goes wrong in one transaction of fakeStore.
type script struct {
	begin, complete, commit error
	lost                    bool // Complete says LeaseLost
	swallow                 bool // InTx hides fn's error: a broken store
}

// fakeStore is a store without rules: it grants what the test queued, accepts
// every end, and fails as scripted. The protocol itself is tested elsewhere.
type fakeStore struct {
	mu        sync.Mutex
	scripts   []script // one per transaction, then all goes well
	queue     []Picked // granted by the next claims
	away      bool     // every call fails
	hang      bool     // every call blocks until its context ends
	refuses   error    // what Subscribe says
	result    PublishResult
	committed []fakeTx
	rolled    int // transactions rolled back
	calls     []any
	held      bool
}

func (s *fakeStore) record(ctx context.Context, call any) error {
	s.mu.Lock()
	s.calls = append(s.calls, call)
	hang, away := s.hang, s.away
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if away {
		return errors.New("connection refused")
	}
	return ctx.Err()
}

func storeNow() StoreTime { return StoreTime(time.Now().UnixNano()) }

func (s *fakeStore) Subscribe(ctx context.Context, in SubscribeInput) (SubscribeReply, error) {
	err := s.record(ctx, in)
	s.mu.Lock()
	defer s.mu.Unlock()
	return SubscribeReply{Now: storeNow(), Group: 1, Lanes: 256}, cmp.Or(err, s.refuses)
}

func (s *fakeStore) Claim(ctx context.Context, in ClaimInput) (ClaimReply, error) {
	reply := ClaimReply{Now: storeNow()}
	if err := s.record(ctx, in); err != nil {
		return reply, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), in.Limit, in.Room)
	if n == 0 && !s.held {
		return reply, nil
	}
	s.held = true
	lane := LaneEpoch{Lane: 7, Epoch: 1}
	reply.Lanes = []ClaimedLane{{LaneEpoch: lane, ExpiresAt: reply.Now.Add(in.TTL)}}
	for _, p := range s.queue[:n] {
		p.Lease.Token = Token{Lane: 7, Epoch: 1, Holder: in.Holder, Claim: in.Number}
		p.Delivery.Lane = 7
		reply.Picks = append(reply.Picks, p)
	}
	s.queue = s.queue[n:]
	return reply, nil
}

func (s *fakeStore) ExtendLease(ctx context.Context, in ExtendLeaseInput) (ExtendLeaseReply, error) {
	return ExtendLeaseReply{Now: storeNow(), Verdicts: slices.Repeat([]Verdict{Applied}, len(in.Lanes))}, s.record(ctx, in)
}

func (s *fakeStore) CompleteMany(ctx context.Context, in CompleteManyInput) (CompleteManyReply, error) {
	return CompleteManyReply{Now: storeNow(), Ended: slices.Repeat([]Ended{{Verdict: Applied}}, len(in.Leases))}, s.record(ctx, in)
}

func (s *fakeStore) Reschedule(ctx context.Context, in RescheduleInput) (EndReply, error) {
	return EndReply{Now: storeNow(), Verdict: Applied}, s.record(ctx, in)
}

func (s *fakeStore) Snooze(ctx context.Context, in SnoozeInput) (EndReply, error) {
	return EndReply{Now: storeNow(), Verdict: Applied}, s.record(ctx, in)
}

func (s *fakeStore) Bury(ctx context.Context, in BuryInput) (EndReply, error) {
	return EndReply{Now: storeNow(), Verdict: Applied}, s.record(ctx, in)
}

func (s *fakeStore) Release(ctx context.Context, in ReleaseInput) (ReleaseReply, error) {
	return ReleaseReply{Now: storeNow(), Verdicts: slices.Repeat([]Verdict{Applied}, len(in.Leases))}, s.record(ctx, in)
}

func (s *fakeStore) Relinquish(ctx context.Context, in RelinquishInput) (RelinquishReply, error) {
	reply := RelinquishReply{Now: storeNow()}
	if s.held {
		reply.Lanes = []LaneID{7}
	}
	return reply, s.record(ctx, in)
}

func (s *fakeStore) InTx(ctx context.Context, fn func(ctx context.Context, tx *fakeTx) error) error {
	s.mu.Lock()
	var plan script
	if len(s.scripts) > 0 {
		plan, s.scripts = s.scripts[0], s.scripts[1:]
	}
	s.mu.Unlock()
	if plan.begin != nil {
		return fmt.Errorf("begin: %w", plan.begin)
	}
	tx := &fakeTx{}
	err := fn(context.WithValue(ctx, scriptKey{}, plan), tx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && plan.commit == nil {
		s.committed = append(s.committed, *tx)
		return nil
	}
	s.rolled++
	if err != nil && !plan.swallow {
		return fmt.Errorf("transaction: %w", err)
	}
	return plan.commit
}

type scriptKey struct{}

func (s *fakeStore) Publish(_ context.Context, tx *fakeTx, events []protocol.Event) ([]PublishResult, error) {
	tx.events = append(tx.events, events...)
	return slices.Repeat([]PublishResult{s.result}, len(events)), nil
}

func (s *fakeStore) Complete(ctx context.Context, tx *fakeTx, in CompleteInput) (Verdict, error) {
	plan := ctx.Value(scriptKey{}).(script)
	if plan.complete != nil {
		return LeaseLost, plan.complete
	}
	if plan.lost {
		return LeaseLost, nil
	}
	tx.completed = append(tx.completed, in.Lease)
	return Applied, nil
}

// count returns how many calls with an input of type T were made.
func count[T any](s *fakeStore) int { return len(callsOf[T](s)) }

func callsOf[T any](s *fakeStore) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []T
	for _, c := range s.calls {
		if in, ok := c.(T); ok {
			calls = append(calls, in)
		}
	}
	return calls
}

// grant queues a delivery of an event with that payload.
func (s *fakeStore) grant(id DeliveryID, event, handler, payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, picked(id, event, handler, payload))
}

func picked(id DeliveryID, event, handler, payload string) Picked {
	name := fmt.Sprintf("e%d", id)
	return Picked{
		Lease:    Lease{Delivery: id},
		Delivery: Delivery{ID: id, Event: name, Handler: handler},
		Event:    &protocol.Event{ID: name, Type: event, Payload: []byte(payload), PublishedAt: 1},
	}
}

func newTestBus(t *testing.T, cfg Config) (*Bus[*fakeTx], *fakeStore) {
	t.Helper()
	store := &fakeStore{}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	bus, err := New(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return bus, store
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantInvalid fails unless err wraps ErrInvalid and contains every part.
func wantInvalid(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("error %v does not wrap ErrInvalid", err)
	}
	wantText(t, err.Error(), parts...)
}

package engine

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// These benchmarks measure the engine without a store: benchStore grants and
// accepts at no cost. Every figure is that of one delivery (or message).

type parcel struct {
	ID    string `json:"id"`
	Item  string `json:"item"`
	Count int    `json:"count"`
}

const orderJSON = `{"id":"o-1","item":"tea","count":3}`

// benchStore grants deliveries from a stock of `left`, each of its own key.
type benchStore struct {
	fakeStore
	event protocol.Event
	left  int
	next  DeliveryID
	picks []Picked // reused: the Dispatcher copies what it keeps
	lanes [1]ClaimedLane
	ended []Ended
	done  chan struct{}
	open  int // granted and not ended
}

func newBenchStore(n int) *benchStore {
	s := &benchStore{left: n, open: n, done: make(chan struct{}), ended: make([]Ended, 1000)}
	s.event = protocol.Event{ID: "event-1", Type: "e", Payload: []byte(orderJSON), PublishedAt: 1}
	for i := range s.ended {
		s.ended[i].Verdict = Applied
	}
	return s
}

func (s *benchStore) Claim(_ context.Context, in ClaimInput) (ClaimReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := storeNow()
	s.lanes[0] = ClaimedLane{LaneEpoch: LaneEpoch{Lane: 7, Epoch: 1}, ExpiresAt: now.Add(in.TTL)}
	return ClaimReply{Now: now, Lanes: s.lanes[:], Picks: s.grantUpTo(min(in.Limit, in.Room), Token{Lane: 7, Epoch: 1, Holder: in.Holder, Claim: in.Number})}, nil
}

func (s *benchStore) grantUpTo(n int, token Token) []Picked {
	s.picks = s.picks[:0]
	for range min(n, s.left) {
		s.left--
		s.next++
		s.picks = append(s.picks, Picked{
			Lease:    Lease{Delivery: s.next, Token: token},
			Delivery: Delivery{ID: s.next, Event: "event-1", Handler: "h", Lane: 7},
			Event:    &s.event,
		})
	}
	return s.picks
}

func (s *benchStore) CompleteMany(_ context.Context, in CompleteManyInput) (CompleteManyReply, error) {
	s.end(len(in.Leases))
	return CompleteManyReply{Now: storeNow(), Ended: s.ended[:len(in.Leases)]}, nil
}

func (s *benchStore) end(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open -= n; s.open == 0 {
		close(s.done)
	}
}

func (s *benchStore) InTx(ctx context.Context, fn func(context.Context, *fakeTx) error) error {
	err := fn(ctx, nil)
	s.end(1)
	return err
}

func (s *benchStore) Complete(context.Context, *fakeTx, CompleteInput) (Verdict, error) {
	return Applied, nil
}

// benchBus returns a bus with the one handler "h" of "e".
func benchBus(b *testing.B, store *benchStore, cfg Config, transactional bool) *Bus[*fakeTx] {
	b.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	bus, err := New[*fakeTx](store, cfg)
	if err == nil && transactional {
		err = HandleTx(bus, Handler{Event: "e", Name: "h"}, func(context.Context, *fakeTx, Event[parcel]) error { return nil })
	} else if err == nil {
		err = Handle(bus, Handler{Event: "e", Name: "h"}, func(context.Context, Event[parcel]) error { return nil })
	}
	if err != nil {
		b.Fatal(err)
	}
	return bus
}

func eachKind(b *testing.B, body func(b *testing.B, transactional bool)) {
	b.Run("plain", func(b *testing.B) { body(b, false) })
	b.Run("tx", func(b *testing.B) { body(b, true) })
}

// BenchmarkEngine is a whole bus: goroutines, Dispatcher, execution; with a
// payload of bytes, and with an observer and the JSON of a small struct.
func BenchmarkEngine(b *testing.B) {
	eachKind(b, func(b *testing.B, transactional bool) {
		b.Run("bytes", func(b *testing.B) { benchmarkEngine(b, Config{Codec: verbatim{}}, transactional) })
		b.Run("json", func(b *testing.B) { benchmarkEngine(b, Config{}, transactional) })
		b.Run("observed", func(b *testing.B) {
			benchmarkEngine(b, Config{Codec: verbatim{}, Observer: countingObserver{}}, transactional)
		})
	})
}

// processorTime is what this process used so far; nil where nobody can say.
var processorTime func() time.Duration

// benchmarkEngine also reports the processor time, of all threads and with
// garbage collection: on a machine that others use it is the figure to trust.
func benchmarkEngine(b *testing.B, cfg Config, transactional bool) {
	store := newBenchStore(b.N)
	bus := benchBus(b, store, cfg, transactional)
	b.ReportAllocs()
	if processorTime != nil {
		began := processorTime()
		defer func() { b.ReportMetric(float64(processorTime()-began)/float64(b.N), "cpu-ns/op") }()
	}
	b.ResetTimer()
	if err := bus.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	<-store.done
	b.StopTimer()
	if err := bus.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// verbatim is a codec that costs nothing.
type verbatim struct{}

func (verbatim) Encode(any) ([]byte, error) { return nil, nil }
func (verbatim) Decode([]byte, any) error   { return nil }

type countingObserver struct{}

func (countingObserver) Observe(Observation) {}

// BenchmarkExecute is the execution of one delivery alone.
func BenchmarkExecute(b *testing.B) {
	eachKind(b, func(b *testing.B, transactional bool) {
		store := newBenchStore(b.N)
		bus := benchBus(b, store, Config{Codec: verbatim{}}, transactional)
		run := &Run{Handler: "h", Picked: picked(1, "e", "h", orderJSON), MaxAttempts: 20}
		b.ReportAllocs()
		for b.Loop() {
			if result := bus.execute(&runContext{Context: context.Background(), run: run}); result.Err != nil {
				b.Fatal(result.Err)
			}
		}
	})
}

// BenchmarkStep is what the Dispatcher decides for one delivery from its claim
// to the acknowledgement of its completion, in batches of a busy worker.
func BenchmarkStep(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprint("batch", batch), func(b *testing.B) {
			store := newBenchStore(b.N)
			machine, err := NewMachine(benchBus(b, store, Config{}, false))
			if err != nil {
				b.Fatal(err)
			}
			w := &stepper{machine: machine, store: store, batch: batch}
			b.ReportAllocs()
			b.ResetTimer()
			w.drive(Start{})
			for store.open > 0 {
				w.mono += time.Second
				w.drive(Wake{})
			}
		})
	}
}

// stepper performs effects at once and without goroutines.
type stepper struct {
	machine *Machine
	store   *benchStore
	mono    time.Duration
	batch   int
	calls   []Call
	inputs  []Input
}

func (w *stepper) drive(first Input) {
	w.inputs = append(w.inputs[:0], first)
	for len(w.inputs) > 0 {
		effects := w.machine.Step(Instant{Wall: int64(w.mono), Mono: w.mono}, w.inputs...)
		w.inputs, w.calls = w.inputs[:0], w.calls[:0]
		for _, e := range effects {
			switch e := e.(type) {
			case *Run:
				w.inputs = append(w.inputs, RunReturned{ID: e.ID})
			case Call:
				w.calls = append(w.calls, e)
			}
		}
		for _, c := range w.calls {
			if in, ok := c.Input.(ClaimInput); ok {
				in.Limit = min(in.Limit, w.batch)
				c.Input = in
			}
			w.inputs = append(w.inputs, w.machine.Perform(context.Background(), c))
		}
	}
}

// BenchmarkPublishEncode is what Publish does to one message before the store
// gets it.
func BenchmarkPublishEncode(b *testing.B) {
	bus := benchBus(b, newBenchStore(1), Config{}, false)
	messages := []Message{{Type: "e", Key: "k", Payload: parcel{"o-1", "tea", 3}, Headers: []Header{{Name: "tenant", Value: "a"}}}}
	sink := func(context.Context, []protocol.Event) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := bus.send(context.Background(), messages, sink); err != nil {
			b.Fatal(err)
		}
	}
}

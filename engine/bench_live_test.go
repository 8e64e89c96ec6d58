package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// BenchmarkDispatch runs a backlog of deliveries through a whole bus on
// simstore: the engine and a store in memory together, per delivery.
func BenchmarkDispatch(b *testing.B) {
	for _, s := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
		for _, kind := range []string{"plain", "tx"} {
			b.Run(fmt.Sprint(s, "/", kind), func(b *testing.B) {
				benchmarkDispatch(b, simstore.NewWith(simstore.Options{Semantics: s}), kind == "tx")
			})
		}
	}
}

func benchmarkDispatch(b *testing.B, store *simstore.Store, transactional bool) {
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	worker, err := engine.New(store, engine.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	left, done := atomic.Int64{}, make(chan struct{})
	left.Store(int64(b.N))
	one := func() error {
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	}
	h := engine.Handler{Event: "e", Name: "h"}
	if transactional {
		err = engine.HandleTx(worker, h, func(context.Context, *simstore.Tx, engine.Event[[]byte]) error { return one() })
	} else {
		err = engine.Handle(worker, h, func(context.Context, engine.Event[[]byte]) error { return one() })
	}
	check(err)
	ctx := context.Background()
	check(worker.Start(ctx)) // subscribes
	check(worker.Stop(ctx))
	for sent := 0; sent < b.N; sent += 1000 {
		batch := make([]engine.Message, min(1000, b.N-sent))
		for i := range batch {
			batch[i] = engine.Message{Type: "e", Payload: []byte("payload")}
		}
		check(worker.PublishNow(ctx, batch...))
	}
	b.ReportAllocs()
	b.ResetTimer()
	check(worker.Start(ctx))
	<-done
	b.StopTimer()
	check(worker.Stop(ctx))
}

// BenchmarkPublish is PublishNow of a batch of 100 to simstore, per message.
func BenchmarkPublish(b *testing.B) {
	store := simstore.New()
	bus, err := engine.New(store, engine.Config{})
	if err != nil {
		b.Fatal(err)
	}
	batch := make([]engine.Message, 100)
	for i := range batch {
		batch[i] = engine.Message{Type: "e", Key: fmt.Sprint(i), Payload: map[string]int{"n": i}}
	}
	b.ReportAllocs()
	for sent := 0; sent < b.N; sent += len(batch) {
		if err := bus.PublishNow(context.Background(), batch[:min(len(batch), b.N-sent)]...); err != nil {
			b.Fatal(err)
		}
	}
}

package simstore

import (
	"reflect"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

func TestStatistics(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		b := newBench(t, mode)
		w := b.start("a", "b/k", "c/k", "d")
		b.publish("e")
		if w.bury(4) != engine.Applied {
			t.Fatal("not buried")
		}
		got := must(b.Statistics(ctx))(b)
		want := engine.Statistics{
			Now: got.Now, Events: 5, Pending: 4, Due: 1, OldestDue: got.Now, Running: 2, Waiting: 1, Dead: 1, Held: got.Held,
			Handlers: []engine.HandlerStatistics{{Handler: "h", Pending: 4, Due: 1, Dead: 1, SeenAt: got.Now, Subscribed: true}},
		}
		if !reflect.DeepEqual(got, want) || got.Held == 0 {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		b.expire()
		if got := must(b.Statistics(ctx))(b); got.Running != 0 || got.Waiting != 0 || got.Held != 0 || got.Expired == 0 {
			t.Fatalf("after expiry: %+v", got)
		}
	})
}

// TestHash: what a store holds decides its hash, not how it came to hold it.
func TestHash(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		one, two := newBench(t, mode), newBench(t, mode)
		if one.Hash() != two.Hash() {
			t.Fatal("two empty stores differ")
		}
		one.subscribe("h")
		two.subscribe("h")
		one.publish("a/k")
		if one.Hash() == two.Hash() {
			t.Fatal("a delivery makes no difference")
		}
		tx := must(two.Begin(ctx))(t)
		tx.Put(ctx, "t", "x", nil)
		must(two.Publish(ctx, tx, events("a/k")))(t)
		tx.Delete(ctx, "t", "x")
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if one.Hash() != two.Hash() {
			t.Fatalf("two stores that hold the same differ:\n%+v\n%+v", one.Snapshot(), two.Snapshot())
		}
	})
}

package simstore

import (
	"fmt"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// BenchmarkClaimComplete is the cycle of a busy worker on 8 lanes: a claim of
// up to 50 deliveries, and one call that completes them. The figure per
// operation is that of one delivery.
func BenchmarkClaimComplete(b *testing.B) {
	for _, mode := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
		for _, key := range []string{"", "key"} {
			b.Run(mode.String()+"/"+map[string]string{"": "unkeyed", "key": "keyed"}[key], func(b *testing.B) {
				benchmarkCycle(b, mode, key)
			})
		}
	}
}

func benchmarkCycle(b *testing.B, mode protocol.Semantics, key string) {
	s := NewWith(Options{Semantics: mode, Lanes: 8})
	must(s.Subscribe(ctx, engine.SubscribeInput{Group: "g", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}}))(b)
	const backlog = 12_000
	next := 0
	fill := func() {
		tx := must(s.Begin(ctx))(b)
		list := make([]protocol.Event, 0, backlog)
		for range backlog {
			e := protocol.Event{ID: fmt.Sprint(next), Type: "e"}
			if key != "" {
				e.Key = fmt.Sprint(key, next%1000)
			}
			list = append(list, e)
			next++
		}
		must(s.Publish(ctx, tx, list))(b)
		if err := tx.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
	var held []protocol.LaneEpoch
	n := int64(0)
	done := 0
	for left := 0; done < b.N; {
		if left == 0 {
			b.StopTimer()
			fill()
			left = backlog
			b.StartTimer()
		}
		n += 2
		reply := must(s.Claim(ctx, engine.ClaimInput{
			Holder: protocol.Holder{1}, Number: n, TTL: ttl, Held: held, Room: 50, Limit: 50, MaxLanes: 8 - len(held),
			Handlers: []engine.HandlerRoom{{Name: "h", Room: 50}},
		}))(b)
		held = held[:0]
		for _, l := range reply.Lanes {
			held = append(held, l.LaneEpoch)
		}
		leases := make([]engine.Lease, len(reply.Picks))
		for i := range reply.Picks {
			leases[i] = reply.Picks[i].Lease
		}
		must(s.CompleteMany(ctx, engine.CompleteManyInput{Leases: leases}))(b)
		done += len(leases)
		left -= len(leases)
		if len(leases) == 0 {
			b.Fatal("nothing was granted")
		}
	}
}

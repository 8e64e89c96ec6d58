package simstore

import (
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

func TestLifeOfADelivery(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		b := newBench(t, mode)
		b.subscribe("h")
		b.publish("a", "b", "c/k", "d/k")
		w := b.worker("w", "h")
		reply := w.claim()
		if len(reply.Picks) != 4 {
			t.Fatalf("picks %v, want all four", ids(reply))
		}
		for _, p := range reply.Picks {
			if p.Event == nil || string(p.Event.Payload) != p.Event.ID {
				t.Fatalf("pick without its event: %+v", p)
			}
		}
		first, second := reply.Picks[0].Delivery.ID, reply.Picks[1].Delivery.ID
		if v := w.reschedule(first); v != engine.Applied {
			t.Fatal("a failed run could not be recorded")
		}
		w.forget(first)
		if e := w.complete(second); e[0].Verdict != engine.Applied {
			t.Fatal("a finished run could not be completed")
		}
		if e := w.complete(second); e[0].Verdict != engine.Applied {
			t.Fatal("a retry of the completion was refused")
		}
		w.forget(second)
		if reply := w.claim(); len(reply.Picks) != 0 {
			t.Fatalf("picked %v although nothing is due", ids(reply))
		}
		b.pass(2 * time.Second)
		if reply := w.claim(); len(reply.Picks) != 1 {
			t.Fatalf("picked %v, want the rescheduled one", ids(reply))
		}
	})
}

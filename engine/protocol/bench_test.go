package protocol

import (
	"fmt"
	"testing"
	"time"
)

// benchState returns a State with a backlog of unkeyed deliveries, and one
// lane held by worker.
func benchState(b *testing.B, semantics Semantics, backlog int, worker Holder) (*State, *Ledger) {
	b.Helper()
	s, l := NewState(semantics, 4), NewLedger()
	handlers := []EventHandler{{"order", "mail"}}
	mustStep(b, s, l, Subscribe{Group: "default", Handlers: handlers, Lanes: []LaneID{0, 1, 2, 3}})
	for i := range backlog {
		mustStep(b, s, l, benchPublish(s, DeliveryID(i+1)))
	}
	for lane := range LaneID(4) {
		mustStep(b, s, l, TakeOver{Lane: lane, Holder: worker, Number: 1, TTL: time.Hour, Now: 1})
	}
	return s, l
}

func benchPublish(s *State, id DeliveryID) Publish {
	event := Event{ID: fmt.Sprintf("e%06d", id), Type: "order"}
	if id%3 == 0 {
		event.Key = fmt.Sprintf("k%d", id%300)
	}
	return Publish{Events: []PublishEvent{{
		Event:      event,
		Subscribed: []string{"mail"},
		Deliveries: []Delivery{{
			ID: id, Event: event.ID, Key: event.Key, Handler: "mail", Sequence: int64(id),
			Lane: LaneOf(0, s.modulus, event.Key, event.ID),
		}},
	}}}
}

func mustStep(tb testing.TB, s *State, l *Ledger, a Action) {
	tb.Helper()
	refusal, violation := Step(s, l, a)
	if refusal != nil {
		tb.Fatal(refusal)
	}
	if violation != nil {
		tb.Fatal(violation)
	}
}

// BenchmarkStep steps the cycle of a busy worker: publish one, claim, complete
// what was claimed, over a backlog. One operation is one action.
func BenchmarkStep(b *testing.B) {
	for _, backlog := range []int{100, 12000} {
		for _, semantics := range []Semantics{Locking, Snapshot} {
			b.Run(fmt.Sprintf("%v/%d", semantics, backlog), func(b *testing.B) {
				benchmarkCycle(b, semantics, backlog)
			})
		}
	}
}

func benchmarkCycle(b *testing.B, semantics Semantics, backlog int) {
	worker := Holder{1}
	s, l := benchState(b, semantics, backlog, worker)
	next := DeliveryID(backlog + 1)
	handlers := []string{"mail"}
	publishes := make([]Action, 0, b.N/3+1)
	for i := 0; i < b.N; i += 3 {
		publishes = append(publishes, benchPublish(s, next))
		next++
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += 3 {
		mustStep(b, s, l, publishes[i/3])
		first := s.rows[0]
		lane := s.lane(first.Lane)
		picks := [1]Picked{{Delivery: first.ID}}
		mustStep(b, s, l, Claim{
			Lane: lane.ID, Holder: worker, Number: lane.Claim + 1, Handlers: handlers,
			Picks: picks[:], Renew: true, TTL: time.Hour, Now: 2,
		})
		leases := [1]Lease{{Delivery: first.ID, Token: Token{lane.ID, lane.Epoch, worker, lane.Claim}}}
		verdicts := [1]Verdict{Applied}
		mustStep(b, s, l, CompleteMany{Leases: leases[:], Verdicts: verdicts[:]})
	}
}

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

// fataler is what testing.TB and rapid.T share.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func mustStep(tb fataler, s *State, l *Ledger, a Action) {
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
	actions := benchActions(s, b.N, DeliveryID(backlog), worker)
	b.ReportAllocs()
	b.ResetTimer()
	for _, a := range actions {
		mustStep(b, s, l, a)
	}
}

// benchActions prepares the actions, so that making them is not measured.
func benchActions(s *State, n int, backlog DeliveryID, worker Holder) []Action {
	var number [4]int64
	handlers := []string{"mail"}
	actions := make([]Action, 0, n+3)
	for id := DeliveryID(1); len(actions) < n; id++ {
		published := benchPublish(s, backlog+id)
		oldest := benchPublish(s, id).Events[0].Deliveries[0]
		number[oldest.Lane]++
		token := Token{Lane: oldest.Lane, Epoch: 1, Holder: worker, Claim: 1 + number[oldest.Lane]}
		actions = append(actions, published, Claim{
			Lane: oldest.Lane, Holder: worker, Number: token.Claim, Handlers: handlers,
			Picks: []Picked{{Delivery: id}}, Renew: true, TTL: time.Hour, Now: 2,
		}, CompleteMany{Leases: []Lease{{Delivery: id, Token: token}}, Verdicts: []Verdict{Applied}})
	}
	return actions[:n]
}

package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// actor is whatever an event of the heap wakes.
type actor interface {
	// fire handles the event; arg is what was scheduled with it. It reports
	// false when the event no longer means anything.
	fire(arg uint64) bool
}

// event is one entry of the heap. Equal times run in the order in which they
// were scheduled, so that nothing depends on the shape of the heap.
type event struct {
	at  protocol.Time
	seq uint64
	who actor
	arg uint64
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// eventHeap is a binary heap of values: container/heap would allocate an
// interface for each event.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = e
}

func (h *eventHeap) pop() event {
	s := *h
	top := s[0]
	last := s[len(s)-1]
	s[len(s)-1] = event{} // let the actor go
	s = s[:len(s)-1]
	*h = s
	if len(s) > 0 {
		s.sink(last)
	}
	return top
}

// sink places e, starting at the root.
func (h eventHeap) sink(e event) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
}

package picks

import (
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Batch is the events of one Publish, each id once.
type Batch struct {
	// Events are the first of each id, in input order.
	Events []*protocol.Event
	// Slots are those of the keys, ascending, each once.
	Slots []int32

	given   []protocol.Event
	entry   []int // per event given: its id's place in Events
	results []engine.PublishResult
	place   map[string]int
}

// NewBatch takes over the events of a call.
func NewBatch(events []protocol.Event) (*Batch, error) {
	b := &Batch{given: events, entry: make([]int, len(events)), place: make(map[string]int, len(events))}
	for i := range events {
		e := &events[i]
		if e.ID == "" {
			return nil, fmt.Errorf("publish: %w: event without an id", engine.ErrInvalid)
		}
		j, known := b.place[e.ID]
		if !known {
			j = len(b.Events)
			b.place[e.ID] = j
			b.Events = append(b.Events, e)
			if e.Key != "" {
				b.Slots = append(b.Slots, protocol.SlotOf(e.Key))
			}
		}
		b.entry[i] = j
	}
	slices.Sort(b.Slots)
	b.Slots = slices.Compact(b.Slots)
	b.results = make([]engine.PublishResult, len(b.Events))
	return b, nil
}

// Place returns the place in Events of an id.
func (b *Batch) Place(id string) (int, bool) {
	j, ok := b.place[id]
	return j, ok
}

// Say notes the result of Events[j].
func (b *Batch) Say(j int, r engine.PublishResult) { b.results[j] = r }

// Results returns the results in input order. An id that stood twice in the
// batch is Known the second time.
func (b *Batch) Results() []engine.PublishResult {
	results := make([]engine.PublishResult, len(b.entry))
	first := make([]bool, len(b.Events))
	for i, j := range b.entry {
		switch e := b.Events[j]; {
		case !first[j]:
			results[i] = b.results[j]
			first[j] = true
		case !same(e, &b.given[i]):
			results[i] = protocol.Mismatch
		case b.results[j] == protocol.Added:
			results[i] = protocol.Known
		default:
			results[i] = b.results[j]
		}
	}
	return results
}

// Compare decides the result of an event whose id is known already, and adds
// anything when it is the same event with handlers that it never had.
func Compare(known, e *protocol.Event, adds bool) engine.PublishResult {
	switch {
	case !same(known, e):
		return protocol.Mismatch
	case adds:
		return protocol.Added
	}
	return protocol.Known
}

func same(a, b *protocol.Event) bool { return a.Type == b.Type && a.Key == b.Key }

// Missing returns the indexes of the subscribed handlers that an event never
// had a delivery for.
func Missing(subscribed, had []string) []int {
	var list []int
	for i, handler := range subscribed {
		if !slices.Contains(had, handler) {
			list = append(list, i)
		}
	}
	if mutant.On("same-id-publish-drops-handler") {
		return nil
	}
	return list
}

package sim

import (
	"strconv"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

// plan is what is published: drawn event by event, or read from a recorded
// workload.
type plan struct {
	total    int
	next     int              // index of the next event
	batches  int              // transactions begun
	drawn    []engine.Message // those that were drawn so far
	recorded []recordedEvent
	types    []string       // of recorded
	index    map[string]int // of recorded
}

// recordedEvent is one line of a recorded workload.
type recordedEvent struct {
	pause   time.Duration // since the event before
	message engine.Message
}

// indexOf returns the index of the event with this id, -1 for none.
func (p *plan) indexOf(id string) int {
	if p.recorded != nil {
		if i, ok := p.index[id]; ok {
			return i
		}
		return -1
	}
	if len(id) < 2 || id[0] != 'e' {
		return -1
	}
	i, err := strconv.Atoi(id[1:])
	if err != nil || i >= p.total {
		return -1
	}
	return i
}

// batch is what one transaction publishes.
type batch struct {
	number   int
	pause    time.Duration // before it
	first    int           // index of its first event
	messages []engine.Message
}

// maxRecordedBatch bounds the events of one instant of a recorded workload
// that share a transaction.
const maxRecordedBatch = 20

// nextBatch takes the next events of the plan; ok is false at its end.
func (w *world) nextBatch() (b batch, ok bool) {
	p := &w.plan
	if p.next >= p.total {
		return batch{}, false
	}
	p.batches++
	b.number, b.first = p.batches, p.next
	if p.recorded != nil {
		b.pause = p.recorded[p.next].pause
		b.messages = append(b.messages, p.recorded[p.next].message)
		for p.next++; p.next < p.total && p.recorded[p.next].pause == 0 && len(b.messages) < maxRecordedBatch; p.next++ {
			b.messages = append(b.messages, p.recorded[p.next].message)
		}
		return b, true
	}
	b.pause = w.gap(p.batches)
	n := 1 + w.tape.Choose(4, LabelBatch, p.batches)
	for range min(n, p.total-p.next) {
		p.drawn = append(p.drawn, w.drawEvent(p.next))
		b.messages = append(b.messages, p.drawn[p.next])
		p.next++
	}
	return b, true
}

// gap draws the pause before a transaction.
func (w *world) gap(number int) time.Duration {
	if w.knobs.Backlog {
		return 0
	}
	gaps := [...]time.Duration{0, 1, 10, 50, 200, 500, 1000, 2500}
	return w.unit() * gaps[w.tape.Choose(len(gaps), LabelGap, number)]
}

func (w *world) drawEvent(i int) engine.Message {
	m := engine.Message{
		ID:      "e" + strconv.Itoa(i),
		Type:    typeName(w.tape.Choose(w.knobs.Types, LabelType, i)),
		Payload: payloadOf(i),
		Headers: headersOf(i),
	}
	if n := w.knobs.Keys; n > 0 {
		// The last value is no key at all: both kinds meet in one lane.
		if key := w.tape.Choose(n+1, LabelKey, i); key < n {
			m.Key = "k" + strconv.Itoa(key)
		}
	}
	w.due(&m, i)
	return m
}

func typeName(i int) string { return "type" + strconv.Itoa(i) }

// message returns what was published as the event with this index; ok is
// false while it is not published.
func (p *plan) message(i int) (engine.Message, bool) {
	if p.recorded != nil {
		if i < 0 {
			return engine.Message{}, false
		}
		return p.recorded[i].message, i < p.next
	}
	if i < 0 || i >= len(p.drawn) {
		return engine.Message{}, false
	}
	return p.drawn[i], true
}

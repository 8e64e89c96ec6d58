package engine

import (
	"sync"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// inbox collects what goroutines report until the loop takes it, all at once:
// one Step for many inputs decides once, and its calls carry more. It is not
// bounded, because what can report is: every input answers an effect.
type inbox struct {
	ready chan struct{} // holds one when something waits

	mu      sync.Mutex
	waiting []Input
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put never blocks.
func (b *inbox) put(in Input) {
	b.mu.Lock()
	b.waiting = append(b.waiting, in)
	first := len(b.waiting) == 1
	b.mu.Unlock()
	if first {
		signal(b.ready)
	}
}

// take returns what waits, and keeps spare for what comes next.
func (b *inbox) take(spare []Input) []Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.waiting
	if mutant.On("inbox-drops-second") && len(taken) > 1 {
		taken = append(taken[:1], taken[2:]...)
	}
	b.waiting = spare[:0]
	return taken
}

// signal never blocks: a signal that was not taken yet says the same.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

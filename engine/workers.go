package engine

import (
	"sync"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// workers execute tasks in their order, each as soon as a processor is free
// for it, on goroutines that stay: a grown stack is worth keeping.
//
// One worker at a time is on its way to the queue, and it sends the next one
// there before it executes what it took. So no task waits behind a handler
// that blocks, and short ones run one after another without a wake-up each.
type workers struct {
	spawn   func(work func()) // starts a goroutine
	execute func(t *task)

	mu          sync.Mutex
	wake        sync.Cond
	first, last *task // the queue
	idle        int   // wait and were not woken
	coming      bool  // one was woken or spawned and did not look at the queue yet
	closed      bool
}

func newWorkers(spawn func(work func()), execute func(t *task)) *workers {
	w := &workers{spawn: spawn, execute: execute}
	w.wake.L = &w.mu
	return w
}

// put queues a task. It never blocks.
func (w *workers) put(t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		w.first = t
	} else {
		w.last.next = t
	}
	w.last = t
	w.summon()
}

// summon sends a worker to the queue if none is on its way. It needs w.mu.
func (w *workers) summon() {
	switch {
	case w.coming || w.first == nil:
	case w.idle > 0:
		w.idle--
		w.coming = true
		w.wake.Signal()
	default:
		w.coming = true
		w.spawn(w.work)
	}
}

// work is the life of a worker. A handler may end it with runtime.Goexit: the
// mutex is free while a task is executed, so nothing is left to undo.
func (w *workers) work() {
	w.mu.Lock()
	w.coming = false
	for !w.closed {
		t := w.first
		if t == nil {
			w.idle++
			w.wake.Wait()
			w.coming = false
			continue
		}
		w.first, t.next = t.next, nil
		if !mutant.On("task-waits-behind-handler") {
			w.summon()
		}
		w.mu.Unlock()
		w.execute(t)
		w.mu.Lock()
	}
	w.mu.Unlock()
}

// close ends the workers once they are done with what they execute. What was
// not begun is dropped.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wake.Broadcast()
}

package engine

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Handlers that wait for one another must all get to run.
func TestWorkersHoldNothingBackBehindATaskThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 50
		var all, goroutines sync.WaitGroup
		all.Add(tasks)
		w := newWorkers(goroutines.Go, func(*task) {
			all.Done()
			all.Wait() // a task left in the queue is a deadlock here
		})
		for range 2 { // with new goroutines, then with those that wait
			for range tasks {
				w.put(&task{})
			}
			synctest.Wait()
			all.Add(tasks)
		}
		all.Add(-tasks)
		w.close()
		goroutines.Wait()
	})
}

// Short tasks are executed by whoever is there: a wake-up each would cost more
// than the task.
func TestWorkersRunShortTasksInOrderWithoutAWakeUpEach(t *testing.T) {
	var spawned []func()
	var order []int
	tasks := make([]task, 10)
	var w *workers
	w = newWorkers(func(work func()) { spawned = append(spawned, work) }, func(t *task) {
		order = append(order, int(t.ctx.run.ID))
		if len(order) == 8 {
			w.close() // what was not begun is dropped
		}
	})
	for i := range tasks {
		tasks[i].ctx.run = &Run{ID: RunID(i)}
		w.put(&tasks[i])
	}
	spawned[0]()
	if want := "[0 1 2 3 4 5 6 7]"; fmt.Sprint(order) != want || len(spawned) != 2 {
		t.Errorf("%d goroutines for tasks %v, want 2 for %s", len(spawned), order, want)
	}
}

// A handler may end the goroutine under it.
func TestWorkersOutliveGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var goroutines sync.WaitGroup
		executed := make(chan RunID, 2)
		w := newWorkers(goroutines.Go, func(t *task) {
			executed <- t.ctx.run.ID
			runtime.Goexit()
		})
		for id := range RunID(2) {
			w.put(&task{ctx: runContext{run: &Run{ID: id}}})
			synctest.Wait()
		}
		w.close()
		goroutines.Wait()
		if len(executed) != 2 {
			t.Errorf("%d of 2 tasks were executed", len(executed))
		}
	})
}

package sim

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

func protocolTime(n int) protocol.Time { return protocol.Time(n) }

// calmWorld is a world in which nothing happens by itself.
func calmWorld(pool *coroutines) *world {
	k, _ := parseKnobs("lease=10s")
	return newWorld(k, newReplayed(nil), pool)
}

func TestTasksTakeTurnsInVirtualTime(t *testing.T) {
	var pool coroutines
	defer pool.close()
	w := calmWorld(&pool)
	var order []string
	sleeper := func(name string, pause time.Duration) {
		w.spawn(operatorRole, 0, func() {
			for range 3 {
				w.current.sleep(pause)
				order = append(order, name)
			}
		}).start()
	}
	sleeper("a", 2*time.Hour)
	sleeper("b", 3*time.Hour)
	drainHeap(w)
	if got := strings.Join(order, ""); got != "ababab" {
		t.Errorf("order %s", got)
	}
	if w.now != epoch.Add(9*time.Hour) {
		t.Errorf("the clock shows %v", w.now.Sub(epoch))
	}
	if len(w.tasks) != 0 {
		t.Errorf("%d tasks are left", len(w.tasks))
	}
}

// drainHeap runs every event, without the stages of a whole run.
func drainHeap(w *world) {
	for len(w.heap) > 0 {
		e := w.heap.pop()
		w.now = max(w.now, e.at)
		e.who.fire(e.arg)
	}
}

func TestParkEndsByWakeOrDeadline(t *testing.T) {
	var pool coroutines
	defer pool.close()
	w := calmWorld(&pool)
	var woken, late bool
	sleeper := w.spawn(operatorRole, 0, func() {
		woken = w.current.park(0)
		late = w.current.park(w.now.Add(time.Minute))
	})
	sleeper.start()
	sleeper.wake(time.Second)
	sleeper.wake(0) // the second wake of one park means nothing
	drainHeap(w)
	if !woken || late {
		t.Errorf("woken %v, late %v; want true, false", woken, late)
	}
}

// A crash runs the defers of a task, and nothing that they ask of the store
// has an effect.
func TestKilledTaskHasNoEffect(t *testing.T) {
	var pool coroutines
	defer pool.close()
	w := calmWorld(&pool)
	var deferred bool
	var inDefer any
	victim := w.spawn(operatorRole, 0, func() {
		tx, err := w.store.Begin(context.Background())
		if err != nil {
			t.Error(err)
		}
		if err := tx.Put(context.Background(), "table", "key", []byte("value")); err != nil {
			t.Error(err)
		}
		defer func() {
			deferred = true
			defer func() {
				inDefer = recover()
				panic(inDefer)
			}()
			_ = tx.Commit(context.Background())
		}()
		defer func() { _ = recover() }() // as the engine does around handlers
		w.current.park(0)
	})
	victim.start()
	drainHeap(w)
	victim.kill()
	if !deferred || inDefer != (killed{}) {
		t.Errorf("deferred %v, the commit in the defer panicked with %v", deferred, inDefer)
	}
	if w.store.Position() != 0 {
		t.Error("the killed task committed")
	}
	if !victim.done || len(w.tasks) != 0 {
		t.Error("the killed task is still there")
	}
}

func TestKillBeforeTheFirstStep(t *testing.T) {
	var pool coroutines
	defer pool.close()
	w := calmWorld(&pool)
	w.spawn(operatorRole, 0, func() { t.Error("the body ran") }).kill()
}

// A panic that is nobody's handler's is a broken invariant and must surface.
func TestPanicOfATaskSurfaces(t *testing.T) {
	var pool coroutines
	defer pool.close()
	w := calmWorld(&pool)
	task := w.spawn(operatorRole, 0, func() { panic(errors.New("broken")) })
	defer func() {
		p, ok := recover().(taskPanic)
		if !ok || !strings.Contains(p.Error(), "broken") || !strings.Contains(p.stack, "TestPanicOfATaskSurfaces") {
			t.Errorf("recovered %v", p)
		}
	}()
	task.start()
}

func TestCoroutinesAreReused(t *testing.T) {
	var pool coroutines
	w := calmWorld(&pool)
	for range 100 {
		w.spawn(operatorRole, 0, func() { w.current.sleep(1) }).start()
		drainHeap(w)
	}
	if n := len(pool.idle); n != 1 {
		t.Errorf("%d coroutines for tasks that never met", n)
	}
	before := runtime.NumGoroutine()
	pool.close()
	if n := runtime.NumGoroutine(); n != before-1 {
		t.Errorf("%d goroutines after close, %d before", n, before)
	}
}

// Two clients' transactions wait for each other's row: a lock wait parks the
// task, and the release wakes it.
func TestLockWaitParksTheTask(t *testing.T) {
	var pool coroutines
	defer pool.close()
	w := calmWorld(&pool)
	writer := func(name string, earliest time.Duration) {
		w.spawn(operatorRole, 0, func() {
			ctx := context.Background()
			tx, _ := w.store.Begin(ctx)
			if err := tx.Put(ctx, "table", "key", []byte(name)); err != nil {
				t.Error(err)
			}
			if at := w.now.Sub(epoch); at < earliest {
				t.Errorf("%s wrote the row after %v, while it was locked", name, at)
			}
			w.current.sleep(time.Second)
			if err := tx.Commit(ctx); err != nil {
				t.Error(err)
			}
		}).start()
	}
	writer("a", 0)
	writer("b", time.Second)
	drainHeap(w)
	if len(w.tasks) != 0 || len(w.blocked) != 0 {
		t.Errorf("%d tasks left, %d blocked", len(w.tasks), len(w.blocked))
	}
}

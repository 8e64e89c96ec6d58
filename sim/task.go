package sim

import (
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// killed is what a task that was killed panics with. Code in between may
// recover it, as the engine does around handlers; the next thing it asks of
// the world panics again, until the root of the task is reached.
type killed struct{}

// coroutine runs the bodies of tasks one after another, so that its stack is
// grown once. It is never run by two worlds at a time.
type coroutine struct {
	next func() (struct{}, bool)
	stop func()

	yield func(struct{}) bool
	body  func()
	ended bool // the body returned; a new one may be given
	fault any  // what the body panicked with, if not killed
}

// newCoroutine returns a coroutine without a body.
func newCoroutine() *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(c.bodies)
	return c
}

// bodies is the sequence that runs one body per life.
func (c *coroutine) bodies(yield func(struct{}) bool) {
	c.yield = yield
	for {
		c.run()
		c.ended = true
		if !yield(struct{}{}) {
			return
		}
	}
}

// run is the root of a task.
func (c *coroutine) run() {
	defer func() {
		if r := recover(); r != nil && r != (killed{}) {
			c.fault = taskPanic{r, callers()}
		}
	}()
	c.body()
}

// taskPanic is a panic that no handler is to blame for: a broken invariant of
// the engine, a store or the simulator.
type taskPanic struct {
	value any
	stack string
}

func (p taskPanic) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// callers lists the functions that led to the panic now being recovered,
// without addresses, so that a panic reads the same on every machine.
func callers() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			fmt.Fprintf(&b, "  %s (%s:%d)\n", frame.Function, filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// coroutines is a pool of idle coroutines. One goroutine uses it.
type coroutines struct{ idle []*coroutine }

func (p *coroutines) get() *coroutine {
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c
	}
	return newCoroutine()
}

func (p *coroutines) put(c *coroutine) { p.idle = append(p.idle, c) }

// close ends all idle coroutines.
func (p *coroutines) close() {
	for _, c := range p.idle {
		c.stop()
	}
	p.idle = nil
}

// task is one thread of the simulated world: a client's call, the server's
// execution of a request, a run of a handler, a publisher.
type task struct {
	w          *world
	id         uint32
	role       role
	client     int          // who this is for: see world.clients
	owner      *process     // the process that dies with it; nil for the server's
	tx         *openTx      // the transaction it has open
	conn       *connections // of which its transaction has one
	run        *handlerRun  // set while it runs a delivery
	co         *coroutine
	message    *request // what it serves or waits for
	told       *told    // the record of the call or transaction it performs
	started    bool
	gen        uint32 // what the next event must carry to wake it
	parked     bool
	woken      bool
	dead       bool
	done       bool
	place      int         // index in world.tasks
	after      func()      // runs on the loop when the body returned
	purging    *purging    // the Purge that it performs
	requeueing *requeueing // the Requeue by filter that it performs
}

// role says what a task is, for the log.
type role uint8

const (
	clientRole role = iota
	serverRole
	runRole
	publisherRole
	operatorRole
)

// spawn makes a task, which start sets going.
func (w *world) spawn(r role, client int, body func()) *task {
	w.nextTask++
	t := &task{w: w, id: w.nextTask, role: r, client: client, co: w.pool.get(), place: len(w.tasks)}
	t.co.body, t.co.ended = body, false
	w.tasks = append(w.tasks, t)
	return t
}

// start runs a task up to its first wait. More may be about to happen at this
// very moment, so it must not let time pass by itself.
func (t *task) start() { t.resume(false) }

// resume runs the task until it waits or ends. Only the loop calls it. alone
// says that nothing else is left to do at this moment.
func (t *task) resume(alone bool) {
	w := t.w
	if w.current != nil {
		panic("sim: a task was resumed by a task")
	}
	w.current, w.alone, t.started = t, alone, true
	t.co.next()
	w.current = nil
	if t.co.ended {
		t.finish()
	}
}

// finish takes an ended task off the books.
func (t *task) finish() {
	w := t.w
	t.done = true
	fault := t.co.fault
	t.co.body, t.co.fault = nil, nil
	w.pool.put(t.co)
	t.co = nil
	last := len(w.tasks) - 1
	w.tasks[t.place] = w.tasks[last]
	w.tasks[t.place].place = t.place
	w.tasks[last] = nil
	w.tasks = w.tasks[:last]
	if fault != nil {
		panic(fault)
	}
	if !t.dead && t.after != nil {
		t.after()
	}
}

// kill ends a task where it waits: its defers run, and nothing they ask of the
// world has an effect.
func (t *task) kill() {
	if t.done || t.dead {
		return
	}
	t.dead, t.woken = true, true
	if !t.started {
		t.co.body = func() {}
	}
	t.w.unblock(t)
	before := t.w.store.Position()
	t.resume(false)
	if !t.done {
		panic("sim: a killed task went on")
	}
	if t.w.store.Position() != before {
		panic("sim: a killed task committed")
	}
}

// suspend gives control back to the loop.
func (t *task) suspend() {
	t.co.yield(struct{}{})
	t.mustLive()
}

// mustLive panics in a killed task. Code in between may recover, but the next
// thing it asks of the world panics again.
func (t *task) mustLive() {
	if t.dead {
		panic(killed{})
	}
}

// sleep lets d pass. Where nothing else happens in between, no switch is made.
func (t *task) sleep(d time.Duration) {
	t.mustLive()
	w := t.w
	at := w.now.Add(d)
	if w.alone && (len(w.heap) == 0 || at < w.heap[0].at) && !t.frozen() {
		w.advance(at, t.id)
		return
	}
	t.gen++
	w.at(at, t, uint64(t.gen)<<1)
	t.suspend()
}

// frozen reports whether the task's process is paused.
func (t *task) frozen() bool { return t.owner != nil && t.owner.paused }

// park waits for wake, or for the deadline (0: none), and reports whether it
// was woken.
func (t *task) park(deadline protocol.Time) bool {
	t.mustLive()
	t.gen++
	t.parked, t.woken = true, false
	if deadline != 0 {
		t.w.at(max(deadline, t.w.now), t, uint64(t.gen)<<1|1)
	}
	t.suspend()
	return t.woken
}

// wake ends a park after d.
func (t *task) wake(d time.Duration) {
	if !t.parked || t.woken || t.done {
		return
	}
	t.woken = true
	t.w.at(t.w.now.Add(d), t, uint64(t.gen)<<1)
}

// fire implements [actor].
func (t *task) fire(arg uint64) bool {
	if t.done || uint32(arg>>1) != t.gen || arg&1 == 1 && t.woken {
		return false
	}
	if t.frozen() {
		t.owner.keep(t, arg)
		return true
	}
	t.gen++
	t.parked = false
	t.resume(true)
	return true
}

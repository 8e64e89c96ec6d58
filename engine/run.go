package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// This is the one file of the package with goroutines, timers and a clock. It
// decides nothing: it feeds the Machine what happened, and does what the
// Machine says.

// wallClock is the time where only people and ids look at it.
func wallClock() time.Time { return time.Now() }

// sleep waits for d or for the end of ctx, whose cause it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopWithin returns how long a stop may take. It ends a little before the
// deadline of ctx, so that Stop can still say how it went. A deadline that has
// passed already is a mistake that must not cost completions.
func stopWithin(ctx context.Context, limit time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return limit
	}
	left := time.Until(deadline)
	if left <= 0 {
		return limit
	}
	return min(limit, left-left/16)
}

func (b *Bus[Tx]) begin(ctx context.Context) (*runner, error) {
	base := ctx
	if b.cfg.BaseContext != nil {
		base = b.cfg.BaseContext()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runner != nil {
		return nil, fmt.Errorf("start: %w; stop it before starting it again", ErrStarted)
	}
	machine, err := b.newMachine()
	if err != nil {
		return nil, err
	}
	r := newRunner(machine, base, b.cfg)
	r.notifier = b.notifier
	b.runner = r
	if r.watcher != nil {
		r.work.Go(func() { r.watcher.serve(r.ended) })
	}
	if w, ok := any(b.store).(Waker); ok {
		r.work.Go(func() { r.listen(w, b.cfg.Group) })
	}
	go func() {
		defer close(r.done)
		r.loop(ctx)
		if mutant.On("stopped-bus-counts-as-started") {
			return
		}
		b.mu.Lock()
		b.runner = nil
		b.mu.Unlock()
	}()
	return r, nil
}

// runner drives one Machine. Its loop goroutine alone touches the fields of
// the second group.
type runner struct {
	machine     *Machine
	log         *slog.Logger
	watcher     *watcher // nil: nobody watches
	notifier    Notifier // nil: the store is none
	stopTimeout time.Duration
	started     time.Time
	inbox       *inbox
	workers     *workers
	wake        chan struct{}
	stops       chan time.Duration
	subscribed  chan struct{} // closed when the first Subscribe was answered
	ended       chan struct{} // closed when the loop takes no more inputs
	done        chan struct{} // closed at the very end; err is set before
	err         error
	work        sync.WaitGroup // calls, runs and the listener
	running     atomic.Int64   // handlers that have not returned

	base, calls           context.Context // parents of the contexts of handlers and of calls
	cancelCalls           context.CancelFunc
	timer, kill           *time.Timer
	killAt                time.Time       // zero while no stop was asked for
	now                   time.Time       // of the Step that is performed
	live                  map[RunID]*task // whose RunReturned was not fed yet
	answers               []Input         // to effects that are answered at once
	batch                 []Input         // what was last taken from the inbox
	stopped, heardOfStore bool
	refused               error // why the bus never ran
}

func newRunner(machine *Machine, base context.Context, cfg Config) *runner {
	r := &runner{
		machine: machine, log: cfg.Logger.With("owner", cfg.Owner, "group", cfg.Group),
		stopTimeout: cfg.StopTimeout, started: time.Now(),
		inbox:      newInbox(),
		wake:       make(chan struct{}, 1),
		stops:      make(chan time.Duration),
		subscribed: make(chan struct{}),
		ended:      make(chan struct{}),
		done:       make(chan struct{}),
		timer:      stoppedTimer(), kill: stoppedTimer(),
		live: map[RunID]*task{},
		base: context.WithoutCancel(base),
	}
	r.watcher = newWatcher(cfg.Observer, r.log)
	spawn := r.work.Go
	if mutant.On("worker-not-counted") {
		spawn = func(work func()) { go work() }
	}
	r.workers = newWorkers(spawn, r.execute)
	r.calls, r.cancelCalls = context.WithCancel(r.base)
	return r
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// loop runs until the Machine says Stopped, or a stop took too long.
func (r *runner) loop(ctx context.Context) {
	cancelled := ctx.Done()
	r.step(Start{})
	for !r.stopped {
		select {
		case <-r.inbox.ready:
			r.step(r.receive()...)
		case <-r.timer.C:
			r.step(Tick{})
			if mutant.On("timer-dead-after-tick") {
				r.timer.Stop()
			}
		case <-r.wake:
			if mutant.On("wake-lost-during-claim") && time.Since(r.now) < 20*time.Millisecond {
				continue
			}
			r.step(Wake{})
		case <-cancelled:
			cancelled = nil
			r.beginStop(r.stopTimeout)
		case limit := <-r.stops:
			r.beginStop(limit)
		case <-r.kill.C:
			r.cutOff()
		}
	}
	r.finish()
}

// receive takes what goroutines reported, and notes what the runner itself
// wants to know of it.
func (r *runner) receive() []Input {
	clear(r.batch) // it must not keep errors and replies alive
	r.batch = r.inbox.take(r.batch)
	for _, in := range r.batch {
		switch in := in.(type) {
		case RunReturned:
			delete(r.live, in.ID)
		case CallReturned:
			if _, ok := in.Reply.(*SubscribeReply); ok && !r.heardOfStore {
				r.heardOfStore = true
				close(r.subscribed)
			}
		}
	}
	return r.batch
}

// step feeds inputs, and then the answers to effects that were answered at
// once.
func (r *runner) step(inputs ...Input) {
	r.feed(inputs...)
	for len(r.answers) > 0 && !r.stopped {
		next := r.answers[0]
		r.answers = slices.Delete(r.answers, 0, 1)
		r.feed(next)
	}
}

func (r *runner) feed(inputs ...Input) {
	r.now = time.Now()
	at := Instant{Wall: r.now.UnixNano(), Mono: r.now.Sub(r.started)}
	for _, e := range r.machine.Step(at, inputs...) {
		r.perform(e)
	}
}

func (r *runner) perform(e Effect) {
	switch e := e.(type) {
	case Call:
		r.call(e)
	case *Run:
		r.run(e)
	case CancelRun:
		if t, ok := r.live[e.ID]; ok {
			cause := e.Cause
			if mutant.On("cancel-cause-replaced") {
				cause = ErrShutdown
			}
			t.cancel(cause)
		}
	case Retire:
		t, ok := r.live[e.ID]
		done := ok && t.ctx.run.Gate.Close()
		if mutant.On("retire-always-done") {
			done = true
		}
		r.answers = append(r.answers, RunRetired{ID: e.ID, Done: done})
	case WakeAt:
		r.timer.Reset(e.After)
	case Observed:
		r.observe(e)
	case Stopped:
		r.stopped = true
		r.refused = e.Err
	default:
		panic(fmt.Sprintf("engine: the runner cannot perform a %T", e))
	}
}

// call makes one store call. It is reported as returned after its timeout at
// the latest, whatever the store does. The store's own time ends a little
// before: one that waited for a connection all the while must be able to say
// that nothing was sent.
func (r *runner) call(c Call) {
	left := c.Timeout / 8 // from the end of the store's time to ours
	ctx, cancel := context.WithTimeout(r.calls, c.Timeout-left)
	var once sync.Once
	report := func(in CallReturned) { once.Do(func() { r.inbox.put(in) }) }
	answered := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		// Only from here on, or on a busy machine both times end at once.
		late := time.NewTimer(left)
		defer late.Stop()
		select {
		case <-answered:
		case <-late.C:
			if mutant.On("call-timeout-not-reported") {
				return
			}
			report(CallReturned{ID: c.ID, Err: fmt.Errorf("%T was given up after %v, its outcome is unknown: %w", c.Input, c.Timeout, context.Cause(ctx))})
		}
	})
	r.work.Go(func() {
		defer cancel()
		began := time.Now()
		returned := r.machine.Perform(ctx, c)
		stop()
		close(answered)
		if r.watcher != nil {
			took := time.Since(began)
			r.watcher.watchCall(c.Input, returned, began.Add(took), took)
		}
		report(returned)
	})
}

// run hands a run to the workers. Its context has no parent that could cancel
// it, which would cost every run two visits to a list that all share.
func (r *runner) run(run *Run) {
	t := &task{ctx: runContext{run: run}}
	t.ctx.Context, t.cancel = context.WithCancelCause(r.base)
	r.live[run.ID] = t
	r.workers.put(t)
}

// execute runs a handler and reports its result, also when the handler ends
// the goroutine under it.
func (r *runner) execute(t *task) {
	r.running.Add(1)
	run := t.ctx.run
	result := RunResult{Outcome: Failed, Err: errGoexit, Delay: -1, Panic: true}
	var began time.Time
	if r.watcher != nil {
		began = time.Now()
		r.watcher.watchRun(run, Observation{Kind: ObservedStarted, At: began})
	}
	defer func() {
		t.cancel(nil)
		r.running.Add(-1)
		r.logFailure(run, result)
		if r.watcher != nil {
			took := time.Since(began)
			r.watcher.watchRun(run, Observation{Kind: ObservedReturned, At: began.Add(took), Outcome: result.Outcome, Duration: took, Err: result.Err})
		}
		r.inbox.put(RunReturned{ID: run.ID, Result: result})
	}()
	result = r.machine.executes(&t.ctx)
	if mutant.On("handler-publish-does-not-nudge") {
		return
	}
	if result.published && (result.Outcome == Committed || result.Outcome == CommitUnknown) {
		r.nudge()
		if r.notifier != nil {
			r.notifier.Notify()
		}
	}
}

func (r *runner) nudge() { signal(r.wake) }

func (r *runner) requestStop(limit time.Duration) {
	select {
	case r.stops <- limit:
	case <-r.ended:
	}
}

// beginStop starts the stop, or hastens the one under way.
func (r *runner) beginStop(limit time.Duration) {
	at := time.Now().Add(limit)
	if !r.killAt.IsZero() && !at.Before(r.killAt) {
		return
	}
	r.killAt = at
	if !mutant.On("stop-has-no-limit") {
		r.kill.Reset(limit)
	}
	grace := handlerGrace(limit)
	r.step(Stop{Grace: grace, Overtime: (limit - grace) / 2})
}

// cutOff ends a stop that took too long.
func (r *runner) cutOff() {
	r.stopped = true
	r.err = fmt.Errorf("stop: time ran out with %d handlers still running; what was not stored runs again when its lease expires", r.running.Load())
}

// finish ends everything the runner started. Handlers that were cancelled get
// what is left of the stop to return.
func (r *runner) finish() {
	close(r.ended)
	for _, t := range r.live {
		t.cancel(ErrShutdown)
	}
	r.workers.close()
	r.cancelCalls()
	r.timer.Stop()
	idle := make(chan struct{})
	go func() {
		r.work.Wait()
		close(idle)
	}()
	if r.err == nil {
		select {
		case <-idle:
		case <-r.kill.C:
			r.err = fmt.Errorf("stop: everything is stored and given back, but %d handlers did not return after their contexts were cancelled", r.running.Load())
		}
	}
	r.kill.Stop()
	r.err = cmp.Or(r.err, r.refused)
}

// Pauses between tries to listen: a repaired connection gives hints again
// within 15 s.
const (
	firstListenPause = 250 * time.Millisecond
	maxListenPause   = 10 * time.Second
)

// listen keeps the store's hints coming. After every interruption it wakes the
// bus once, because hints were missed.
func (r *runner) listen(w Waker, group string) {
	for pause := firstListenPause; r.calls.Err() == nil; pause = min(2*pause, maxListenPause) {
		began := time.Now()
		err := w.Listen(r.calls, group, r.nudge)
		if r.calls.Err() != nil {
			return
		}
		if time.Since(began) > maxListenPause {
			pause = firstListenPause // it had worked
		}
		r.logDeaf(err, pause)
		if sleep(r.calls, pause) != nil {
			return
		}
		r.nudge()
	}
}

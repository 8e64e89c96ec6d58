package sim

import (
	"context"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// clock is a worker's own pair of clocks.
type clock struct {
	since protocol.Time // virtual time of the last change
	wall  int64
	mono  time.Duration
	drift int // thousandths gained
}

// read returns the clocks' reading at now.
func (c *clock) read(now protocol.Time) engine.Instant {
	elapsed := now.Sub(c.since)
	elapsed += elapsed / 1000 * time.Duration(c.drift)
	return engine.Instant{Wall: c.wall + int64(elapsed), Mono: c.mono + elapsed}
}

// rebase makes now the time of the last change.
func (c *clock) rebase(now protocol.Time) {
	at := c.read(now)
	c.since, c.wall, c.mono = now, at.Wall, at.Mono
}

// process is one life of a worker: a bus instance with its own holder.
type process struct {
	w           *world
	worker      *worker
	holder      protocol.Holder
	client      *client
	machine     *engine.Machine
	clock       *clock
	inbox       []engine.Input
	busy        bool // inputs are being fed
	alive       bool
	stopping    bool
	killer      *handlerRun // whose poison kills it
	losses      int         // how often the store had lost commits when it began
	orderly     bool        // it was stopped when nothing was wrong any more
	stoppedWell bool
	wakeGen     uint64
	wakeAt      protocol.Time // when it asked to be woken, 0: it was, or did not
	runs        []*handlerRun // in the order they were started
	handlers    uint32        // that it serves, as bits
	patience    patience
	pledge      pledge
	grants      []*grant      // what it was granted and may still run
	returning   []*handlerRun // returned, and the machine may not know yet

	paused   bool
	pauseGen uint64
	asleep   bool
	backlog  []event // what happened to it while it was paused
}

// feed gives the machine an input, and performs what it asks for.
func (p *process) feed(in engine.Input) {
	p.inbox = append(p.inbox, in)
	if p.busy {
		return
	}
	p.busy = true
	if p.wakeAt != 0 && p.w.now >= p.wakeAt {
		p.patience.late += p.w.now.Sub(p.wakeAt)
		p.wakeAt = 0
	}
	for i := 0; i < len(p.inbox) && p.alive; i++ {
		at := p.clock.read(p.w.now)
		p.w.print.add(uint64(at.Wall))
		for _, effect := range p.machine.Step(at, p.inbox[i]) {
			p.perform(effect)
		}
		if i == len(p.inbox)-1 && p.alive && !p.stopping {
			p.w.checks.deadlines.stepped(p, at)
		}
		if p.alive && p.stopping {
			p.w.checks.deadlines.stopping(p)
		}
		p.w.checks.told.stepped()
	}
	p.inbox, p.returning = p.inbox[:0], p.returning[:0]
	p.busy = false
}

func (p *process) perform(effect engine.Effect) {
	switch e := effect.(type) {
	case engine.Call:
		p.call(e)
	case *engine.Run:
		p.start(e)
	case engine.CancelRun:
		p.w.checks.told.cancels(p, e)
		if r := p.runOf(e.ID); r != nil {
			p.w.checks.charges.cancels(r, e.Cause)
			r.cancelled = true
			r.cancel(e.Cause)
			r.task.wake(0)
		}
	case engine.Retire:
		p.retire(e)
	case engine.WakeAt:
		p.wakeGen++
		p.wakeAt = p.w.now.Add(e.After)
		p.pledge.wake = p.clock.read(p.w.now).Mono + e.After
		late := p.w.unit() * time.Duration(p.w.tape.Choose(4, LabelTimer, p.worker.id)*16)
		p.w.in(e.After+late, (*timer)(p), p.wakeGen)
	case engine.Stopped:
		p.stopped()
	case engine.Observed:
		p.w.observed(p, e)
	}
}

// timer is a process as the receiver of its own alarm.
type timer process

func (t *timer) fire(gen uint64) bool {
	p := (*process)(t)
	if !p.alive || gen != p.wakeGen {
		return false
	}
	if p.paused {
		p.keep(t, gen)
		return true
	}
	p.feed(engine.Tick{})
	return true
}

// clientCall is a store call of a process on its way.
type clientCall struct {
	p      *process
	call   engine.Call
	ctx    callContext
	sent   engine.Instant // by the worker's clock
	result engine.CallReturned
}

func (p *process) call(e engine.Call) {
	c := &clientCall{p: p, call: e}
	c.ctx = callContext{w: p.w, deadline: p.w.now.Add(e.Timeout)}
	t := p.w.spawn(clientRole, p.client.id, c.run)
	t.owner, t.after = p, c.returned
	c.sent = p.clock.read(p.w.now)
	p.w.checks.conserving.sends(p, e.Input)
	p.w.checks.deadlines.sends(p, e.Input)
	t.start()
}

func (c *clientCall) run() { c.result = c.p.machine.Perform(&c.ctx, c.call) }

func (c *clientCall) returned() {
	c.p.w.checks.conserving.returns(c.p, c.call.Input, c.result)
	c.p.w.checks.deadlines.returns(c.p, c.sent, c.call.Input, c.result)
	c.p.feed(c.result)
}

// handlerRun is one run of a handler.
type handlerRun struct {
	p      *process
	run    *engine.Run
	task   *task
	ctx    context.Context
	cancel context.CancelCauseFunc
	result engine.RunResult

	event   int // index in the workload
	handler *handlerSpec
	starts  int  // how often its body began: again after a conflict
	running bool // its body is running
	grant   *grant
	asks    asks          // what its body returns stands for
	began   time.Duration // by its worker's monotonic clock
	chosen  bool          // its body returned an error of its own choice
	retired bool
	over    bool

	cancelled bool
}

func (p *process) start(e *engine.Run) {
	r := &handlerRun{p: p, run: e}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.event, r.handler = p.w.eventOf(e.Picked.Event), p.w.handlerNamed(e.Handler)
	r.began = p.clock.read(p.w.now).Mono
	p.w.checks.told.starting(r)
	p.runs = append(p.runs, r)
	t := p.w.spawn(runRole, p.client.id, r.execute)
	t.owner, t.run, t.after = p, r, r.returned
	r.task = t
	t.start()
}

func (r *handlerRun) execute() { r.result = r.p.machine.Execute(r.ctx, r.run) }

func (r *handlerRun) returned() {
	r.over = true
	if r.result.Outcome == engine.NotBegun {
		r.p.harm() // it keeps its slot, and waits
		r.p.w.checks.told.notBegun(r)
	}
	r.p.w.checks.conserving.over(r)
	r.p.w.checks.deadlines.over(r)
	r.cancel(nil)
	r.p.forget(r)
	if !r.retired {
		r.p.w.checks.grants.ranOut(r)
		r.p.returning = append(r.p.returning, r)
		r.p.feed(engine.RunReturned{ID: r.run.ID, Result: r.result})
	}
}

func (p *process) runOf(id engine.RunID) *handlerRun {
	for _, r := range p.runs {
		if r.run.ID == id {
			return r
		}
	}
	return nil
}

func (p *process) forget(r *handlerRun) {
	for i, o := range p.runs {
		if o == r {
			p.runs = append(p.runs[:i], p.runs[i+1:]...)
			return
		}
	}
}

func (p *process) retire(e engine.Retire) {
	r := p.runOf(e.ID)
	if r == nil {
		return // its RunReturned is in the inbox
	}
	p.patience.noteRoom(p)
	r.retired = r.run.Gate.Close()
	if r.retired && r.task.tx != nil {
		r.task.tx.drop() // its locks must not outlive the run …
		if !mutant.On("retired-run-keeps-connection") {
			r.task.disconnect() // … and neither may its connection
		}
	}
	p.inbox = append(p.inbox, engine.RunRetired{ID: e.ID, Done: r.retired})
}

// keep puts an event off until the process is resumed.
func (p *process) keep(who actor, arg uint64) {
	p.backlog = append(p.backlog, event{who: who, arg: arg})
}

// die ends the process: its tasks are killed where they are. What it sent to
// the store goes on. With orphaned transactions the store is not told.
func (p *process) die(orphan bool) {
	if !p.alive {
		return
	}
	p.alive, p.paused = false, false
	w := p.w
	p.worker.note("die")
	victims := w.victims[:0]
	for _, t := range w.tasks {
		if t.owner == p {
			victims = append(victims, t)
		}
	}
	w.victims = victims
	for i, t := range victims {
		open := t.tx
		t.kill()
		victims[i] = nil
		if open == nil || open.life != w.storeLife {
			continue
		}
		if orphan {
			w.in(keepAlive*w.knobs.Lease, (*orphanTx)(open), 0)
		} else {
			open.drop()
		}
	}
	for _, r := range p.runs {
		r.cancel(nil)
	}
	p.runs, p.backlog = nil, nil
}

// orphanTx is a transaction whose client's host has vanished. In the end the
// operating system finds the connection dead; where Complete set a limit the
// store rolls back much earlier.
type orphanTx openTx

func (o *orphanTx) fire(uint64) bool {
	(*openTx)(o).drop()
	return true
}

// vanish ends the host of the process in the middle of a transaction of t.
func (p *process) vanish(t *task) {
	p.w.in(0, (*blackout)(p), 0)
	t.park(0) // for good
}

// blackout is the end of a host, from outside of its tasks.
type blackout process

func (b *blackout) fire(uint64) bool {
	p := (*process)(b)
	if !p.alive {
		return false
	}
	p.w.faultStruck(faultOrphan)
	p.worker.crash(p.worker.orphan.down, true)
	return true
}

// pause freezes the process for d.
func (p *process) pause(d time.Duration, asleep bool) {
	p.pauseGen++
	p.paused, p.asleep = true, asleep
	p.worker.note("pause")
	p.clock.rebase(p.w.now)
	p.w.in(d, (*thaw)(p), p.pauseGen)
}

// thaw ends a pause.
type thaw process

func (t *thaw) fire(gen uint64) bool {
	p := (*process)(t)
	if !p.alive || !p.paused || gen != p.pauseGen {
		return false
	}
	p.resume()
	return true
}

func (p *process) resume() {
	p.worker.note("resume")
	p.harm()
	slept := p.clock.mono
	p.clock.rebase(p.w.now)
	if p.asleep {
		p.clock.mono = slept
		p.patience.slept = p.w.now
	}
	p.paused = false
	for _, e := range p.backlog {
		p.w.at(p.w.now, e.who, e.arg)
	}
	p.backlog = p.backlog[:0]
}

package sim

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// A run is named on the tape by its event and its handler, in one number.
const (
	handlerBits = 4
	maxHandlers = 1 << handlerBits
)

// handlerSpec is one registered handler of the workload.
type handlerSpec struct {
	w             *world
	index         int
	events        []string // the types it is registered for
	name          string
	transactional bool
	maxAttempts   int
	concurrency   int // of its runs at once in one worker; 0: no limit of its own
	// stubborn handlers do not listen to their context.
	stubborn bool
}

func (h *handlerSpec) register(bus *engine.Bus[*simstore.Tx]) error {
	lease := h.w.knobs.Lease
	settings := engine.Handler{
		Name: h.name, Concurrency: h.concurrency, MaxAttempts: h.maxAttempts, Timeout: h.timeout(), Grace: lease / 2,
		Retry: engine.Exponential{Base: lease / 8, Cap: 4 * lease},
	}
	for _, settings.Event = range h.events {
		err := error(nil)
		if h.transactional {
			err = engine.HandleTx(bus, settings, h.runTx)
		} else {
			err = engine.Handle(bus, settings, h.run)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timeout is how long a run may take.
func (h *handlerSpec) timeout() time.Duration {
	return h.w.knobs.timeoutOf(h.index)
}

func (h *handlerSpec) run(ctx context.Context, e engine.Event[[]byte]) error {
	return h.w.handle(ctx, nil, h, &e)
}

func (h *handlerSpec) runTx(ctx context.Context, tx *simstore.Tx, e engine.Event[[]byte]) error {
	return h.w.handle(ctx, tx, h, &e)
}

// actor names (event, handler) on the tape.
func (r *handlerRun) actor() int { return r.event<<handlerBits | r.handler.index }

// handle is the body of every handler.
func (w *world) handle(ctx context.Context, tx *simstore.Tx, h *handlerSpec, e *engine.Event[[]byte]) error {
	r := w.current.run
	r.starts++
	r.chosen = false
	b := w.behaviour(r)
	if w.leaping.duringRun {
		b.Work = max(b.Work, 8*w.unit())
		w.in(6*w.unit(), r, 0) // when it has a snapshot
	}
	w.noteOverlap(r)
	w.checks.started(r)
	w.checks.given.received(ctx, r, e)
	deface(e)
	w.bodyBegan(r)
	err := signed(r, w.behave(ctx, tx, r, &b))
	w.checks.returned(r, err)
	return err
}

// behave does what the behaviour says.
func (w *world) behave(ctx context.Context, tx *simstore.Tx, r *handlerRun, b *faults.Behaviour) error {
	t := w.current
	if b.Poison {
		probePoison.Hit()
		r.p.killer = r
		w.in(0, (*doom)(r.p), 0)
		t.park(0) // for good: the process dies at this instant
	}
	if tx != nil {
		if err := w.writeEffect(ctx, tx, r); err != nil {
			return err
		}
	}
	for b.Hang {
		t.park(0)
	}
	if err := w.work(ctx, t, b.Work, r.handler.stubborn); err != nil {
		return err
	}
	if b.Panic {
		w.checks.returned(r, errPanic)
		panic("the handler panicked")
	}
	if r.chosen = b.Err != nil; b.Err != r.asks.err {
		r.asks = asks{} // a fault has another
	}
	return b.Err
}

var errPanic = errors.New("panic")

// doom kills a process from outside of its tasks.
type doom process

func (d *doom) fire(uint64) bool {
	p := (*process)(d)
	if !p.alive {
		return false
	}
	p.w.faultWorked(faultPoison)
	p.w.checks.poisoned(p.killer)
	p.worker.crash(p.w.knobs.Lease/50, false)
	return true
}

// work lets d pass, or less when the handler listens to its context.
func (w *world) work(ctx context.Context, t *task, d time.Duration, stubborn bool) error {
	until := w.now.Add(d)
	for w.now < until {
		if !stubborn && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.park(until)
	}
	return nil
}

// behaviour draws what a run does.
func (w *world) behaviour(r *handlerRun) faults.Behaviour {
	r.asks = asks{}
	b := faults.Behaviour{Work: w.unit() * multiples[w.tape.Choose(len(multiples), LabelWork, r.actor())]}
	if w.calm {
		return b
	}
	switch w.tape.Choose(5, LabelOutcome, r.actor()) {
	case 1:
		b.Err = r.ask(wishSnooze, w.knobs.Lease/10)
	case 2:
		b.Err = r.ask(wishSnooze, w.knobs.Lease*3/2)
	case 3:
		b.Err = r.ask(wishAfter, w.knobs.Lease/3)
	case 4:
		b.Err = r.ask(wishCancel, 0)
	}
	for _, i := range w.runFaults {
		if v := w.tape.Choose(faults.All()[i].Variants+1, faultLabel(i), r.actor()); v > 0 {
			w.faultFired(i)
			w.faultWorked(i)
			faults.All()[i].Run(w, v, &b)
		}
	}
	if i := faultPoison; w.enabled(i) && w.poisoned(r) {
		w.faultFired(i)
		faults.All()[i].Run(w, 1, &b)
	}
	return b
}

// ask returns the error by which a handler says what it wants.
func (r *handlerRun) ask(what wish, delay time.Duration) error {
	r.asks = asks{wish: what, delay: int64(delay)}
	switch what {
	case wishSnooze:
		r.asks.err = engine.Snooze(delay)
	case wishAfter:
		r.asks.err = engine.RetryAfter(delay, errAgain)
	default:
		r.asks.err = engine.Cancel(errAgain)
	}
	return r.asks.err
}

var errAgain = errors.New("not now")

// poisoned reports whether the delivery kills its worker. It is drawn at the
// first run and stays so.
func (w *world) poisoned(r *handlerRun) bool {
	const drawn, deadly = 1, 2
	a := r.actor()
	for a >= len(w.poison) {
		w.poison = append(w.poison, 0)
	}
	if w.poison[a]&drawn == 0 {
		w.poison[a] = drawn
		if w.tape.Choose(2, faultLabel(faultPoison), a) > 0 {
			w.poison[a] |= deadly
		}
	}
	return w.poison[a]&deadly != 0
}

// The user tables of the handlers and the publishers.
const (
	effectTable = "effects" // one row per run of a transactional handler
	totalTable  = "totals"  // one row per key, so that transactions meet
)

// writeEffect leaves a row that only this try can have written, and counts in
// a row that the handlers of a key share.
func (w *world) writeEffect(ctx context.Context, tx *simstore.Tx, r *handlerRun) error {
	lease := &r.run.Picked.Lease
	row := r.run.Picked.Delivery.Event + "/" + r.handler.name + "@" + lease.Holder.Short() +
		":" + strconv.FormatInt(lease.Claim, 10) + ":" + strconv.Itoa(r.starts)
	if err := tx.Put(ctx, effectTable, row, nil); err != nil {
		return err
	}
	w.current.told.effect(r)
	return w.count(ctx, tx, r.run.Picked.Delivery.Key)
}

// count adds one to a row that others write as well.
func (w *world) count(ctx context.Context, tx *simstore.Tx, row string) error {
	value, _, err := tx.GetForUpdate(ctx, totalTable, row)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(value))
	return tx.Put(ctx, totalTable, row, strconv.AppendInt(nil, int64(n)+1, 10))
}

// eventOf returns the index of an event in the workload, -1 when it is not of
// it.
func (w *world) eventOf(e *protocol.Event) int {
	if e == nil {
		return -1
	}
	return w.plan.indexOf(e.ID)
}

func (w *world) handlerNamed(name string) *handlerSpec {
	for _, h := range w.handlers {
		if h.name == name {
			return h
		}
	}
	return nil
}

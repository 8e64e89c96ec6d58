package sim

import (
	"context"
	"errors"
	"strconv"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// publisher is a process that publishes one transaction after another.
type publisher struct {
	w   *world
	id  int // in world.clients
	bus *engine.Bus[*simstore.Tx]
}

func (w *world) newPublisher(id int) *publisher {
	c := &client{w: w, id: id, faulty: true}
	c.newPools()
	bus, err := engine.New(c, w.config("publisher"+strconv.Itoa(id)))
	if err != nil {
		panic(err)
	}
	return &publisher{w: w, id: id, bus: bus}
}

func (p *publisher) start() {
	w := p.w
	t := w.spawn(publisherRole, p.id, p.run)
	t.after = w.published
	w.publishing++
	t.start()
}

// published notes that a publisher is done.
func (w *world) published() {
	w.publishing--
	w.changed = true
	w.letGo()
}

// run publishes until the plan is through.
func (p *publisher) run() {
	w := p.w
	t := w.current
	p.awaitSubscriptions(t)
	for !w.stopPublishing {
		b, ok := w.nextBatch()
		if !ok {
			return
		}
		t.sleep(b.pause)
		p.publish(t, &b)
		w.hint(b.number)
	}
}

// awaitSubscriptions waits, with a recorded workload or for a backlog, until
// every handler is subscribed, so that each event has all its deliveries.
func (p *publisher) awaitSubscriptions(t *task) {
	w := p.w
	if w.plan.recorded == nil && !w.knobs.Backlog {
		return
	}
	for w.checks.facts.subscribed < w.subscriptions() && !w.stopPublishing {
		t.sleep(w.knobs.Lease / 16)
	}
	w.holdBack()
}

// publish does what the batch's plan says, and tries until a COMMIT is
// acknowledged.
func (p *publisher) publish(t *task, b *batch) {
	var todo faults.Plan
	w := p.w
	for _, i := range w.batchFaults {
		if v := w.draw(i, b.number); v > 0 {
			w.faultFired(i)
			w.faultWorked(i)
			faults.All()[i].Batch(v, &todo)
		}
	}
	if todo.Rollback {
		p.transaction(b, errRollback)
	}
	if todo.Race {
		w.race(*b)
	}
	for range 1 + todo.Again {
		p.insist(t, b)
	}
}

// insist publishes until a COMMIT is acknowledged.
func (p *publisher) insist(t *task, b *batch) {
	for p.transaction(b, nil) != nil {
		t.sleep(p.w.knobs.Lease / 16)
	}
}

// race publishes the batch in a task of its own, at once.
func (w *world) race(b batch) {
	t := w.spawn(publisherRole, w.racer.id, func() { w.racer.insist(w.current, &b) })
	t.after = w.published
	w.publishing++
	w.in(0, t, 0)
}

var errRollback = errors.New("the publisher changed its mind")

// transaction writes a row of the publisher's own and publishes. A racer has
// another row than who it races: they are to meet at the events.
func (p *publisher) transaction(b *batch, outcome error) error {
	w := p.w
	row := "batch/" + strconv.Itoa(b.number)
	if p == w.racer {
		row = "race/" + strconv.Itoa(b.number)
	}
	return p.bus.InTx(context.Background(), func(ctx context.Context, tx *simstore.Tx) error {
		if err := w.count(ctx, tx, row); err != nil {
			return err
		}
		if err := p.bus.Publish(ctx, tx, b.messages...); err != nil {
			return err
		}
		return outcome
	})
}

// hint tells the workers of a commit.
func (w *world) hint(number int) {
	if !w.knobs.Hints {
		return
	}
	deaf := w.tape.Choose(1+len(w.workers), LabelWake, number)
	for i, k := range w.workers {
		if i+1 != deaf && k.process != nil {
			w.in(w.unit(), (*nudge)(k.process), 0)
		}
	}
}

// nudge is a process as the receiver of a hint.
type nudge process

func (n *nudge) fire(uint64) bool {
	p := (*process)(n)
	if !p.alive || p.paused {
		return false
	}
	p.patience.hinted = p.w.now
	p.feed(engine.Wake{})
	return true
}

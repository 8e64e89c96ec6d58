package drive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

// atOnce is how many handlers must be able to run when hints are measured.
const atOnce = 4

// stormAndCalm is the round: faults, then none.
func (r *round) stormAndCalm() {
	var storm sync.WaitGroup
	for range 1 + r.dice.n(3) {
		storm.Go(r.lives)
	}
	storm.Go(r.publish)
	storm.Wait()
	r.weather.calm.Store(true)
	workers := make([]*worker, 1+r.dice.n(2))
	for i := range workers {
		workers[i] = r.newWorker(atOnce)
		if err := workers[i].bus.Start(context.Background()); err != nil {
			r.fail("in calm a bus does not start: %v", err)
			return
		}
	}
	r.drain()
	r.hints(workers)
	r.silent(workers)
	for _, k := range workers {
		k.stop(context.Background(), k.limit, true)
	}
	r.checkFree()
	time.Sleep(2 * drainWithin) // whatever still hangs comes to its end
}

// publish publishes events at random times.
func (r *round) publish() {
	k := r.newWorker(1) // a bus that never starts
	for i := range 8 + r.dice.n(16) {
		time.Sleep(r.dice.upTo(700 * time.Millisecond))
		m := engine.Message{ID: fmt.Sprintf("e%d", i), Type: "a", Payload: i}
		if n := r.dice.n(4); n > 0 {
			m.Key = fmt.Sprintf("k%d", n)
		}
		_ = k.bus.PublishNow(context.Background(), m) // what was committed, the judge knows
	}
}

// lives are those of one process: bus after bus, or one that is started again.
func (r *round) lives() {
	var k *worker
	for range 1 + r.dice.n(4) {
		if k == nil || r.dice.one(2) {
			k = r.newWorker(1)
		}
		if !k.live() {
			k = nil
		}
		time.Sleep(r.dice.upTo(300 * time.Millisecond))
	}
}

// live starts the bus, lets it run and ends it, and reports whether it can be
// started again.
func (k *worker) live() bool {
	d := k.r.dice
	k.stopping.Store(false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := make(chan error, 1)
	started := time.Now()
	if d.one(2) {
		go func() { run <- k.bus.Run(ctx) }()
		time.Sleep(time.Millisecond + d.upTo(time.Second))
	} else {
		starting, giveUp := context.WithCancel(ctx)
		defer giveUp()
		timer := time.AfterFunc(20*callTimeout, func() {
			k.stopping.Store(true)
			giveUp()
		})
		err := k.bus.Start(starting)
		timer.Stop()
		switch {
		case errors.Is(err, engine.ErrShutdown):
			return true
		case err != nil:
			k.r.fail("start: %v, after %v", err, time.Since(started))
			return false
		}
		close(run)
	}
	time.Sleep(d.upTo(5 * time.Second))
	switch d.n(4) {
	case 0:
		k.kill()
		return false
	case 1:
		k.stopping.Store(true)
		began := time.Now()
		cancel()
		if err, ok := <-run; ok {
			k.within(began, k.limit, "Run")
			_ = err
			return true
		}
	case 2:
		limit := 50*time.Millisecond + d.upTo(k.limit)
		soon, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		k.stop(soon, limit, false)
		return true
	}
	k.stop(context.Background(), k.limit, false)
	return true
}

// stop stops the bus; with must, nothing may be left of it.
func (k *worker) stop(ctx context.Context, limit time.Duration, must bool) {
	k.stopping.Store(true)
	began, l := time.Now(), k.life.Load()
	err := k.bus.Stop(ctx)
	k.within(began, limit, "Stop")
	if err != nil && must {
		k.r.fail("in calm a stop fails: %v", err)
	}
	if n, c := l.bodies.Load(), l.calls.Load(); err == nil && n+c > 0 {
		k.r.fail("Stop says nil, and %d handlers and %d calls have not returned", n, c)
	}
}

func (k *worker) within(began time.Time, limit time.Duration, what string) {
	if took := time.Since(began); took > limit {
		k.r.fail("%s took %v, its limit is %v", what, took, limit)
	}
}

// kill ends the process: nothing of it reaches the store any more. What its
// goroutines do is of no concern.
func (k *worker) kill() {
	k.link.closed.Store(true)
	k.stopping.Store(true)
	now, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_ = k.bus.Stop(now)
}

// drain waits until everything has completed or died.
func (r *round) drain() {
	for began := time.Now(); r.pending() > 0; time.Sleep(poll) {
		if time.Since(began) > drainWithin {
			r.fail("%d deliveries did not drain", r.pending())
			return
		}
	}
}

// hints checks that what is published, by anybody and by a handler, begins as
// soon as a hint can make it, also while a claim is under way.
func (r *round) hints(workers []*worker) {
	time.Sleep(lease) // lanes are spread by now
	r.weather.slow.Store(true)
	for i := range 6 {
		time.Sleep(time.Second + r.dice.upTo(poll))
		k := workers[r.dice.n(len(workers))]
		id, beside := fmt.Sprintf("hint%d", i), fmt.Sprintf("beside%d", i)
		k.now(id, "a")
		time.Sleep(r.dice.upTo(3 * slowClaim)) // the claim for the first may be under way
		k.now(beside, "b")
		for _, id := range []string{id, beside, "after " + id} {
			r.begins(id, promptly)
		}
		for j := range 3 {
			id := fmt.Sprintf("meets%d-%d", i, j)
			meet := func() { k.now(id, "b") }
			k.link.beside.Store(&meet)
			r.begins(id, promptly)
		}
	}
	r.drain()
	r.weather.slow.Store(false)
}

// silent checks that a call that does not return is given up: the bus goes on
// after its timeout.
func (r *round) silent(workers []*worker) {
	time.Sleep(lease)
	r.weather.mute.Store(true)
	for range 20 {
		time.Sleep(poll / 2)
		if !r.weather.mute.Load() {
			break
		}
	}
	workers[0].now("silent", "b")
	r.begins("silent", afterSilence)
	time.Sleep(silence)
	r.drain()
}

// now publishes an event, in calm.
func (k *worker) now(id, event string) {
	if err := k.bus.PublishNow(context.Background(), engine.Message{ID: id, Type: event, Payload: 0}); err != nil {
		k.r.fail("in calm a publication fails: %v", err)
	}
}

// begins waits until the body of an event begins, and looks how long that took
// from the commit of the event.
func (r *round) begins(id string, limit time.Duration) {
	for began := time.Now(); time.Since(began) < 2*lease; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		at, told := r.seen[id], r.told[id]
		r.mu.Unlock()
		if at.IsZero() {
			continue
		}
		took := at.Sub(told)
		trace("%s %v", id, took)
		if took > limit {
			r.fail("%q began %v after it was published, want at most %v", id, took, limit)
		}
		return
	}
	r.fail("%q did not begin", id)
}

// checkFree looks for lanes that buses which stopped well still hold.
func (r *round) checkFree() {
	for _, l := range r.store.Snapshot().Lanes {
		if !l.Holder.IsZero() && l.ExpiresAt.Std().After(time.Now()) {
			r.fail("lane %d is held by %s although every bus has stopped", l.ID, l.Holder.Short())
		}
	}
}

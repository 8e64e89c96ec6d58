package storetest

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// worker calls the store as one bus instance would.
type worker struct {
	*bench
	holder   engine.Holder
	owner    string
	number   int64
	held     []engine.LaneEpoch
	running  []engine.Running
	picks    []engine.Picked
	handlers []string
}

// worker returns a new instance with the handlers it has; none means "h".
func (b *bench) worker(handlers ...string) *worker {
	if len(handlers) == 0 {
		handlers = []string{"h"}
	}
	b.made++
	w := &worker{bench: b, handlers: handlers, owner: "worker " + string(rune('0'+b.made))}
	binary.BigEndian.PutUint64(w.holder[:], uint64(time.Now().UnixNano()))
	binary.BigEndian.PutUint64(w.holder[8:], uint64(b.made))
	return w
}

const plenty = 10_000

// input is a claim for everything, with a new number.
func (w *worker) input() engine.ClaimInput {
	w.number += 2
	in := engine.ClaimInput{
		Holder: w.holder, Owner: w.owner, Group: w.group, Number: w.number, TTL: ttl,
		Held: slices.Clone(w.held), Running: slices.Clone(w.running), Room: plenty, Limit: plenty, MaxLanes: plenty,
	}
	for _, r := range w.running {
		in.SuspectRunning = in.SuspectRunning || w.suspect(r.InFlight)
	}
	for _, h := range w.handlers {
		in.Handlers = append(in.Handlers, engine.HandlerRoom{Name: h, Room: plenty})
	}
	return in
}

// suspect reports whether a run was granted after a takeover of its delivery.
func (w *worker) suspect(f protocol.InFlight) bool {
	return slices.ContainsFunc(w.picks, func(p engine.Picked) bool {
		return p.Lease.Entry() == f && p.Delivery.Takeovers > 0
	})
}

// once makes one claim and adopts what the reply says.
func (w *worker) once(change ...func(*engine.ClaimInput)) engine.ClaimReply {
	w.Helper()
	in := w.input()
	for _, f := range change {
		f(&in)
	}
	return w.send(in)
}

// send makes a prepared claim and adopts what the reply says.
func (w *worker) send(in engine.ClaimInput) engine.ClaimReply {
	w.Helper()
	var reply engine.ClaimReply
	w.ok(w.retry(func() (err error) {
		reply, err = w.Claim(w.ctx, in)
		return err
	}), "claim")
	w.adopt(reply)
	return reply
}

// claim claims until nothing more comes, and returns the events granted.
func (w *worker) claim(change ...func(*engine.ClaimInput)) []string {
	w.Helper()
	all := []string{}
	for range 100 {
		reply := w.once(change...)
		all = append(all, names(reply.Picks)...)
		if len(reply.Picks) == 0 && len(reply.GivenBack) == 0 {
			return all
		}
	}
	w.Fatalf("100 claims one after another each granted something or gave a lane back; last %q", all[max(0, len(all)-5):])
	return nil
}

// claimInTurn claims and completes until it ran n deliveries, and returns their
// events in the order in which they ran.
func (w *worker) claimInTurn(n int) []string {
	w.Helper()
	var ran []string
	for range n {
		for _, id := range w.claim() {
			w.completed(id)
			ran = append(ran, id)
		}
	}
	return ran
}

func (w *worker) adopt(reply engine.ClaimReply) {
	for _, id := range reply.Gone {
		w.held = slices.DeleteFunc(w.held, func(l engine.LaneEpoch) bool { return l.Lane == id })
	}
	for _, l := range reply.Lanes {
		w.held = slices.DeleteFunc(w.held, func(h engine.LaneEpoch) bool { return h.Lane == l.Lane })
		w.held = append(w.held, l.LaneEpoch)
	}
	for _, p := range reply.Picks {
		w.picks = append(w.picks, p)
		w.running = append(w.running, running(p))
	}
	slices.SortFunc(w.running, func(a, b engine.Running) int { return cmp.Compare(a.Delivery, b.Delivery) })
}

func running(p engine.Picked) engine.Running {
	return engine.Running{InFlight: p.Lease.Entry(), Lane: p.Lease.Lane, Handler: p.Delivery.Handler, Key: p.Delivery.Key}
}

// picked returns the newest grant of an event.
func (w *worker) picked(event string) engine.Picked {
	w.Helper()
	for i := len(w.picks) - 1; i >= 0; i-- {
		if w.picks[i].Delivery.Event == event {
			return w.picks[i]
		}
	}
	w.Fatalf("%s was never granted %q", w.owner, event)
	return engine.Picked{}
}

func (w *worker) lease(event string) engine.Lease {
	w.Helper()
	return w.picked(event).Lease
}

func (w *worker) leases(events ...string) []engine.Lease {
	w.Helper()
	var list []engine.Lease
	for _, e := range events {
		list = append(list, w.lease(e))
	}
	return list
}

// forget drops runs from what the worker states.
func (w *worker) forget(events ...string) {
	w.Helper()
	for _, e := range events {
		entry := w.lease(e).Entry()
		w.running = slices.DeleteFunc(w.running, func(r engine.Running) bool { return r.InFlight == entry })
	}
}

// forgetAll drops everything.
func (w *worker) forgetAll() { w.running = nil }

// complete completes plain runs, forgets them, and returns the verdicts.
func (w *worker) complete(events ...string) []engine.Verdict {
	w.Helper()
	verdicts := w.completeLeases(w.leases(events...)...)
	w.forget(events...)
	return verdicts
}

func (b *bench) completeLeases(leases ...engine.Lease) []engine.Verdict {
	b.Helper()
	var reply engine.CompleteManyReply
	b.ok(b.retry(func() (err error) {
		reply, err = b.CompleteMany(b.ctx, engine.CompleteManyInput{Leases: leases})
		return err
	}), "complete")
	b.expect(len(reply.Ended) == len(leases), "%d leases got %d verdicts", len(leases), len(reply.Ended))
	var verdicts []engine.Verdict
	for _, e := range reply.Ended {
		b.ok(e.Err, "complete")
		verdicts = append(verdicts, e.Verdict)
	}
	return verdicts
}

// completed completes runs that must be accepted.
func (w *worker) completed(events ...string) {
	w.Helper()
	for i, v := range w.complete(events...) {
		w.expect(v == engine.Applied, "completing %q: %s", events[i], v)
	}
}

// tx completes a run in a transaction with an effect under the event's name.
func (w *worker) tx(level, event string) (engine.Verdict, error) {
	w.Helper()
	return w.txLease(level, event, w.lease(event))
}

// txLease completes in a transaction. It fails nothing, so that goroutines may
// call it.
func (b *bench) txLease(level, event string, l engine.Lease) (v engine.Verdict, err error) {
	err = b.retry(func() error {
		return b.inTx(b.ctx, level, func(ctx context.Context, tx any) (err error) {
			if err = b.putIn(ctx, tx, event, "done"); err != nil {
				return err
			}
			v, err = b.completeIn(ctx, tx, engine.CompleteInput{Lease: l, TTL: ttl})
			if err == nil && v == engine.LeaseLost {
				err = errRollback
			}
			return err
		})
	})
	if v == engine.LeaseLost && err == errRollback {
		err = nil
	}
	return v, err
}

// end makes an ending call, again while its error says that nothing was
// applied.
func (b *bench) end(call func() (engine.EndReply, error)) engine.Verdict {
	b.Helper()
	var reply engine.EndReply
	b.ok(b.retry(func() (err error) {
		reply, err = call()
		return err
	}), "end")
	return reply.Verdict
}

func (b *bench) reschedule(l engine.Lease, rest ...engine.Lease) engine.Verdict {
	b.Helper()
	in := engine.RescheduleInput{Lease: l, Rest: rest, Delay: later, Error: "it failed"}
	return b.end(func() (engine.EndReply, error) { return b.Reschedule(b.ctx, in) })
}

func (b *bench) snooze(l engine.Lease, rest ...engine.Lease) engine.Verdict {
	b.Helper()
	in := engine.SnoozeInput{Lease: l, Rest: rest, Delay: later}
	return b.end(func() (engine.EndReply, error) { return b.Snooze(b.ctx, in) })
}

func (b *bench) settle(l engine.Lease) engine.Verdict {
	b.Helper()
	in := engine.SnoozeInput{Lease: l, Delay: later, Settle: true}
	return b.end(func() (engine.EndReply, error) { return b.Snooze(b.ctx, in) })
}

func (b *bench) bury(l engine.Lease, rest ...engine.Lease) engine.Verdict {
	b.Helper()
	in := engine.BuryInput{Lease: l, Rest: rest, Error: "no more", Charge: true}
	return b.end(func() (engine.EndReply, error) { return b.Bury(b.ctx, in) })
}

func (b *bench) release(leases ...engine.Lease) []engine.Verdict {
	b.Helper()
	var reply engine.ReleaseReply
	b.ok(b.retry(func() (err error) {
		reply, err = b.Release(b.ctx, engine.ReleaseInput{Leases: leases})
		return err
	}), "release")
	b.expect(len(reply.Verdicts) == len(leases), "%d leases got %d verdicts", len(leases), len(reply.Verdicts))
	return reply.Verdicts
}

// relinquish gives lanes back, all of them when none is named.
func (w *worker) relinquish(change ...func(*engine.RelinquishInput)) []engine.LaneID {
	w.Helper()
	w.number += 2
	in := engine.RelinquishInput{Holder: w.holder, Group: w.group, Number: w.number, Running: w.running}
	for _, f := range change {
		f(&in)
	}
	var reply engine.RelinquishReply
	w.ok(w.retry(func() (err error) {
		reply, err = w.Relinquish(w.ctx, in)
		return err
	}), "relinquish")
	w.held = slices.DeleteFunc(w.held, func(l engine.LaneEpoch) bool { return slices.Contains(reply.Lanes, l.Lane) })
	return reply.Lanes
}

// nothing makes a claim that only states what runs.
func nothing(in *engine.ClaimInput) { in.Room, in.Limit, in.MaxLanes = 0, 0, 0 }

// heldOnly makes a claim that takes no lane over.
func heldOnly(in *engine.ClaimInput) { in.MaxLanes = 0 }

// start returns a worker that was granted newly published events of "h".
func (b *bench) start(names ...string) *worker {
	b.Helper()
	b.subscribe("h")
	b.publish(names...)
	w := b.worker()
	w.claim()
	return w
}

// letters makes dead letters of newly published events.
func (b *bench) letters(names ...string) *worker {
	b.Helper()
	w := b.start(names...)
	for _, n := range names {
		id := event(n).ID
		b.expect(b.bury(w.lease(id)) == engine.Applied, "%q was not buried", id)
		w.forget(id)
	}
	return w
}

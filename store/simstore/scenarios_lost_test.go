package simstore

import (
	"errors"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// lostScenarios are about what a takeover in a Snapshot store leaves to
// charge, and what a crash of a locking store takes back.
var lostScenarios = []scenario{
	{
		name: "death before ChargeLost",
		says: "what a takeover moved to lost is charged by whoever comes next, before anything of the lane is granted",
		only: "snapshot",
		run: func(b *bench) {
			b.start("a/k", "b/k")
			second := b.worker("two", "h")
			b.expire()
			b.script.fail("Claim", "charge lost", 0, errors.New("the worker died"))
			_, err := b.Claim(ctx, second.input())
			b.expect(err != nil, "the death went unnoticed")
			b.script.at = nil
			b.expect(len(b.laneOf(1).Lost) > 0 && b.row(1).Attempts == 0, "charged by a dead worker")
			third := b.worker("three", "h")
			b.expire()
			third.claim()
			b.expect(len(b.laneOf(1).Lost) == 0, "still lost")
			for i, want := range []int32{1, 0} {
				d := b.row(protocol.DeliveryID(i + 1))
				b.expect(d.Attempts == want && d.Takeovers == 1 && d.Fence == 1, "#%d: %+v", d.ID, d)
			}
		},
	}, {
		name: "lost comes first",
		says: "a lane with losses grants nothing until they are charged, and another lane goes on",
		only: "snapshot",
		run: func(b *bench) {
			w := b.start("a")
			lane := w.held[0].Lane
			orphan := must(b.Begin(ctx))(b)
			v := must(b.Complete(ctx, orphan, engine.CompleteInput{Lease: w.lease(1), TTL: ttl}))(b)
			b.expect(v == engine.Applied, "setup")
			other := b.worker("two", "h")
			b.expire()
			reply := other.claim()
			b.expect(len(reply.Lanes) == 1 && len(reply.Picks) == 0 && reply.Lanes[0].TakenOver, "%+v", reply)
			b.expect(len(other.claim().Picks) == 0, "granted before the charge")
			for i := range 8 {
				b.publish(sprint("more", i))
			}
			for _, p := range other.claim().Picks {
				b.expect(p.Lease.Lane != lane, "granted #%d of the lane before the charge", p.Delivery.ID)
			}
			if err := orphan.Commit(ctx); err != nil {
				b.Fatal(err)
			}
			other.claim()
			l, _ := b.Lane(lane)
			b.expect(len(l.Lost) == 0, "still lost: %+v", l)
			b.gone(1)
		},
	}, {
		name: "two ChargeLost at once",
		says: "the second of two workers that charge the same losses does nothing",
		only: "snapshot",
		run: func(b *bench) {
			b.start("a")
			second, third := b.worker("two", "h"), b.worker("three", "h")
			b.expire()
			b.script.once("Claim", "charge lost", func() {
				b.expire()
				third.claim()
			})
			_, err := b.Claim(ctx, second.input())
			b.expect(err == nil || errors.Is(err, engine.ErrRetryable), "%v", err)
			third.claim()
			d := b.row(1)
			b.expect(d.Attempts == 1 && d.Takeovers == 1, "charged %d attempts, %d takeovers", d.Attempts, d.Takeovers)
		},
	}, {
		name: "relinquish keeps the losses",
		says: "a lane given back with losses is charged by its next holder",
		only: "snapshot",
		run: func(b *bench) {
			b.start("a")
			second := b.worker("two", "h")
			b.expire()
			b.script.fail("Claim", "charge lost", 0, errors.New("the worker died"))
			b.Claim(ctx, second.input())
			b.script.at = nil
			second.number += 2
			must(b.Relinquish(ctx, engine.RelinquishInput{Holder: second.holder, Number: second.number}))(b)
			l := b.laneOf(1)
			b.expect(l.Holder.IsZero() && len(l.Lost) == 1, "the lane is %+v", l)
			third := b.worker("three", "h")
			third.claim()
			b.expect(b.row(1).Attempts == 1, "not charged")
		},
	}, {
		name: "an old snapshot against every lost row",
		says: "ChargeLost writes every lost row, so that a completion from an older snapshot conflicts whichever row it deletes",
		only: "snapshot",
		run: func(b *bench) {
			w := b.start("a/k", "b/k")
			b.applied(w.complete(1))
			w.forget(1)
			b.publish("c")
			w.claim()
			for _, id := range []protocol.DeliveryID{2, 3} {
				old := must(b.Begin(ctx))(b)
				if _, _, err := old.Get(ctx, "t", "x"); err != nil { // takes the snapshot
					b.Fatal(err)
				}
				other := b.worker(sprint("other", id), "h")
				b.expire()
				other.claim()
				v, err := b.Complete(ctx, old, engine.CompleteInput{Lease: w.lease(id), TTL: ttl})
				if v == engine.LeaseLost && err == nil {
					old.Rollback()
					continue
				}
				b.expect(errors.Is(err, engine.ErrRetryable), "#%d: %v, %v", id, v, err)
				b.row(id)
			}
		},
	}, {
		name: "an old snapshot before ChargeLost",
		says: "until the losses are charged an old holder's completion stands: nothing was granted to anybody else",
		only: "snapshot",
		run: func(b *bench) {
			w := b.start("a", "b")
			other := b.worker("two", "h")
			b.expire()
			b.script.fail("Claim", "charge lost", 0, errors.New("the worker died"))
			b.Claim(ctx, other.input())
			b.script.at = nil
			b.applied(w.complete(1))
			b.gone(1)
			third := b.worker("three", "h")
			b.expire()
			third.claim()
			b.expect(b.row(2).Attempts == 1, "not charged")
			b.lost(w.complete(2))
		},
	}, {
		name: "takeover lost in a crash",
		says: "a takeover that a crash took back was never made: its epoch is issued again, and only holder and claim tell the runs apart",
		only: "locking",
		with: func(o *Options) { o.AsyncClaims = true },
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a", "b")
			durable := b.Durable()
			old, other := b.worker("one", "h"), b.worker("two", "h")
			old.claim()
			b.crash(durable)
			other.claim()
			b.expect(old.lease(1).Epoch == other.lease(1).Epoch, "the epoch was not issued again")
			b.lost(old.complete(1))
			v, err := old.completeTx(2)
			b.expect(v == engine.LeaseLost && err == nil, "%v, %v", v, err)
			b.applied(other.complete(1, 2))
			b.lost(old.complete(1))
		},
	}, {
		name: "the same holder retakes at the same epoch",
		says: "after a crash took its claim back, a worker's old run is no run of its new claim",
		only: "locking",
		with: func(o *Options) { o.AsyncClaims = true },
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			durable := b.Durable()
			w := b.worker("one", "h")
			w.claim()
			stale := w.lease(1)
			b.crash(durable)
			w.held, w.running = nil, nil
			w.claim()
			fresh := w.lease(1)
			b.expect(stale.Epoch == fresh.Epoch && stale.Claim != fresh.Claim, "leases %v and %v", stale, fresh)
			ended := must(b.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{stale}}))(b).Ended
			b.lost(ended)
			ended = must(b.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{fresh}}))(b).Ended
			b.applied(ended)
		},
	}, {
		name: "a lost completion repeated within a claim",
		says: "a failover lost a completion and its late copy commits inside the claim that grants the delivery again: it runs once more, completes once, and a dead worker is charged nothing for it",
		only: "locking",
		run: func(b *bench) {
			b.subscribe("h")
			for _, step := range []string{"claim held lanes", "lock held lanes", "pick from held lanes", "find lanes", "commit", "reply"} {
				b.publish(step)
				w := b.worker("w"+step, "h")
				w.claim()
				id := w.running[0].Delivery
				late := engine.CompleteManyInput{Leases: []engine.Lease{w.lease(id)}}
				before := b.Position()
				b.applied(must(b.CompleteMany(ctx, late))(b).Ended)
				b.crash(before)
				w.forget(id)
				var copied []engine.Ended
				b.script.once("Claim", step, func() { copied = must(b.CompleteMany(ctx, late))(b).Ended })
				granted := slices.Contains(ids(w.claim()), id)
				b.script.at = nil
				b.expect(granted == (step == "find lanes" || step == "commit" || step == "reply"), "at %q: granted %v", step, granted)
				if step == "reply" {
					b.lost(copied) // behind the claim
				} else {
					b.applied(copied) // the row is gone from here on
					b.gone(id)
				}
				if granted {
					b.applied(w.complete(id))
				}
				b.gone(id)
				w.running = nil
				must(b.Relinquish(ctx, engine.RelinquishInput{Holder: w.holder, Number: w.number + 2}))(b)
			}
		},
	}, {
		name: "a lost completion repeated while its lane is given back",
		says: "a completion that reads its lane before its worker gives it back is accepted: nobody else can have the lane before it ends",
		only: "locking",
		run: func(b *bench) {
			w := b.start("a", "b")
			late := engine.CompleteManyInput{Leases: []engine.Lease{w.lease(1), w.lease(2)}}
			before := b.Position()
			b.applied(must(b.CompleteMany(ctx, late))(b).Ended)
			b.crash(before)
			w.forget(1, 2)
			b.script.once("CompleteMany", "lock lanes", func() {
				w.claim(noRoom)
				must(b.Relinquish(ctx, engine.RelinquishInput{Holder: w.holder, Number: w.number + 2}))(b)
			})
			b.applied(must(b.CompleteMany(ctx, late))(b).Ended)
			b.script.at = nil
			b.gone(1, 2)
		},
	}, {
		name: "a lost completion repeated in a transaction's place",
		says: "what ran again beside the late copy of its completion fails without a trace, and its transaction without an effect",
		only: "locking",
		run: func(b *bench) {
			w := b.start("a", "b", "c")
			late := engine.CompleteManyInput{Leases: []engine.Lease{w.lease(1), w.lease(2), w.lease(3)}}
			before := b.Position()
			b.applied(must(b.CompleteMany(ctx, late))(b).Ended)
			b.crash(before)
			w.forget(1, 2, 3)
			b.script.once("Claim", "commit", func() { b.applied(must(b.CompleteMany(ctx, late))(b).Ended) })
			b.expect(len(w.claim().Picks) == 3, "not granted again")
			b.script.at = nil
			b.expect(w.reschedule(1) == engine.LeaseLost && w.bury(2) == engine.LeaseLost, "an end of a row that is gone")
			v, err := w.completeTx(3)
			b.expect(v == engine.LeaseLost && err == nil && b.effects() == 0, "%v, %v, %d effects", v, err, b.effects())
			other := b.worker("two", "h")
			b.expire()
			b.expect(len(other.claim().Picks) == 0, "granted to another")
			b.expect(slices.Equal(b.Snapshot().Deliveries, nil), "a row came back")
		},
	}, {
		name: "an id issued again",
		says: "a failover that lost a publish gives its id to another event: the old run's completion must not touch it",
		only: "locking",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			w := b.worker("one", "h")
			w.claim()
			before := b.Position()
			b.publish("lost/k")
			w.claim()
			stale := w.lease(2)
			b.crash(before)
			b.publish("found/k")
			b.expect(b.row(2).Event == "found" && b.row(2).Lane == stale.Lane, "setup")
			w.claim(noRoom)
			ended := must(b.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{stale}}))(b).Ended
			b.lost(ended)
			b.row(2)
		},
	}, {
		name: "outage longer than the lease",
		says: "when only the owner comes back nothing is charged and its completions are accepted",
		run: func(b *bench) {
			w := b.start("a", "b")
			b.pass(10 * ttl)
			b.applied(w.complete(1))
			w.forget(1)
			w.claim()
			b.expect(b.row(2).Attempts == 0 && len(w.running) == 1, "charged, or lost")
			b.applied(w.complete(2))
		},
	}, {
		name: "failure, requeue, retry, death",
		says: "a retry of a Reschedule whose reply was lost changes nothing that happened since",
		run: func(b *bench) {
			w := b.start("a")
			b.script.fail("Reschedule", "reply", 0, errors.New("reset"))
			in := engine.RescheduleInput{Lease: w.lease(1), Error: "failed"}
			_, err := b.Reschedule(ctx, in)
			b.expect(err != nil, "the reply was not lost")
			b.script.at = nil
			w.claim()
			b.expect(len(w.running) == 1, "granted again although the worker states it")
			w.forget(1)
			w.claim()
			fresh := w.lease(1)
			b.expect(fresh.Claim != in.Lease.Claim && must(b.Bury(ctx, engine.BuryInput{Lease: fresh}))(b).Verdict == engine.Applied, "not buried")
			must(b.Requeue(ctx, engine.RequeueInput{IDs: []protocol.DeliveryID{1}}))(b)
			b.expect(must(b.Reschedule(ctx, in))(b).Verdict == engine.LeaseLost, "the retry was applied")
			b.expect(b.row(1).Attempts == 0, "the requeue was undone")
			w.forget(1)
			w.claim()
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			b.expect(b.row(1).Attempts == 1, "attempts %d after a requeue and a death", b.row(1).Attempts)
		},
	}, {
		name: "a dead letter that its lane still lists",
		says: "an operator may bury what is in flight: no retry of a failure brings it back, no completion takes it for done",
		run: func(b *bench) {
			w := b.start("a", "b")
			must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "e", Handler: "h"}, Bury: true}))(b)
			b.expect(b.row(1).Status == protocol.Dead, "not buried")
			b.expect(w.reschedule(1) == engine.LeaseLost, "revived")
			b.lost(w.complete(1))
			v, err := w.completeTx(2)
			b.expect(v == engine.LeaseLost && err == nil, "%v, %v", v, err)
			w.forget(1, 2)
			b.expect(len(w.claim().Picks) == 0, "a dead letter was granted")
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			b.expect(b.row(1).Attempts == 0 && b.row(1).Status == protocol.Dead, "a dead letter was charged")
		},
	}, {
		name: "a delivery deleted while it ran",
		says: "a transactional completion of a row that is gone is lost, and its effect with it; a plain one has nothing left to do",
		run: func(b *bench) {
			w := b.start("a", "b")
			must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "e", Handler: "h"}, Bury: false}))(b)
			b.gone(1, 2)
			v, err := w.completeTx(1)
			b.expect(v == engine.LeaseLost && err == nil && b.effects() == 0, "%v, %v, %d effects", v, err, b.effects())
			b.applied(w.complete(2))
			b.expect(slices.Equal(b.Snapshot().Deliveries, nil), "a row came back")
		},
	},
}

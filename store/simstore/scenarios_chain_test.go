package simstore

import (
	"errors"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

var errBad = engine.Definite(errors.New("the row holds a value that cannot be"))

var chainScenarios = []scenario{
	{
		name: "a chain in order",
		says: "a head brings its followers, each naming the one before, and a follower is never completed before it",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k", "d/k")
			after := protocol.DeliveryID(0)
			for i, p := range w.picks {
				b.expect(p.Delivery.ID == protocol.DeliveryID(i+1) && p.Lease.After == after, "pick %d is %+v", i, p.Lease)
				after = p.Delivery.ID
			}
			b.lost(w.complete(2))
			b.lost(w.complete(3, 2))
			b.applied(w.complete(1, 2))
			v, err := w.completeTx(4)
			b.expect(v == engine.LeaseLost && err == nil, "the last one before its predecessor: %v, %v", v, err)
			b.expect(w.reschedule(4) == engine.LeaseLost, "the last one failed before its predecessor")
			b.applied(w.complete(3))
			v, err = w.completeTx(4)
			b.expect(v == engine.Applied && err == nil, "the last one: %v, %v", v, err)
		},
	}, {
		name: "a chain takes one slot",
		says: "followers count against the limit but not against the room, and no second head of a key is granted",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a/k", "b/k", "c/k", "d/k", "e/j")
			w := b.worker("one", "h")
			reply := w.claim(func(in *engine.ClaimInput) { in.Room, in.Limit, in.Handlers[0].Room = 2, 4, 2 })
			b.expect(slices.Equal(ids(reply), []protocol.DeliveryID{1, 2, 3, 5}) || slices.Equal(ids(reply), []protocol.DeliveryID{5, 1, 2, 3}),
				"picked %v, want the head with two followers and the other key", ids(reply))
			b.expect(len(w.claim().Picks) == 0, "a delivery of a running key")
		},
	}, {
		name: "where a chain ends",
		says: "a chain stops before the first row that is not due or was charged; a dead one is passed over",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a/k", "b/k", "c/k", "d/k")
			w := b.worker("one", "h")
			w.claim()
			b.expect(w.bury(1) == engine.Applied, "not buried")
			w.forget(1, 2, 3, 4)
			w.claim(limit(1))
			b.expect(w.running[0].Delivery == 2, "a dead letter blocks its key")
			b.applied(w.complete(2))
			w.forget(2)
			w.claim(limit(1))
			b.expect(w.reschedule(3) == engine.Applied, "not rescheduled")
			w.forget(3)
			b.expect(len(w.claim().Picks) == 0, "a later delivery overtakes one in backoff")
			b.publish("e/k")
			b.pass(2 * time.Second)
			reply := w.claim()
			b.expect(slices.Equal(ids(reply), []protocol.DeliveryID{3}), "a charged head brings %v", ids(reply))
			b.applied(w.complete(3))
			w.forget(3)
			reply = w.claim()
			b.expect(len(reply.Picks) == 2, "granted %v, want the two that were never charged", ids(reply))
		},
	}, {
		name: "a charged row within a chain",
		says: "a chain ends before a charged row; passing over it would run a later one first",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a/k", "b/k", "c/k")
			w := b.worker("one", "h")
			w.claim()
			b.expect(w.bury(1) == engine.Applied && w.reschedule2(2) == engine.LeaseLost, "setup")
			w.forget(1, 2, 3)
			w.claim(limit(1)) // #2
			b.expect(w.reschedule(2) == engine.Applied, "setup")
			w.forget(2)
			must(b.Requeue(ctx, engine.RequeueInput{IDs: []protocol.DeliveryID{1}}))(b)
			b.pass(2 * time.Second)
			reply := w.claim()
			b.expect(slices.Equal(ids(reply), []protocol.DeliveryID{1}), "granted %v, want the requeued one alone", ids(reply))
		},
	}, {
		name: "failure in a chain",
		says: "a failed member leaves the lane together with the rest of its chain, in one write, and only it is charged",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k")
			b.expect(w.reschedule(1, 2, 3) == engine.Applied, "not rescheduled")
			b.expect(len(b.laneOf(1).InFlight) == 0, "the rest is still listed")
			b.lost(w.complete(2))
			released := must(b.Release(ctx, engine.ReleaseInput{Leases: []engine.Lease{w.lease(2), w.lease(3)}}))(b)
			b.expect(!slices.Contains(released.Verdicts, engine.Applied), "released twice")
			b.expect(b.row(1).Attempts == 1 && b.row(2).Attempts == 0, "the wrong one was charged")
		},
	}, {
		name: "release",
		says: "what is released is granted again, uncharged; the rest stays",
		run: func(b *bench) {
			w := b.start("a", "b")
			stale := w.lease(1)
			stale.Claim--
			released := must(b.Release(ctx, engine.ReleaseInput{Leases: []engine.Lease{stale, w.lease(1)}}))(b)
			b.expect(slices.Equal(released.Verdicts, []engine.Verdict{engine.LeaseLost, engine.Applied}), "%v", released.Verdicts)
			w.forget(1)
			b.expect(slices.Equal(ids(w.claim()), []protocol.DeliveryID{1}) && b.row(1).Attempts == 0, "not granted again, or charged")
			b.applied(w.complete(2))
		},
	}, {
		name: "key order across a requeue",
		says: "a requeued delivery waits while a later one of its key runs",
		run: func(b *bench) {
			w := b.start("a/k", "b/k")
			b.expect(w.bury(1) == engine.Applied, "not buried")
			w.forget(1, 2)
			w.claim()
			must(b.Requeue(ctx, engine.RequeueInput{IDs: []protocol.DeliveryID{1}}))(b)
			b.expect(len(w.claim().Picks) == 0, "two runs of one key")
			b.applied(w.complete(2))
			b.expect(len(w.claim().Picks) == 0, "the completed run is stated still")
			w.forget(2)
			b.expect(len(w.claim().Picks) == 1, "the requeued one never runs")
		},
	}, {
		name: "key order across a takeover",
		says: "a worker that still runs a delivery of a key gets no other of it, whatever its lane lists",
		run: func(b *bench) {
			w := b.start("a/k")
			b.publish("b/k")
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			b.applied(other.complete(1))
			must(b.Relinquish(ctx, engine.RelinquishInput{Holder: other.holder, Number: 50}))(b)
			w.held = nil
			b.expect(len(w.claim().Picks) == 0, "granted a second run of the key")
			w.forget(1)
			b.expect(len(w.claim().Picks) == 1, "granted nothing")
		},
	}, {
		name: "a bad row in a batch",
		says: "a row that the store refuses stops neither the others nor the takeover of its lane; its followers wait",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k", "d")
			b.script.fail("CompleteMany", "delete", 2, errBad)
			ended := w.complete(1, 2, 3, 4)
			b.applied(ended[:1])
			b.expect(engine.IsDefinite(ended[1].Err), "the bad row: %+v", ended[1])
			b.lost(ended[2:3])
			b.applied(ended[3:])
			b.gone(1, 4)
			b.row(2)
			b.row(3)
		},
	}, {
		name: "a text that the store refuses",
		says: "a failure whose text cannot be stored is recorded with a cleaned one",
		run: func(b *bench) {
			w := b.start("a")
			tries := 0
			b.script.at = func(p Point) error {
				if p.Call == "Reschedule" && p.Step == "write row" {
					if tries++; tries == 1 {
						return errBad
					}
				}
				return nil
			}
			reply := must(b.Reschedule(ctx, engine.RescheduleInput{Lease: w.lease(1), Error: "bad\x00text"}))(b)
			b.expect(reply.Verdict == engine.Applied && b.row(1).LastError == "bad?text", "%v, text %q", reply.Verdict, b.row(1).LastError)
		},
	}, {
		name: "a row that the store refuses for good",
		says: "an end that cannot be written makes its delivery stuck: not granted, not forgotten, tried again, and then charged",
		run: func(b *bench) {
			w := b.start("a/k", "b/k")
			lane := w.held[0].Lane
			b.script.fail("Bury", "write row", 1, errBad)
			_, err := b.Bury(ctx, engine.BuryInput{Lease: w.lease(1), Rest: []engine.Lease{w.lease(2)}})
			b.expect(engine.IsDefinite(err), "%v", err)
			b.script.at = nil
			l, _ := b.Lane(lane)
			b.expect(slices.Equal(l.Stuck, []protocol.DeliveryID{1}) && len(l.InFlight) == 0, "the lane is %+v", l)
			w.forget(1, 2)
			reply := w.claim()
			b.expect(len(reply.Picks) == 0 && reply.Stuck == 1, "granted %v, stuck %d", ids(reply), reply.Stuck)
			again := func(in *engine.ClaimInput) { in.RetryStuck = true }
			b.script.fail("Claim", "retry stuck", 1, errBad)
			b.expect(w.claim(again).Stuck == 1, "no longer stuck although refused")
			b.script.at = nil
			b.expect(w.claim(again).Stuck == 0, "still stuck")
			d := b.row(1)
			b.expect(d.Attempts == 1 && d.Takeovers == 1, "charged %d attempts, %d takeovers", d.Attempts, d.Takeovers)
			b.expect(slices.Equal(ids(w.claim()), []protocol.DeliveryID{1}), "not granted again")
		},
	}, {
		name: "a stuck row beside an older claim",
		says: "what an abandoned claim of the same worker charged meanwhile is not charged again",
		only: "snapshot",
		run: func(b *bench) {
			w := b.start("a")
			b.script.fail("Bury", "write row", 1, errBad)
			_, err := b.Bury(ctx, engine.BuryInput{Lease: w.lease(1)})
			b.expect(engine.IsDefinite(err), "%v", err)
			w.forget(1)
			again := func(in *engine.ClaimInput) { in.RetryStuck = true }
			abandoned := w.input()
			again(&abandoned)
			b.script.once("Claim", "claim with stuck", func() { must(b.Claim(ctx, abandoned))(b) })
			b.expect(w.claim(again).Stuck == 0, "still stuck")
			d := b.row(1)
			b.expect(d.Attempts == 1 && d.Takeovers == 1, "charged %d attempts, %d takeovers", d.Attempts, d.Takeovers)
		},
	}, {
		name: "a snooze that the store refuses",
		says: "a refused snooze applies nothing, so that the failure can still be recorded",
		run: func(b *bench) {
			w := b.start("a")
			b.script.fail("Snooze", "write row", 1, errBad)
			_, err := b.Snooze(ctx, engine.SnoozeInput{Lease: w.lease(1), Delay: time.Second})
			b.expect(engine.IsDefinite(err) && len(b.laneOf(1).Stuck) == 0, "%v, stuck %v", err, b.laneOf(1).Stuck)
			b.expect(w.reschedule(1) == engine.Applied, "the failure cannot be recorded")
		},
	}, {
		name: "a charge that the store refuses",
		says: "one bad row stops no takeover: it is stuck, its neighbours are charged",
		run: func(b *bench) {
			b.start("a", "b", "c")
			other := b.worker("two", "h")
			b.expire()
			b.script.fail("Claim", "charge", 2, errBad)
			other.claim()
			other.claim()
			b.script.at = nil
			b.expect(slices.Equal(b.laneOf(2).Stuck, []protocol.DeliveryID{2}), "stuck: %v", b.laneOf(2).Stuck)
			for i, want := range []int32{1, 0, 1} {
				d := b.row(protocol.DeliveryID(i + 1))
				b.expect(d.Takeovers == want && d.Attempts == want, "#%d: %+v", d.ID, d)
			}
			for _, r := range other.running {
				b.expect(r.Delivery != 2, "the stuck one was granted")
			}
		},
	}, {
		name: "stuck rows that disappear",
		says: "a stuck id whose row is gone or dead is let go of without a charge",
		run: func(b *bench) {
			b.start("a")
			other := b.worker("two", "h")
			b.expire()
			b.script.fail("Claim", "charge", 1, errBad)
			other.claim()
			b.script.at = nil
			must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "e", Handler: "h"}, Bury: true}))(b)
			l := b.laneOf(1)
			if l.Holder.IsZero() {
				return // given back: nobody holds the lane, so nobody tries again
			}
			reply := other.claim(func(in *engine.ClaimInput) { in.RetryStuck = true })
			b.expect(reply.Stuck == 0 && b.row(1).Attempts == 0, "stuck %d, attempts %d", reply.Stuck, b.row(1).Attempts)
		},
	},
}

// reschedule2 is reschedule of a follower whose predecessor may be done.
func (w *worker) reschedule2(id protocol.DeliveryID) engine.Verdict {
	l := w.lease(id)
	l.Claim--
	return must(w.Reschedule(ctx, engine.RescheduleInput{Lease: l, Error: "never listed"}))(w).Verdict
}

package storetest

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// A row that the store refuses to write for good: a trigger, a constraint, a
// value that it cannot hold. One such row must stop nothing else.
var stuckCases = []kase{
	{
		name: "a bad row among many completions",
		why:  "one row that cannot be deleted keeps a worker's other completions from ever being recorded",
		run: func(b *bench) {
			w := b.start("a", "b", "c")
			b.bad("b")
			ended := b.completeAll(w.leases("a", "b", "c")...)
			b.expect(ended[0].Err == nil && ended[2].Err == nil && ended[0].Verdict == engine.Applied && ended[2].Verdict == engine.Applied,
				"the rows beside a bad one: %+v", ended)
			b.expect(engine.IsDefinite(ended[1].Err), "the bad row: %+v, want a definite error", ended[1])
			b.gone("a", "c")
			b.pending("b", 0)
			b.healed("b")
			w.completed("b")
			b.gone("b")
		},
	}, {
		name: "a bad row in the middle of a chain",
		why:  "an event is taken for done although the one before it is not",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k", "d")
			if len(w.picks) < 4 {
				b.Skip("the store brings no followers")
			}
			b.bad("b")
			ended := b.completeAll(w.leases("a", "b", "c", "d")...)
			b.expect(engine.IsDefinite(ended[1].Err), "the bad row: %+v, want a definite error", ended[1])
			for i, want := range []engine.Verdict{engine.Applied, engine.LeaseLost, engine.LeaseLost, engine.Applied} {
				b.expect(i == 1 || ended[i].Err == nil && ended[i].Verdict == want, "lease %d: %+v, want %v", i, ended[i], want)
			}
			b.healed("b")
			w.completed("b", "c")
		},
	}, {
		name: "a failure that cannot be recorded is stuck",
		why:  "a delivery whose failure the store refuses runs again and again without ever being charged, or never again and nobody knows",
		run: func(b *bench) {
			w := b.start("a", "b")
			b.bad("a")
			b.refused(w.lease("a"))
			w.forget("a")
			b.isStuck(w, "a")
			b.expect(slices.Equal(w.tryStuck(), []string{}), "granted although it is stuck")
			b.isStuck(w, "a")
			b.healed("a")
			b.expect(len(w.claim()) == 0, "tried again before the worker asks for it")
			got := w.tryStuck()
			b.expect(slices.Equal(got, []string{"a"}), "granted %q after it was healed, want a", got)
			d := b.row("a")
			b.expect(d.Attempts == 1 && d.Takeovers == 1, "%d attempts and %d takeovers, want one each for what was refused", d.Attempts, d.Takeovers)
			b.expect(b.statistics().Stuck == 0, "still stuck")
			w.completed("a", "b")
		},
	}, {
		name: "a burial that cannot be recorded is stuck",
		why:  "a delivery that has no attempt left runs again",
		run: func(b *bench) {
			w := b.start("a")
			b.bad("a")
			l := w.lease("a")
			_, err := b.Bury(b.ctx, engine.BuryInput{Lease: l, Error: "no more", Charge: true})
			b.expect(engine.IsDefinite(err), "bury: %v, want a definite error", err)
			w.forget("a")
			b.isStuck(w, "a")
			b.healed("a")
			b.expect(b.bury(l) == engine.LeaseLost, "the run was over")
			w.tryStuck()
			w.completed("a")
		},
	}, {
		name: "a failure in words that no store can hold",
		why:  "an error text with a NUL byte, or cut in the middle of a letter, keeps a failure from being recorded",
		run: func(b *bench) {
			w := b.start("a", "b")
			text := "wrong \x00 \xff\xfe \xe2\x82"
			v := b.end(func() (engine.EndReply, error) {
				return b.Reschedule(b.ctx, engine.RescheduleInput{Lease: w.lease("a"), Delay: later, Error: text})
			})
			b.expect(v == engine.Applied, "reschedule: %v", v)
			b.pending("a", 1)
			v = b.end(func() (engine.EndReply, error) {
				return b.Bury(b.ctx, engine.BuryInput{Lease: w.lease("b"), Error: text, Charge: true})
			})
			b.expect(v == engine.Applied && b.row("b").Status == protocol.Dead, "bury: %v", v)
			b.expect(b.row("a").LastError != "" && b.row("b").LastError != "", "nothing is recorded")
		},
	}, {
		name: "a charge that cannot be recorded is stuck",
		why:  "one bad row keeps everything else that a dead worker ran from being taken over",
		run: func(b *bench) {
			b.subscribe("h")
			ids := b.sameLane("x", 3)
			b.publish(ids...)
			one, two := b.worker(), b.worker()
			one.claim()
			b.bad(ids[1])
			b.expireLanes()
			got := two.claim()
			b.expect(len(got) == 1 && got[0] != ids[1], "granted %q, want one suspect that is not the bad one", got)
			b.isStuck(two, ids[1])
			for _, id := range []string{ids[0], ids[2]} {
				d := b.row(id)
				b.expect(d.Attempts == 1 && d.Takeovers == 1, "%q was charged %d attempts and %d takeovers", id, d.Attempts, d.Takeovers)
			}
			if !b.snapshot() { // which goes by the row's fence, and that was not written
				b.expect(b.completeLeases(one.lease(ids[1]))[0] == engine.LeaseLost, "the dead worker's run of the bad row was accepted")
			}
			b.healed(ids[1])
			for range 2 { // the suspects run one at a time
				two.completed(got...)
				got = two.tryStuck()
				b.expect(len(got) == 1, "granted %q, want one suspect", got)
			}
			d := two.picked(ids[1]).Delivery
			b.expect(d.Attempts == 1 && d.Takeovers == 1, "healed, it was charged %d attempts and %d takeovers", d.Attempts, d.Takeovers)
			two.completed(got...)
			b.gone(ids...)
		},
	}, {
		name: "stuck rows of a free lane are tried again",
		why:  "a delivery stays stuck for ever when the worker whose end was refused is gone",
		run: func(b *bench) {
			one := b.start("a")
			b.bad("a")
			b.refused(one.lease("a"))
			one.forget("a")
			one.relinquish()
			two := b.worker()
			b.expect(len(two.claim()) == 0, "granted although it is stuck")
			b.expect(len(two.tryStuck()) == 0 && b.statistics().Stuck == 1, "unstuck although it is bad")
			b.healed("a")
			got := two.tryStuck()
			b.expect(slices.Equal(got, []string{"a"}) && b.statistics().Stuck == 0, "granted %q, want a", got)
			two.completed("a")
		},
	}, {
		name: "a stuck row that is deleted",
		why:  "an alarm about a row that is no longer there never ends",
		run: func(b *bench) {
			w := b.start("a")
			b.bad("a")
			b.refused(w.lease("a"))
			w.forget("a")
			b.healed("a")
			_, err := b.Unsubscribe(b.ctx, engine.UnsubscribeInput{EventHandler: engine.EventHandler{Event: "e", Handler: "h"}})
			b.ok(err, "unsubscribe")
			b.gone("a")
			b.expect(len(w.tryStuck()) == 0 && b.statistics().Stuck == 0, "still stuck")
		},
	},
}

// bad makes the delivery of an event for "h" one that the store refuses to
// write, or skips the case.
func (b *bench) bad(event string) {
	b.Helper()
	can, err := b.subject.refuse(b.ctx, b.row(event).ID, true)
	if !can {
		b.Skip("the harness cannot make a row bad")
	}
	b.ok(err, "refuse")
}

func (b *bench) healed(event string) {
	b.Helper()
	_, err := b.subject.refuse(b.ctx, b.row(event).ID, false)
	b.ok(err, "heal")
}

// completeAll completes plain runs and returns what became of each.
func (b *bench) completeAll(leases ...engine.Lease) []engine.Ended {
	b.Helper()
	var reply engine.CompleteManyReply
	b.ok(b.retry(func() (err error) {
		reply, err = b.CompleteMany(b.ctx, engine.CompleteManyInput{Leases: leases})
		return err
	}), "complete")
	b.expect(len(reply.Ended) == len(leases), "%d leases got %d verdicts", len(leases), len(reply.Ended))
	return reply.Ended
}

// refused fails a run whose row is bad.
func (b *bench) refused(l engine.Lease) {
	b.Helper()
	_, err := b.Reschedule(b.ctx, engine.RescheduleInput{Lease: l, Error: "it failed"})
	b.expect(engine.IsDefinite(err), "reschedule of a bad row: %v, want a definite error", err)
}

// isStuck fails unless exactly this delivery is stuck, is known to be, and is
// not granted.
func (b *bench) isStuck(w *worker, event string) {
	b.Helper()
	d := b.row(event)
	b.expect(d.Status == protocol.Pending && d.Attempts == 0 && d.LastError == "", "the bad row was written: %+v", d)
	reply, err := b.Verify(b.ctx)
	b.ok(err, "verify")
	found := len(reply.Findings) == 1 && reply.Findings[0].Check == "stuck" && reply.Findings[0].Delivery == d.ID
	b.expect(found, "findings %+v, want that #%d is stuck", reply.Findings, d.ID)
	b.expect(b.statistics().Stuck == 1, "%d deliveries are stuck, want 1", b.statistics().Stuck)
	again := w.once()
	b.expect(!slices.Contains(names(again.Picks), event) && again.Stuck == 1, "granted %q, %d stuck", names(again.Picks), again.Stuck)
}

// tryStuck claims once, asking for what was refused to be tried again, and then
// without, and returns what came.
func (w *worker) tryStuck() []string {
	w.Helper()
	got := names(w.once(func(in *engine.ClaimInput) { in.RetryStuck = true }).Picks)
	return append(got, w.claim()...)
}

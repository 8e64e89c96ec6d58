package storetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

var finishCases = []kase{
	{
		name: "a completed delivery is gone",
		why:  "finished work runs again",
		run: func(b *bench) {
			w := b.start("a", "b/k", "c/k")
			w.completed("b", "c", "a")
			b.gone("a", "b", "c")
			b.expect(len(w.claim()) == 0 && b.statistics().Pending == 0, "%+v", b.statistics())
		},
	}, {
		name: "a repeated completion is Applied",
		why:  "a worker that did not hear the answer is told that its finished work was lost, and alarms or stops",
		run: func(b *bench) {
			w := b.start("a")
			l := w.lease("a")
			for range 3 {
				b.expect(b.completeLeases(l)[0] == engine.Applied, "the repetition was refused")
			}
			w.forget("a")
			w.once()
			b.expect(b.completeLeases(l)[0] == engine.LeaseLost, "Applied although the lane lists the run no longer")
		},
	}, {
		name: "verdicts stand in the caller's order",
		why:  "a worker takes one delivery's verdict for another's",
		run: func(b *bench) {
			w := b.start("a", "b", "c", "d/k")
			leases := w.leases("d", "a", "c", "b")
			leases[1].Claim--
			leases[1].Fence--
			leases[3].Lane = engine.LaneID(b.group*b.lanes+b.lanes) + 3
			got := b.completeLeases(leases...)
			b.expect(slices.Equal(got, []engine.Verdict{engine.Applied, engine.LeaseLost, engine.Applied, engine.LeaseLost}), "%v", got)
			b.gone("c", "d")
			b.pending("a", 0)
			b.pending("b", 0)
		},
	}, {
		name: "nothing to complete",
		why:  "an empty call is an error, and a worker takes its store for broken",
		run: func(b *bench) {
			b.expect(len(b.completeLeases()) == 0 && len(b.release()) == 0, "verdicts of nothing")
		},
	}, {
		name: "an effect commits with its completion",
		why:  "the effect is there and the delivery runs again, or the other way round",
		run: func(b *bench) {
			w := b.start("a", "b/k")
			for _, id := range []string{"a", "b"} {
				v, err := w.tx("", id)
				b.expect(v == engine.Applied && err == nil, "%s, %v", v, err)
				b.expect(b.effects(id) == 1, "%d effects", b.effects(id))
			}
			b.gone("a", "b")
		},
	}, {
		name: "a rolled back completion is none",
		why:  "a handler whose transaction failed is taken for done",
		run: func(b *bench) {
			w := b.start("a")
			tx := b.open("")
			b.ok(tx.put("a"), "put")
			v, err := tx.complete(w.lease("a"))
			b.expect(v == engine.Applied && err == nil, "%s, %v", v, err)
			tx.rollback()
			b.expect(b.effects("a") == 0, "the effect is there")
			b.pending("a", 0)
			v, err = w.tx("", "a")
			b.expect(v == engine.Applied && err == nil && b.effects("a") == 1, "once more: %s, %v", v, err)
		},
	}, {
		name: "a transaction must delete the row itself",
		why:  "the effect of a delivery that was completed already is committed a second time",
		run: func(b *bench) {
			w := b.start("a", "b")
			_, err := w.tx("", "a")
			b.ok(err, "complete")
			v, err := w.tx("", "a")
			b.expect(v == engine.LeaseLost && err == nil && b.effects("a") == 1, "%s, %v, %d effects", v, err, b.effects("a"))
			b.completeLeases(w.lease("b"))
			v, err = w.tx("", "b")
			b.expect(v == engine.LeaseLost && err == nil && b.effects("b") == 0, "after CompleteMany: %s, %v, %d effects", v, err, b.effects("b"))
		},
	}, {
		name: "a failed run is charged and waits",
		why:  "a failing handler spins, or retries for ever without being counted",
		run: func(b *bench) {
			w := b.start("a")
			now := b.statistics().Now
			b.expect(b.reschedule(w.lease("a")) == engine.Applied, "refused")
			w.forget("a")
			d := b.row("a")
			b.expect(d.Attempts == 1 && d.Takeovers == 0 && d.LastError == "it failed", "%+v", d)
			b.expect(d.AvailableAt >= now.Add(later) && d.AvailableAt < now.Add(later+patience), "due in %s", d.AvailableAt.Sub(now))
			b.expect(len(w.claim()) == 0, "granted before it is due")
			b.due("a")
			b.same(w.claim(), "a")
			b.expect(w.picked("a").Delivery.Attempts == 1, "%+v", w.picked("a").Delivery)
		},
	}, {
		name: "a failure is charged once",
		why:  "a lost answer costs a message an attempt",
		run: func(b *bench) {
			w := b.start("a", "b", "c")
			b.expect(b.reschedule(w.lease("a")) == engine.Applied && b.reschedule(w.lease("a")) == engine.LeaseLost, "a repetition")
			b.pending("a", 1)
			b.expect(b.snooze(w.lease("b")) == engine.Applied && b.reschedule(w.lease("b")) == engine.LeaseLost, "a failure after a snooze")
			b.pending("b", 0)
			b.expect(b.bury(w.lease("c")) == engine.Applied && b.bury(w.lease("c")) == engine.LeaseLost, "buried twice")
			b.expect(b.row("c").Attempts == 1, "%+v", b.row("c"))
		},
	}, {
		name: "a snoozed delivery is not charged",
		why:  "a handler that waits for a partner runs out of attempts",
		run: func(b *bench) {
			w := b.start("a/k")
			for range 3 {
				b.expect(b.snooze(w.lease("a")) == engine.Applied, "refused")
				w.forget("a")
				b.expect(len(w.claim()) == 0, "granted before it is due")
				b.due("a")
				b.same(w.claim(), "a")
			}
			b.pending("a", 0)
			w.completed("a")
		},
	}, {
		name: "a buried delivery is dead",
		why:  "a message that was given up runs again, or nobody can see why it died",
		run: func(b *bench) {
			w := b.start("a", "b")
			b.expect(b.bury(w.lease("a")) == engine.Applied, "refused")
			uncharged := engine.BuryInput{Lease: w.lease("b"), Error: "too often"}
			b.expect(b.end(func() (engine.EndReply, error) { return b.Bury(b.ctx, uncharged) }) == engine.Applied, "refused")
			w.forgetAll()
			for id, attempts := range map[string]int32{"a": 1, "b": 0} {
				d := b.row(id)
				b.expect(d.Status == protocol.Dead && d.Attempts == attempts && d.DiedAt > 0 && d.LastError != "", "%+v", d)
			}
			b.expect(len(w.claim()) == 0, "a dead delivery was granted")
			b.expireLanes()
			b.expect(len(b.worker().claim()) == 0, "a dead delivery was granted to another")
		},
	}, {
		name: "a dead delivery is not revived by a late end",
		why:  "a late answer brings a dead letter back to life",
		run: func(b *bench) {
			w := b.start("a/k")
			l := w.lease("a")
			b.ok(b.unsubscribe("h", true), "unsubscribe") // buries in flight
			b.expect(b.row("a").Status == protocol.Dead, "%+v", b.row("a"))
			b.expect(b.reschedule(l) == engine.LeaseLost && b.snooze(l) == engine.LeaseLost && b.bury(l) == engine.LeaseLost, "an end was accepted")
			b.expect(b.completeLeases(l)[0] == engine.LeaseLost, "completed")
			v, err := w.tx("", "a")
			b.expect(v == engine.LeaseLost && err == nil && b.effects("a") == 0, "%s, %v", v, err)
			b.expect(b.row("a").Status == protocol.Dead && b.row("a").Attempts == 0, "%+v", b.row("a"))
		},
	}, {
		name: "a released delivery is granted again uncharged",
		why:  "a restart of the workers costs every message an attempt",
		run: func(b *bench) {
			w := b.start("a/k", "b")
			got := b.release(w.lease("a"), w.lease("b"))
			b.expect(slices.Equal(got, []engine.Verdict{engine.Applied, engine.Applied}), "%v", got)
			w.forgetAll()
			b.expect(b.release(w.lease("a"))[0] == engine.LeaseLost, "released twice")
			old := w.lease("a")
			b.same(w.claim(), "a", "b")
			b.pending("a", 0)
			b.expect(b.reschedule(old) == engine.LeaseLost, "the released run was ended")
			w.completed("a", "b")
		},
	}, {
		name: "an end needs the whole token",
		why:  "a worker that lost its lane ends what another one runs",
		run: func(b *bench) {
			w := b.start("a/k", "b")
			for what, forge := range forgeries {
				l := w.lease("a")
				forge(&l)
				got := []engine.Verdict{b.reschedule(l), b.snooze(l), b.bury(l), b.release(l)[0]}
				b.expect(!slices.Contains(got, engine.Applied), "%s: %v", what, got)
				v, err := b.txLease("", "a", l)
				b.expect(v == engine.LeaseLost && err == nil, "%s in a transaction: %s, %v", what, v, err)
				if !b.snapshot() { // there the row's fence is the token of a plain run
					b.expect(b.completeLeases(l)[0] == engine.LeaseLost, "%s: completed", what)
				}
			}
			d := b.row("a")
			b.expect(d.Attempts == 0 && d.Status == protocol.Pending && b.effects("a") == 0, "%+v", d)
			w.completed("a", "b")
		},
	}, {
		name: "a plain completion needs the fence",
		why:  "a run that was taken away completes what another one runs",
		only: "snapshot",
		run: func(b *bench) {
			w := b.start("a")
			for _, by := range []int32{-1, 1} {
				l := w.lease("a")
				l.Fence += by
				b.expect(b.completeLeases(l)[0] == engine.LeaseLost, "fence %+d: completed", by)
			}
			b.pending("a", 0)
		},
	}, {
		name: "a former holder ends nothing",
		why:  "a worker that froze and came back undoes what its successor did",
		run: func(b *bench) {
			one := b.start("a/k", "b")
			b.expireLanes()
			two := b.worker()
			for range 2 {
				id := two.claim()[0]
				l := one.lease(id)
				got := []engine.Verdict{b.completeLeases(l)[0], b.reschedule(l), b.snooze(l), b.bury(l), b.release(l)[0]}
				b.expect(!slices.Contains(got, engine.Applied), "%q: %v", id, got)
				v, err := one.tx("", id)
				b.expect(v == engine.LeaseLost && err == nil && b.effects(id) == 0, "%s, %v", v, err)
				b.pending(id, 1)
				two.completed(id)
			}
		},
	}, {
		name: "ends are accepted after the expiry",
		why:  "finished work runs again because the store was away for a while",
		run: func(b *bench) {
			w := b.start("a", "b", "c/k", "d")
			b.expireLanes()
			w.completed("a")
			b.expect(b.reschedule(w.lease("b")) == engine.Applied && b.snooze(w.lease("c")) == engine.Applied, "refused")
			v, err := w.tx("", "d")
			b.expect(v == engine.Applied && err == nil, "%s, %v", v, err)
		},
	}, {
		name: "error texts are kept",
		why:  "nobody can see why a message failed, or the failure cannot be recorded",
		run: func(b *bench) {
			text := "é漢😀 '\";--\\\t\n" + strings.Repeat("x", engine.MaxErrorText-64)
			w := b.start("a", "b")
			in := engine.RescheduleInput{Lease: w.lease("a"), Error: text}
			b.expect(b.end(func() (engine.EndReply, error) { return b.Reschedule(b.ctx, in) }) == engine.Applied, "refused")
			dead := engine.BuryInput{Lease: w.lease("b"), Error: text}
			b.expect(b.end(func() (engine.EndReply, error) { return b.Bury(b.ctx, dead) }) == engine.Applied, "refused")
			b.expect(b.row("a").LastError == text && b.row("b").LastError == text, "a text came back different")
		},
	}, {
		name: "the longest and the shortest delay",
		why:  "a retry far away is due at once, or cannot be stored",
		run: func(b *bench) {
			w := b.start("a", "b")
			far := engine.RescheduleInput{Lease: w.lease("a"), Delay: engine.MaxDelay}
			b.expect(b.end(func() (engine.EndReply, error) { return b.Reschedule(b.ctx, far) }) == engine.Applied, "refused")
			near := engine.SnoozeInput{Lease: w.lease("b"), Delay: engine.MinDelay}
			b.expect(b.end(func() (engine.EndReply, error) { return b.Snooze(b.ctx, near) }) == engine.Applied, "refused")
			left := b.row("a").AvailableAt.Sub(b.statistics().Now)
			b.expect(left > engine.MaxDelay-patience && left <= engine.MaxDelay, "due in %s", left)
			w.forgetAll()
			time.Sleep(5 * engine.MinDelay)
			b.same(w.claim(), "b")
		},
	}, {
		name: "a snooze may settle",
		why:  "a transaction whose COMMIT got no answer is run again although it had committed",
		run: func(b *bench) {
			w := b.start("a", "b")
			_, err := w.tx("", "a")
			b.ok(err, "complete")
			b.expect(b.settle(w.lease("a")) == engine.LeaseLost, "settled although it had committed")
			b.gone("a")
			b.expect(b.settle(w.lease("b")) == engine.Applied, "not settled although nothing had committed")
			b.pending("b", 0)
		},
	}, {
		name: "a settle waits for an open transaction",
		why:  "a delivery is snoozed and its transaction commits after all: its effect is there twice in the end",
		run: func(b *bench) {
			for _, commits := range []bool{true, false} {
				id := map[bool]string{true: "commits", false: "rolls back"}[commits]
				w := b.start(id)
				tx := b.open("")
				b.ok(tx.put(id), "put")
				v, err := tx.complete(w.lease(id))
				b.expect(v == engine.Applied && err == nil, "%s, %v", v, err)
				said := make(chan engine.Verdict, 1)
				failed := make(chan error, 1)
				l := w.lease(id)
				go func() {
					var reply engine.EndReply
					err := b.retry(func() (err error) {
						reply, err = b.Snooze(b.ctx, engine.SnoozeInput{Lease: l, Delay: later, Settle: true})
						return err
					})
					failed <- err
					said <- reply.Verdict
				}()
				time.Sleep(10 * time.Millisecond)
				committed := false
				if commits {
					committed = tx.commit() == nil
				} else {
					tx.rollback()
				}
				b.ok(<-failed, "settle")
				settled := <-said == engine.Applied
				b.expect(settled != committed, "settled %v, committed %v", settled, committed)
				b.expect(b.effects(id) == map[bool]int{true: 1}[committed], "%d effects", b.effects(id))
			}
		},
	}, {
		name: "two transactions complete one delivery",
		why:  "an effect is there twice",
		run: func(b *bench) {
			w := b.start("a/k")
			l := w.lease("a")
			var wait sync.WaitGroup
			verdicts := make([]engine.Verdict, 8)
			errs := make([]error, 8)
			for i := range verdicts {
				wait.Go(func() { verdicts[i], errs[i] = b.txLease("", "a", l) })
			}
			wait.Wait()
			n := 0
			for i, v := range verdicts {
				if errs[i] == nil && v == engine.Applied {
					n++
				}
			}
			b.expect(n == 1 && b.effects("a") == 1, "%d were told Applied, %d effects; %v", n, b.effects("a"), errs)
		},
	}, {
		name: "a call whose context has ended",
		why:  "a worker that gave up takes an error for a verdict",
		run: func(b *bench) {
			w := b.start("a")
			ended, cancel := context.WithCancel(b.ctx)
			cancel()
			_, err := b.Reschedule(ended, engine.RescheduleInput{Lease: w.lease("a")})
			if err == nil {
				b.pending("a", 1)
				return // a store may finish what it can
			}
			d := b.row("a")
			b.expect(d.Attempts == 0 || d.Attempts == 1, "%+v", d)
		},
	}, {
		name: "a crash keeps what was completed",
		why:  "after a power cut finished work runs again",
		run: func(b *bench) {
			w := b.start("a", "b", "c")
			w.completed("a")
			_, err := w.tx("", "b")
			b.ok(err, "complete")
			b.expect(b.reschedule(w.lease("c")) == engine.Applied, "refused")
			can, err := b.crash(b.ctx)
			if !can {
				b.Skip("the harness cannot crash this store")
			}
			b.ok(err, "crash")
			b.gone("a", "b")
			b.pending("c", 1)
			b.expect(b.effects("b") == 1, "the effect is gone")
		},
	},
}

// forgeries are the ways in which a token can be somebody else's.
var forgeries = map[string]func(*engine.Lease){
	"an older epoch":  func(l *engine.Lease) { l.Epoch-- },
	"a newer epoch":   func(l *engine.Lease) { l.Epoch++ },
	"another holder":  func(l *engine.Lease) { l.Holder[3] ^= 1 },
	"no holder":       func(l *engine.Lease) { l.Holder = engine.Holder{} },
	"an older claim":  func(l *engine.Lease) { l.Claim-- },
	"a newer claim":   func(l *engine.Lease) { l.Claim++ },
	"another lane":    func(l *engine.Lease) { l.Lane ^= 1 },
	"a missing lane":  func(l *engine.Lease) { l.Lane += 1 << 20 },
	"another row":     func(l *engine.Lease) { l.Delivery += 1 << 40 },
	"a negative lane": func(l *engine.Lease) { l.Lane = -1 },
}

package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// The attacks that shaped the protocol, as far as a store can show them.
var attackCases = []kase{
	{
		name: "a completion while a takeover is between reading and writing",
		why:  "a delivery that its worker completed in time runs again, or is charged",
		run: func(b *bench) {
			one := b.start("a")
			b.expireLanes()
			b.mustPause(LanesFound, func() { b.completeLeases(one.lease("a")) })
			two := b.worker()
			got := two.claim()
			b.expect(len(got) == 0, "granted %q although it is completed", got)
			b.gone("a")
		},
	}, {
		name: "a transaction while a takeover is between reading and writing",
		why:  "an effect is there twice",
		run: func(b *bench) {
			one := b.start("a")
			b.expireLanes()
			b.mustPause(LanesFound, func() {
				if v, err := one.tx("", "a"); v != engine.Applied || err != nil {
					b.Errorf("complete: %s, %v", v, err)
				}
			})
			b.expect(len(b.worker().claim()) == 0, "granted although it is completed")
			b.expect(b.effects("a") == 1, "%d effects", b.effects("a"))
		},
	}, {
		name: "a release while a takeover is between reading and writing",
		why:  "work that another worker got in between is taken away and charged",
		run: func(b *bench) {
			one, three := b.start("a"), b.worker()
			b.expireLanes()
			b.mustPause(LanesFound, func() {
				one.release(one.lease("a"))
				one.forgetAll()
				one.relinquish()
				b.same(three.claim(), "a")
			})
			b.expect(len(b.worker().claim()) == 0, "taken from its new holder")
			b.pending("a", 0)
			three.completed("a")
		},
	}, {
		name: "a renewal while a takeover is between reading and writing",
		why:  "a worker that renewed in time loses its lane",
		run: func(b *bench) {
			one := b.start("a")
			b.expireLanes()
			b.mustPause(LanesFound, func() { one.once() })
			b.expect(len(b.worker().claim()) == 0, "taken over although it was renewed")
			one.completed("a")
			b.gone("a")
		},
	}, {
		name: "a takeover while a completion is under way",
		why:  "a completion that is refused deletes the row all the same, or one that is accepted is run again",
		run: func(b *bench) {
			one, two := b.start("a"), b.worker()
			b.expireLanes()
			got := []string{}
			b.mustPause(CompleteBegan, func() { got = two.claim() })
			v := b.completeLeases(one.lease("a"))[0]
			b.expect(len(got) == 1, "the takeover got %q", got)
			b.expect(v == engine.LeaseLost, "the old worker was told %s", v)
			b.pending("a", 1)
			two.completed("a")
		},
	}, {
		name: "a takeover while a failure is being recorded",
		why:  "a delivery is charged twice, or a failure undoes what the next worker did",
		run: func(b *bench) {
			one, two := b.start("a"), b.worker()
			b.expireLanes()
			b.mustPause(EndBegan, func() { b.same(two.claim(), "a") })
			v := b.reschedule(one.lease("a"))
			b.expect(v == engine.LeaseLost, "the old worker was told %s", v)
			b.pending("a", 1)
			two.completed("a")
		},
	}, {
		name: "a takeover while candidates are read",
		why:  "a claim of a worker that lost its lane hands out what the next worker runs",
		run: func(b *bench) {
			one, two := b.start("a"), b.worker()
			b.publish(b.sameLane("a", 2)...)
			got := []string{}
			b.mustPause(CandidatesRead, func() {
				b.expireLanes()
				got = two.claim()
			})
			reply := one.once(heldOnly)
			b.expect(len(reply.Picks) == 0, "granted %q beside %q", names(reply.Picks), got)
		},
	}, {
		name: "a late claim after its lane was given back",
		why:  "a stopped worker's late request takes lanes that nobody will serve",
		run: func(b *bench) {
			one := b.start("a")
			late := one.input()
			one.release(one.lease("a"))
			one.forgetAll()
			one.relinquish()
			reply := one.send(late)
			b.expect(len(reply.Picks) == 0 && len(reply.Lanes) == 0, "%+v", reply)
			b.same(b.worker().claim(), "a")
		},
	}, {
		name: "a late takeover after a clean stop",
		why:  "a stopped worker's late request takes lanes that nobody will serve",
		run: func(b *bench) {
			one := b.start("a")
			late := one.input()
			late.Held, late.Running = nil, nil
			one.completed("a")
			one.relinquish()
			b.publish(b.sameLane("a", 1)...)
			for range 2 {
				late.Number--
				reply := one.send(late)
				b.expect(len(reply.Picks) == 0 && len(reply.Lanes) == 0, "%+v", reply)
			}
			b.expect(len(b.worker().claim()) == 1, "nobody gets it")
		},
	}, {
		name: "a late claim that took lanes is found again",
		why:  "a lane that came with a lost reply is held and not served until the lease ends",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			w := b.worker()
			lost := w.input()
			fresh := w.input()
			_, err := b.Claim(b.ctx, lost)
			b.ok(err, "claim")
			fresh.AllMine, fresh.SuspectRunning = true, true
			reply := w.send(fresh)
			b.same(names(reply.Picks), "a")
			b.pending("a", 0)
		},
	}, {
		name: "a failure is retried after a requeue",
		why:  "the repetition of a lost answer charges a message that an operator just repaired",
		run: func(b *bench) {
			one := b.start("a/k")
			l := one.lease("a")
			dead := engine.BuryInput{Lease: l, Error: "no more", Charge: true}
			b.expect(b.end(func() (engine.EndReply, error) { return b.Bury(b.ctx, dead) }) == engine.Applied, "refused")
			one.once(nothing) // states the run still: its answer was lost
			b.requeue("a")
			b.expect(b.end(func() (engine.EndReply, error) { return b.Bury(b.ctx, dead) }) == engine.LeaseLost, "applied twice")
			b.expect(b.reschedule(l) == engine.LeaseLost, "charged twice")
			b.pending("a", 0)
			one.forgetAll()
			b.same(one.claim(), "a")
			b.expireLanes()
			b.worker().claim()
			b.pending("a", 1)
		},
	}, {
		name: "the owner comes back first after an outage",
		why:  "an outage of the store charges or kills everything that was running",
		run: func(b *bench) {
			w := b.start("a", "b/k", "c/k")
			b.expireLanes()
			reply := w.once()
			b.expect(len(reply.LeaseLost) == 0 && len(reply.Gone) == 0, "%+v", reply)
			for _, id := range []string{"a", "b", "c"} {
				b.pending(id, 0)
			}
			if !slices.ContainsFunc(w.picks, func(p engine.Picked) bool { return p.Delivery.Event == "c" }) {
				w.completed("a", "b")
				w.claim()
			} else {
				w.completed("a", "b")
			}
			w.completed("c")
		},
	}, {
		name: "two takeovers before anything is charged",
		why:  "a crash right after a takeover loses the charge, or charges twice",
		run: func(b *bench) {
			b.start("a", "b")
			for i := range int32(3) {
				b.expireLanes()
				w := b.worker()
				in := w.input()
				_, err := b.Claim(b.ctx, in) // its reply is lost
				b.ok(err, "claim")
				// What was granted is charged each time; the other one was in
				// flight only the first time.
				total := b.row("a").Attempts + b.row("b").Attempts
				b.expect(total == 2+i, "after takeover %d: %d attempts", i+1, total)
			}
		},
	}, {
		name: "a new process under an old name",
		why:  "a restarted worker takes its predecessor's runs for its own, or waits for itself",
		run: func(b *bench) {
			one := b.start("a")
			two := b.worker()
			two.owner = one.owner
			b.expect(len(two.claim()) == 0, "took the live lane of its namesake")
			b.expireLanes()
			b.same(two.claim(), "a")
			b.pending("a", 1)
			b.expect(b.completeLeases(one.lease("a"))[0] == engine.LeaseLost, "its predecessor completed")
		},
	}, {
		name: "purge and requeue of one letter",
		why:  "a letter that an operator just brought back is deleted",
		run: func(b *bench) {
			b.letters("a/k")
			age()
			b.mustPause(DeadFound, func() { b.requeue("a") })
			done := b.purge(engine.PurgeInput{DeadAfter: aged, EventsAfter: aged})
			b.expect(done.Dead == 0 && done.Events == 0, "%+v", done)
			b.same(b.worker().claimAfterExpiry(), "a")
		},
	}, {
		name: "purge and publish of one event",
		why:  "a delivery is left without its event, or a new handler's delivery is lost",
		run: func(b *bench) {
			w := b.start("a")
			w.completed("a")
			w.forgetAll()
			w.relinquish()
			b.subscribe("audit")
			age()
			b.mustPause(EventsFound, func() { b.publish("a") })
			b.purge(engine.PurgeInput{EventsAfter: aged})
			b.publish("a")
			got := b.worker("audit").claim()
			b.same(got, "a")
			b.gone("a")
		},
	}, {
		name: "purge in a loop beside publishers",
		why:  "a delivery is left without its event",
		run: func(b *bench) {
			b.subscribe("h")
			var wait sync.WaitGroup
			stop := make(chan struct{})
			var failed error
			wait.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					in := engine.PurgeInput{EventsAfter: time.Nanosecond, DeadAfter: time.Nanosecond, Batch: 2}
					if err := b.retry(func() error { _, err := b.Purge(b.ctx, in); return err }); err != nil {
						failed = err
						return
					}
				}
			})
			for i := range 20 {
				b.publish(fmt.Sprint("a", i%4), fmt.Sprint("b", i%3, "/k"))
				w := b.worker()
				w.claim()
				for _, p := range w.picks {
					b.expect(p.Event != nil, "%+v has no event", p.Delivery)
					b.completeLeases(p.Lease)
				}
				w.forgetAll()
				w.relinquish()
			}
			close(stop)
			wait.Wait()
			b.ok(failed, "purge")
		},
	}, {
		name: "an unknown COMMIT",
		why:  "an effect is there twice, or a delivery is lost, because the answer to COMMIT was lost",
		run: func(b *bench) {
			for _, committed := range []bool{true, false} {
				id := fmt.Sprint("committed ", committed)
				w := b.start(id)
				l := w.lease(id)
				tx := b.open("")
				b.ok(tx.put(id), "put")
				_, err := tx.complete(l)
				b.ok(err, "complete")
				b.endsTx(tx, committed)
				applied := b.settle(l) == engine.Applied
				b.expect(applied != committed, "committed %v, settled %v", committed, applied)
				b.expect(b.settle(l) == engine.LeaseLost, "settled twice")
				w.forgetAll()
				if !committed {
					b.due(id)
					b.same(w.claim(), id)
					_, err := w.tx("", id)
					b.ok(err, "complete")
				}
				b.expect(b.effects(id) == 1, "%d effects", b.effects(id))
				b.gone(id)
			}
		},
	}, {
		name: "an orphan transaction and a takeover",
		why:  "a transaction whose client is gone commits beside the run of the next worker",
		run: func(b *bench) {
			one := b.start("a")
			tx := b.open("")
			b.ok(tx.put("a"), "put")
			_, err := tx.complete(one.lease("a"))
			b.ok(err, "complete")
			b.expireLanes()
			b.publish(b.otherLane("a"))
			two := b.worker()
			began := time.Now()
			got := two.claim()
			b.expect(time.Since(began) < patience/4, "the takeover waited for an open transaction")
			b.expect(slices.Contains(got, b.otherLane("a")), "other lanes were held up: %q", got)
			first := tx.commit() == nil
			got = append(got, two.claimAgain()...)
			if slices.Contains(got, "a") {
				_, err := two.tx("", "a")
				b.ok(err, "complete")
				b.expect(!first, "committed, and granted again")
			}
			b.expect(b.effects("a") == 1, "%d effects", b.effects("a"))
		},
	}, {
		name: "a poison delivery and its neighbours",
		why:  "a message that kills its worker takes its neighbours to the dead letters",
		run: func(b *bench) {
			const limit = 3
			ids := []string{"poison"}
			for i := range 20 {
				ids = append(ids, fmt.Sprint("n", i, "/k", i%7))
			}
			b.subscribe("h")
			b.publish(ids...)
			starts := b.crashLoop("poison", limit)
			b.expect(starts == limit, "the poison started %d times, limit %d", starts, limit)
			for _, l := range b.list(engine.Filter{}) {
				b.expect(l.Delivery.Event == "poison" && l.Delivery.Status == protocol.Dead, "left: %+v", l.Delivery)
			}
		},
	}, {
		name: "a failure does not clear a suspect",
		why:  "a message that kills its worker now and then takes its neighbours with it again and again",
		run: func(b *bench) {
			b.start("a", "b")
			b.expireLanes()
			w := b.worker()
			id := w.claim()[0]
			b.expect(b.reschedule(w.lease(id)) == engine.Applied, "refused")
			w.forgetAll()
			b.expect(b.row(id).Takeovers == 1 && b.row(id).Attempts == 2, "%+v", b.row(id))
			b.due(id)
			b.expect(len(w.claim()) == 1, "two suspects side by side")
		},
	}, {
		name: "the rest of a chain after a settle",
		why:  "a follower is completed although its head may run again",
		run: func(b *bench) {
			w := b.start("a/k", "b/k")
			b.needChain(w, "a", "b")
			in := engine.SnoozeInput{Lease: w.lease("a"), Rest: w.leases("b"), Delay: later, Settle: true}
			b.expect(b.end(func() (engine.EndReply, error) { return b.Snooze(b.ctx, in) }) == engine.Applied, "refused")
			v, err := w.tx("", "b")
			b.expect(v == engine.LeaseLost && err == nil, "%s, %v", v, err)
			b.expect(b.reschedule(w.lease("b")) == engine.LeaseLost, "the rest was ended")
			w.forgetAll()
			b.expect(len(w.claim()) == 0, "b before a")
		},
	}, {
		name: "an id that was purged is a new event",
		why:  "the row of an old event answers for a new one",
		run: func(b *bench) {
			w := b.start("a/k")
			old := w.lease("a")
			w.completed("a")
			age()
			b.purge(engine.PurgeInput{EventsAfter: aged})
			b.expect(b.publish("a/other")[0] == engine.Added, "not added")
			w.once(nothing)
			if v := b.completeLeases(old)[0]; v == engine.Applied {
				b.Fatalf("a lease of the old event completed")
			}
			b.pending("a", 0)
		},
	}, {
		name: "errors of a broken input say so",
		why:  "a program that passed nonsense retries for ever",
		run: func(b *bench) {
			b.subscribe("h")
			_, err := b.Unsubscribe(b.ctx, engine.UnsubscribeInput{})
			b.expect(err != nil && !errors.Is(err, engine.ErrRetryable), "got %v", err)
			reply, err := b.Claim(b.ctx, engine.ClaimInput{Holder: engine.Holder{1}, Number: 2, TTL: ttl, Group: 1000, Room: 1, Limit: 1, MaxLanes: 1, Held: []engine.LaneEpoch{{Lane: 1 << 30, Epoch: 1}}})
			b.expect(err == nil && len(reply.Lanes) == 0 && slices.Equal(reply.Gone, []engine.LaneID{1 << 30}), "%+v, %v", reply, err)
		},
	},
}

// claimAfterExpiry claims everything that other workers hold no longer.
func (w *worker) claimAfterExpiry() []string {
	w.Helper()
	w.expireLanes()
	return w.claim()
}

// claimAgain claims once more, after what was open has ended.
func (w *worker) claimAgain() []string {
	w.Helper()
	return w.claim(func(in *engine.ClaimInput) { in.AllMine = true })
}

// crashLoop runs workers that die when they start the poison, until everything
// else is completed and the poison is dead. It returns the poison's starts.
func (b *bench) crashLoop(poison string, limit int32) int {
	b.Helper()
	starts := 0
	for range 100 {
		w := b.worker()
		for alive := true; alive; {
			granted := len(w.picks)
			w.claim()
			if len(w.picks) == granted {
				break
			}
			for _, p := range w.picks[granted:] {
				if p.Delivery.Attempts >= limit {
					b.expect(p.Delivery.Event == poison, "an innocent is to be buried: %+v", p.Delivery)
					b.end(func() (engine.EndReply, error) {
						return b.Bury(b.ctx, engine.BuryInput{Lease: p.Lease, Error: "too often"})
					})
					w.forget(p.Delivery.Event)
					continue
				}
				if p.Delivery.Event == poison {
					starts++
					alive = false
					break
				}
				w.completed(p.Delivery.Event)
			}
		}
		b.expireLanes()
		pending := protocol.Pending
		if len(b.list(engine.Filter{Status: &pending})) == 0 {
			return starts
		}
	}
	b.Fatalf("does not drain: %+v", b.statistics())
	return 0
}

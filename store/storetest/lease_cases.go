package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

var leaseCases = []kase{
	{
		name: "a claim grants what is due",
		why:  "published work does not run, or a handler is called without its event",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a", "b/k")
			w := b.worker()
			b.same(w.claim(), "a", "b")
			for _, p := range w.picks {
				b.expect(p.Event != nil && p.Event.ID == p.Delivery.Event && p.Event.Type == "e", "%+v", p)
				l := p.Lease
				b.expect(l.Delivery == p.Delivery.ID && l.Lane == p.Delivery.Lane && l.Holder == w.holder && l.Epoch > 0 && l.Claim <= w.number && l.After == 0, "lease %+v", l)
			}
			b.expect(len(w.claim()) == 0, "granted twice")
		},
	}, {
		name: "a reply says which lanes are held until when",
		why:  "a worker goes on after its lease ran out, or gives up one that it has",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			w := b.worker()
			reply := w.once()
			b.expect(len(reply.Lanes) == 1 && reply.Lanes[0].TakenOver, "%+v", reply.Lanes)
			left := reply.Lanes[0].ExpiresAt.Sub(reply.Now)
			b.expect(left > ttl-patience && left <= ttl, "the lease runs for %s, want %s", left, ttl)
			again := w.once()
			b.expect(len(again.Lanes) == 1 && !again.Lanes[0].TakenOver && again.Lanes[0].LaneEpoch == reply.Lanes[0].LaneEpoch, "%+v", again.Lanes)
			b.expect(again.Lanes[0].ExpiresAt >= reply.Lanes[0].ExpiresAt, "a renewal shortened the lease")
		},
	}, {
		name: "an empty lane is nobody's",
		why:  "idle workers hold lanes that others need",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			one, two := b.worker(), b.worker()
			one.claim()
			b.expect(len(one.held) == 1, "holds %d lanes for one event", len(one.held))
			b.publish(b.otherLane("a"))
			b.expect(len(two.claim()) == 1, "another lane was not free")
		},
	}, {
		name: "a live lease is respected",
		why:  "two workers run the same delivery at once",
		run: func(b *bench) {
			b.start("a", "b/k")
			b.expect(len(b.worker().claim()) == 0, "granted to a second worker")
		},
	}, {
		name: "a short lease is respected by a worker with a long one",
		why:  "workers with different settings take each other's lanes before their time",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			b.worker().claim(func(in *engine.ClaimInput) { in.TTL = patience })
			b.expect(len(b.worker().claim()) == 0, "taken over before its time")
		},
	}, {
		name: "an expired lane is taken over and charged",
		why:  "the work of a dead worker is lost, or kills workers for ever without being counted",
		run: func(b *bench) {
			one := b.start("a", "b/k")
			b.expireLanes()
			two := b.worker()
			var got []string
			for range 2 { // suspects come one at a time
				got = append(got, two.claim()...)
				p := two.picks[len(two.picks)-1]
				b.expect(p.Delivery.Attempts == 1 && p.Delivery.Takeovers == 1, "%+v", p.Delivery)
				b.expect(p.Lease.Epoch > one.lease(p.Delivery.Event).Epoch, "the epoch did not rise: %v", p.Lease)
				two.completed(p.Delivery.Event)
			}
			b.same(got, "a", "b")
		},
	}, {
		name: "a worker does not take its own lane over",
		why:  "a healthy worker that was slow charges itself for work that it still runs",
		run: func(b *bench) {
			w := b.start("a")
			b.expireLanes()
			reply := w.once()
			b.expect(len(reply.Picks) == 0 && len(reply.LeaseLost) == 0 && len(reply.Lanes) == 1 && !reply.Lanes[0].TakenOver, "%+v", reply)
			b.pending("a", 0)
			w.completed("a")
		},
	}, {
		name: "a claim that names nothing does not take its own lane over",
		why:  "a worker that forgot its lanes charges itself",
		run: func(b *bench) {
			w := b.start("a")
			b.expireLanes()
			reply := w.once(func(in *engine.ClaimInput) { in.Held, in.Running = nil, nil })
			b.expect(len(reply.Picks) == 0 && len(reply.Lanes) == 0, "%+v", reply)
			b.pending("a", 0)
		},
	}, {
		name: "what a lost reply granted comes again uncharged",
		why:  "deliveries whose grant was lost on the way wait until the worker dies, or are charged for nothing",
		run: func(b *bench) {
			b.subscribe("h")
			ids := b.sameLane("a", 3)
			b.publish(ids...)
			w := b.worker()
			lost := w.input()
			reply, err := w.Claim(b.ctx, lost)
			b.ok(err, "claim")
			b.expect(len(reply.Picks) == 3, "%v", names(reply.Picks))
			got := w.claim(func(in *engine.ClaimInput) { in.AllMine, in.SuspectRunning = true, true })
			b.same(got, ids...)
			for _, p := range w.picks {
				b.expect(p.Delivery.Attempts == 0 && p.Delivery.Takeovers == 0, "charged: %+v", p.Delivery)
			}
			for _, p := range reply.Picks {
				b.expect(b.reschedule(p.Lease) == engine.LeaseLost, "the lost grant still counts")
			}
			w.completed(ids...)
		},
	}, {
		name: "an old claim changes nothing",
		why:  "a request that was held up takes away what a newer one granted",
		run: func(b *bench) {
			w := b.start("a")
			late := w.input() // states no run of b
			b.publish(b.sameLane("a", 1)...)
			got := w.claim()
			reply := w.send(late)
			b.expect(len(reply.Picks) == 0 && len(reply.Lanes) == 0 && len(reply.Gone) > 0, "%+v", reply)
			w.completed(append(got, "a")...)
		},
	}, {
		name: "a claim names a lane of somebody else",
		why:  "a worker goes on in a lane that was taken over",
		run: func(b *bench) {
			one := b.start("a")
			b.expireLanes()
			two := b.worker()
			two.claim()
			reply := one.once()
			b.expect(len(reply.Lanes) == 0 && len(reply.Picks) == 0 && len(reply.Gone) == 1, "%+v", reply)
			two.completed("a")
		},
	}, {
		name: "a claim after its time changes nothing",
		why:  "a request that arrives hours late takes lanes for a worker that is gone",
		run: func(b *bench) {
			w := b.start("a")
			other := b.otherLane("a")
			b.publish(other)
			in := w.input()
			in.NotAfter = 1
			_, err := b.Claim(b.ctx, in)
			b.expect(errors.Is(err, engine.ErrTooLate), "got %v, want ErrTooLate", err)
			in.Held = nil
			in.Number = w.number + 2
			_, err = b.Claim(b.ctx, in)
			b.expect(errors.Is(err, engine.ErrTooLate), "a takeover: got %v, want ErrTooLate", err)
			b.expect(b.statistics().Held == 1, "%+v", b.statistics())
			w.completed("a")
			b.same(b.worker().claim(), other)
		},
	}, {
		name: "a claim in time is served",
		why:  "workers stop although all is well",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			now := b.statistics().Now
			w := b.worker()
			b.same(w.claim(func(in *engine.ClaimInput) { in.NotAfter = now.Add(patience) }), "a")
		},
	}, {
		name: "what runs is not granted again",
		why:  "one worker runs a delivery twice at once",
		run: func(b *bench) {
			w := b.start("a", "b/k")
			reply := w.once(func(in *engine.ClaimInput) {
				for i := range in.Running {
					in.Running[i].Claim-- // no longer kept, but it still runs
				}
			})
			b.expect(len(reply.Picks) == 0 && len(reply.LeaseLost) == 2, "%+v", reply)
		},
	}, {
		name: "a claim never adds a run",
		why:  "a run that a lost commit forgot is accepted beside the new one",
		run: func(b *bench) {
			w := b.start("a")
			l := w.lease("a")
			w.once(func(in *engine.ClaimInput) { in.Running = nil; nothing(in) })
			reply := w.once(nothing)
			b.expect(len(reply.LeaseLost) == 1 && reply.LeaseLost[0].InFlight == l.Entry(), "%+v", reply)
			b.expect(b.snooze(l) == engine.LeaseLost, "a forgotten run was ended")
			b.pending("a", 0)
		},
	}, {
		name: "nothing of a key starts while one of it runs",
		why:  "two events of one customer are handled at once",
		run: func(b *bench) {
			w := b.start("a/k")
			b.publish("b/k", "c/other")
			b.same(w.claim(), "c")
			w.completed("a")
			b.same(w.claim(), "b")
		},
	}, {
		name: "a key waits although its running delivery is gone",
		why:  "a retired run and the next event of its key overlap",
		run: func(b *bench) {
			w := b.start("a/k")
			b.completeLeases(w.lease("a"))
			b.publish("b/k")
			b.expect(len(w.claim()) == 0, "granted while the worker says that the key runs")
			w.forget("a")
			b.same(w.claim(), "b")
		},
	}, {
		name: "room per handler",
		why:  "a worker gets more than it can start, and sits on it",
		run: func(b *bench) {
			b.subscribe("h", "audit")
			b.publish("a", "b", "c", "d")
			w := b.worker("h", "audit")
			room := func(in *engine.ClaimInput) {
				in.Handlers = []engine.HandlerRoom{{Name: "h", Room: 2}, {Name: "audit", Room: 0}}
			}
			reply := w.once(room)
			b.expect(len(reply.Picks) <= 2, "%d deliveries for room 2", len(reply.Picks))
			for _, p := range reply.Picks {
				b.expect(p.Delivery.Handler == "h", "%+v has no room", p.Delivery)
			}
			for range 10 {
				w.once()
			}
			b.expect(len(w.picks) == 8, "%d of 8 in the end", len(w.picks))
		},
	}, {
		name: "limit and room of a call",
		why:  "a worker gets more than it can start, and sits on it",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a/k", "b/k", "c/l", "d/l", "e", "f")
			w := b.worker()
			reply := w.once(func(in *engine.ClaimInput) { in.Limit = 1 })
			b.expect(len(reply.Picks) == 1, "%d for limit 1", len(reply.Picks))
			w.release(w.leases(names(reply.Picks)...)...)
			w.forgetAll()
			reply = w.once(func(in *engine.ClaimInput) { in.Room = 1 })
			heads := 0
			for _, p := range reply.Picks {
				if p.Lease.After == 0 {
					heads++
				}
			}
			b.expect(heads == 1, "%d chains for room 1", heads)
		},
	}, {
		name: "no lane is taken over unasked",
		why:  "a worker that is shutting down gets more work",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			w := b.worker()
			b.expect(len(w.claim(heldOnly)) == 0 && len(w.held) == 0, "took a lane")
			b.expect(b.statistics().Held == 0, "%+v", b.statistics())
		},
	}, {
		name: "a bounded number of lanes",
		why:  "the first worker that starts takes everything and the others idle",
		run: func(b *bench) {
			b.subscribe("h")
			first := "a"
			b.publish(first, b.otherLane(first))
			w := b.worker()
			reply := w.once(func(in *engine.ClaimInput) { in.MaxLanes = 1 })
			b.expect(len(reply.Lanes) == 1 && len(reply.Picks) == 1, "%+v", reply)
		},
	}, {
		name: "another handler's work stays",
		why:  "during a deploy the old version takes the new version's work, and nobody runs it",
		run: func(b *bench) {
			b.subscribe("h", "new")
			ids := b.sameLane("a", 2)
			b.publish(ids...)
			old := b.worker("h")
			lacking := false
			for range 3 {
				for _, l := range old.once().Lanes {
					lacking = lacking || l.Lacking
				}
			}
			b.same(names(old.picks), ids...)
			b.expect(lacking, "the lane's other work was not reported")
			old.completed(ids...)
			old.relinquish()
			b.same(b.worker("new").claim(), ids...)
		},
	}, {
		name: "a lane to let expire is neither renewed nor picked from",
		why:  "a worker that cannot end a run keeps its lane for ever",
		run: func(b *bench) {
			w := b.start("a")
			lane := w.lease("a").Lane
			b.publish(b.sameLane("a", 1)...)
			b.expireLanes()
			leave := func(in *engine.ClaimInput) { in.Held, in.LetExpire = nil, []engine.LaneID{lane} }
			reply := w.once(leave, heldOnly)
			b.expect(len(reply.Picks) == 0 && len(reply.Gone) == 0, "%+v", reply)
			b.expect(b.statistics().Expired == 1, "renewed: %+v", b.statistics())
			w.completed("a")
		},
	}, {
		name: "a draining lane is renewed and not picked from",
		why:  "a lane with work for others never becomes free",
		run: func(b *bench) {
			w := b.start("a")
			lane := w.lease("a").Lane
			more := b.sameLane("a", 1)
			b.publish(more...)
			b.expireLanes()
			reply := w.once(func(in *engine.ClaimInput) { in.Draining = []engine.LaneID{lane} })
			b.expect(len(reply.Picks) == 0 && b.statistics().Held == 1, "%+v, %+v", reply, b.statistics())
			b.same(w.claim(), more...)
		},
	}, {
		name: "a claim finds all its lanes",
		why:  "after a lost reply a worker holds a lane that it does not know",
		run: func(b *bench) {
			w := b.start("a", b.otherLaneOf("a"))
			reply := w.once(func(in *engine.ClaimInput) { in.AllMine, in.Held = true, nil })
			b.expect(len(reply.Lanes) == 2 && len(reply.LeaseLost) == 0, "%+v", reply)
		},
	}, {
		name: "a lane to avoid",
		why:  "a worker takes a lane again and again whose work it cannot do",
		run: func(b *bench) {
			w := b.start("a")
			w.release(w.lease("a"))
			w.forgetAll()
			held := slices.Clone(w.held)
			w.relinquish()
			b.expect(len(w.claim(func(in *engine.ClaimInput) { in.Avoid = held })) == 0, "took the lane")
			b.same(w.claim(), "a")
		},
	}, {
		name: "renewals",
		why:  "a worker loses a lane that it renewed, or keeps one that it lost",
		run: func(b *bench) {
			one := b.start("a")
			lane := one.held[0]
			extend := func(holder engine.Holder, lanes ...engine.LaneEpoch) []engine.Verdict {
				reply, err := b.ExtendLease(b.ctx, engine.ExtendLeaseInput{Holder: holder, Lanes: lanes, TTL: ttl})
				b.ok(err, "extend")
				return reply.Verdicts
			}
			stale := engine.LaneEpoch{Lane: lane.Lane, Epoch: lane.Epoch - 1}
			missing := engine.LaneEpoch{Lane: engine.LaneID(b.group*b.lanes + b.lanes + 7), Epoch: 1}
			got := extend(one.holder, missing, stale, lane)
			b.expect(slices.Equal(got, []engine.Verdict{engine.LeaseLost, engine.LeaseLost, engine.Applied}), "%v", got)
			b.expireLanes()
			b.expect(extend(one.holder, lane)[0] == engine.Applied && b.statistics().Held == 1, "not renewed after the expiry: %+v", b.statistics())
			two := b.worker()
			b.expect(extend(two.holder, lane)[0] == engine.LeaseLost, "a stranger renewed the lane")
			b.expireLanes()
			two.claim()
			b.expect(extend(one.holder, lane)[0] == engine.LeaseLost, "renewed after a takeover")
			_, err := b.ExtendLease(b.ctx, engine.ExtendLeaseInput{Holder: two.holder, Lanes: two.held, TTL: ttl, NotAfter: 1})
			b.expect(errors.Is(err, engine.ErrTooLate), "got %v, want ErrTooLate", err)
		},
	}, {
		name: "a lane given back is free at once",
		why:  "after a clean stop the work waits until the leases run out, or is charged",
		run: func(b *bench) {
			one := b.start("a", "b/k")
			one.release(one.leases("a", "b")...)
			one.forgetAll()
			lanes := one.relinquish()
			b.expect(len(lanes) == len(b.distinctLanes(one)), "gave back %v", lanes)
			two := b.worker()
			b.same(two.claim(), "a", "b")
			for _, p := range two.picks {
				b.expect(p.Delivery.Attempts == 0 && p.Delivery.Takeovers == 0, "charged: %+v", p.Delivery)
			}
			b.expect(b.reschedule(one.lease("a")) == engine.LeaseLost, "an end after the lane was given back")
		},
	}, {
		name: "a lane with a run is not given back",
		why:  "what a worker still runs is given to another",
		run: func(b *bench) {
			w := b.start("a")
			b.expect(len(w.relinquish()) == 0, "given back with a run")
			keep := w.lease("a").Lane
			w.forgetAll()
			b.expect(len(w.relinquish(func(in *engine.RelinquishInput) { in.Keep = []engine.LaneID{keep} })) == 0, "given back although kept")
			b.expect(b.statistics().Held == 1, "%+v", b.statistics())
			b.expect(len(w.relinquish()) == 1, "not given back")
		},
	}, {
		name: "the guards of giving back",
		why:  "a late request gives away a lane that was claimed again since",
		run: func(b *bench) {
			w := b.start("a")
			w.completed("a")
			named := func(l engine.LaneEpoch) func(*engine.RelinquishInput) {
				return func(in *engine.RelinquishInput) { in.Lanes = []engine.LaneEpoch{l} }
			}
			lane := w.held[0]
			stranger := b.worker()
			b.expect(len(stranger.relinquish(named(lane))) == 0, "a stranger gave the lane back")
			b.expect(len(w.relinquish(named(engine.LaneEpoch{Lane: lane.Lane, Epoch: lane.Epoch + 1}))) == 0, "another epoch")
			b.expect(len(w.relinquish(func(in *engine.RelinquishInput) { in.Number = 1 })) == 0, "an old number")
			w.number += 2
			_, err := b.Relinquish(b.ctx, engine.RelinquishInput{Holder: w.holder, Group: b.group, Number: w.number, NotAfter: 1})
			b.expect(errors.Is(err, engine.ErrTooLate), "got %v, want ErrTooLate", err)
			b.expect(slices.Equal(w.relinquish(named(lane)), []engine.LaneID{lane.Lane}), "not given back by its holder")
		},
	}, {
		name: "suspects run one at a time",
		why:  "a poison message takes innocent messages with it to the dead letters",
		run: func(b *bench) {
			ids := []string{"a", "b/k", "c", "d/l"}
			b.start(ids...)
			b.expireLanes()
			w := b.worker()
			var got []string
			for range ids {
				now := w.claim()
				b.expect(len(now) == 1, "suspects side by side: %q", now)
				b.expect(len(w.claim()) == 0, "a second suspect while one runs")
				got = append(got, now...)
				w.completed(now...)
			}
			b.same(got, "a", "b", "c", "d")
		},
	}, {
		name: "a suspect that may run bars others",
		why:  "after a lost reply two suspects run side by side",
		run: func(b *bench) {
			b.start("a")
			b.expireLanes()
			w := b.worker()
			reply := w.once(func(in *engine.ClaimInput) { in.SuspectRunning = true })
			b.expect(len(reply.Picks) == 0, "granted %q", names(reply.Picks))
			b.same(w.claim(func(in *engine.ClaimInput) { in.AllMine = true }), "a")
		},
	}, {
		name: "a suspect does not hold up the others",
		why:  "after a crash all work waits for one slow message",
		run: func(b *bench) {
			b.start("a")
			b.expireLanes()
			b.publish("b", "c/k")
			b.same(b.worker().claim(), "a", "b", "c")
		},
	}, {
		name: "suspects at the front of a lane hide nothing",
		why:  "while one message hangs that was in flight at a crash, lanes full of others like it stand still",
		run: func(b *bench) {
			b.subscribe("h")
			suspects := b.inOneLane("s", 40, "a")
			b.start(suspects...)
			b.expireLanes()
			few := func(in *engine.ClaimInput) { in.Room, in.Limit = 8, 8 }
			w := b.worker()
			got := w.claim(few)
			b.expect(len(got) == 1 && slices.Contains(suspects, got[0]), "granted %q, want one suspect", got)
			fresh := b.inOneLane("f", 3, "a")
			b.publish(fresh...)
			b.same(names(w.once(few).Picks), fresh...)
			w.completed(append(fresh, got...)...)
			b.publish(b.inOneLane("g", 1, "a")...)
			b.expect(len(w.once(few).Picks) == 2, "want the next suspect and what is new, one of each")
		},
	}, {
		name: "keyed suspects hide no other key for long",
		why:  "while one message hangs that was in flight at a crash, the last keys of a lane stand still",
		run: func(b *bench) {
			b.subscribe("h")
			var suspects []string
			for _, key := range b.keysOfOneLane("a", 40) {
				suspects = append(suspects, "s"+key+"/"+key)
			}
			b.start(suspects...)
			b.expireLanes()
			few := func(in *engine.ClaimInput) { in.Room, in.Limit = 8, 8 }
			w := b.worker()
			got := w.claim(few)
			b.expect(len(got) == 1, "granted %q, want one suspect", got)
			key := b.keysOfOneLane("z", 1)[0]
			b.publish("fresh/" + key)
			for range 10 {
				if picks := names(w.once(few).Picks); len(picks) > 0 {
					b.same(picks, "fresh")
					return
				}
			}
			b.Fatalf("a new event was not granted in ten claims")
		},
	}, {
		name: "an expired lane without work is given back",
		why:  "lanes of a dead worker look held for ever",
		run: func(b *bench) {
			one := b.start("a")
			one.completed("a")
			b.expireLanes()
			two := b.worker()
			two.claim()
			s := b.statistics()
			b.expect(s.Expired == 0 && s.Held == len(two.held), "%+v with %d held", s, len(two.held))
		},
	}, {
		name: "groups do not see each other",
		why:  "a service runs another service's events, or blocks them",
		run: func(b *bench) {
			b.join(false, "one", "e", "h")
			first := b.group
			b.join(false, "two", "e", "other")
			b.expect(b.group != first, "two groups with number %d", first)
			b.publish("a/k")
			two := b.worker("other", "h")
			b.same(two.claim(), "a")
			b.expect(two.picks[0].Delivery.Handler == "other", "%+v", two.picks[0].Delivery)
			b.group = first
			b.same(b.worker("h").claim(), "a")
		},
	}, {
		name: "a lane of another group is not taken over",
		why:  "a worker holds lanes of which it can run nothing, and keeps them from those who can",
		run: func(b *bench) {
			b.join(false, "one", "e", "h")
			one := b.group
			b.join(false, "two", "e", "other")
			two := b.group
			b.publish("a") // a lane of each group has work
			for _, group := range []int32{one, two} {
				b.group = group
				b.same(b.worker("h", "other").claim(), "a")
			}
			b.staysInGroup(one, two)
			b.staysInGroup(two, one)
		},
	}, {
		name: "a handler keeps its group",
		why:  "pending work of a handler stays in lanes that nobody leases any more",
		run: func(b *bench) {
			b.subscribe("h")
			b.join(false, "two", "e", "other")
			_, err := b.Subscribe(b.ctx, engine.SubscribeInput{Group: "two", Handlers: []engine.EventHandler{{Event: "more", Handler: "h"}}})
			b.expect(engine.IsDefinite(err), "got %v, want a definite error", err)
			b.subscribe("h")
		},
	}, {
		name: "subscribing again changes nothing",
		why:  "a restart under load moves lanes or loses subscriptions",
		run: func(b *bench) {
			one := b.start("a/k")
			before := b.subscribe("h")
			after := b.subscribe("h", "audit")
			b.expect(before.Group == after.Group && before.Lanes == after.Lanes && len(after.Removed) == 0, "%+v, then %+v", before, after)
			b.expect(after.Lanes > 0 && after.Now > 0, "%+v", after)
			one.completed("a")
		},
	}, {
		name: "keys spread over the lanes as every store spreads them",
		why:  "a moved or restored database finds its rows in the wrong lanes",
		run: func(b *bench) {
			b.subscribe("h")
			for i := range 20 {
				b.publish(fmt.Sprint(i), fmt.Sprint("k", i, "/key ", i))
			}
			for _, l := range b.list(engine.Filter{}) {
				d := l.Delivery
				want := protocol.LaneOf(b.group, b.lanes, d.Key, d.Event)
				b.expect(d.Lane == want, "%+v, want lane %d", d, want)
			}
		},
	},
}

// otherLaneOf is otherLane for a case that has not subscribed yet.
func (b *bench) otherLaneOf(than string) string {
	b.Helper()
	b.subscribe("h")
	return b.otherLane(than)
}

// distinctLanes returns the lanes of what a worker was granted.
func (b *bench) distinctLanes(w *worker) []engine.LaneID {
	var lanes []engine.LaneID
	for _, p := range w.picks {
		lanes = append(lanes, p.Lease.Lane)
	}
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// staysInGroup lets the leases of two groups run out and wants a worker of the
// one to leave the lane of the other alone, whatever it asks for. It would have
// the handler.
func (b *bench) staysInGroup(group, other int32) {
	b.Helper()
	for _, b.group = range []int32{group, other} {
		b.expireLanes()
	}
	foreign := engine.LaneEpoch{Lane: protocol.LaneOf(other, b.lanes, "", "a"), Epoch: 1}
	b.group = group
	w := b.worker("h", "other")
	for _, ask := range []struct {
		what string
		set  func(*engine.ClaimInput)
	}{
		{"anything", func(*engine.ClaimInput) {}},
		{"what is behind it", func(in *engine.ClaimInput) { in.Behind = foreign.Lane }},
		{"what begins with it", func(in *engine.ClaimInput) { in.Behind = max(1, foreign.Lane-1) }},
		{"all its lanes", func(in *engine.ClaimInput) { in.AllMine = true }},
		{"stuck rows", func(in *engine.ClaimInput) { in.RetryStuck = true }},
		{"it as held", func(in *engine.ClaimInput) { in.Held = append(in.Held, foreign) }},
		{"it as one to let expire", func(in *engine.ClaimInput) { in.LetExpire = []engine.LaneID{foreign.Lane} }},
		{"it as draining", func(in *engine.ClaimInput) {
			in.Held, in.Draining = append(in.Held, foreign), []engine.LaneID{foreign.Lane}
		}},
		{"any but it", func(in *engine.ClaimInput) { in.Avoid = []engine.LaneEpoch{foreign} }},
	} {
		for _, l := range w.once(ask.set).Lanes {
			b.expect(int32(l.Lane)/b.lanes == group, "a worker of group %d that asked for %s got lane %d", group, ask.what, l.Lane)
		}
	}
	b.same(names(w.picks), "a")
	s := b.statistics()
	b.expect(s.Held == 1 && s.Expired == 1, "%+v, want one lane held and that of the other group expired", s)
	b.group = other
	b.same(b.worker("h", "other").claim(), "a")
}

// inOneLane returns n ids of events without a key, all of the lane of one id.
func (b *bench) inOneLane(prefix string, n int, of string) []string {
	var list []string
	for i := 0; len(list) < n; i++ {
		if id := fmt.Sprint(prefix, i); protocol.LaneOf(b.group, b.lanes, "", id) == protocol.LaneOf(b.group, b.lanes, "", of) {
			list = append(list, id)
		}
	}
	return list
}

// keysOfOneLane returns n keys of one lane, the same in each call.
func (b *bench) keysOfOneLane(prefix string, n int) []string {
	var list []string
	for i := 0; len(list) < n; i++ {
		if key := fmt.Sprint(prefix, i); protocol.LaneOf(b.group, b.lanes, key, "") == protocol.LaneOf(b.group, b.lanes, "a", "") {
			list = append(list, key)
		}
	}
	return list
}

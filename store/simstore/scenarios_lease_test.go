package simstore

import (
	"errors"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

var leaseScenarios = []scenario{
	{
		name: "a claim keeps what is stated",
		says: "what the worker no longer states drops out of the lane, uncharged; what the lane does not list is never added",
		run: func(b *bench) {
			w := b.start("a", "b")
			w.forget(1)
			stranger := protocol.Running{InFlight: protocol.InFlight{Delivery: 99, Claim: 2}, Lane: w.lease(2).Lane, Handler: "h"}
			reply := w.claim(noRoom, func(in *engine.ClaimInput) { in.Running = append(slices.Clone(in.Running), stranger) })
			b.expect(slices.Contains(reply.LeaseLost, stranger), "the reply does not say that #99 is lost: %v", reply.LeaseLost)
			reply = w.claim()
			b.expect(slices.Equal(ids(reply), []protocol.DeliveryID{1}), "picked %v, want what was dropped", ids(reply))
			b.expect(b.row(1).Attempts == 0, "a drop was charged")
			w.forget(1, 2)
			w.claim(noRoom)
			b.expect(len(b.laneOf(1).InFlight) == 0, "the lane still lists what nobody runs")
		},
	}, {
		name: "what is running is not granted again",
		says: "a worker that states a delivery the lane no longer lists must not be granted it beside itself",
		run: func(b *bench) {
			w := b.start("a")
			w.running[0].Claim = 77
			reply := w.claim()
			b.expect(len(reply.Picks) == 0 && len(reply.LeaseLost) == 1, "picks %v, lost %v", ids(reply), reply.LeaseLost)
		},
	}, {
		name: "late claim of a held lane",
		says: "a claim that arrives after a newer one must change nothing: its reply is thrown away, and what it drops is running",
		run: func(b *bench) {
			w := b.start("a", "b")
			late := w.input()
			late.Running = nil
			w.forget(1)
			w.claim()
			before := b.laneOf(2)
			reply := must(b.Claim(ctx, late))(b)
			b.expect(len(reply.Lanes) == 0 && len(reply.Picks) == 0, "a late claim got %+v", reply)
			b.expect(len(reply.Gone) > 0, "the late claim is not told")
			after := b.laneOf(2)
			b.expect(slices.Equal(before.InFlight, after.InFlight) && after.Claim == before.Claim, "the lane changed from %+v to %+v", before, after)
		},
	}, {
		name: "late claim after Relinquish",
		says: "a late claim must not take a lane that its worker gave back since: nobody would run what it grants",
		run: func(b *bench) {
			w := b.start("a")
			late := w.input()
			late.Held, late.Running = nil, nil
			w.number++
			w.forget(1)
			reply := must(b.Relinquish(ctx, engine.RelinquishInput{Holder: w.holder, Number: w.number}))(b)
			b.expect(len(reply.Lanes) > 0, "nothing was given back")
			claimed := must(b.Claim(ctx, late))(b)
			b.expect(len(claimed.Lanes) == 0 && len(claimed.GivenBack) == 0, "the late claim took %+v", claimed)
			b.expect(len(w.claim().Picks) == 1, "the next claim gets nothing")
		},
	}, {
		name: "not-after",
		says: "a call that is served after its client gave up must change nothing",
		run: func(b *bench) {
			w := b.start("a")
			before := b.Snapshot()
			late := func(in *engine.ClaimInput) { in.NotAfter = b.script.now - 1 }
			in := w.input()
			late(&in)
			_, err := b.Claim(ctx, in)
			b.expect(errors.Is(err, ErrTooLate) && errors.Is(err, engine.ErrRetryable), "claim: %v", err)
			_, err = b.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: w.holder, Lanes: w.held, TTL: ttl, NotAfter: b.script.now - 1})
			b.expect(errors.Is(err, ErrTooLate), "extend: %v", err)
			_, err = b.Relinquish(ctx, engine.RelinquishInput{Holder: w.holder, Number: 100, NotAfter: b.script.now - 1})
			b.expect(errors.Is(err, ErrTooLate), "relinquish: %v", err)
			other := b.worker("two", "h")
			b.expire()
			in = other.input()
			late(&in)
			_, err = b.Claim(ctx, in)
			b.expect(errors.Is(err, ErrTooLate), "takeover: %v", err)
			b.expect(b.Position() == before.Position, "something was written")
			w.claim(func(in *engine.ClaimInput) { in.NotAfter = b.script.now })
		},
	}, {
		name: "a claim whose commit fails",
		says: "nothing is granted that is not committed",
		only: "locking",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a")
			w := b.worker("one", "h")
			b.script.fail("Claim", "commit", 0, ErrDeadlock)
			reply, err := b.Claim(ctx, w.input())
			b.expect(errors.Is(err, engine.ErrRetryable) && len(reply.Picks) == 0, "%v, %+v", err, reply)
			b.script.at = nil
			b.expect(len(w.claim().Picks) == 1, "lost")
		},
	}, {
		name: "not-after passes while the claim waits",
		says: "the clock is read above the lane lock, after the wait",
		only: "locking",
		run: func(b *bench) {
			w := b.start("a")
			tx := must(b.Begin(ctx))(b)
			st := must(tx.statement(ctx, "hold"))(b)
			must(lockTarget(&st, b.db.lanes, w.held[0].Lane, forNoKeyUpdate, wait, nil))(b)
			b.script.block = func(Point) error {
				b.pass(time.Second / 2)
				return tx.Rollback()
			}
			in := w.input()
			in.NotAfter = b.script.now.Add(time.Second / 4)
			_, err := b.Claim(ctx, in)
			b.expect(errors.Is(err, ErrTooLate), "served although too late: %v", err)
		},
	}, {
		name: "takeover",
		says: "a lease that ran out is taken over: what was in flight is charged once, and the former holder's ends are refused",
		run: func(b *bench) {
			w := b.start("a", "b/k", "c/k")
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			b.expect(len(other.held) > 0, "nothing was taken over")
			for i, want := range []int32{1, 1, 0} {
				id := protocol.DeliveryID(i + 1)
				d := b.row(id)
				b.expect(d.Attempts == want && d.Takeovers == 1, "#%d: attempts %d, takeovers %d", id, d.Attempts, d.Takeovers)
			}
			b.lost(w.complete(1, 2, 3))
			v, err := w.completeTx(1)
			b.expect(v == engine.LeaseLost || errors.Is(err, engine.ErrRetryable), "completion in a transaction: %v, %v", v, err)
			b.expect(w.reschedule(1) == engine.LeaseLost && w.bury(2) == engine.LeaseLost, "an end was accepted")
			extended := must(b.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: w.holder, Lanes: w.held, TTL: ttl}))(b)
			for _, v := range extended.Verdicts {
				b.expect(v == engine.LeaseLost, "the former owner renewed its lane")
			}
			reply := w.claim(noRoom)
			b.expect(len(reply.Lanes) == 0, "the former owner still holds %v", reply.Lanes)
		},
	}, {
		name: "takeover at the edge of the lease",
		says: "a lane belongs to its holder up to the last instant of the lease",
		run: func(b *bench) {
			b.start("a")
			other := b.worker("two", "h")
			b.pass(ttl)
			b.expect(len(other.claim().Lanes) == 0, "taken at the instant of expiry")
			b.pass(1)
			other.claim()
			b.expect(b.row(1).Takeovers == 1, "not taken when expired")
		},
	}, {
		name: "no takeover before expiry",
		says: "shortly before the lease runs out its holder may still act on it",
		run: func(b *bench) {
			b.start("a")
			other := b.worker("two", "h")
			b.pass(ttl - 10*time.Millisecond)
			reply := other.claim()
			b.expect(len(reply.Lanes)+len(reply.GivenBack) == 0, "taken before the lease ran out")
		},
	}, {
		name: "own lane is never taken over",
		says: "a worker cut off for longer than a lease claims its lanes again, uncharged, and its completions stand",
		run: func(b *bench) {
			w := b.start("a")
			b.expire()
			held := w.held
			w.held = nil
			w.claim()
			b.expect(b.row(1).Attempts == 0, "its own run was charged")
			w.held = held
			w.claim()
			b.applied(w.complete(1))
		},
	}, {
		name: "renewal",
		says: "claims and extensions renew for one length of the lease from the store's clock, also after expiry",
		run: func(b *bench) {
			w := b.start("a")
			b.pass(4 * time.Second)
			extended := must(b.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: w.holder, Lanes: w.held, TTL: ttl}))(b)
			b.expect(extended.Verdicts[0] == engine.Applied && b.laneOf(1).ExpiresAt == b.script.now.Add(ttl), "not renewed")
			b.expire()
			extended = must(b.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: w.holder, Lanes: w.held, TTL: ttl}))(b)
			b.expect(extended.Verdicts[0] == engine.Applied, "an expired lane that nobody took was not renewed")
			stale := []protocol.LaneEpoch{{Lane: w.held[0].Lane, Epoch: w.held[0].Epoch + 1}}
			extended = must(b.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: w.holder, Lanes: stale, TTL: ttl}))(b)
			b.expect(extended.Verdicts[0] == engine.LeaseLost, "renewed under another epoch")
		},
	}, {
		name: "let expire and draining",
		says: "a lane that is to expire is neither renewed nor picked from; a draining one is renewed",
		run: func(b *bench) {
			w := b.start("a")
			lane := w.held[0].Lane
			before := b.laneOf(1).ExpiresAt
			for i := range 20 {
				b.publish(sprint("more", i))
			}
			b.pass(time.Second)
			reply := w.claim(func(in *engine.ClaimInput) { in.LetExpire, in.MaxLanes = []protocol.LaneID{lane}, 0 })
			b.expect(len(reply.Picks) == 0 && b.laneOf(1).ExpiresAt == before, "renewed, or picked %v", ids(reply))
			reply = w.claim(func(in *engine.ClaimInput) { in.Draining, in.MaxLanes = []protocol.LaneID{lane}, 0 })
			b.expect(len(reply.Picks) == 0 && b.laneOf(1).ExpiresAt > before, "not renewed, or picked %v", ids(reply))
			b.expect(len(reply.Lanes) == 1, "the lane is not reported")
		},
	}, {
		name: "relinquish",
		says: "a lane goes back only with the right epoch, in order, and when nothing of it runs",
		run: func(b *bench) {
			w := b.start("a")
			lane := w.held[0]
			give := func(number int64, epoch int64, running []protocol.Running, keep ...protocol.LaneID) int {
				reply := must(b.Relinquish(ctx, engine.RelinquishInput{
					Holder: w.holder, Number: number, Lanes: []protocol.LaneEpoch{{Lane: lane.Lane, Epoch: epoch}}, Running: running, Keep: keep,
				}))(b)
				return len(reply.Lanes)
			}
			b.expect(give(100, lane.Epoch, w.running) == 0, "given back with work in flight")
			b.expect(give(2, lane.Epoch, nil) == 0, "given back by a call older than the last claim")
			b.expect(give(100, lane.Epoch+1, nil) == 0, "given back under another epoch")
			b.expect(give(100, lane.Epoch, nil, lane.Lane) == 0, "given back although it is to be kept")
			b.expect(give(100, lane.Epoch, nil) == 1, "not given back")
			l := b.laneOf(1)
			b.expect(l.Holder.IsZero() && l.LastHolder == w.holder && len(l.InFlight) == 0 && l.Epoch == lane.Epoch, "the lane is %+v", l)
			other := b.worker("two", "h")
			b.expect(len(other.claim().Picks) == 1 && b.row(1).Attempts == 0, "the next holder gets nothing, or the run was charged")
		},
	}, {
		name: "which lanes are candidates",
		says: "a free lane is taken only for a row this worker can pick; an expired one always, and it goes back when it gives nothing",
		run: func(b *bench) {
			b.start("a")
			idle := b.worker("idle", "other")
			reply := idle.claim()
			b.expect(len(reply.Lanes)+len(reply.GivenBack) == 0, "took free lanes without work for it")
			b.expire()
			reply = idle.claim()
			b.expect(len(reply.Lanes) == 0 && len(reply.GivenBack) == 1, "want the expired lane taken and given back: %+v", reply)
			b.expect(b.row(1).Takeovers == 1, "what was in flight was not charged")
			one := b.worker("three", "h")
			reply = one.claim(func(in *engine.ClaimInput) { in.Avoid = reply.GivenBack })
			b.expect(len(reply.Picks) == 0, "took a lane that it is to avoid")
			b.expect(len(one.claim().Picks) == 1, "the free lane with work is not taken")
		},
	}, {
		name: "lanes with work for others",
		says: "a lane holding work of a handler that others serve is reported; a handler that nobody served for three minutes, or that was removed, is not",
		run: func(b *bench) {
			b.subscribe("h", "other")
			b.publish("a")
			w := b.worker("one", "h")
			lacking := func() bool {
				reply := w.claim()
				b.expect(len(reply.Lanes) == 1, "lanes %+v", reply)
				return reply.Lanes[0].Lacking
			}
			b.expect(lacking(), "the lane is not reported")
			b.pass(3*time.Minute + 1)
			b.expect(!lacking(), "reported for a handler that nobody serves")
			b.subscribe("other")
			b.expect(lacking(), "not reported again")
			must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "e", Handler: "other"}, Bury: true}))(b)
			b.expect(!lacking(), "reported for a handler that was removed")
		},
	}, {
		name: "room and limit",
		says: "a call grants no more per handler than there is room for, no more chains than can start, no more deliveries than the limit",
		run: func(b *bench) {
			b.subscribe("g", "h")
			for i := range 12 {
				b.publish(sprint("e", i))
			}
			w := b.worker("one", "g", "h")
			reply := w.claim(func(in *engine.ClaimInput) { in.Handlers[0].Room, in.Handlers[1].Room = 2, 0 })
			b.expect(len(reply.Picks) == 2, "picked %v", ids(reply))
			for _, p := range reply.Picks {
				b.expect(p.Delivery.Handler == "g", "picked for a handler without room")
			}
			b.expect(len(w.claim(func(in *engine.ClaimInput) { in.Room = 3 }).Picks) == 3, "more chains than can start")
			b.expect(len(w.claim(limit(4)).Picks) == 4, "more deliveries than the limit")
		},
	}, {
		name: "lost reply",
		says: "after a reply was lost the worker claims all its lanes, and what that reply granted is granted anew, uncharged",
		run: func(b *bench) {
			w := b.worker("one", "h")
			b.subscribe("h")
			b.publish("a", "b/k", "c/k")
			b.script.fail("Claim", "reply", 0, errors.New("reset"))
			_, err := b.Claim(ctx, w.input())
			b.expect(err != nil && !errors.Is(err, engine.ErrRetryable), "the loss is reported as %v", err)
			b.script.at = nil
			reply := w.claim(func(in *engine.ClaimInput) { in.AllMine = true })
			b.expect(len(reply.Picks) == 3, "granted %v, want all", ids(reply))
			for id := range protocol.DeliveryID(3) {
				b.expect(b.row(id+1).Attempts == 0, "#%d was charged", id+1)
			}
			b.applied(w.complete(1, 2, 3))
		},
	}, {
		name: "suspects",
		says: "what was in flight when a worker died runs one at a time, the one due first, and alone",
		run: func(b *bench) {
			b.start("a", "b", "c", "d")
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			b.expect(len(other.running) == 1, "%d suspects at once", len(other.running))
			b.expect(len(other.claim().Picks) == 0, "a second suspect beside the first")
			b.applied(other.complete(other.running[0].Delivery))
			other.forget(other.running[0].Delivery)
			b.expect(len(other.claim().Picks) == 1, "the next suspect does not get its turn")
		},
	}, {
		name: "suspects stay suspects",
		says: "a failure does not make a suspect innocent; only Requeue does",
		run: func(b *bench) {
			b.start("a", "b")
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			id := other.running[0].Delivery
			b.expect(other.reschedule(id) == engine.Applied, "not rescheduled")
			other.forget(id)
			b.pass(2 * time.Second)
			reply := other.claim()
			b.expect(len(reply.Picks) == 1, "both suspects at once: %v", ids(reply))
		},
	}, {
		name: "poison",
		says: "a delivery that kills its worker dies within its limit, and charges each neighbour at most once",
		run: func(b *bench) {
			b.subscribe("h")
			for i := range 8 {
				b.publish(sprint("e", i))
			}
			const poison, limit = 3, 3
			starts := 0
			for life := range 40 {
				w := b.worker(sprint("life", life), "h")
				for alive := true; alive; {
					reply := w.claim()
					if len(reply.Picks) == 0 {
						break
					}
					for _, p := range reply.Picks {
						if p.Delivery.Attempts >= limit {
							must(b.Bury(ctx, engine.BuryInput{Lease: p.Lease, Error: "limit"}))(b)
							w.forget(p.Delivery.ID)
						} else if p.Delivery.ID == poison {
							starts++
							alive = false
						}
					}
					if !alive {
						break
					}
					for _, r := range slices.Clone(w.running) {
						b.applied(w.complete(r.Delivery))
						w.forget(r.Delivery)
					}
				}
				b.expire()
			}
			rows := b.Snapshot().Deliveries
			b.expect(len(rows) == 1 && rows[0].ID == poison && rows[0].Status == protocol.Dead, "left: %+v", rows)
			b.expect(starts == limit, "the poison was started %d times", starts)
		},
	},
}

package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// aged is older than the rows of a test, after a short wait.
const aged = time.Millisecond

// age lets what is there become old enough for a purge.
func age() { time.Sleep(10 * aged) }

var operateCases = []kase{
	{
		name: "a requeued letter is as new",
		why:  "a repaired message dies again at once, or does not run",
		run: func(b *bench) {
			w := b.letters("a", "b/k")
			b.expect(b.requeue("a", "b") == 2, "not both")
			for _, id := range []string{"a", "b"} {
				d := b.row(id)
				b.expect(d.Status == protocol.Pending && d.Attempts == 0 && d.Takeovers == 0 && d.DiedAt == 0, "%+v", d)
			}
			b.same(w.claim(), "a", "b")
		},
	}, {
		name: "only the dead are requeued",
		why:  "an operator's mistake resets the attempts of running work",
		run: func(b *bench) {
			w := b.start("a", "b")
			b.expect(b.reschedule(w.lease("a")) == engine.Applied, "refused")
			reply, err := b.Requeue(b.ctx, engine.RequeueInput{IDs: []engine.DeliveryID{w.lease("a").Delivery, w.lease("b").Delivery, 1 << 50, 0, -1}})
			b.expect(err == nil && reply.Requeued == 0, "%+v, %v", reply, err)
			b.pending("a", 1)
			w.completed("b")
		},
	}, {
		name: "an id named twice is requeued once",
		why:  "an operator is told a wrong number",
		run: func(b *bench) {
			b.letters("a")
			id := b.row("a").ID
			reply, err := b.Requeue(b.ctx, engine.RequeueInput{IDs: []engine.DeliveryID{id, id}})
			b.expect(err == nil && reply.Requeued == 1, "%+v, %v", reply, err)
		},
	}, {
		name: "requeue by a filter",
		why:  "an operator brings back what should stay dead",
		run: func(b *bench) {
			b.subscribe("audit")
			b.letters("a/k", "b/l", "c/k", "d")
			all := b.list(engine.Filter{Handler: "h"})
			pending, dead := protocol.Pending, protocol.Dead
			for _, f := range []struct {
				filter engine.Filter
				want   int
			}{
				{engine.Filter{Handler: "audit"}, 0},
				{engine.Filter{Key: "none"}, 0},
				{engine.Filter{EventType: "other"}, 0},
				{engine.Filter{Status: &pending}, 0},
				{engine.Filter{DiedUntil: all[0].Delivery.DiedAt}, 0},
				{engine.Filter{Key: "k", Handler: "h"}, 2},
				{engine.Filter{EventID: "b", Status: &dead}, 1},
				{engine.Filter{EventType: "e", DiedSince: all[3].Delivery.DiedAt}, 1},
			} {
				reply, err := b.Requeue(b.ctx, engine.RequeueInput{Filter: f.filter})
				b.expect(err == nil && reply.Requeued == f.want, "%+v: %+v, %v, want %d", f.filter, reply, err, f.want)
			}
		},
	}, {
		name: "requeue everything needs to be said",
		why:  "a forgotten filter brings every dead letter back",
		run: func(b *bench) {
			b.letters("a", "b")
			_, err := b.Requeue(b.ctx, engine.RequeueInput{})
			b.expect(errors.Is(err, engine.ErrInvalid), "got %v, want ErrInvalid", err)
			_, err = b.Requeue(b.ctx, engine.RequeueInput{All: true, Limit: -1})
			b.expect(errors.Is(err, engine.ErrInvalid), "a negative limit: got %v, want ErrInvalid", err)
			reply, err := b.Requeue(b.ctx, engine.RequeueInput{All: true})
			b.expect(err == nil && reply.Requeued == 2, "%+v, %v", reply, err)
		},
	}, {
		name: "a limited requeue",
		why:  "an operator who tries one message first floods the handler",
		run: func(b *bench) {
			b.letters("a", "b", "c", "d")
			for _, want := range []int{3, 1, 0} {
				reply, err := b.Requeue(b.ctx, engine.RequeueInput{All: true, Limit: 3})
				b.expect(err == nil && reply.Requeued == want, "%+v, %v, want %d", reply, err, want)
			}
		},
	}, {
		name: "old dead letters are purged",
		why:  "the store grows for ever, or young dead letters are lost",
		run: func(b *bench) {
			b.letters("a", "b/k", "c")
			age()
			done := b.purge(engine.PurgeInput{DeadAfter: later})
			b.expect(done.Dead == 0, "young ones went: %+v", done)
			done = b.purge(engine.PurgeInput{DeadAfter: aged, Batch: 2})
			b.expect(done.Dead == 3 && done.Events == 0, "%+v", done)
			b.gone("a", "b", "c")
			b.expect(b.publish("a")[0] == engine.Known, "the event went too")
		},
	}, {
		name: "an event outlives its deliveries and goes when it is old",
		why:  "a repeated publish runs a completed handler again, or the store grows for ever",
		run: func(b *bench) {
			w := b.start("done", "dead", "open/k")
			w.completed("done")
			b.expect(b.bury(w.lease("dead")) == engine.Applied, "refused")
			age()
			done := b.purge(engine.PurgeInput{EventsAfter: later})
			b.expect(done.Events == 0, "young ones went: %+v", done)
			done = b.purge(engine.PurgeInput{EventsAfter: aged, Batch: 1})
			b.expect(done.Events == 1 && done.Dead == 0, "%+v, want the completed one", done)
			b.expect(b.statistics().Events == 2, "%+v", b.statistics())
			b.expect(b.publish("done")[0] == engine.Added, "a purged id was remembered")
			done = b.purge(engine.PurgeInput{DeadAfter: aged, EventsAfter: aged})
			b.expect(done.Dead == 1 && done.Events == 1, "%+v, want the dead one", done)
			w.completed("open")
		},
	}, {
		name: "a purge of nothing",
		why:  "a purge without ages deletes everything",
		run: func(b *bench) {
			b.letters("a")
			b.publish("b")
			age()
			done := b.purge(engine.PurgeInput{})
			b.expect(done == engine.PurgeReply{}, "%+v", done)
			for _, in := range []engine.PurgeInput{{DeadAfter: -1}, {EventsAfter: -1}, {HistoryAfter: -1}, {Batch: -1}} {
				_, err := b.Purge(b.ctx, in)
				b.expect(errors.Is(err, engine.ErrInvalid), "%+v: got %v, want ErrInvalid", in, err)
			}
		},
	}, {
		name: "a purge in many batches",
		why:  "a purge stops after its first batch",
		run: func(b *bench) {
			var list []string
			for i := range 25 {
				list = append(list, fmt.Sprint(i))
			}
			b.letters(list...)
			age()
			done := b.purge(engine.PurgeInput{DeadAfter: aged, EventsAfter: aged, Batch: 4})
			b.expect(done.Dead == 25 && done.Events == 25, "%+v", done)
		},
	}, {
		name: "an unsubscribed handler's work is buried",
		why:  "work for a handler that nobody has stays for ever, or is lost without a trace",
		run: func(b *bench) {
			b.subscribe("h", "gone")
			b.publish("a", "b/k")
			reply := b.removed("gone", true)
			b.expect(reply.Swept == 2, "%+v", reply)
			d := b.rowOf("a", "gone")
			b.expect(d.Status == protocol.Dead && d.LastError != "" && d.DiedAt > 0 && d.Attempts == 0, "%+v", d)
			b.pending("a", 0)
			b.expect(len(b.worker("gone").claim()) == 0, "granted after the removal")
		},
	}, {
		name: "an unsubscribed handler's work is deleted",
		why:  "an operator who wants it gone finds thousands of dead letters",
		run: func(b *bench) {
			b.subscribe("h", "gone")
			b.publish("a", "b/k")
			b.expect(b.removed("gone", false).Swept == 2, "not both")
			b.expect(len(b.list(engine.Filter{Handler: "gone"})) == 0, "left")
			b.expect(b.removed("gone", false).Swept == 0, "swept twice")
		},
	}, {
		name: "only the event type that was named is unsubscribed",
		why:  "removing a handler from one event type loses its work for another",
		run: func(b *bench) {
			b.subscribe("h")
			b.join(false, "default", "other", "h")
			other := event("b")
			other.Type = "other"
			b.publishEvents(event("a"), other)
			b.expect(b.removed("h", true).Swept == 1, "swept more")
			b.same(b.worker().claim(), "b")
		},
	}, {
		name: "an unknown handler cannot be unsubscribed",
		why:  "a typing error looks like a success",
		run: func(b *bench) {
			b.subscribe("h")
			b.expect(errors.Is(b.unsubscribe("H", true), engine.ErrInvalid), "got no ErrInvalid")
		},
	}, {
		name: "a start does not revive a removed handler",
		why:  "an old version that restarts once more brings a removed handler back for good",
		run: func(b *bench) {
			b.subscribe("h", "gone")
			b.removed("gone", true)
			reply := b.subscribe("gone", "h")
			b.expect(slices.Equal(reply.Removed, []engine.EventHandler{{Event: "e", Handler: "gone"}}), "%+v", reply)
			b.publish("a")
			b.expect(len(b.list(engine.Filter{Handler: "gone"})) == 0, "delivered")
			reply = b.join(true, "default", "e", "gone")
			b.expect(len(reply.Removed) == 0, "%+v", reply)
			b.publish("b")
			b.same(b.worker("gone").claim(), "b")
			b.expect(b.publish("a")[0] == engine.Added, "the revived handler cannot be given what it missed")
		},
	}, {
		name: "a purge sweeps what came for a removed handler",
		why:  "what a publisher added while a handler was removed waits for ever",
		run: func(b *bench) {
			b.subscribe("h", "gone")
			tx := b.open("")
			_, err := tx.publish("late/k")
			b.ok(err, "publish")
			b.removed("gone", true)
			b.ok(tx.commit(), "commit")
			done := b.purge(engine.PurgeInput{})
			b.expect(done.Swept == 1, "%+v", done)
			b.expect(b.rowOf("late", "gone").Status == protocol.Dead, "%+v", b.rowOf("late", "gone"))
			b.pending("late", 0)
		},
	}, {
		name: "a removal in mid run",
		why:  "a handler that runs while it is removed is taken for done, or runs again",
		run: func(b *bench) {
			w := b.start("a/k", "b")
			b.removed("h", false)
			b.expect(b.reschedule(w.lease("a")) == engine.LeaseLost, "recorded a failure of what is gone")
			v, err := w.tx("", "b")
			b.expect(v == engine.LeaseLost && err == nil && b.effects("b") == 0, "%s, %v", v, err)
			b.verify("while a swept delivery is listed")
		},
	}, {
		name: "statistics count what is there",
		why:  "an operator looks at a quiet dashboard while work piles up",
		run: func(b *bench) {
			b.subscribe("audit")
			one := b.start("a", "b/k", "c/k", "d", "e")
			b.expect(b.bury(one.lease("a")) == engine.Applied && b.reschedule(one.lease("d")) == engine.Applied, "refused")
			one.completed("e")
			s := b.statistics()
			b.expect(s.Events == 5 && s.Dead == 1 && s.Pending == 3+5 && s.Stuck == 0 && s.Expired == 0 && s.Held > 0 && s.Now > 0, "%+v", s)
			b.expect(s.Due == 5 && s.OldestDue > 0 && s.OldestDue <= s.Now, "audit's five are due: %+v", s)
			b.expect(s.Running+s.Waiting <= 2 && s.Running == 1, "%+v", s)
			h := s.Handlers
			b.expect(len(h) == 2 && h[0].Handler == "audit" && h[1].Handler == "h", "%+v", h)
			b.expect(h[0].Pending == 5 && h[0].Due == 5 && h[0].Dead == 0, "%+v", h[0])
			b.expect(h[1].Pending == 3 && h[1].Due == 0 && h[1].Dead == 1, "%+v", h[1])
			b.expect(h[1].Subscribed && !h[1].Removed && h[1].SeenAt > 0, "%+v", h[1])
			b.removed("audit", false)
			h = b.statistics().Handlers
			b.expect(len(h) == 2 && !h[0].Subscribed && h[0].Removed && h[0].Pending == 0, "%+v", h)
			b.expireLanes()
			s = b.statistics()
			b.expect(s.Running == 0 && s.Waiting == 0 && s.Held == 0 && s.Expired > 0, "%+v", s)
		},
	}, {
		name: "statistics of an empty store",
		why:  "a new installation shows an error",
		run: func(b *bench) {
			s := b.statistics()
			b.expect(s.Now > 0 && s.Events+s.Pending+s.Dead+s.Held == 0 && s.OldestDue == 0 && len(s.Handlers) == 0, "%+v", s)
			b.expect(len(b.list(engine.Filter{})) == 0, "%v", b.list(engine.Filter{}))
		},
	}, {
		name: "a list is filtered",
		why:  "an operator looks for one customer's messages and sees none, or all",
		run: func(b *bench) {
			b.subscribe("audit")
			b.letters("a/k", "b/l")
			b.publish("c/k")
			pending, dead := protocol.Pending, protocol.Dead
			died := b.row("a").DiedAt
			for _, f := range []struct {
				filter engine.Filter
				want   []string
			}{
				{engine.Filter{Handler: "h"}, []string{"a", "b", "c"}},
				{engine.Filter{Handler: "h", Key: "k"}, []string{"a", "c"}},
				{engine.Filter{Handler: "h", Status: &dead}, []string{"a", "b"}},
				{engine.Filter{Handler: "h", Status: &pending}, []string{"c"}},
				{engine.Filter{EventID: "a"}, []string{"a", "a"}},
				{engine.Filter{EventType: "e", Handler: "h", EventID: "b"}, []string{"b"}},
				{engine.Filter{EventType: "other"}, nil},
				{engine.Filter{DiedSince: died, DiedUntil: died + 1}, b.diedAt(died)},
				{engine.Filter{DiedSince: 1}, []string{"a", "b"}},
				{engine.Filter{DiedUntil: died}, nil},
			} {
				var got []string
				for _, l := range b.list(f.filter) {
					got = append(got, l.Delivery.Event)
				}
				b.same(got, f.want...)
			}
		},
	}, {
		name: "a list shows what a delivery is",
		why:  "an operator cannot tell what a message says, or who runs it",
		run: func(b *bench) {
			w := b.start("a/k", "b")
			b.expect(b.bury(w.lease("b")) == engine.Applied, "refused")
			rows := b.list(engine.Filter{})
			b.expect(len(rows) == 2, "%v", rows)
			for _, l := range rows {
				b.expect(l.Event != nil && l.Event.ID == l.Delivery.Event && string(l.Event.Payload) == l.Event.ID && slices.Equal(l.Event.Handlers, []string{"h"}) && l.Event.PublishedAt > 0, "%+v", l.Event)
				inFlight := l.Delivery.Event == "a"
				b.expect(l.Running == inFlight && (l.Owner == w.owner) == inFlight, "%+v", l)
			}
			b.expireLanes()
			for _, l := range b.list(engine.Filter{}) {
				b.expect(!l.Running && l.Owner == "", "after the expiry: %+v", l)
			}
		},
	}, {
		name: "a list comes in pages",
		why:  "an operator does not see the rest",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a", "b", "c", "d", "e")
			in := engine.ListInput{Limit: 2}
			var ids []engine.DeliveryID
			for pages := 0; ; pages++ {
				b.expect(pages < 4, "pages without an end")
				reply := b.listPage(in)
				for _, l := range reply.Deliveries {
					ids = append(ids, l.Delivery.ID)
				}
				if in.After = reply.Next; in.After == 0 {
					break
				}
				b.expect(len(reply.Deliveries) == 2, "a page of %d", len(reply.Deliveries))
			}
			b.expect(len(ids) == 5 && slices.IsSorted(ids), "%v", ids)
			b.expect(len(b.listPage(engine.ListInput{}).Deliveries) == 5, "the default page")
			for _, limit := range []int{-1, engine.MaxList + 1} {
				_, err := b.List(b.ctx, engine.ListInput{Limit: limit})
				b.expect(errors.Is(err, engine.ErrInvalid), "limit %d: got %v, want ErrInvalid", limit, err)
			}
		},
	}, {
		name: "verify raises no false alarm",
		why:  "an operator is woken for nothing, and does not look the next time",
		run: func(b *bench) {
			b.verify("on an empty store")
			w := b.start("a/k", "b/k", "c", "d")
			b.verify("in flight")
			b.completeLeases(w.lease("c"))
			b.verify("with an entry of a gone row")
			b.expireLanes()
			b.verify("after the expiry")
			two := b.worker()
			two.claim()
			b.verify("after a takeover")
			two.release(two.picks[0].Lease)
			two.forgetAll()
			two.once(nothing)
			two.relinquish()
			b.verify("after giving back")
			w = b.letters("x/k2")
			b.publish("y/k2")
			w.claim()
			b.requeue("x")
			b.verify("with a requeued delivery before one in flight")
			b.removed("h", true)
			b.verify("after burying what is in flight")
			b.purge(engine.PurgeInput{DeadAfter: aged, EventsAfter: aged})
			b.verify("after a purge")
		},
	}, {
		name: "verify says what it looked at",
		why:  "a check that saw nothing looks like a clean store",
		run: func(b *bench) {
			b.start("a", "b")
			reply, err := b.Verify(b.ctx)
			b.expect(err == nil && reply.Deliveries == 2 && reply.Lanes == int(b.lanes) && reply.Now > 0, "%+v, %v", reply, err)
		},
	},
}

// purge purges, again while its error says that it may.
func (b *bench) purge(in engine.PurgeInput) engine.PurgeReply {
	b.Helper()
	var done engine.PurgeReply
	b.ok(b.retry(func() (err error) {
		done, err = b.Purge(b.ctx, in)
		return err
	}), "purge")
	return done
}

// removed removes a handler of event type "e".
func (b *bench) removed(handler string, bury bool) engine.UnsubscribeReply {
	b.Helper()
	reply, err := b.Unsubscribe(b.ctx, engine.UnsubscribeInput{EventHandler: engine.EventHandler{Event: "e", Handler: handler}, Bury: bury})
	b.ok(err, "unsubscribe")
	return reply
}

// diedAt returns the events whose delivery died at a moment: on a coarse clock
// it may be more than one.
func (b *bench) diedAt(t engine.StoreTime) []string {
	b.Helper()
	var list []string
	for _, l := range b.list(engine.Filter{}) {
		if l.Delivery.DiedAt == t {
			list = append(list, l.Delivery.Event)
		}
	}
	return list
}

package simstore

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// letters buries deliveries, so that a later Purge may take them.
func (b *bench) letters(ids ...string) {
	b.Helper()
	w := b.start(ids...)
	for len(w.running) > 0 {
		id := w.running[0].Delivery
		b.expect(w.bury(id) == engine.Applied, "not buried")
		w.forget(id)
	}
	b.pass(2 * time.Hour)
}

var old = engine.PurgeInput{DeadAfter: time.Hour, EventsAfter: time.Hour, HistoryAfter: time.Hour, Batch: 2}

var operateScenarios = []scenario{
	{
		name: "requeue",
		says: "a requeued dead letter is due at once with nothing charged; what is not dead stays as it is",
		run: func(b *bench) {
			w := b.start("a", "b")
			b.expect(w.bury(1) == engine.Applied, "not buried")
			n := must(b.Requeue(ctx, engine.RequeueInput{IDs: []protocol.DeliveryID{1, 2, 9, 1}}))(b)
			d := b.row(1)
			b.expect(n.Requeued == 1 && d.Status == protocol.Pending && d.Attempts == 0 && d.DiedAt == 0 && d.AvailableAt == b.script.now, "%+v, %+v", n, d)
			w.forget(1)
			b.expect(slices.Equal(ids(w.claim()), []protocol.DeliveryID{1}), "not granted")
		},
	}, {
		name: "purge",
		says: "dead letters and events go when they are old enough, in batches; an event stays while it has a delivery",
		with: func(o *Options) { o.History = true },
		run: func(b *bench) {
			b.letters("a", "b", "c", "d", "e")
			b.publish("young", "pending")
			w := b.worker("two", "h")
			w.claim()
			for _, p := range w.picks {
				if p.Event.ID == "young" {
					b.applied(w.complete(p.Delivery.ID))
				}
			}
			done := must(b.Purge(ctx, old))(b)
			b.expect(done == engine.PurgeReply{Dead: 5, Events: 5}, "%+v", done)
			b.pass(2 * time.Hour)
			done = must(b.Purge(ctx, old))(b)
			b.expect(done == engine.PurgeReply{Events: 1, History: 1}, "%+v", done)
			b.expect(len(b.Snapshot().Events) == 1 && len(b.Snapshot().Completions) == 0, "left: %+v", b.Snapshot())
			none := must(b.Purge(ctx, engine.PurgeInput{}))(b)
			b.expect(none == engine.PurgeReply{}, "%+v", none)
		},
	}, {
		name: "purge against requeue",
		says: "a letter that is requeued while a purge looks at it stays",
		run: func(b *bench) {
			b.letters("a")
			b.script.at = nil
			for _, step := range []string{"delete dead", "lock dead", "find dead", "commit"} {
				struck := false
				b.script.once("Purge", step, func() {
					struck = true
					b.Requeue(ctx, engine.RequeueInput{IDs: []protocol.DeliveryID{1}})
				})
				b.Purge(ctx, engine.PurgeInput{DeadAfter: time.Hour})
				b.script.at = nil
				d, there := b.Delivery(1)
				if struck && step != "commit" {
					b.expect(there && d.Status == protocol.Pending, "at %q: there %v, %+v", step, there, d)
				}
				if !there {
					return
				}
				if d.Status == protocol.Pending {
					w := b.worker("at "+step, "h")
					b.expire()
					w.claim()
					b.expect(w.bury(1) == engine.Applied, "not buried again")
					b.pass(2 * time.Hour)
				}
			}
		},
	}, {
		name: "purge against a publisher",
		says: "an event that gets a handler while a purge looks at it stays, and so does its delivery",
		run: func(b *bench) {
			for i, step := range []string{"find events", "lock events", "delete events", "delete event"} {
				id := sprint("e", i)
				if i == 0 {
					b.subscribe("h")
				}
				b.publish(id)
				w := b.worker("w"+step, "h")
				b.expire()
				w.claim()
				for _, r := range slices.Clone(w.running) {
					w.complete(r.Delivery)
				}
				b.pass(2 * time.Hour)
				b.subscribe("h", "late"+sprint(i))
				struck := false
				b.script.once("Purge", step, func() {
					struck = true
					tx := must(b.Begin(ctx))(b)
					if _, err := b.Publish(ctx, tx, events(id)); err == nil {
						tx.Commit(ctx)
					} else {
						struck = false // the purge was first, and the publisher tries again
					}
				})
				b.script.block = nil
				b.Purge(ctx, engine.PurgeInput{EventsAfter: time.Hour})
				b.script.at = nil
				for _, d := range b.Snapshot().Deliveries {
					b.expect(slices.ContainsFunc(b.Snapshot().Events, func(e protocol.Event) bool { return e.ID == d.Event }),
						"at %q (struck %v): #%d has no event", step, struck, d.ID)
				}
			}
		},
	}, {
		name: "unsubscribe",
		says: "an unsubscribed handler gets nothing more; what is pending is buried or deleted as asked, what comes late is swept by Purge",
		run: func(b *bench) {
			b.subscribe("h", "gone")
			late := must(b.Begin(ctx))(b)
			must(b.Publish(ctx, late, events("open")))(b)
			b.publish("a", "b/k")
			swept := must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "e", Handler: "gone"}, Bury: true}))(b).Swept
			b.expect(swept == 2, "swept %d", swept)
			b.expect(late.Commit(ctx) == nil, "setup")
			b.publish("c")
			done := must(b.Purge(ctx, old))(b)
			b.expect(done.Swept == 1, "%+v", done)
			for _, d := range b.Snapshot().Deliveries {
				b.expect((d.Status == protocol.Dead) == (d.Handler == "gone") && (d.Event != "c" || d.Handler == "h"), "%+v", d)
			}
			reply := must(b.Subscribe(ctx, engine.SubscribeInput{Group: "default", Handlers: []engine.EventHandler{{Event: "e", Handler: "gone"}}}))(b)
			b.expect(len(reply.Removed) == 1, "a start revived a removed handler")
			reply = must(b.Subscribe(ctx, engine.SubscribeInput{Group: "default", Revive: true, Handlers: []engine.EventHandler{{Event: "e", Handler: "gone"}}}))(b)
			b.expect(len(reply.Removed) == 0, "not revived")
			b.publish("d")
			b.expect(must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "e", Handler: "gone"}, Bury: false}))(b).Swept == 1, "not deleted")
		},
	}, {
		name: "a purge meets a revival",
		says: "a handler revived while Purge sweeps what was removed stays subscribed, and keeps what is pending for it",
		run: func(b *bench) {
			gone := protocol.EventHandler{Event: "e", Handler: "gone"}
			b.subscribe("gone")
			late := must(b.Begin(ctx))(b)
			must(b.Publish(ctx, late, events("open")))(b)
			must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: gone}))(b)
			b.expect(late.Commit(ctx) == nil, "setup")
			b.script.once("Purge", "mark removed", func() {
				must(b.Subscribe(ctx, engine.SubscribeInput{Group: "default", Handlers: []engine.EventHandler{gone}, Revive: true}))(b)
			})
			done := must(b.Purge(ctx, old))(b)
			c := b.Snapshot()
			b.expect(done.Swept == 0 && !c.Subscriptions[0].Removed && c.Deliveries[0].Status == protocol.Pending, "%+v: %+v", done, c)
		},
	}, {
		name: "subscribe",
		says: "a group gets its number and its lanes once; a handler belongs to the group that it first was in",
		run: func(b *bench) {
			handlers := []engine.EventHandler{{Event: "e", Handler: "h"}}
			first := must(b.Subscribe(ctx, engine.SubscribeInput{Group: "one", Handlers: handlers}))(b)
			b.pass(time.Minute)
			again := must(b.Subscribe(ctx, engine.SubscribeInput{Group: "one", Handlers: handlers}))(b)
			b.expect(first.Group == 0 && again.Group == 0 && first.Lanes == 4, "%+v, %+v", first, again)
			b.expect(b.Snapshot().Subscriptions[0].SeenAt == b.script.now, "not refreshed")
			second := must(b.Subscribe(ctx, engine.SubscribeInput{Group: "two", Handlers: []engine.EventHandler{{Event: "e", Handler: "i"}}}))(b)
			b.expect(second.Group == 1 && len(b.Snapshot().Lanes) == 8, "%+v", second)
			_, err := b.Subscribe(ctx, engine.SubscribeInput{Group: "two", Handlers: handlers})
			b.expect(engine.IsDefinite(err), "a handler in two groups: %v", err)
			b.publish("a")
			b.expect(b.row(1).Lane < 4 && b.row(2).Lane >= 4, "lanes %d and %d", b.row(1).Lane, b.row(2).Lane)
			w := b.worker("w", "i")
			reply := w.claim(func(in *engine.ClaimInput) { in.Group = 1 })
			b.expect(len(reply.Picks) == 1 && reply.Picks[0].Delivery.Handler == "i", "picked %+v", reply.Picks)
		},
	}, {
		name: "two first starts at once",
		says: "two buses that create a group at once agree on its number",
		run: func(b *bench) {
			in := engine.SubscribeInput{Group: "one", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}}
			var inner engine.SubscribeReply
			b.script.once("Subscribe", "create group", func() {
				inner, _ = b.Subscribe(ctx, engine.SubscribeInput{Group: "two"}) // waits, or conflicts
			})
			outer, err := b.Subscribe(ctx, in)
			b.script.at = nil
			if err != nil {
				outer = must(b.Subscribe(ctx, in))(b)
			}
			inner = must(b.Subscribe(ctx, engine.SubscribeInput{Group: "two"}))(b)
			b.expect(outer.Group != inner.Group && len(b.Snapshot().Lanes) == 8, "both are group %d", outer.Group)
		},
	}, {
		name: "a damaged row",
		says: "a delivery without its event is granted without one, so that it does not block its key",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("a/k")
			b.db.events.remove(b.db.events.rows["a"])
			b.alone = true
			reply := b.worker("one", "h").claim()
			b.expect(len(reply.Picks) == 1 && reply.Picks[0].Event == nil, "%+v", reply.Picks)
		},
	},
}

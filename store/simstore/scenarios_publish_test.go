package simstore

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// finishScenarios are about ends as such.
var finishScenarios = []scenario{
	{
		name: "which completions are accepted",
		says: "an end needs the epoch, the holder, the lane and the claim that granted the run",
		run: func(b *bench) {
			w := b.start("a")
			for name, change := range []func(l *engine.Lease){
				func(l *engine.Lease) { l.Epoch++; l.Fence++ },
				func(l *engine.Lease) { l.Holder[0]++ },
				func(l *engine.Lease) { l.Claim++ },
				func(l *engine.Lease) { l.Lane++ },
				func(l *engine.Lease) { l.Delivery = 77 },
			} {
				l := w.lease(1)
				change(&l)
				if b.mode == protocol.Snapshot && name != 0 && name < 3 {
					continue // fenced by the row alone
				}
				b.lost(must(b.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{l}}))(b).Ended)
				b.expect(must(b.Reschedule(ctx, engine.RescheduleInput{Lease: l}))(b).Verdict == engine.LeaseLost || name == 0 && b.mode == protocol.Snapshot,
					"reschedule %d", name)
			}
			b.applied(w.complete(1))
			stale := w.lease(1)
			stale.Claim++
			b.lost(must(b.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{stale}}))(b).Ended)
		},
	}, {
		name: "completion in a transaction",
		says: "the handler's effect and its completion commit together",
		with: func(o *Options) { o.History = true },
		run: func(b *bench) {
			w := b.start("a", "b")
			v, err := w.completeTx(1)
			b.expect(v == engine.Applied && err == nil && b.effects() == 1, "%v, %v", v, err)
			v, err = w.completeTx(1)
			b.expect(v == engine.LeaseLost && err == nil && b.effects() == 1, "completed twice: %v, %v", v, err)
			tx := must(b.Begin(ctx))(b)
			must(b.Complete(ctx, tx, engine.CompleteInput{Lease: w.lease(2), TTL: ttl}))(b)
			tx.Rollback()
			b.row(2)
			b.applied(w.complete(2))
			done := b.Snapshot().Completions
			b.expect(len(done) == 2 && done[0].Delivery.ID == 1 && done[1].Delivery.ID == 2, "history %+v", done)
		},
	}, {
		name: "bury and snooze",
		says: "a snooze charges nothing and is due later; a burial keeps the row as a dead letter, charged if asked",
		run: func(b *bench) {
			w := b.start("a", "b")
			reply := must(b.Snooze(ctx, engine.SnoozeInput{Lease: w.lease(1), Delay: 3 * time.Second}))(b)
			d := b.row(1)
			b.expect(reply.Verdict == engine.Applied && d.Attempts == 0 && d.AvailableAt == b.script.now.Add(3*time.Second), "%+v", d)
			must(b.Bury(ctx, engine.BuryInput{Lease: w.lease(2), Error: "gave up"}))(b)
			d = b.row(2)
			b.expect(d.Status == protocol.Dead && d.Attempts == 0 && d.LastError == "gave up" && d.DiedAt == b.script.now, "%+v", d)
			w.forget(1, 2)
			b.pass(3 * time.Second)
			b.expect(slices.Equal(ids(w.claim()), []protocol.DeliveryID{1}), "not due, or a dead letter granted")
			b.expect(w.bury(1) == engine.Applied && b.row(1).Attempts == 1, "a charging burial")
		},
	}, {
		name: "nothing at all",
		says: "empty and absurd input gives an error or an empty reply, never a panic",
		run: func(b *bench) {
			_, err := b.Claim(ctx, engine.ClaimInput{})
			b.expect(errors.Is(err, engine.ErrInvalid), "claim without a holder: %v", err)
			absurd := engine.Lease{Delivery: -5, Token: protocol.Token{Lane: -1, Epoch: -1, Holder: protocol.Holder{1}, Claim: -1}, After: -2}
			w := b.worker("w", "h")
			in := w.input()
			in.Held = []protocol.LaneEpoch{{Lane: -7}, {Lane: 1 << 30}}
			in.Group, in.Limit, in.Room, in.TTL = -3, -1, 1<<30, -time.Hour
			must(b.Claim(ctx, in))(b)
			in = w.input()
			in.Running = []protocol.Running{{InFlight: protocol.InFlight{Delivery: 4}, Key: "k"}}
			must(b.Claim(ctx, in))(b)
			leases := []engine.Lease{absurd, {}, absurd}
			b.lost(must(b.CompleteMany(ctx, engine.CompleteManyInput{Leases: leases}))(b).Ended)
			must(b.CompleteMany(ctx, engine.CompleteManyInput{}))(b)
			must(b.Release(ctx, engine.ReleaseInput{Leases: leases}))(b)
			must(b.Release(ctx, engine.ReleaseInput{}))(b)
			must(b.Reschedule(ctx, engine.RescheduleInput{Lease: absurd, Rest: leases}))(b)
			must(b.Snooze(ctx, engine.SnoozeInput{Lease: absurd, Settle: true}))(b)
			must(b.Bury(ctx, engine.BuryInput{}))(b)
			must(b.ExtendLease(ctx, engine.ExtendLeaseInput{Lanes: []protocol.LaneEpoch{{Lane: -1}}}))(b)
			must(b.Relinquish(ctx, engine.RelinquishInput{Group: 12, Lanes: []protocol.LaneEpoch{{Lane: -1}}}))(b)
			must(b.Relinquish(ctx, engine.RelinquishInput{}))(b)
			must(b.Requeue(ctx, engine.RequeueInput{IDs: []protocol.DeliveryID{-1, 0, 9}}))(b)
			must(b.Purge(ctx, engine.PurgeInput{DeadAfter: 1, EventsAfter: 1, HistoryAfter: 1}))(b)
			_, err = b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "none", Handler: "none"}, Bury: true})
			b.expect(errors.Is(err, engine.ErrInvalid), "unsubscribe of nobody: %v", err)
		},
	},
}

var publishScenarios = []scenario{
	{
		name: "a delivery per handler",
		says: "every subscribed handler gets a delivery, in the lane of the key, and the payload is kept byte for byte",
		run: func(b *bench) {
			b.subscribe("g", "h")
			payload := []byte{0, 255, 10}
			tx := must(b.Begin(ctx))(b)
			e := protocol.Event{ID: "a", Type: "e", Key: "k", Payload: payload, Headers: []protocol.Header{{Name: "n", Value: "v"}}}
			must(b.Publish(ctx, tx, []protocol.Event{e, {ID: "b", Type: "e", Key: "k"}, {ID: "c", Type: "nobody's"}}))(b)
			payload[0] = 7
			b.expect(len(b.Snapshot().Events) == 0, "visible before the commit")
			if err := tx.Commit(ctx); err != nil {
				b.Fatal(err)
			}
			held := b.Snapshot()
			b.expect(len(held.Deliveries) == 4 && len(held.Events) == 3, "%d deliveries, %d events", len(held.Deliveries), len(held.Events))
			for _, d := range held.Deliveries {
				b.expect(d.Lane == protocol.LaneOf(0, 4, "k", d.Event), "#%d in lane %d", d.ID, d.Lane)
			}
			b.expect(bytes.Equal(held.Events[0].Payload, []byte{0, 255, 10}), "payload %v", held.Events[0].Payload)
			b.expect(slices.Equal(held.Events[0].Handlers, []string{"g", "h"}), "handlers %v", held.Events[0].Handlers)
		},
	}, {
		name: "rolled back",
		says: "what was published in a transaction that is rolled back never was",
		run: func(b *bench) {
			b.subscribe("h")
			tx := must(b.Begin(ctx))(b)
			must(b.Publish(ctx, tx, events("a/k")))(b)
			tx.Rollback()
			b.expect(len(b.Snapshot().Events) == 0, "an event is left")
			b.publish("a/k")
			b.expect(len(b.Snapshot().Deliveries) == 1, "not published")
		},
	}, {
		name: "the same id again",
		says: "an id that is known adds a delivery only for handlers it never had, completed ones included; another type or key adds nothing",
		run: func(b *bench) {
			w := b.start("a/k")
			b.applied(w.complete(1))
			known := b.publish("a/k")
			b.expect(known[0] == engine.Known && len(b.Snapshot().Deliveries) == 0, "a completed handler runs again: %v", known)
			b.expect(b.publish("a/other")[0] == engine.Mismatch && b.publish("a")[0] == engine.Mismatch, "another key is accepted")
			b.subscribe("late")
			b.expect(b.publish("a/k")[0] == engine.Added, "a new handler gets nothing")
			rows := b.Snapshot().Deliveries
			b.expect(len(rows) == 1 && rows[0].Handler == "late", "rows %+v", rows)
			tx := must(b.Begin(ctx))(b)
			list := events("new/k", "new/k", "new/j", "a/k")
			results := must(b.Publish(ctx, tx, list))(b)
			want := []engine.PublishResult{engine.Added, engine.Known, engine.Mismatch, engine.Known}
			b.expect(slices.Equal(results, want) && tx.Commit(ctx) == nil, "results %v", results)
		},
	}, {
		name: "the same id at once",
		says: "two publishers of one id that see different handlers leave a delivery for each, once",
		run: func(b *bench) {
			for _, commits := range []bool{true, false} {
				id := sprint("event", commits, "/k")
				if commits {
					b.subscribe("h")
				}
				first := must(b.Begin(ctx))(b)
				must(b.Publish(ctx, first, events(id)))(b)
				b.subscribe("late" + sprint(commits))
				end := func() error {
					if commits {
						return first.Commit(ctx)
					}
					return first.Rollback()
				}
				b.script.block = func(Point) error { return end() }
				second := must(b.Begin(ctx))(b)
				results, err := b.Publish(ctx, second, events(id))
				if b.mode == protocol.Snapshot {
					b.expect(errors.Is(err, engine.ErrRetryable), "%v", err)
					b.script.block = nil
					if err := end(); err != nil {
						b.Fatal(err)
					}
					second = must(b.Begin(ctx))(b)
					results, err = b.Publish(ctx, second, events(id))
				}
				b.expect(err == nil && results[0] == engine.Added && second.Commit(ctx) == nil, "%v, %v", results, err)
			}
			held := map[string]int{}
			rows := b.Snapshot().Deliveries
			for _, d := range rows {
				held[d.Event+" "+d.Handler]++
			}
			b.expect(len(rows) == 5 && len(held) == 5, "deliveries %v", held)
		},
	}, {
		name: "sequence is commit order",
		says: "of two publishers of one key the one that commits first comes first, however they overlap",
		run: func(b *bench) {
			b.subscribe("h")
			for _, step := range []string{"read subscriptions", "insert events", "lock slots"} {
				if step == "insert events" && b.mode == protocol.Locking {
					continue // the slot is locked by then
				}
				tx := must(b.Begin(ctx))(b)
				b.script.once("Tx", step, func() { b.publish("first at " + step + "/k") })
				_, err := b.Publish(ctx, tx, events("second at "+step+"/k"))
				b.script.at = nil
				if err != nil {
					b.expect(errors.Is(err, engine.ErrRetryable), "%v", err)
					continue
				}
				if err := tx.Commit(ctx); err != nil {
					b.Fatal(err)
				}
			}
		},
	}, {
		name: "a publisher keeps its slots",
		says: "a publisher of a key waits for another of it that is open, and draws its sequence afterwards",
		only: "locking",
		run: func(b *bench) {
			b.subscribe("h")
			first, second := must(b.Begin(ctx))(b), must(b.Begin(ctx))(b)
			must(b.Publish(ctx, first, events("a/k")))(b)
			waited := false
			b.script.block = func(Point) error { waited = true; return first.Commit(ctx) }
			must(b.Publish(ctx, second, events("b/k")))(b)
			b.expect(waited && second.Commit(ctx) == nil, "did not wait")
			b.expect(b.row(1).Event == "a" && b.row(2).Event == "b", "out of order")
			vanished := must(b.Begin(ctx))(b)
			must(b.Publish(ctx, vanished, events("c/k")))(b)
			b.publish("d/k")
			b.expect(errors.Is(vanished.Put(ctx, "t", "x", nil), ErrIdleTimeout), "a vanished publisher keeps its slots")
		},
	}, {
		name: "two keyed calls in two orders",
		says: "several Publish calls in one transaction may deadlock with another's; one of them is told to try again",
		only: "locking",
		run: func(b *bench) {
			b.subscribe("h")
			first, second := must(b.Begin(ctx))(b), must(b.Begin(ctx))(b)
			must(b.Publish(ctx, first, events("a/x")))(b)
			must(b.Publish(ctx, second, events("b/y")))(b)
			var inner error
			b.script.block = func(Point) error {
				_, inner = b.Publish(ctx, second, events("c/x"))
				return second.Rollback()
			}
			_, err := b.Publish(ctx, first, events("d/y"))
			b.expect(err == nil && errors.Is(inner, ErrDeadlock), "%v, %v", err, inner)
		},
	}, {
		name: "callers at REPEATABLE READ",
		says: "a publisher whose transaction reads one snapshot works, also when its key was published meanwhile",
		only: "locking",
		run: func(b *bench) {
			b.subscribe("h")
			tx := must(b.BeginTx(ctx, RepeatableRead))(b)
			if _, _, err := tx.Get(ctx, "t", "x"); err != nil {
				b.Fatal(err)
			}
			b.publish("a/k")
			must(b.Publish(ctx, tx, events("b/k")))(b)
			b.expect(tx.Commit(ctx) == nil && b.row(2).Event == "b", "not published")
			tx = must(b.BeginTx(ctx, RepeatableRead))(b)
			tx.Get(ctx, "t", "x")
			b.publish("c/k")
			_, err := b.Publish(ctx, tx, events("c/k"))
			b.expect(errors.Is(err, ErrSerialization), "the same id after the snapshot: %v", err)
		},
	}, {
		name: "an event without an id",
		says: "an event that cannot be told apart is refused before anything is written",
		run: func(b *bench) {
			b.subscribe("h")
			tx := must(b.Begin(ctx))(b)
			_, err := b.Publish(ctx, tx, []protocol.Event{{Type: "e"}})
			b.expect(errors.Is(err, engine.ErrInvalid), "%v", err)
			none := must(b.Publish(ctx, must(b.Begin(ctx))(b), nil))(b)
			b.expect(len(none) == 0, "%v", none)
		},
	},
}

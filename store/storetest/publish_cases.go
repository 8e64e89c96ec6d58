package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

var publishCases = []kase{
	{
		name: "every subscribed handler gets a delivery",
		why:  "a handler misses an event, or gets it twice",
		run: func(b *bench) {
			b.subscribe("h", "audit")
			results := b.publish("a")
			b.expect(slices.Equal(results, []engine.PublishResult{engine.Added}), "results %v", results)
			w := b.worker("h", "audit")
			b.same(w.claim(), "a", "a")
			b.expect(w.picks[0].Delivery.Handler != w.picks[1].Delivery.Handler, "one handler got both")
		},
	}, {
		name: "an event without a subscriber is kept",
		why:  "an event published before its first handler was deployed can never be published again for it",
		run: func(b *bench) {
			b.subscribe("h")
			other := event("a")
			other.Type = "other"
			b.publishEvents(other)
			b.expect(len(b.list(engine.Filter{})) == 0 && b.statistics().Events == 1, "deliveries %v, %+v", b.list(engine.Filter{}), b.statistics())
			b.join(false, "default", "other", "h")
			results := b.publishEvents(other)
			b.expect(results[0] == engine.Added, "published again for a new handler: %v", results[0])
			b.pending("a", 0)
		},
	}, {
		name: "a rolled back publish leaves nothing",
		why:  "a handler runs for an order that was never placed",
		run: func(b *bench) {
			b.subscribe("h")
			tx := b.open("")
			_, err := tx.publish("a", "b/k")
			b.ok(err, "publish")
			tx.rollback()
			b.expect(b.statistics().Events == 0 && len(b.worker().claim()) == 0, "left: %+v", b.statistics())
			b.expect(b.publish("a")[0] == engine.Added, "the id is taken by an event that was rolled back")
		},
	}, {
		name: "publish is part of the caller's transaction",
		why:  "the order is there without its event, or the event without its order",
		run: func(b *bench) {
			b.subscribe("h")
			tx := b.open("")
			b.ok(tx.put("order"), "put")
			_, err := tx.publish("a")
			b.ok(err, "publish")
			b.expect(b.effects("order") == 0 && len(b.worker().claim()) == 0, "seen before the commit")
			b.ok(tx.commit(), "commit")
			b.expect(b.effects("order") == 1, "the user's row is missing")
			b.same(b.worker().claim(), "a")
		},
	}, {
		name: "payload bytes are kept exactly",
		why:  "a signature over the payload does not match, or binary payloads cannot be published",
		run: func(b *bench) {
			b.subscribe("h")
			all := make([]byte, 256)
			for i := range all {
				all[i] = byte(i)
			}
			payloads := [][]byte{
				all, {0}, {0xff, 0xfe}, []byte("\xef\xbb\xbfbom"), []byte(`{"b":1,"a":9007199254740993,"a":1e400}`),
				[]byte(`"\u0000 and \\u0000"`), []byte(" \n"), []byte("null"), []byte("<&>\u2028\uffff"), bytes.Repeat([]byte{0x00, 0xc3}, 512<<10),
			}
			var list []protocol.Event
			for i, p := range payloads {
				list = append(list, protocol.Event{ID: fmt.Sprint(i), Type: "e", Payload: p})
			}
			b.publishEvents(list...)
			w := b.worker()
			w.claim()
			for i, p := range payloads {
				got := w.picked(fmt.Sprint(i)).Event
				b.expect(got != nil && bytes.Equal(got.Payload, p), "payload %d of %d bytes came back different", i, len(p))
			}
		},
	}, {
		name: "an empty payload is a payload",
		why:  "an event that says everything by its type cannot be published",
		run: func(b *bench) {
			b.subscribe("h")
			b.publishEvents(protocol.Event{ID: "nil", Type: "e"}, protocol.Event{ID: "empty", Type: "e", Payload: []byte{}})
			w := b.worker()
			b.same(w.claim(), "nil", "empty")
			for _, p := range w.picks {
				b.expect(p.Event != nil && len(p.Event.Payload) == 0, "%q came back as %+v", p.Delivery.Event, p.Event)
			}
		},
	}, {
		name: "the caller's payload may change afterwards",
		why:  "a program that reuses its buffer changes what was published",
		run: func(b *bench) {
			b.subscribe("h")
			e := protocol.Event{ID: "a", Type: "e", Payload: []byte("before"), Headers: []engine.Header{{Name: "n", Value: "before"}}}
			tx := b.open("")
			b.ok(tx.do(tx.publishing([]protocol.Event{e}, nil)), "publish")
			copy(e.Payload, "after!")
			e.Headers[0].Value = "after"
			b.ok(tx.commit(), "commit")
			w := b.worker()
			w.claim()
			got := w.picked("a").Event
			b.expect(string(got.Payload) == "before" && got.Headers[0].Value == "before", "%+v", got)
			got.Payload[0] = 'X'
			b.expect(string(b.list(engine.Filter{})[0].Event.Payload) == "before", "a reader's change reached the store")
		},
	}, {
		name: "headers keep their order and their text",
		why:  "a trace context is lost or belongs to another request",
		run: func(b *bench) {
			b.subscribe("h")
			headers := []engine.Header{
				{Name: "z", Value: "1"}, {Name: "a", Value: "é漢😀"}, {Name: "z", Value: ""}, {Name: "json", Value: `{"a":"\u0000"}'";--`}, {Name: "long", Value: strings.Repeat("x", engine.MaxHeaderValue)},
			}
			b.publishEvents(protocol.Event{ID: "a", Type: "e", Headers: headers})
			w := b.worker()
			w.claim()
			b.expect(slices.Equal(w.picked("a").Event.Headers, headers), "got %v", w.picked("a").Event.Headers)
		},
	}, {
		name: "keys and ids are any text",
		why:  "customers whose key has an accent or a quote get no order, or no events at all",
		run: func(b *bench) {
			b.subscribe("h")
			keys := []string{"é", "e\u0301", "漢字", "😀", `'";--\`, "%_", "a b\t\n", "A", "a", " ", strings.Repeat("k", engine.MaxKey)}
			var list []protocol.Event
			for i, k := range keys {
				list = append(list, protocol.Event{ID: fmt.Sprint(i, k[:min(len(k), 200)]), Type: "e", Key: k})
			}
			b.publishEvents(list...)
			w := b.worker()
			w.claim()
			for _, e := range list {
				p := w.picked(e.ID)
				want := protocol.LaneOf(b.group, b.lanes, e.Key, e.ID)
				b.expect(p.Delivery.Key == e.Key && p.Event.Key == e.Key && p.Delivery.Lane == want, "%q: %+v", e.ID, p.Delivery)
			}
		},
	}, {
		name: "names of the greatest length are kept",
		why:  "what the engine lets pass fails in the store",
		run: func(b *bench) {
			long := strings.Repeat("n", engine.MaxName)
			b.join(false, long, long, long)
			e := protocol.Event{ID: strings.Repeat("i", engine.MaxID), Type: long, Key: strings.Repeat("k", engine.MaxKey)}
			b.publishEvents(e)
			w := b.worker(long)
			b.same(w.claim(), e.ID)
		},
	}, {
		name: "a known id is not run again",
		why:  "a publisher that repeats itself after a timeout charges the customer twice",
		run: func(b *bench) {
			w := b.start("a")
			b.expect(b.publish("a")[0] == engine.Known, "a pending one was not Known")
			w.completed("a")
			b.expect(b.publish("a")[0] == engine.Known, "a completed one was not Known")
			b.expect(len(w.claim()) == 0, "ran again")
			b.gone("a")
		},
	}, {
		name: "the same id twice in a batch",
		why:  "a batch with a repeated id fails as a whole, or delivers twice",
		run: func(b *bench) {
			b.subscribe("h")
			results := b.publish("a", "b", "a")
			b.expect(slices.Equal(results, []engine.PublishResult{engine.Added, engine.Added, engine.Known}), "results %v", results)
			b.same(b.worker().claim(), "a", "b")
		},
	}, {
		name: "a known id with another type or key is a mismatch",
		why:  "two different events share an id and one of them is silently lost",
		run: func(b *bench) {
			b.subscribe("h", "audit")
			b.join(false, "default", "other", "h")
			b.publish("a/k")
			otherType := event("a/k")
			otherType.Type = "other"
			tx := b.open("")
			b.ok(tx.put("row"), "put")
			var results []engine.PublishResult
			b.ok(tx.do(tx.publishing([]protocol.Event{otherType, event("b")}, &results)), "publish")
			b.expect(slices.Equal(results, []engine.PublishResult{engine.Mismatch, engine.Added}), "another type: %v", results)
			b.ok(tx.commit(), "commit: the caller's transaction must survive a mismatch")
			b.expect(b.effects("row") == 1, "the user's row is missing")
			b.expect(b.publish("a/other")[0] == engine.Mismatch, "another key was taken for the same")
			b.expect(b.publish("a")[0] == engine.Mismatch, "no key was taken for the same")
			b.expect(len(b.list(engine.Filter{EventID: "a"})) == 2, "a mismatch added something")
		},
	}, {
		name: "a mismatch within a batch",
		why:  "of two different events with one id in a batch, one is silently lost",
		run: func(b *bench) {
			b.subscribe("h")
			results := b.publish("a/k", "a/other")
			b.expect(slices.Equal(results, []engine.PublishResult{engine.Added, engine.Mismatch}), "results %v", results)
		},
	}, {
		name: "a known id reaches handlers that are new",
		why:  "a handler that was added later can never be given an older event, or the old ones run again",
		run: func(b *bench) {
			w := b.start("a/k")
			w.completed("a")
			b.subscribe("audit")
			b.expect(b.publish("a/k")[0] == engine.Added, "nothing was added for the new handler")
			b.expect(b.publish("a/k")[0] == engine.Known, "added twice")
			b.gone("a")
			w.relinquish()
			b.same(b.worker("h", "audit").claim(), "a")
		},
	}, {
		name: "a batch of a thousand",
		why:  "an import of many rows fails or is answered in the wrong order",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("500", "501")
			var list []string
			for i := range 1000 {
				list = append(list, fmt.Sprint(i, []string{"", "/k", "/l"}[i%3]))
			}
			results := b.publish(list...)
			for i, r := range results {
				want := engine.Added
				switch {
				case i == 500 && i%3 != 0 || i == 501 && i%3 != 0:
					want = engine.Mismatch
				case i == 500 || i == 501:
					want = engine.Known
				}
				b.expect(r == want, "event %d: %v, want %v", i, r, want)
			}
			w := b.worker()
			b.expect(len(w.claim()) == 1000, "not all arrived")
			var leases []engine.Lease
			for _, p := range w.picks {
				leases = append(leases, p.Lease)
			}
			for i, v := range b.completeLeases(leases...) {
				b.expect(v == engine.Applied, "completing %d of a thousand: %s", i, v)
			}
			b.expect(b.statistics().Pending == 0, "%+v", b.statistics())
		},
	}, {
		name: "an empty batch",
		why:  "a program that publishes what it found, and found nothing, fails",
		run: func(b *bench) {
			b.expect(len(b.publishEvents()) == 0, "results of nothing")
		},
	}, {
		name: "sequences follow the input order of a key",
		why:  "two events of one key in one batch run the wrong way round",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("z/k", "m/other", "a/k", "y/k")
			b.publish("b/k")
			last := int64(0)
			for _, id := range []string{"z", "a", "y", "b"} {
				d := b.row(id)
				b.expect(d.Sequence > last, "%q has sequence %d after %d", id, d.Sequence, last)
				last = d.Sequence
			}
		},
	}, {
		name: "a put off event waits",
		why:  "a reminder for tomorrow goes out now",
		run: func(b *bench) {
			b.subscribe("h")
			off, past := event("off/k"), event("past")
			off.Due.Delay = later
			past.Due.At = 1
			b.publishEvents(off, past)
			w := b.worker()
			b.same(w.claim(), "past")
			b.due("off")
			b.same(w.claim(), "off")
			b.expect(w.picked("off").Event.Due == (protocol.Due{}), "Due was kept with the event")
		},
	}, {
		name: "the same id published at once",
		why:  "two requests that race with one id lose a handler, or deliver twice",
		run: func(b *bench) {
			b.subscribe("h", "audit")
			const publishers = 8
			var wait sync.WaitGroup
			added := make([]engine.PublishResult, publishers)
			errs := make([]error, publishers)
			for i := range publishers {
				wait.Go(func() {
					r, err := b.tryPublish("", event("a/k"), event("b"))
					if errs[i] = err; err == nil {
						added[i] = r[0]
					}
				})
			}
			wait.Wait()
			n := 0
			for i, r := range added {
				b.ok(errs[i], "publish")
				if r == engine.Added {
					n++
				}
			}
			b.expect(n == 1, "%d publishers were told Added", n)
			b.same(b.worker("h", "audit").claim(), "a", "a", "b", "b")
		},
	}, {
		name: "the same id while its first publisher is open",
		why:  "a second publisher believes an event to be there whose transaction is then rolled back",
		run: func(b *bench) {
			for _, commits := range []bool{true, false} {
				b.subscribe("h")
				id := fmt.Sprint("a", commits)
				first := b.open("")
				_, err := first.publish(id)
				b.ok(err, "publish")
				second := b.open("")
				waits := second.start(second.publishing(events(id), nil))
				select {
				case err := <-waits:
					b.expect(errors.Is(err, engine.ErrRetryable), "the second did not wait: %v", err)
					second.rollback()
					b.endsTx(first, commits)
				case <-time.After(20 * time.Millisecond):
					b.endsTx(first, commits)
					if err := <-waits; err == nil {
						b.ok(second.commit(), "commit")
					} else {
						second.rollback()
					}
				}
				b.publish(id) // what a caller does after a retryable error
				b.expect(len(b.list(engine.Filter{EventID: id})) == 1, "first commits: %v; %d deliveries", commits, len(b.list(engine.Filter{EventID: id})))
			}
		},
	}, {
		name: "a subscription between two publishers of an id",
		why:  "a handler that subscribed between two publishers of one id never sees the event",
		run: func(b *bench) {
			b.subscribe("h")
			first := b.open("")
			_, err := first.publish("a/k")
			b.ok(err, "publish")
			b.subscribe("audit")
			b.ok(first.commit(), "commit")
			b.publish("a/k")
			b.expect(len(b.list(engine.Filter{EventID: "a"})) == 2, "the new handler was left out")
		},
	}, {
		name: "a subscription while a publisher of a known id is under way",
		why:  "an id published for an old handler loses the new one to a race of two statements",
		run: func(b *bench) {
			b.subscribe("h")
			b.mustPause(SubscriptionsRead, func() {
				b.subscribe("audit")
				b.publish("a")
			})
			b.publish("a")
			b.expect(len(b.list(engine.Filter{EventID: "a"})) == 2, "deliveries %v", b.list(engine.Filter{EventID: "a"}))
		},
	}, {
		name: "sequence order is commit order",
		why:  "an update of a customer is handled before the creation that committed first",
		run: func(b *bench) {
			b.subscribe("h")
			first := b.open("")
			_, err := first.publish("first/k")
			b.ok(err, "publish")
			second := b.open("")
			waits := second.start(second.publishing(events("second/k"), nil))
			select {
			case err := <-waits:
				b.expect(errors.Is(err, engine.ErrRetryable), "the second drew its place while the first was open: %v", err)
				second.rollback()
				b.ok(first.commit(), "commit")
				b.publish("second/k")
			case <-time.After(20 * time.Millisecond):
				b.ok(first.commit(), "commit")
				b.ok(<-waits, "publish after the wait")
				b.ok(second.commit(), "commit")
			}
			b.inOrder(b.worker().claim(), "first", "second")
		},
	}, {
		name: "a publisher that waits draws its place after the wait",
		why:  "an event of a transaction that committed later is handled first",
		run: func(b *bench) {
			b.subscribe("h")
			first := b.open("")
			_, err := first.publish("first/k")
			b.ok(err, "publish")
			second := b.open("")
			waits := second.start(second.publishing(events("last/k"), nil))
			time.Sleep(20 * time.Millisecond)
			_, err = first.publish("second/k")
			b.ok(err, "publish once more")
			b.ok(first.commit(), "commit")
			if err := <-waits; err == nil {
				b.ok(second.commit(), "commit")
			} else {
				second.rollback()
				b.publish("last/k")
			}
			b.inOrder(b.worker().claimInTurn(3), "first", "second", "last")
		},
	}, {
		name: "a rolled back publisher leaves no gap that blocks its key",
		why:  "a key waits for ever for an event that never came",
		run: func(b *bench) {
			b.subscribe("h")
			tx := b.open("")
			_, err := tx.publish("a/k", "b/k")
			b.ok(err, "publish")
			tx.rollback()
			b.publish("c/k")
			b.inOrder(b.worker().claim(), "c")
		},
	}, {
		name: "crossing keys do not hang",
		why:  "two services that publish for the same customers block each other for ever",
		run: func(b *bench) {
			b.subscribe("h")
			one, two := b.open(""), b.open("")
			_, err := one.publish("a/k")
			b.ok(err, "publish")
			_, err = two.publish("b/l")
			b.ok(err, "publish")
			first := one.start(one.publishing(events("c/l"), nil))
			time.Sleep(5 * time.Millisecond)
			second := two.start(two.publishing(events("d/k"), nil))
			failed := 0
			for _, side := range []struct {
				tx   *openTx
				said <-chan error
			}{{two, second}, {one, first}} {
				select {
				case err := <-side.said:
					if err == nil {
						b.ok(side.tx.commit(), "commit")
						continue
					}
					b.expect(errors.Is(err, engine.ErrRetryable), "a crossing publish failed for good: %v", err)
					failed++
					side.tx.rollback()
				case <-time.After(patience / 2):
					b.Fatalf("hangs")
				}
			}
			b.expect(failed < 2 || b.snapshot(), "both were refused")
			b.publish("a/k", "b/l", "c/l", "d/k")
			b.same(b.worker().claim(), "a", "b", "c", "d")
		},
	}, {
		name: "a removed handler gets nothing",
		why:  "work for a handler that nobody has piles up",
		run: func(b *bench) {
			b.subscribe("h", "gone")
			b.ok(b.unsubscribe("gone", true), "unsubscribe")
			b.publish("a")
			b.expect(len(b.list(engine.Filter{EventID: "a"})) == 1, "deliveries %v", b.list(engine.Filter{EventID: "a"}))
		},
	}, {
		name: "a transaction that has ended publishes nothing",
		why:  "an event believed to be part of a transaction is committed alone, or lost without an error",
		run: func(b *bench) {
			b.subscribe("h")
			var kept any
			b.ok(b.inTx(b.ctx, "", func(_ context.Context, tx any) error {
				kept = tx
				return nil
			}), "an empty transaction")
			_, err := b.publishIn(b.ctx, kept, events("a"))
			b.expect(errors.Is(err, engine.ErrTxDone), "got %v, want an error that wraps ErrTxDone", err)
			b.expect(b.statistics().Events == 0, "published")
		},
	}, {
		name: "a crash undoes an open publisher",
		why:  "after a power cut an event is there whose order is not",
		run: func(b *bench) {
			b.subscribe("h")
			b.publish("kept/k")
			tx := b.open("")
			b.ok(tx.put("order"), "put")
			_, err := tx.publish("open/k")
			b.ok(err, "publish")
			can, err := b.crash(b.ctx)
			if !can {
				b.Skip("the harness cannot crash this store")
			}
			b.ok(err, "crash")
			b.expect(tx.commit() != nil, "a transaction outlived the crash")
			b.expect(b.effects("order") == 0, "the row of an open transaction is there")
			b.same(b.worker().claim(), "kept")
		},
	},
}

// endsTx commits or rolls back.
func (b *bench) endsTx(tx *openTx, commits bool) {
	b.Helper()
	if !commits {
		tx.rollback()
		return
	}
	b.ok(tx.commit(), "commit")
}

// unsubscribe removes a handler of event type "e".
func (b *bench) unsubscribe(handler string, bury bool) error {
	_, err := b.Unsubscribe(b.ctx, engine.UnsubscribeInput{EventHandler: engine.EventHandler{Event: "e", Handler: handler}, Bury: bury})
	return err
}

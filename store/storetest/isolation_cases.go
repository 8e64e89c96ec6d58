package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// eachLevel runs a case at every level that the harness offers.
func eachLevel(run func(b *bench, level string)) func(b *bench) {
	return func(b *bench) {
		levels := b.levels()
		if len(levels) == 0 {
			b.Skip("the harness offers no other isolation level")
		}
		for _, level := range levels {
			run(b, level)
		}
	}
}

var isolationCases = []kase{
	{
		name: "publish at every level",
		why:  "a program that uses a stricter isolation level cannot publish",
		run: eachLevel(func(b *bench, level string) {
			b.subscribe("h")
			results, err := b.tryPublish(level, event(level), event(level+"2/k"), event(level))
			b.ok(err, level)
			b.expect(results[0] == engine.Added && results[1] == engine.Added && results[2] == engine.Known, "%s: %v", level, results)
			results, err = b.tryPublish(level, event(level))
			b.expect(err == nil && results[0] == engine.Known, "%s: %v, %v", level, results, err)
			b.pending(level, 0)
		}),
	}, {
		name: "complete at every level",
		why:  "a transactional handler that uses a stricter isolation level never completes",
		run: eachLevel(func(b *bench, level string) {
			w := b.start(level, level+"2/k")
			for _, id := range []string{level, level + "2"} {
				v, err := w.tx(level, id)
				b.expect(v == engine.Applied && err == nil && b.effects(id) == 1, "%s: %s, %v", level, v, err)
				v, err = w.tx(level, id)
				b.expect(v == engine.LeaseLost && err == nil && b.effects(id) == 1, "%s, once more: %s, %v", level, v, err)
			}
			w.forgetAll()
			w.relinquish()
		}),
	}, {
		name: "a conflict at every level can be tried again",
		why:  "a conflict that a retry would solve ends a request with an unknown error",
		run: eachLevel(func(b *bench, level string) {
			b.subscribe("h")
			tx := b.open(level)
			b.ok(tx.put("snapshot "+level), "put")
			b.subscribe("h" + level)
			b.publish(level + "/k")
			_, err := tx.publish(level + "/k")
			if err == nil {
				b.ok(tx.commit(), "commit")
			} else {
				b.expect(errors.Is(err, engine.ErrRetryable), "%s: %v", level, err)
				tx.rollback()
			}
			_, err = b.tryPublish(level, event(level+"/k"))
			b.ok(err, "publish again")
			for _, h := range []string{"h", "h" + level} {
				b.rowOf(level, h)
			}
		}),
	}, {
		name: "a snapshot older than a takeover",
		why:  "a transaction that began before its lane was lost commits its effect beside the next worker's",
		run: func(b *bench) {
			for i, level := range append([]string{""}, b.levels()...) {
				id := fmt.Sprint("a", i)
				one := b.start(id)
				tx := b.open(level)
				b.ok(tx.put(id), "put")
				b.expireLanes()
				two := b.worker()
				b.same(two.claim(), id)
				v, err := tx.complete(one.lease(id))
				b.expect(err != nil || v == engine.LeaseLost || b.snapshot(), "%q: %s, %v", level, v, err)
				if err == nil && v == engine.Applied {
					b.expect(tx.commit() != nil, "%q: committed after the takeover had charged", level)
				} else {
					tx.rollback()
				}
				v, err = two.tx(level, id)
				b.expect(v == engine.Applied && err == nil && b.effects(id) == 1, "%q: %s, %v, %d effects", level, v, err, b.effects(id))
				two.forgetAll()
				two.relinquish()
			}
		},
	}, {
		name: "a takeover while a transaction has completed and not committed",
		why:  "an effect is there twice",
		run: func(b *bench) {
			for i, level := range append([]string{""}, b.levels()...) {
				id := fmt.Sprint("a", i)
				one := b.start(id)
				tx := b.open(level)
				b.ok(tx.put(id), "put")
				v, err := tx.complete(one.lease(id))
				b.expect(v == engine.Applied && err == nil, "%q: %s, %v", level, v, err)
				b.expireLanes()
				two := b.worker()
				got := two.claim()
				committed := tx.commit() == nil
				got = append(got, two.claimAgain()...)
				b.expect((len(got) == 0) == committed, "%q: committed %v, granted %q", level, committed, got)
				for _, id := range got {
					_, err := two.tx(level, id)
					b.ok(err, "complete")
				}
				b.expect(b.effects(id) == 1, "%q: %d effects", level, b.effects(id))
				two.forgetAll()
				two.relinquish()
			}
		},
	}, {
		name: "a publisher whose snapshot is older than a subscription",
		why:  "a handler gets an event twice, or nobody can tell whether it gets it",
		run: func(b *bench) {
			for i, level := range append([]string{""}, b.levels()...) {
				id, handler := fmt.Sprint("a", i), fmt.Sprint("late", i)
				b.subscribe("h")
				tx := b.open(level)
				b.ok(tx.put(id), "put")
				b.subscribe(handler)
				_, err := tx.publish(id)
				if err == nil {
					err = tx.commit()
				} else {
					tx.rollback()
				}
				b.expect(err == nil || errors.Is(err, engine.ErrRetryable), "%q: %v", level, err)
				_, err = b.tryPublish(level, event(id))
				b.ok(err, "publish again")
				b.rowOf(id, handler)
				b.rowOf(id, "h")
			}
		},
	}, {
		name: "a transaction whose context ends",
		why:  "a handler that hangs keeps its rows locked after its run was given up, and its key stands still until the process ends",
		run: func(b *bench) {
			w := b.start("a")
			ctx, cancel := context.WithCancel(b.ctx)
			at, hang, over := make(chan error), make(chan struct{}), make(chan error, 1)
			complete := func(ctx context.Context, tx any) (engine.Verdict, error) {
				return b.completeIn(ctx, tx, engine.CompleteInput{Lease: w.lease("a"), TTL: ttl})
			}
			go func() {
				over <- b.inTx(ctx, "", func(_ context.Context, tx any) error {
					err := b.putIn(b.ctx, tx, "hung", "x")
					if err == nil {
						_, err = complete(b.ctx, tx)
					}
					at <- err
					<-hang
					_ = b.putIn(b.ctx, tx, "hung", "y")
					return nil
				})
			}()
			err := <-at
			cancel()
			soon, stop := context.WithTimeout(b.ctx, letGo)
			defer stop()
			shared := *b
			shared.ctx = soon
			var v engine.Verdict
			if err == nil {
				v, err = shared.txLease("", "a", w.lease("a"))
			}
			close(hang)
			b.expect(v == engine.Applied && err == nil, "the row of a transaction that was given up is not free: %v, %v", v, err)
			err = <-over
			b.expect(err != nil && !errors.Is(err, engine.ErrCommitUnknown), "a transaction that was rolled back ended with %v", err)
			b.expect(b.effects("hung") == 0 && b.effects("a") == 1, "%d effects of the one given up, %d of the other", b.effects("hung"), b.effects("a"))
		},
	}, {
		name: "an operator while a transaction is open",
		why:  "one forgotten transaction stops the operator's work on everything else",
		run: func(b *bench) {
			w := b.letters("a", "b")
			b.publish("c")
			w.claim()
			tx := b.open("")
			_, err := tx.publish("open/k")
			b.ok(err, "publish")
			_, err = tx.complete(w.lease("c"))
			b.ok(err, "complete")
			b.verify("beside an open transaction")
			b.expect(b.statistics().Pending == 1, "%+v", b.statistics())
			b.expect(b.requeue("a") == 1, "not requeued")
			age()
			b.expect(b.purge(engine.PurgeInput{DeadAfter: aged}).Dead == 1, "not purged")
			b.expect(b.row("a").Status == protocol.Pending, "%+v", b.row("a"))
			b.ok(tx.commit(), "commit")
			b.gone("c")
		},
	},
}

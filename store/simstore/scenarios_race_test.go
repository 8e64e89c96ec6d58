package simstore

import (
	"errors"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// raceScenarios interleave two calls between two of their statements.
var raceScenarios = []scenario{
	{
		name: "takeover within a completion",
		says: "a completion whose snapshot is older than a takeover is fenced: by the lane's UPDATE strength, or by the row's fence",
		run: func(b *bench) {
			b.subscribe("h")
			for _, step := range []string{"complete", "lock lanes", "delete"} {
				b.publish("e" + step)
				w, other := b.worker("w"+step, "h"), b.worker("o"+step, "h")
				w.claim()
				id := w.running[0].Delivery
				b.expire()
				took := false
				b.script.once("CompleteMany", step, func() { took = true; other.claim() })
				ended := w.complete(id)
				b.script.at = nil
				if !took || b.mode == protocol.Locking && step == "delete" {
					b.applied(ended) // its lane was locked already, or no such step
					b.expect(len(other.running) == 0, "at %q: granted what is being completed", step)
					b.expire()
					continue
				}
				b.lost(ended)
				b.applied(other.complete(id))
				b.expire()
			}
		},
	}, {
		name: "takeover within a completion's transaction",
		says: "a transactional completion whose snapshot is older than a takeover must not commit",
		run: func(b *bench) {
			w := b.start("a")
			other := b.worker("two", "h")
			b.expire()
			b.script.once("Tx", "lock lane", func() { other.claim() })
			if b.mode == protocol.Snapshot {
				b.script.once("Tx", "delete", func() { other.claim() })
			}
			v, err := w.completeTx(1)
			b.expect(len(other.running) == 1, "not taken over")
			b.expect(v == engine.LeaseLost && err == nil || errors.Is(err, engine.ErrRetryable), "%v, %v", v, err)
			b.expect(b.effects() == 0, "the effect committed beside the other worker's run")
			b.applied(other.complete(1))
		},
	}, {
		name: "takeover within a REPEATABLE READ completion",
		says: "a caller's isolation level does not weaken the fence",
		only: "locking",
		run: func(b *bench) {
			b.subscribe("h")
			for _, isolation := range []Isolation{ReadCommitted, RepeatableRead, Serializable} {
				for _, fenced := range []bool{true, false} {
					name := sprint(isolation, fenced)
					b.publish(name)
					w, other := b.worker("w"+name, "h"), b.worker("o"+name, "h")
					w.claim()
					lease := w.picks[0].Lease
					tx := must(b.BeginTx(ctx, isolation))(b)
					if err := tx.Put(ctx, "effects", name, nil); err != nil {
						b.Fatal(err)
					}
					if fenced {
						b.expire()
						other.claim()
					} else {
						w.claim() // a claim of its own must not disturb
					}
					v, err := b.Complete(ctx, tx, engine.CompleteInput{Lease: lease, TTL: ttl})
					if !fenced {
						b.expect(v == engine.Applied && err == nil && tx.Commit(ctx) == nil, "%s: %v, %v", name, v, err)
						continue
					}
					b.expect(v == engine.LeaseLost && err == nil || errors.Is(err, ErrSerialization), "%s: %v, %v", name, v, err)
					tx.Rollback()
					b.applied(other.complete(lease.Delivery))
				}
				b.expire()
			}
			b.expect(b.effects() == 3, "%d effects", b.effects())
		},
	}, {
		name: "completion within a takeover",
		says: "what was completed between a takeover's look and its lock is not run again",
		run: func(b *bench) {
			w := b.start("a", "b/k", "c/k")
			other := b.worker("two", "h")
			b.expire()
			step := "lock free lanes"
			if b.mode == protocol.Snapshot {
				step = "take over"
			}
			b.script.once("Claim", step, func() { b.applied(w.complete(1, 2)) })
			other.claim()
			for _, r := range other.running {
				b.expect(r.Delivery == 3, "#%d runs again", r.Delivery)
			}
			b.expect(b.row(3).Attempts == 1, "the follower that ran was not charged")
		},
	}, {
		name: "completion between TakeOver and ChargeLost",
		says: "what its old holder completes before the charge is gone, and neither charged nor run again",
		only: "snapshot",
		run: func(b *bench) {
			w := b.start("a", "b")
			other := b.worker("two", "h")
			b.expire()
			b.script.once("Claim", "charge lost", func() { b.applied(w.complete(1)) })
			other.claim()
			other.claim()
			b.gone(1)
			b.expect(b.row(2).Attempts == 1, "#2 was not charged")
		},
	}, {
		name: "takeover beside an open completion",
		says: "a completion that is not committed yet holds its lane (locking), or its row against the charge (snapshot)",
		run: func(b *bench) {
			w := b.start("a")
			tx := must(b.Begin(ctx))(b)
			tx.Put(ctx, "effects", "1", nil)
			v := must(b.Complete(ctx, tx, engine.CompleteInput{Lease: w.lease(1), TTL: 100 * ttl}))(b)
			b.expect(v == engine.Applied, "setup")
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			b.expect(len(other.running) == 0, "granted what is being completed")
			if err := tx.Commit(ctx); err != nil {
				b.Fatal(err)
			}
			b.expire()
			other.claim()
			b.expect(len(other.running) == 0 && b.effects() == 1, "granted what is completed")
			b.gone(1)
		},
	}, {
		name: "a vanished client after Complete",
		says: "a transaction left open after Complete ends with the lease, so that it does not hold its lane for hours",
		only: "locking",
		run: func(b *bench) {
			w := b.start("a")
			orphan := must(b.Begin(ctx))(b)
			orphan.Put(ctx, "effects", "1", nil)
			must(b.Complete(ctx, orphan, engine.CompleteInput{Lease: w.lease(1), TTL: ttl}))(b)
			other := b.worker("two", "h")
			b.expire()
			other.claim()
			b.expect(slices.ContainsFunc(other.running, func(r protocol.Running) bool { return r.Delivery == 1 }), "the lane is still held")
			err := orphan.Commit(ctx)
			b.expect(errors.Is(err, engine.ErrCommitUnknown) && b.effects() == 0, "%v", err)
		},
	}, {
		name: "COMMIT unknown: committed",
		says: "the settle of a run that had committed changes nothing",
		run: func(b *bench) {
			w := b.start("a")
			b.script.fail("Tx", "reply", 0, errors.New("reset"))
			_, err := w.completeTx(1)
			b.expect(errors.Is(err, engine.ErrCommitUnknown), "%v", err)
			b.script.at = nil
			b.expect(w.settle(1) == engine.LeaseLost && b.effects() == 1, "settled as if it had not")
			b.gone(1)
		},
	}, {
		name: "COMMIT unknown: rolled back",
		says: "the settle of a run that had not committed makes it run again, uncharged",
		run: func(b *bench) {
			w := b.start("a")
			b.script.fail("Tx", "commit", 0, errors.New("reset"))
			_, err := w.completeTx(1)
			b.expect(errors.Is(err, engine.ErrCommitUnknown), "%v", err)
			b.script.at = nil
			b.expect(w.settle(1) == engine.Applied && b.effects() == 0, "not settled")
			w.forget(1)
			w.claim()
			v, err := w.completeTx(1)
			b.expect(v == engine.Applied && err == nil && b.effects() == 1 && len(w.running) == 1, "%v, %v", v, err)
		},
	}, {
		name: "COMMIT unknown: still open",
		says: "a settle waits for the transaction that it asks about (locking), or fails and is tried again (snapshot)",
		run: func(b *bench) {
			for _, commits := range []bool{true, false} {
				id := protocol.DeliveryID(1)
				w := b.worker("w", "h")
				if !commits {
					id = 2
					w = b.worker("v", "h")
				} else {
					b.subscribe("h")
				}
				b.publish(sprint("e", id))
				w.claim()
				tx := must(b.Begin(ctx))(b)
				tx.Put(ctx, "effects", sprint(id), nil)
				must(b.Complete(ctx, tx, engine.CompleteInput{Lease: w.lease(id), TTL: ttl}))(b)
				end := func() error {
					if commits {
						return tx.Commit(ctx)
					}
					return tx.Rollback()
				}
				in := engine.SnoozeInput{Lease: w.lease(id), Settle: true}
				waited := false
				b.script.block = func(Point) error { waited = true; return end() }
				reply, err := b.Snooze(ctx, in)
				if b.mode == protocol.Snapshot {
					b.expect(errors.Is(err, ErrWriteConflict), "%v", err)
					if err := end(); err != nil {
						b.Fatal(err)
					}
					reply, err = b.Snooze(ctx, in)
				} else {
					b.expect(waited, "did not wait")
				}
				b.expect(err == nil && (reply.Verdict == engine.LeaseLost) == commits, "commits %v: %v, %v", commits, reply.Verdict, err)
				w.forget(id)
				must(b.Relinquish(ctx, engine.RelinquishInput{Holder: w.holder, Number: 99}))(b)
			}
		},
	}, {
		name: "a settle that would wait for ever",
		says: "a settle gives up after the lock timeout and is tried again",
		only: "locking",
		run: func(b *bench) {
			w := b.start("a")
			tx := must(b.Begin(ctx))(b)
			must(b.Complete(ctx, tx, engine.CompleteInput{Lease: w.lease(1), TTL: 100 * ttl}))(b)
			_, err := b.Snooze(ctx, engine.SnoozeInput{Lease: w.lease(1), Settle: true})
			b.expect(errors.Is(err, ErrLockTimeout), "%v", err)
		},
	}, {
		name: "an end within an end",
		says: "of two ends of one run that overlap only one is accepted",
		run: func(b *bench) {
			w := b.start("a")
			step := map[protocol.Semantics]string{protocol.Locking: "lock lanes", protocol.Snapshot: "delete"}[b.mode]
			b.script.once("CompleteMany", step, func() {
				b.expect(w.reschedule(1) == engine.Applied, "the inner end was refused")
			})
			b.lost(w.complete(1))
			b.expect(b.row(1).Attempts == 1, "not charged")
		},
	}, {
		name: "a retry within its first try",
		says: "of two tries of one completion that overlap both are Applied, and the row is deleted once",
		run: func(b *bench) {
			w := b.start("a")
			step := map[protocol.Semantics]string{protocol.Locking: "lock lanes", protocol.Snapshot: "delete"}[b.mode]
			b.script.once("CompleteMany", step, func() { b.applied(w.complete(1)) })
			b.applied(w.complete(1))
			b.gone(1)
		},
	}, {
		name: "a head's completion within its chain's",
		says: "a head that another try completed meanwhile is Applied, and so is what follows it in the same call",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k", "d")
			step := map[protocol.Semantics]string{protocol.Locking: "lock lanes", protocol.Snapshot: "delete"}[b.mode]
			b.script.once("CompleteMany", step, func() { b.applied(w.complete(1)) })
			b.applied(w.complete(1, 2, 4, 3))
			b.gone(1, 2, 3, 4)
		},
	}, {
		name: "a claim within a completion",
		says: "the owner's own claim does not hold up its completions, nor they it",
		run: func(b *bench) {
			w := b.start("a", "b")
			for _, step := range []string{"complete", "lock lanes", "delete", "commit"} {
				b.publish("while at " + step)
				if len(w.running) == 0 {
					w.claim()
				}
				b.script.once("CompleteMany", step, func() { w.claim() })
				id := w.running[0].Delivery
				b.applied(w.complete(id))
				b.script.at = nil
				w.forget(id)
			}
		},
	}, {
		name: "a completion within a claim",
		says: "what completes between a claim's snapshot and its lock is not granted: the worker states it",
		run: func(b *bench) {
			w := b.start("a", "b/k", "c/k", "d")
			for _, step := range []string{"claim held lanes", "lock held lanes", "pick from held lanes", "read candidates", "claim", "commit"} {
				if len(w.running) == 0 {
					break
				}
				id := w.running[0].Delivery
				b.script.once("Claim", step, func() { w.complete(id) })
				reply := w.claim()
				b.script.at = nil
				b.expect(!slices.Contains(ids(reply), id), "granted #%d again at %q", id, step)
				b.applied(w.complete(id))
				w.forget(id)
			}
			w.claim()
			b.expect(len(b.Snapshot().Deliveries) == 0, "left: %+v", b.Snapshot().Deliveries)
		},
	}, {
		name: "a late end within a claim",
		says: "an end whose acknowledged first try a failover lost may come while its worker, sure that it is done, claims: what it ended is not granted",
		only: "locking",
		run: func(b *bench) {
			for i, step := range []string{"claim held lanes", "lock held lanes", "pick from held lanes", "find lanes", "commit"} {
				w := b.worker(step, "h")
				if i == 0 {
					b.subscribe("h")
				}
				b.publish(sprint("e", i))
				w.claim()
				id := w.running[0].Delivery
				late := engine.BuryInput{Lease: w.lease(id), Error: "late"}
				w.forget(id)
				b.script.once("Claim", step, func() { b.Bury(ctx, late) })
				reply := w.claim()
				b.script.at = nil
				d := b.row(id)
				b.expect(len(reply.Picks) == 0 || d.Status == protocol.Pending, "at %q: granted a dead letter", step)
				b.expire()
			}
		},
	}, {
		name: "two takeovers at once",
		says: "of two workers that want the same expired lane one gets it, and its losses are charged once",
		run: func(b *bench) {
			b.start("a", "b", "c", "d")
			second, third := b.worker("two", "h"), b.worker("three", "h")
			b.expire()
			for _, step := range []string{"lock free lanes", "charge and pick", "take over", "charge lost", "read candidates", "claim"} {
				b.script.once("Claim", step, func() { third.claim() })
				reply, err := b.Claim(ctx, second.input())
				b.script.at = nil
				b.expect(err == nil || errors.Is(err, engine.ErrRetryable), "at %q: %v", step, err)
				second.adopt(reply)
			}
			for _, d := range b.Snapshot().Deliveries {
				b.expect(d.Takeovers == 1, "#%d was charged %d takeovers", d.ID, d.Takeovers)
			}
		},
	},
}

// settle settles a COMMIT of unknown outcome.
func (w *worker) settle(id protocol.DeliveryID) engine.Verdict {
	w.Helper()
	return must(w.Snooze(ctx, engine.SnoozeInput{Lease: w.lease(id), Settle: true}))(w).Verdict
}

package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Whether a claim brings followers is the store's choice; what it may bring is
// not. A case that needs a chain goes on without one where none came.
var chainCases = []kase{
	{
		name: "keys share what a claim may bring",
		why:  "one key with a long backlog takes all the room, and the others come one delivery at a time",
		run: func(b *bench) {
			b.subscribe("h")
			keys := b.keysOfOneLane("a", 2)
			for i := range 8 {
				b.publish(fmt.Sprint("a", i, "/", keys[0]), fmt.Sprint("b", i, "/", keys[1]))
			}
			got := map[string]int{}
			for _, p := range b.worker().once(func(in *engine.ClaimInput) { in.Limit, in.Room = 8, 8 }).Picks {
				got[p.Delivery.Key]++
			}
			b.expect(got[keys[0]] == got[keys[1]], "granted %v, want as many of each key", got)
		},
	}, {
		name: "a chain stands in order",
		why:  "the events of a customer run the wrong way round",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k", "d/l")
			got := []string{}
			for range 4 {
				for _, p := range w.picks[len(got):] {
					if p.Delivery.Key == "k" {
						got = append(got, p.Delivery.Event)
					} else {
						got = append(got, "")
					}
				}
				b.chainsLinked(w.picks)
				for _, p := range w.picks {
					b.completeLeases(p.Lease)
				}
				w.forgetAll()
				w.claim()
			}
			b.inOrder(slices.DeleteFunc(got, func(s string) bool { return s == "" }), "a", "b", "c")
		},
	}, {
		name: "a chain whose head another try completes meanwhile",
		why:  "a retry that overlaps with its first try makes an event run again that succeeded",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k")
			if len(w.picks) < 3 {
				b.Skip("the store brings no followers")
			}
			b.mustPause(CompleteBegan, func() { b.completeLeases(w.lease("a")) })
			w.completed("a", "b", "c")
			b.gone("a", "b", "c")
		},
	}, {
		name: "a chain stops at what is not due",
		why:  "an event that was put off is overtaken by the next of its key",
		run: func(b *bench) {
			w := b.start("a/k")
			b.expect(b.snooze(w.lease("a")) == engine.Applied, "refused")
			w.forget("a")
			b.publish("b/k", "c/k")
			b.expect(len(w.claim()) == 0, "b or c ran before a, which waits")
			b.due("a")
			b.expect(w.claim()[0] == "a", "not a first")
		},
	}, {
		name: "a put off follower ends the chain",
		why:  "an event that was put off runs early, or is overtaken by the next of its key",
		run: func(b *bench) {
			b.subscribe("h")
			off := event("b/k")
			off.Due.Delay = later
			b.publishEvents(event("a/k"), off, event("c/k"))
			w := b.worker()
			b.inOrder(w.claim(), "a")
			w.completed("a")
			b.expect(len(w.claim()) == 0, "c overtook b")
		},
	}, {
		name: "a charged head brings nobody",
		why:  "a message that kills its worker charges those behind it each time",
		run: func(b *bench) {
			w := b.start("a/k")
			b.expect(b.reschedule(w.lease("a")) == engine.Applied, "refused")
			w.forget("a")
			b.publish("b/k")
			b.due("a")
			b.inOrder(w.claim(), "a")
			w.completed("a")
			b.inOrder(w.claim(), "b")
		},
	}, {
		name: "a chain stops at a charged follower",
		why:  "a message that was charged runs behind others in one chain, and takes them with it",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k")
			b.failInMiddle(w)
			got := w.claim()
			b.expect(len(got) > 0 && got[0] == "b" || len(got) == 0, "%q", got)
			for _, p := range w.picks {
				b.expect(p.Lease.After == 0 || p.Delivery.Attempts == 0, "%+v", p)
			}
		},
	}, {
		name: "a dead delivery does not block its key",
		why:  "one bad message stops all later ones of a customer for good",
		run: func(b *bench) {
			w := b.letters("a/k")
			b.publish("b/k")
			b.inOrder(w.claim(), "b")
		},
	}, {
		name: "a requeued delivery goes first",
		why:  "a repaired message runs after, or together with, later ones of its key",
		run: func(b *bench) {
			w := b.letters("a/k")
			b.publish("b/k")
			b.expect(b.requeue("a") == 1, "not requeued")
			got := w.claim()
			b.expect(len(got) > 0 && got[0] == "a", "%q", got)
		},
	}, {
		name: "a requeued delivery waits for the one that runs",
		why:  "two events of one customer run at once",
		run: func(b *bench) {
			w := b.letters("a/k")
			b.publish("b/k")
			w.claim()
			b.requeue("a")
			b.expect(len(w.claim()) == 0, "a beside b")
			w.completed("b")
			b.inOrder(w.claim(), "a")
		},
	}, {
		name: "a blocked key does not hold up others",
		why:  "one customer's failing message stops everybody",
		run: func(b *bench) {
			w := b.start("a/k")
			b.expect(b.reschedule(w.lease("a")) == engine.Applied, "refused")
			w.forget("a")
			b.publish(b.sameLaneKeys()...)
			got := w.claim()
			b.expect(len(got) == 2, "%q", got)
		},
	}, {
		name: "handlers of one key are independent",
		why:  "a slow handler holds up another one of the same event",
		run: func(b *bench) {
			b.subscribe("h", "audit")
			b.publish("a/k", "b/k")
			w := b.worker("h", "audit")
			w.claim()
			l := w.leaseOf("a", "h")
			b.expect(b.reschedule(l) == engine.Applied, "refused")
			w.completeAllOf("audit")
			rest := b.list(engine.Filter{Handler: "audit"})
			b.expect(len(rest) == 0, "audit did not get on: %v", rest)
		},
	}, {
		name: "a chain completes in one call",
		why:  "a chain's completion is refused although all of it ran in order",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c/k")
			b.needChain(w, "a", "b", "c")
			w.completed("a", "b", "c")
			b.gone("a", "b", "c")
		},
	}, {
		name: "a follower is not completed before its predecessor",
		why:  "after a lost completion of the first, the second counts as done before it: the order of a key breaks",
		run: func(b *bench) {
			w := b.start("a/k", "b/k")
			b.needChain(w, "a", "b")
			b.expect(b.completeLeases(w.lease("b"))[0] == engine.LeaseLost, "completed before a")
			v, err := w.tx("", "b")
			b.expect(v == engine.LeaseLost && err == nil && b.effects("b") == 0, "in a transaction: %s, %v", v, err)
			l := w.lease("b")
			got := []engine.Verdict{b.reschedule(l), b.snooze(l), b.bury(l)}
			b.expect(!slices.Contains(got, engine.Applied), "ended before a: %v", got)
			b.pending("b", 0)
			w.completed("a")
			w.completed("b")
		},
	}, {
		name: "a follower falls with its predecessor in the call",
		why:  "the second event of a key is done, the first one runs again",
		run: func(b *bench) {
			w := b.start("a/k", "b/k", "c")
			b.needChain(w, "a", "b")
			bad := w.lease("a")
			bad.Claim--
			bad.Fence--
			got := b.completeLeases(bad, w.lease("b"), w.lease("c"))
			b.expect(slices.Equal(got, []engine.Verdict{engine.LeaseLost, engine.LeaseLost, engine.Applied}), "%v", got)
			b.pending("a", 0)
			b.pending("b", 0)
		},
	}, {
		name: "a failed head releases the rest with it",
		why:  "the rest of a chain is completed before its head ran again",
		run: func(b *bench) {
			for _, end := range []func(l engine.Lease, rest ...engine.Lease) engine.Verdict{b.reschedule, b.snooze, b.bury} {
				b.made += 10
				ids := []string{string(rune('a' + b.made)), string(rune('A' + b.made))}
				w := b.start(ids[0]+"/"+ids[0], ids[1]+"/"+ids[0])
				b.needChain(w, ids...)
				b.expect(end(w.lease(ids[0]), w.lease(ids[1])) == engine.Applied, "refused")
				old := w.lease(ids[1])
				b.expect(b.release(old)[0] == engine.LeaseLost, "the rest is still in flight")
				b.expect(b.row(ids[1]).Attempts == 0, "the rest was charged")
				w.forgetAll()
				w.relinquish()
			}
		},
	}, {
		name: "a chain's followers are not charged an attempt",
		why:  "messages that never started lose attempts when the worker dies",
		run: func(b *bench) {
			one := b.start("a/k", "b/k", "c/k", "d")
			b.needChain(one, "a", "b", "c")
			b.expireLanes()
			two := b.worker()
			two.claim()
			b.pending("a", 1)
			b.pending("b", 0)
			b.pending("c", 0)
			b.pending("d", 1)
			for id, n := range map[string]int32{"a": 1, "b": 1, "c": 1, "d": 1} {
				b.expect(b.row(id).Takeovers == n, "%+v", b.row(id))
			}
		},
	}, {
		name: "a chain whose head completed charges the next",
		why:  "a poison follower kills workers for ever uncharged",
		run: func(b *bench) {
			one := b.start("a/k", "b/k")
			b.needChain(one, "a", "b")
			one.completed("a")
			b.expireLanes()
			b.worker().claim()
			b.pending("b", 1)
		},
	}, {
		name: "no two runs of a key at once",
		why:  "two events of one customer are handled at once, on two workers",
		run: func(b *bench) {
			b.subscribe("h")
			var list []string
			for i := range 30 {
				list = append(list, string(rune('a'+i%26))+string(rune('0'+i/26))+"/"+[]string{"k", "l"}[i%2])
			}
			b.publish(list...)
			seen := &keyWatch{running: map[string]string{}}
			var wait sync.WaitGroup
			workers := []*worker{b.worker(), b.worker(), b.worker()}
			for _, w := range workers {
				wait.Go(func() { w.drain(seen, 30) })
			}
			wait.Wait()
			b.expect(seen.broken == "" && seen.done == 30, "%s; %d of 30 done", seen.broken, seen.done)
		},
	},
}

// chainsLinked fails unless each follower stands behind the delivery that its
// lease names.
func (b *bench) chainsLinked(picks []engine.Picked) {
	b.Helper()
	for i, p := range picks {
		if p.Lease.After == 0 {
			continue
		}
		b.expect(i > 0 && picks[i-1].Delivery.ID == p.Lease.After && picks[i-1].Delivery.Key == p.Delivery.Key && picks[i-1].Delivery.Sequence < p.Delivery.Sequence,
			"#%d stands behind no #%d", p.Delivery.ID, p.Lease.After)
	}
}

// needChain skips the case unless the claim brought these as one chain.
func (b *bench) needChain(w *worker, events ...string) {
	b.Helper()
	for i, e := range events {
		granted := slices.ContainsFunc(w.picks, func(p engine.Picked) bool { return p.Delivery.Event == e })
		if !granted || i > 0 && w.lease(e).After != w.lease(events[i-1]).Delivery {
			b.Skip("the store did not bring a chain")
		}
	}
}

// failInMiddle ends a as completed and b as failed and due.
func (b *bench) failInMiddle(w *worker) {
	b.Helper()
	w.completed("a")
	w.claim()
	rest := []engine.Lease{}
	if slices.Contains(names(w.picks), "c") {
		rest = append(rest, w.lease("c"))
	}
	b.expect(b.reschedule(w.lease("b"), rest...) == engine.Applied, "refused")
	w.forgetAll()
	b.due("b")
	b.expect(b.row("b").Status == protocol.Pending, "%+v", b.row("b"))
}

// sameLaneKeys returns two events in the lane of key "k": one of another key,
// one without.
func (b *bench) sameLaneKeys() []string {
	want := protocol.LaneOf(b.group, b.lanes, "k", "")
	keyed, plain := "", ""
	for i := 0; keyed == "" || plain == ""; i++ {
		name := "n" + string(rune('a'+i%26)) + string(rune('a'+i/26%26))
		if protocol.LaneOf(b.group, b.lanes, name, "") != want {
			continue
		}
		if keyed == "" {
			keyed = name
		} else {
			plain = name
		}
	}
	return []string{keyed + "1/" + keyed, plain}
}

// leaseOf returns the lease of an event for one of several handlers.
func (w *worker) leaseOf(event, handler string) engine.Lease {
	w.Helper()
	for _, p := range w.picks {
		if p.Delivery.Event == event && p.Delivery.Handler == handler {
			return p.Lease
		}
	}
	w.Fatalf("no lease of %q for %q", event, handler)
	return engine.Lease{}
}

// completeAllOf claims and completes until a handler has nothing left.
func (w *worker) completeAllOf(handler string) {
	w.Helper()
	for range 10 {
		for _, p := range w.picks {
			if p.Delivery.Handler == handler {
				w.completeLeases(p.Lease)
				w.running = slices.DeleteFunc(w.running, func(r engine.Running) bool { return r.InFlight == p.Lease.Entry() })
			}
		}
		if len(w.claim()) == 0 {
			return
		}
	}
}

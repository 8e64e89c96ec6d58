package linearize

import "github.com/relaybus-go/relaybus/engine"

var orderOnly = []Property{KeyOrder}

func keyed(id engine.DeliveryID, event string) engine.Delivery { return row(id, event+"/h", "k") }

// twoOfAKey publishes e1 and e2 of one key.
func twoOfAKey(b *book) {
	b.publish(msg("e1", "k", "h"), msg("e2", "k", "h"))
}

var orderStories = []story{
	{
		name: "a later one is granted first", rule: "no pick with an earlier pending row of its handler and key", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			b.claim(claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{either(bad, keyed(1, "e1"), keyed(2, "e2"))}})
			b.list(keyed(1, "e1"), keyed(2, "e2"))
		},
	},
	{
		name: "a dead letter stands aside", rule: "a dead delivery does not block its key, a pending one does", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{keyed(1, "e1")}})
			b.call(either(bad, any(engine.BuryInput{Lease: l[0]}), any(engine.SnoozeInput{Lease: l[0]})), b.ended(applied))
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: []engine.Delivery{keyed(2, "e2")}})
		},
	},
	{
		name: "a follower before its predecessor", rule: "a follower is not completed while the row before it is pending", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			l := b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
			b.only(!bad, func() { b.complete(l[0], applied) })
			b.complete(l[1], applied)
		},
	},
	{
		name: "a lost row says nothing of the one that survived", rule: "no pick with an earlier pending row of its handler and key", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			b.open(Transaction{Published: []Published{msg("e1", "k", "h")}})
			late := claim{by: bob, n: 2, took: 1, grants: []engine.Delivery{keyed(1, "e1")}}
			call, ret := b.interval()
			b.Record(Operation{Call: call, Return: ret, Input: late.input(), Output: late.reply(b.storeTime()), Outcome: Lost})
			b.publish(msg("e2", "k", "h"))
			b.publish(msg("e1", "k", "h"))
			first, second := keyed(2, "e2"), keyed(3, "e1")
			if bad {
				first, second = second, first
			}
			b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{first, second}})
		},
	},
	{
		name: "a purged dead letter published again", rule: "a follower is not completed while the row before it is pending", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e1", "k", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{keyed(1, "e1")}})
			b.bury(l[0], applied)
			b.purge(1, 1)
			b.publish(msg("e1", "k", "h"))
			b.publish(msg("e2", "k", "h"))
			l = b.claim(claim{by: alice, n: 4, held: 1, holds: 1, chain: true, grants: []engine.Delivery{keyed(2, "e1"), keyed(3, "e2")}})
			b.only(!bad, func() { b.complete(l[0], applied) })
			b.complete(l[1], applied)
		},
	},
	{
		name: "a follower of a refused predecessor", rule: "a follower is never Applied when the one before it, in the same call, was not", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			l := b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
			b.complete(l[0], applied)
			b.completeMany(l, either(bad, applied, leaseLost), applied)
		},
	},
	{
		name: "the rest of a failed chain", rule: "later members of a chain leave with the end of an earlier one", breaks: []Property{KeyOrder, LaneOwnership, EffectivelyOnce},
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			l := b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
			b.reschedule(l[0], applied, l[1])
			l = append(b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: []engine.Delivery{charged(keyed(1, "e1"), 1, 0)}}), l[1])
			b.complete(l[0], applied)
			b.complete(l[1], either(bad, leaseLost, applied))
		},
	},
	{
		name: "two accepted runs at once", rule: "never two accepted runs of a key at once", breaks: []Property{KeyOrder, LaneOwnership, EffectivelyOnce},
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			old := b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2, grants: []engine.Delivery{charged(keyed(1, "e1"), 1, 1)}})
			b.complete(old[0], either(bad, leaseLost, applied))
		},
	},
	{
		name: "granted beside a running one", rule: "no pick of a key of which the worker runs a delivery", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{keyed(1, "e1")}})
			b.complete(l[0], applied)
			running := stated(l...)
			running[0].Handler, running[0].Key = "h", either(bad, "other", "k")
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, running: running, grants: []engine.Delivery{keyed(2, "e2")}})
		},
	},
	{
		name: "a requeued one is overtaken", rule: "a requeued delivery is granted in its old place", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{keyed(1, "e1")}})
			b.call(engine.BuryInput{Lease: l[0]}, b.ended(applied))
			b.only(bad, func() { b.requeue(1, 1) })
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: []engine.Delivery{keyed(2, "e2")}})
		},
	},
	{
		name: "a charged follower", rule: "a chain ends before a delivery that was charged", breaks: []Property{KeyOrder},
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			// e2 was charged: it was first of its key when e1 was dead.
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{keyed(1, "e1")}})
			b.call(engine.BuryInput{Lease: l[0]}, b.ended(applied))
			l = b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: []engine.Delivery{keyed(2, "e2")}})
			b.reschedule(l[0], applied)
			b.requeue(1, 1)
			grants := []engine.Delivery{keyed(1, "e1"), charged(keyed(2, "e2"), 1, 0)}
			b.claim(claim{by: alice, n: 6, held: 1, holds: 1, chain: true, grants: either(bad, grants[:1], grants)})
		},
	},
	{
		name: "a chain that skips", rule: "a chain is the pending rows in sequence", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e1", "k", "h"), msg("e2", "k", "h"), msg("e3", "k", "h"))
			grants := []engine.Delivery{keyed(1, "e1"), keyed(2, "e2"), keyed(3, "e3")}
			b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: either(bad, grants, []engine.Delivery{grants[0], grants[2]})})
			b.list(grants...)
		},
	},
	{
		name: "sequence against commit order", rule: "sequence order is commit order per key", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e1", "k", "h"))
			b.publish(msg("e2", "k", "h"))
			first, second := keyed(1, "e1"), keyed(2, "e2")
			first.Sequence = either(bad, int64(1), 3)
			b.list(first, second)
		},
	},
	{
		name: "the lane of another key", rule: "all deliveries of one key share a lane", breaks: orderOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e1", "k", "h"))
			d := keyed(1, "e1")
			b.list(d)
			d.Lane = either(bad, engine.LaneID(0), 1)
			reply := claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{d}}.reply(b.storeTime())
			reply.Lanes[0].Lane = d.Lane
			b.call(claim{by: alice, n: 2}.input(), reply)
		},
	},
}

// charge1 is a grant of one delivery that was charged.
func charge1(attempts, takeovers int32) []engine.Delivery {
	return []engine.Delivery{charged(row(1, "e/h", ""), attempts, takeovers)}
}

// fenced is a grant of a row with a fence.
func fenced(d engine.Delivery, fence int32) []engine.Delivery {
	d.Fence = fence
	return []engine.Delivery{d}
}

package linearize

import "github.com/relaybus-go/relaybus/engine"

var lifeOnly = []Property{AtLeastOnce}

var lifeStories = []story{
	{
		name: "a delivery is lost", rule: "NoLostDelivery: a committed delivery is pending, dead or completed", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.list(either(bad, rows1("h"), nil)...)
		},
	},
	{
		name: "a delivery is lost at failover", rule: "only a failover may lose what was acknowledged", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.only(!bad, func() { b.crash(true) })
			b.list()
		},
	},
	{
		name: "rolled back and granted", rule: "NothingInvented: nothing runs that was not committed", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.calls(Transaction{Published: []Published{msg("e", "", "h")}}, nil, either(bad, Returned, Retryable))
			b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
		},
	},
	{
		name: "dead and granted", rule: "DeadStaysDead: a dead letter is not claimed until requeued", breaks: []Property{AtLeastOnce, AttemptCharging},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.call(engine.BuryInput{Lease: l[0]}, b.ended(applied))
			b.only(!bad, func() { b.requeue(1, 1) })
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: rows1("h")})
		},
	},
	{
		name: "dead and rescheduled", rule: "a dead row is not revived by an end that comes late", breaks: []Property{AtLeastOnce, LaneOwnership, EffectivelyOnce},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.bury(l[0], applied)
			b.reschedule(l[0], either(bad, leaseLost, applied))
			b.list(dead(charged(row(1, "e/h", ""), 1, 0)))
		},
	},
	{
		name: "completed and back", rule: "CompletedStaysDone: publishing the id again never brings it back", breaks: []Property{AtLeastOnce, EffectivelyOnce},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.complete(l[0], applied)
			b.publish(msg("e", "", "h").as(engine.Known))
			b.list(either(bad, nil, rows1("h"))...)
		},
	},
	{
		name: "published twice", rule: "an id that is there with every handler is Known", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.publish(msg("e", "", "h").as(either(bad, engine.Known, engine.Added)))
		},
	},
	{
		name: "a handler is dropped", rule: "publishing a known id adds the handlers that never had a delivery", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h1"))
			b.publish(msg("e", "", "h1", "h2").as(either(bad, engine.Added, engine.Known)))
		},
	},
	{
		name: "an id of another type", rule: "a known id with another type or key is a Mismatch", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			other := msg("e", "", "h")
			other.Type = "u"
			b.publish(other.as(either(bad, engine.Mismatch, engine.Added)))
		},
	},
	{
		name: "requeued and purged", rule: "Purge repeats its condition on the row that it deletes", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.call(engine.BuryInput{Lease: l[0]}, b.ended(applied))
			b.during(20, 40).purge(1, 0)
			b.during(30, 32).requeue(1, 1)
			b.wait(50)
			b.list(either(bad, rows1("h"), nil)...)
		},
	},
	{
		name: "an event purged too early", rule: "an id is new again only when its event was purged", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.complete(l[0], applied)
			b.only(!bad, func() { b.purge(0, 1) })
			b.publish(msg("e", "", "h"))
		},
	},
	{
		// Good: the run is of a delivery that is gone with its event, and only
		// repeats what it had done. Bad: it takes the new one along.
		name: "completed again when its event was forgotten", rule: "a completion that is repeated does not touch a new delivery", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.complete(l[0], applied)
			b.purge(0, 1)
			b.publish(msg("e", "", "h"))
			b.complete(l[0], applied)
			b.list(either(bad, []engine.Delivery{row(2, "e/h", "")}, nil)...)
		},
	},
	{
		name: "granted before it is due", rule: "picks are due", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			d := row(1, "e/h", "")
			d.AvailableAt = either(bad, engine.StoreTime(3), 50)
			b.claim(claim{by: alice, n: 2, took: 1, grants: []engine.Delivery{d}})
			b.extend(alice, 1, applied) // tells what the clock was
		},
	},
	{
		name: "an id is issued again after a failover", rule: "the old worker's completion does not touch the new row", breaks: lifeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.crash(true)
			b.publish(msg("f", "", "h"))
			b.claim(claim{by: bob, n: 2, took: 1})
			b.complete(l[0], leaseLost)
			b.list(either(bad, []engine.Delivery{row(1, "f/h", "")}, nil)...)
		},
	},
}

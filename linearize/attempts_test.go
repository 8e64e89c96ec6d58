package linearize

import "github.com/relaybus-go/relaybus/engine"

var chargeOnly = []Property{AttemptCharging}

var chargeStories = []story{
	{
		name: "a takeover charges", rule: "a takeover charges what it found in flight", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2, grants: either(bad, charge1(1, 1), charge1(0, 0))})
		},
	},
	{
		name: "a takeover charges once", rule: "each run is charged at most once", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2, grants: either(bad, charge1(1, 1), charge1(2, 2))})
		},
	},
	{
		name: "a follower never started", rule: "a takeover charges no attempt to one with an earlier pending one of its key listed", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, passed: 2})
			b.list(charged(keyed(1, "e1"), 1, 1), charged(keyed(2, "e2"), either(bad, int32(0), 1), 1))
		},
	},
	{
		name: "a released run is not charged", rule: "never charged at release", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.release(l[0], applied)
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2, grants: either(bad, charge1(0, 0), charge1(1, 1))})
		},
	},
	{
		name: "a snoozed run is not charged", rule: "never charged at snooze", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.snooze(l[0], applied)
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: charge1(either(bad, int32(0), 1), 0)})
		},
	},
	{
		name: "a failed run is charged", rule: "Reschedule: attempts + 1", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.reschedule(l[0], applied)
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: charge1(either(bad, int32(1), 0), 0)})
		},
	},
	{
		name: "a failure sent twice", rule: "a Reschedule whose answer was lost is not charged again", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.open(engine.RescheduleInput{Lease: l[0]})
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, running: stated(l...), lost: stated(l...)})
			b.reschedule(l[0], leaseLost)
			b.claim(claim{by: alice, n: 6, held: 1, holds: 1, grants: charge1(either(bad, int32(1), 2), 0)})
		},
	},
	{
		name: "a burial, a Requeue and the retry", rule: "the Requeue stands: attempts are counted since it", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.open(engine.BuryInput{Lease: l[0], Charge: true})
			b.requeue(1, 1) // so the burial had taken effect
			b.bury(l[0], leaseLost)
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: rows1("h")})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2, grants: either(bad, charge1(1, 1), charge1(2, 1))})
		},
	},
	{
		name: "takeovers stay", rule: "only Requeue resets takeovers", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			l := b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(1, 1)})
			b.reschedule(l[0], applied)
			b.claim(claim{by: bob, n: 4, held: 2, holds: 2, grants: charge1(2, either(bad, int32(1), 0))})
		},
	},
	{
		name: "the owner comes back", rule: "a worker that claims its own expired lane is not charged", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(500) // an outage
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, running: stated(l...)})
			b.list(charge1(either(bad, int32(0), 1), either(bad, int32(0), 1))...)
		},
	},
	{
		name: "a lost reply of a newly taken lane", rule: "what came with a lost reply drops out uncharged", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.open(claim{by: alice, n: 2}.input())
			all := claim{by: alice, n: 4}.input()
			all.AllMine = true
			b.call(all, claim{by: alice, n: 4, holds: 1, grants: either(bad, charge1(0, 0), charge1(1, 1))}.reply(b.storeTime()))
		},
	},
	{
		name: "one suspect at a time", rule: "a call returns at most one delivery with takeovers, and none while one runs", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"), msg("f", "", "h"))
			b.claim(claim{by: alice, n: 2, took: 1, grants: append(rows1("h"), row(2, "f/h", ""))})
			b.wait(200)
			suspects := append(charge1(1, 1), charged(row(2, "f/h", ""), 1, 1))
			b.claim(claim{by: bob, n: 2, took: 2, grants: either(bad, suspects[:1], suspects)})
		},
	},
	{
		name: "completed before the takeover", rule: "a row that is gone is charged to nobody else", breaks: chargeOnly,
		tell: func(b *book, bad bool) {
			twoOfAKey(b)
			l := b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
			b.complete(l[0], applied)
			b.wait(200)
			// With e1 gone, e2 is the first of its key that is listed.
			b.claim(claim{by: bob, n: 2, took: 2, grants: []engine.Delivery{charged(keyed(2, "e2"), either(bad, int32(1), 0), 1)}})
		},
	},
	{
		name: "snapshot: two takeovers before the charge", rule: "what is lost is charged once, however often the lane changes hands before", breaks: chargeOnly, family: Snapshot,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2}) // the charge failed, and Bob died
			b.list(rows1("h")...)
			b.wait(200)
			b.claim(claim{by: carol, n: 2, took: 3, grants: either(bad, charge1(1, 1), charge1(2, 2))})
		},
	},
	{
		name: "snapshot: claimed before the charge", rule: "nothing of a lane is granted until its losses are charged", breaks: chargeOnly, family: Snapshot,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"), msg("f", "", "h"))
			b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2, grants: []engine.Delivery{row(2, "f/h", "")}})
			b.list(append(charge1(either(bad, int32(1), 0), either(bad, int32(1), 0)), row(2, "f/h", ""))...)
		},
	},
}

package linearize

import "github.com/relaybus-go/relaybus/engine"

var laneOnly = []Property{LaneOwnership}

var laneStories = []story{
	{
		name: "takeover raises the epoch", rule: "epoch + 1 at each TakeOver", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: either(bad, int64(2), 1)})
		},
	},
	{
		name: "lease not run out", rule: "a lane is taken over only when its lease has run out by the store's clock", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(either(bad, int64(100), 90))
			b.claim(claim{by: bob, n: 2, took: 2})
		},
	},
	{
		name: "renewed lease not run out", rule: "an accepted ExtendLease lasts for the time that was asked", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(60)
			b.claim(claim{by: bob, n: 2}) // tells what the clock was
			b.only(bad, func() { b.extend(alice, 1, applied) })
			b.wait(60)
			b.claim(claim{by: bob, n: 4, took: 2})
		},
	},
	{
		name: "renewal by a former owner", rule: "ExtendLease needs holder and epoch", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2})
			b.extend(alice, 1, either(bad, leaseLost, applied))
		},
	},
	{
		name: "renewal after the lease ran out", rule: "ExtendLease is accepted while nobody took the lane over", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.extend(alice, 1, either(bad, applied, leaseLost))
		},
	},
	{
		name: "lane of another group", rule: "a worker takes over lanes of its own group only", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.groups(2)
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.claim(claim{by: bob, group: either[int32](bad, 0, 1), n: 2, took: 2})
		},
	},
	{
		name: "lane of another group given back", rule: "not even for the time of a claim", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.groups(2)
			b.claim(claim{by: bob, group: either[int32](bad, 0, 1), n: 2, passed: 1})
		},
	},
	{
		name: "own lane", rule: "a worker never takes its own expired lane over", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.claim(either(bad, claim{by: alice, n: 4, held: 1, holds: 1}, claim{by: alice, n: 4, held: 1, took: 2}))
		},
	},
	{
		name: "late claim", rule: "a claim with a number that is not above the lane's is refused", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.claim(claim{by: alice, n: 6, held: 1, holds: 1})
			b.claim(claim{by: alice, n: 4, held: 1, gone: !bad, holds: either(bad, int64(0), 1)})
		},
	},
	{
		name: "late claim after Relinquish", rule: "a free lane is not taken by a claim that its last holder's Relinquish has overtaken", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.relinquish(alice, 5, 1, true)
			b.claim(claim{by: alice, n: 4, took: either(bad, int64(0), 2)})
		},
	},
	{
		name: "a claim adds nothing", rule: "only the store's record keeps a lease: running \\ kept comes back as LeaseLost", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1}) // states nothing: the run drops out
			b.claim(claim{by: alice, n: 6, held: 1, holds: 1, running: stated(l...), lost: either(bad, stated(l...), nil)})
		},
	},
	{
		name: "a claim drops nothing", rule: "what the lane lists and the worker states is kept", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, running: stated(l...), lost: either(bad, nil, stated(l...))})
		},
	},
	{
		name: "end after a takeover", rule: "FencedOut: no call with an older token is accepted", breaks: []Property{LaneOwnership},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2})
			b.snooze(l[0], either(bad, leaseLost, applied))
		},
	},
	{
		name: "release twice", rule: "Release needs (id, claim) in the lane's list", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.release(l[0], applied)
			b.release(l[0], either(bad, leaseLost, applied))
		},
	},
	{
		name: "relinquish with work in flight", rule: "Relinquish needs in_flight ∩ running = ∅", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.relinquish(alice, 3, 1, bad, stated(l...)...)
		},
	},
	{
		name: "relinquish by a former owner", rule: "Relinquish needs the holder and, where named, the epoch", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2})
			b.relinquish(alice, 3, 1, bad)
		},
	},
	{
		name: "after the not-after", rule: "a call changes nothing once the store's clock has passed its not-after", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.extend(alice, 1, applied) // the clock is past 200 now
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, until: either(bad, engine.StoreTime(500), 150)})
		},
	},
	{
		name: "lease longer than asked", rule: "expiry is at most the store's clock + ttl", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1, expires: either(bad, engine.StoreTime(102), 190)})
			b.claim(claim{by: bob, n: 2}) // tells what the clock was
		},
	},
	{
		name: "asynchronous takeover lost in a crash", rule: "an epoch is not granted back while no commit is lost", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2})
			b.only(!bad, func() { b.crash(false) })
			b.extend(alice, 1, applied)
		},
	},
	{
		name: "the crash reissues an epoch", rule: "epoch + 1 of the epoch that survived", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2})
			b.only(!bad, func() { b.crash(false) })
			b.wait(200)
			b.claim(claim{by: carol, n: 2, took: 2})
		},
	},
	{
		name: "a synchronous commit keeps what was before it", rule: "the survivors of a crash are a prefix, and ends commit synchronously", breaks: laneOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.claim(claim{by: alice, n: 2, took: 1})
			b.wait(200)
			l := b.claim(claim{by: bob, n: 2, took: 2, grants: rows1("h")})
			b.release(l[0], applied)
			b.crash(false)
			b.extend(alice, 1, either(bad, leaseLost, applied))
		},
	},
	{
		name: "snapshot: an old snapshot of the lane", rule: "a completion reads the lane in its transaction's snapshot", breaks: laneOnly, family: Snapshot,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			b.claim(claim{by: bob, n: 2, took: 2}) // nothing is charged yet
			b.during(either(bad, int64(100), 250), 260).call(inTx(l[0], applied, effect), nil)
		},
	},
}

// rows1 is a grant of one delivery without a key.
func rows1(handler string) []engine.Delivery { return []engine.Delivery{row(1, "e/"+handler, "")} }

package linearize

var onceOnly = []Property{EffectivelyOnce}

var effect = Name{"e", "h"}

var onceStories = []story{
	{
		name: "two completions", rule: "AtMostOneCompletion", breaks: []Property{EffectivelyOnce, LaneOwnership},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			old := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.wait(200)
			l := b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(1, 1)})
			b.complete(l[0], applied)
			b.complete(old[0], either(bad, leaseLost, applied))
		},
	},
	{
		name: "completed again", rule: "Applied again only to the lease that completed the delivery", breaks: onceOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			b.publish(msg("f", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: append(rows1("h"), row(2, "f/h", ""))})
			b.complete(l[0], applied)
			b.complete(l[0], applied)
			// The same row once more, as a transaction: that must delete it itself.
			b.call(Transaction{Completed: []Completed{{l[1], applied}}}, nil)
			b.calls(Transaction{Completed: []Completed{{l[1], leaseLost}}}, nil, either(bad, Retryable, Returned))
		},
	},
	{
		name: "a row that is gone", rule: "Complete is Applied only when its transaction deletes the row", breaks: []Property{EffectivelyOnce, AtLeastOnce},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.call(inTx(l[0], applied, effect), nil)
			b.calls(inTx(l[0], applied, effect), nil, either(bad, Retryable, Returned))
			b.count(effect, 1)
		},
	},
	{
		name: "an effect twice", rule: "a transactional effect commits as often as its completion", breaks: onceOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.call(inTx(l[0], applied, effect), nil)
			b.count(effect, either(bad, 1, 2))
		},
	},
	{
		name: "an unknown commit settled by Snooze", rule: "Snooze is Applied only when the transaction had not committed", breaks: onceOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.open(inTx(l[0], applied, effect))
			b.snooze(l[0], applied)
			l = b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: rows1("h")})
			b.call(inTx(l[0], applied, effect), nil)
			b.count(effect, either(bad, 1, 2))
		},
	},
	{
		name: "an unknown commit settled by completing", rule: "a completion without its effect", breaks: onceOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.open(inTx(l[0], applied, effect))
			b.complete(l[0], applied)
			b.count(effect, either(bad, 1, 0))
		},
	},
	{
		name: "committed although LeaseLost", rule: "on LeaseLost the transaction must be rolled back", breaks: onceOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.call(inTx(l[0], either(bad, applied, leaseLost), effect), nil)
		},
	},
	{
		name: "an effect without a completion", rule: "effect and completion commit together", breaks: onceOnly,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			tx := inTx(l[0], applied, effect)
			b.call(either(bad, tx, Transaction{Effects: tx.Effects}), nil)
		},
	},
	{
		name: "granted after its completion", rule: "what is completed is never granted again", breaks: []Property{EffectivelyOnce, AtLeastOnce},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			l := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			b.complete(l[0], applied)
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: either(bad, nil, rows1("h"))})
		},
	},
	{
		name: "an old run ends", rule: "an end is accepted from the run that was granted last", breaks: []Property{EffectivelyOnce, LaneOwnership},
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			old := b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
			l := b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: rows1("h")}) // the first was not stated
			b.snooze(old[0], either(bad, leaseLost, applied))
			b.release(l[0], applied)
		},
	},
	{
		name: "snapshot: the fence moved", rule: "a plain completion needs the fence that the row had when it was picked", breaks: onceOnly, family: Snapshot,
		tell: func(b *book, bad bool) {
			b.publish(msg("e", "", "h"))
			old := b.claim(claim{by: alice, n: 2, took: 1, grants: fenced(row(1, "e/h", ""), 0)})
			b.snooze(old[0], applied)
			b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: fenced(row(1, "e/h", ""), either(bad, int32(0), 1))})
			b.complete(old[0], applied)
		},
	},
}

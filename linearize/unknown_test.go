package linearize

import (
	"testing"

	"github.com/relaybus-go/relaybus/engine"
)

// unknowns are histories with calls that nobody got an answer to: whatever
// such a call may have done is accepted, what it cannot have done is not.
var unknowns = []struct {
	name   string
	family Family
	breaks []Property // nothing: accepted
	tell   func(b *book)
}{
	{name: "a lost publish took effect", tell: func(b *book) {
		b.open(Transaction{Published: []Published{msg("e", "", "h")}})
		b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
	}},
	{name: "a lost publish did not take effect", tell: func(b *book) {
		b.open(Transaction{Published: []Published{msg("e", "", "h")}})
		b.list()
	}},
	{name: "a lost publish takes effect late", tell: func(b *book) {
		b.open(Transaction{Published: []Published{msg("e", "", "h")}})
		b.list()
		b.list(rows1("h")...)
	}},
	{name: "a lost publish is not undone", breaks: lifeOnly, tell: func(b *book) {
		b.open(Transaction{Published: []Published{msg("e", "", "h")}})
		b.list(rows1("h")...)
		b.list()
	}},
	{name: "a publish takes no effect before it is called", breaks: lifeOnly, tell: func(b *book) {
		b.list(rows1("h")...)
		b.open(Transaction{Published: []Published{msg("e", "", "h")}})
	}},
	{name: "a lost completion took effect", tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.CompleteManyInput{Leases: l})
		b.list()
	}},
	{name: "a lost completion did not take effect", tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.CompleteManyInput{Leases: l})
		b.list(rows1("h")...)
		b.reschedule(l[0], applied)
	}},
	{name: "a lost completion and its retry", tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.CompleteManyInput{Leases: l})
		b.list()
		b.complete(l[0], applied)
		b.list()
	}},
	{name: "a lost completion after another run was granted", breaks: lifeOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.CompleteManyInput{Leases: l})
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(1, 1)})
		b.list()
	}},
	{name: "a lost completion and an end of the same run", breaks: []Property{AtLeastOnce}, tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.CompleteManyInput{Leases: l})
		b.snooze(l[0], applied)
		b.list()
	}},
	{name: "an unknown COMMIT that committed", tell: func(b *book) {
		l := oneRun(b)
		b.open(inTx(l[0], applied, effect))
		b.snooze(l[0], leaseLost)
		b.count(effect, 1)
		b.list()
	}},
	{name: "an unknown COMMIT that did not", tell: func(b *book) {
		l := oneRun(b)
		b.open(inTx(l[0], applied, effect))
		b.snooze(l[0], applied)
		b.count(effect, 0)
		b.list(rows1("h")...)
	}},
	{name: "an unknown COMMIT that commits late", tell: func(b *book) {
		l := oneRun(b)
		b.open(inTx(l[0], applied, effect))
		b.count(effect, 0)
		b.count(effect, 1)
		b.list()
	}},
	{name: "an unknown COMMIT after it was settled", breaks: []Property{AtLeastOnce, EffectivelyOnce}, tell: func(b *book) {
		l := oneRun(b)
		b.open(inTx(l[0], applied, effect))
		b.snooze(l[0], applied)
		b.count(effect, 1)
		b.list()
	}},
	{name: "half of a transaction", breaks: onceOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(inTx(l[0], applied, effect))
		b.complete(l[0], applied) // the row is gone, so the transaction committed
		b.count(effect, 0)
	}},
	{name: "a lost failure is charged or not", tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.RescheduleInput{Lease: l[0]})
		b.list(charge1(0, 0)...)
		b.list(charge1(1, 0)...)
		b.claim(claim{by: alice, n: 4, held: 1, holds: 1, running: stated(l...), lost: stated(l...), grants: nil})
	}},
	{name: "a lost failure is charged once", breaks: chargeOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.RescheduleInput{Lease: l[0]})
		b.open(engine.RescheduleInput{Lease: l[0]})
		b.list(charge1(2, 0)...)
	}},
	{name: "a lost failure and a takeover", tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.RescheduleInput{Lease: l[0]})
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(1, 0)}) // it had left the lane
	}},
	{name: "a lost failure or a takeover, not both", breaks: chargeOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.RescheduleInput{Lease: l[0]})
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(2, 1)})
	}},
	{name: "a lost failure or a takeover, not neither", breaks: chargeOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.RescheduleInput{Lease: l[0]})
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(0, 0)})
	}},
	{name: "a lost takeover", tell: func(b *book) {
		b.claim(claim{by: alice, n: 2, took: 1})
		b.wait(200)
		b.open(claim{by: bob, n: 2}.input())
		b.extend(alice, 1, leaseLost)
		b.wait(200)
		b.claim(claim{by: carol, n: 2, took: 3})
	}},
	{name: "a lost takeover that did not happen", tell: func(b *book) {
		b.claim(claim{by: alice, n: 2, took: 1})
		b.wait(200)
		b.open(claim{by: bob, n: 2}.input())
		b.extend(alice, 1, applied)
	}},
	{name: "a lost takeover and the former owner", breaks: laneOnly, tell: func(b *book) {
		b.claim(claim{by: alice, n: 2, took: 1})
		b.wait(200)
		b.open(claim{by: bob, n: 2}.input())
		b.extend(alice, 1, leaseLost)
		b.extend(alice, 1, applied)
	}},
	{name: "a lost takeover of a lease that had not run out", breaks: laneOnly, tell: func(b *book) {
		b.claim(claim{by: alice, n: 2, took: 1})
		b.open(claim{by: bob, n: 2, until: 50}.input())
		b.extend(alice, 1, leaseLost)
	}},
	{name: "two epochs without a taker", breaks: laneOnly, tell: func(b *book) {
		b.claim(claim{by: alice, n: 2, took: 1})
		b.wait(200)
		b.open(claim{by: bob, n: 2}.input())
		b.wait(200)
		b.claim(claim{by: carol, n: 2, took: 4})
	}},
	{name: "a lost claim drops what it does not state", tell: func(b *book) {
		l := oneRun(b)
		b.open(claim{by: alice, n: 4, held: 1}.input())
		b.claim(claim{by: alice, n: 6, held: 1, holds: 1, running: stated(l...), lost: stated(l...)})
	}},
	{name: "a lost claim keeps what it states", breaks: laneOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(claim{by: alice, n: 4, held: 1, running: stated(l...)}.input())
		b.claim(claim{by: alice, n: 6, held: 1, holds: 1, running: stated(l...), lost: stated(l...)})
	}},
	{name: "a late claim is refused by its number", breaks: laneOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(claim{by: alice, n: 4, held: 1}.input()) // states nothing
		b.claim(claim{by: alice, n: 6, held: 1, holds: 1, running: stated(l...)})
		b.claim(claim{by: alice, n: 8, held: 1, holds: 1, running: stated(l...), lost: stated(l...)})
	}},
	{name: "a lost claim and a takeover", tell: func(b *book) {
		b.publish(msg("e", "", "h"))
		b.open(claim{by: alice, n: 2}.input())
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(1, 1)}) // it had been granted
	}},
	{name: "a lost claim that granted nothing, and a takeover", tell: func(b *book) {
		b.publish(msg("e", "", "h"))
		b.open(claim{by: alice, n: 2}.input())
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(0, 0)})
	}},
	{name: "a lost claim is charged once", breaks: chargeOnly, tell: func(b *book) {
		b.publish(msg("e", "", "h"))
		b.open(claim{by: alice, n: 2}.input())
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2, grants: charge1(2, 2)})
	}},
	{name: "a lost Relinquish", tell: func(b *book) {
		b.claim(claim{by: alice, n: 2, took: 1})
		b.open(engine.RelinquishInput{Holder: alice, Number: 3, Lanes: []engine.LaneEpoch{{Epoch: 1}}})
		b.claim(claim{by: bob, n: 2, took: 2})
	}},
	{name: "a lost Relinquish of what still runs", breaks: laneOnly, tell: func(b *book) {
		l := oneRun(b)
		b.open(engine.RelinquishInput{Holder: alice, Number: 3, Lanes: []engine.LaneEpoch{{Epoch: 1}}, Running: stated(l...)})
		b.claim(claim{by: bob, n: 2, took: 2})
	}},
	{name: "a lost Requeue", tell: func(b *book) {
		l := oneRun(b)
		b.bury(l[0], applied)
		b.open(engine.RequeueInput{IDs: []engine.DeliveryID{1}})
		b.list(dead(charged(row(1, "e/h", ""), 1, 0)))
		b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: rows1("h")})
	}},
	{name: "a lost Requeue resets", breaks: chargeOnly, tell: func(b *book) {
		l := oneRun(b)
		b.bury(l[0], applied)
		b.open(engine.RequeueInput{IDs: []engine.DeliveryID{1}})
		b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: charge1(2, 0)})
	}},
	{name: "a lost follower's completion needs its predecessor's", breaks: orderOnly, tell: func(b *book) {
		twoOfAKey(b)
		l := b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
		b.open(engine.CompleteManyInput{Leases: l[1:]})
		b.publish(msg("e3", "k", "h"))
		b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: []engine.Delivery{keyed(3, "e3")}})
	}},
	{name: "a lost batch of a chain", tell: func(b *book) {
		twoOfAKey(b)
		l := b.claim(claim{by: alice, n: 2, took: 1, chain: true, grants: []engine.Delivery{keyed(1, "e1"), keyed(2, "e2")}})
		b.open(engine.CompleteManyInput{Leases: l})
		b.publish(msg("e3", "k", "h"))
		b.claim(claim{by: alice, n: 4, held: 1, holds: 1, grants: []engine.Delivery{keyed(3, "e3")}})
	}},
	{name: "snapshot: a claim that failed half-way may hold the lane", family: Snapshot, tell: func(b *book) {
		b.calls(claim{by: alice, n: 2}.input(), nil, Retryable)
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2})
	}},
	{name: "locking: a claim that failed did nothing", breaks: laneOnly, tell: func(b *book) {
		b.calls(claim{by: alice, n: 2}.input(), nil, Retryable)
		b.wait(200)
		b.claim(claim{by: bob, n: 2, took: 2})
	}},
	{name: "a call that failed takes no effect later", family: Snapshot, breaks: laneOnly, tell: func(b *book) {
		b.calls(claim{by: alice, n: 2}.input(), nil, Retryable)
		b.claim(claim{by: bob, n: 2, took: 1})
		b.claim(claim{by: carol, n: 2, took: 3, expires: 400})
	}},
	{name: "lost with the store's commits", tell: func(b *book) {
		l := oneRun(b)
		b.calls(engine.BuryInput{Lease: l[0]}, nil, Lost)
		b.list(rows1("h")...)
		b.complete(l[0], applied)
	}},
}

// oneRun publishes e for h and grants it to Alice.
func oneRun(b *book) []engine.Lease {
	b.publish(msg("e", "", "h"))
	return b.claim(claim{by: alice, n: 2, took: 1, grants: rows1("h")})
}

func TestUnknownOutcomes(t *testing.T) {
	for _, u := range unknowns {
		t.Run(u.name, func(t *testing.T) {
			b := newBook(u.family)
			u.tell(b)
			r, found := statuses(t, b.History)
			for _, p := range Properties() {
				want := OK
				for _, q := range u.breaks {
					if p == q {
						want = Illegal
					}
				}
				if found[p] != want {
					t.Errorf("%s is %s, want %s\n%s", p, found[p], want, r)
				}
			}
		})
	}
}

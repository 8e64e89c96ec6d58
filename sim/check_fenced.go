package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// fenced checks FencedOut: no end is accepted under a lease that the store
// took back: by a takeover (in a snapshot store: once it is charged), a claim
// that no longer stated it, or an earlier end. Repeating a completion that
// counted is no new end, and neither is releasing what it left in the lane's
// list.
//
// A snapshot store judges completions of plain handlers by the row's fence:
// they are wrong only under a lease that a takeover found and charged. What a
// lost claim granted, or a claim dropped, may still complete there.
//
// A store with row locks may judge a completion by a list that a newer claim of
// the same holder has replaced since; the lock-step model judges the list where
// it was read.
type fenced struct {
	unconcerned
	c *checks
}

func (*fenced) name() string { return "FencedOut" }

func (k *fenced) action(_ int64, a protocol.Action) {
	acceptedEnds(a, func(e end) {
		d := k.c.facts.delivery(e.lease.Delivery)
		switch {
		case d == nil:
			k.c.fail(k.name(), "NothingInvented", "%s of %v was accepted, which was never committed", e.action, e.lease)
		case d.granted.Token == e.lease.Token:
		case unlisted(a, e.lease) && k.stillHolds(e.lease.Token):
		case d.fate == completed && nameOf(d.ended) == nameOf(e.lease) && (e.plain || e.action == "Release"):
		case (e.plain || e.tx) && d.lost.Token == e.lease.Token:
		case k.c.facts.byFence(e) && !slices.Contains(d.fenced, nameOf(e.lease)):
		default:
			k.c.fail(k.name(), k.name(), "%s of %v was accepted, but %s", e.action, e.lease, d.grantText())
		}
	})
}

func (d *deliveryFacts) grantText() string {
	if d.granted.Delivery == 0 {
		return "no run of it is granted"
	}
	return "it is granted as " + d.granted.String()
}

// unlisted reports whether a completion was judged by a list read earlier.
func unlisted(a protocol.Action, lease protocol.Lease) bool {
	c, ok := a.(protocol.CompleteMany)
	return ok && slices.Contains(c.Unlisted, lease.Delivery)
}

// stillHolds reports whether the lane has not been taken over since the token
// was issued.
func (k *fenced) stillHolds(t protocol.Token) bool {
	l := k.c.facts.lane(t.Lane)
	return l.epoch == t.Epoch && (l.holder == t.Holder || l.gaveBack == t.Holder)
}

// sameHolding reports whether two runs were granted to the same holder between
// the same two takeovers.
func sameHolding(a, b protocol.Token) bool {
	return a.Lane == b.Lane && a.Epoch == b.Epoch && a.Holder == b.Holder
}

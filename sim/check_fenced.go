package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// fenced checks FencedOut: no end is accepted under a lease that the store
// took back: by a takeover (in a snapshot store: once it is charged), a claim
// that no longer stated it, or an earlier end. Repeating a completion that
// counted is no new end.
//
// A snapshot store judges completions of plain handlers by the row's fence:
// they are wrong only under a lease that a takeover found and charged. What a
// lost claim granted, or a claim dropped, may still complete there.
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
		case d.fate == completed && nameOf(d.ended) == nameOf(e.lease) && e.plain:
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

package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// repeats checks CompletedStaysDone: publishing an event again never makes a
// second delivery for a handler that had one, and nothing completed is granted
// again.
//
// Excepted is one plain delivery in one place: a store with row locks lost its
// completion, and a late copy of that very call commits between the reading of
// a claim's picks and the claim (docs/adr, 14). It runs again, as it would have
// without the copy.
type repeats struct {
	unconcerned
	c *checks
}

func (*repeats) name() string { return "CompletedStaysDone" }

func (k *repeats) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			for j := range a.Events[i].Deliveries {
				row := &a.Events[i].Deliveries[j]
				if d := k.c.facts.pairs[pairName{row.Event, row.Handler}]; d != nil {
					k.c.fail(k.name(), k.name(), "%s of %s got a second delivery #%d; the first, #%d, is %v", row.Handler, row.Event, row.ID, d.id, d.fate)
				}
			}
		}
	case protocol.Claim:
		for _, p := range a.Picks {
			if d := k.c.facts.delivery(p.Delivery); d != nil && d.fate == completed && !k.beside(&a, d) {
				k.c.fail(k.name(), k.name(), "#%d, %s of %s, is completed and was granted again", p.Delivery, d.handler, d.event)
			}
		}
	}
}

// beside reports whether a delivery that a claim grants was completed after the
// claim had read, by a run of the same holder whose completion the store had
// committed once before and lost.
func (k *repeats) beside(a *protocol.Claim, d *deliveryFacts) bool {
	l := k.c.facts.lane(a.Lane)
	older := d.ended.Lane == a.Lane && d.ended.Epoch == l.epoch && d.ended.Holder == a.Holder && d.ended.Claim < a.Number
	if a.Seen == 0 || !older || !slices.Contains(k.c.lostEnds, d.ended) {
		return false
	}
	for _, x := range k.c.log[a.Seen:] {
		for _, b := range x.Actions {
			if c, ok := b.(protocol.CompleteMany); ok && slices.Contains(c.Leases, d.ended) {
				return true
			}
		}
	}
	return false
}

package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// deadLetters checks DeadStaysDead: a dead delivery is neither granted nor
// changed by the end of a run until an operator requeues it.
//
// What Unsubscribe buried between the reading of a claim's picks and its commit
// may still be granted; the lock-step model judges those picks where they were
// read.
type deadLetters struct {
	unconcerned
	c *checks
}

func (*deadLetters) name() string { return "DeadStaysDead" }

func (k *deadLetters) action(_ int64, a protocol.Action) {
	if claim, ok := a.(protocol.Claim); ok {
		if claim.Seen != 0 {
			return
		}
		for _, p := range claim.Picks {
			k.judge(p.Delivery, "was granted")
		}
		return
	}
	acceptedEnds(a, func(e end) {
		if e.action != "Release" && !e.refused { // neither writes the row
			k.judge(e.lease.Delivery, "accepted "+e.action)
		}
	})
}

func (k *deadLetters) judge(id protocol.DeliveryID, what string) {
	if d := k.c.facts.delivery(id); d != nil && d.fate == deadLetter {
		k.c.fail(k.name(), k.name(), "#%d, %s of %s, is dead and %s", id, d.handler, d.event, what)
	}
}

package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// repeats checks CompletedStaysDone: publishing an event again never makes a
// second delivery for a handler that had one, and nothing completed is granted
// again.
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
			if d := k.c.facts.delivery(p.Delivery); d != nil && d.fate == completed {
				k.c.fail(k.name(), k.name(), "#%d, %s of %s, is completed and was granted again", p.Delivery, d.handler, d.event)
			}
		}
	}
}

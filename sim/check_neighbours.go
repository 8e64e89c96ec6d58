package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// neighbours checks InnocentNeighbours: a delivery none of whose runs ever
// failed is charged at most once for each delivery that kills its worker, both
// counted anew when an operator requeues them.
//
// Only deaths by a poison delivery count. What a crash of another cause
// charges is not limited.
type neighbours struct {
	unconcerned
	c *checks
}

func (*neighbours) name() string { return "InnocentNeighbours" }

func (k *neighbours) action(at int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.TakeOver:
		lane := k.c.facts.lane(a.Lane)
		for _, d := range lane.inFlight {
			d.killer = k.c.killerOf(lane.holder, at) // what kills the worker later is not to blame
		}
		k.charged(a.Charged)
	case protocol.ChargeLost:
		k.charged(a.Charged)
	}
}

func (k *neighbours) charged(ids []protocol.DeliveryID) {
	for _, id := range ids {
		d := k.c.facts.delivery(id)
		if d == nil {
			continue
		}
		by := d.killer
		if by.id == 0 || by.id == id {
			continue
		}
		probeInnocent.Hit()
		if slices.Contains(d.killers, by) && d.badEnds == 0 && !k.kills(id) {
			k.c.fail(k.name(), k.name(), "#%d, %s of %s, never failed and is charged a second time because #%d killed its worker", id, d.handler, d.event, by.id)
		}
		d.killers = append(d.killers, by)
	}
}

// kills reports whether the delivery itself has killed a worker.
func (k *neighbours) kills(id protocol.DeliveryID) bool {
	return slices.ContainsFunc(k.c.kills, func(x kill) bool { return x.counts && x.lease.Delivery == id })
}

// killerOf returns the delivery that had killed the process of a holder when the
// commit at a position came; its id is 0 when none had.
func (c *checks) killerOf(h protocol.Holder, at int64) killer {
	for _, k := range c.kills {
		if k.counts && k.lease.Holder == h && int64(k.after) < at {
			return killer{k.lease.Delivery, k.life}
		}
	}
	return killer{}
}

package sim

import (
	"bytes"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// invented checks NothingInvented: what is granted was committed, what runs was
// granted by a claim that was committed, and a handler sees the event as it was
// published: type, key and every byte of the payload.
//
// It does not object to a run whose event or grant the store lost after the
// grant.
type invented struct {
	unconcerned
	c      *checks
	grants map[leaseName]bool // every one there ever was
}

func (*invented) name() string { return "NothingInvented" }

func (k *invented) action(_ int64, a protocol.Action) {
	claim, ok := a.(protocol.Claim)
	if !ok {
		return
	}
	for _, p := range claim.Picks {
		k.grants[leaseName{p.Delivery, claim.Holder, claim.Number}] = true
		if k.c.facts.delivery(p.Delivery) == nil {
			k.c.fail(k.name(), k.name(), "lane %d granted #%d, which was never committed", claim.Lane, p.Delivery)
		}
	}
}

func (k *invented) started(r *handlerRun) {
	e := r.run.Picked.Event
	if lease := &r.run.Picked.Lease; !k.grants[nameOf(*lease)] {
		k.c.fail(k.name(), k.name(), "%s runs for %s under %s, which no committed claim granted", r.handler.name, e.ID, *lease)
		return
	}
	if r.event < 0 {
		k.c.fail(k.name(), k.name(), "%s runs for %q, which nobody published", r.handler.name, e.ID)
		return
	}
	m, ok := k.c.w.plan.message(r.event)
	if !ok {
		k.c.fail(k.name(), k.name(), "%s runs for %s, which is not published yet", r.handler.name, e.ID)
		return
	}
	payload, _ := m.Payload.([]byte)
	if e.Type != m.Type || e.Key != m.Key || !bytes.Equal(e.Payload, payload) {
		k.c.fail(k.name(), k.name(), "%s sees %s as type %q key %q payload %q; published were %q, %q and %q",
			r.handler.name, e.ID, e.Type, e.Key, e.Payload, m.Type, m.Key, payload)
	}
}

package sim

import "github.com/relaybus-go/relaybus/engine"

// granted checks that a claim grants no more than its worker asked for: a
// worker that gets more would start runs beyond its limits, or keep others from
// what it cannot run. It looks at what comes back to the worker, because the
// protocol leaves room and limit to the store.
type granted struct {
	unconcerned
	c *checks
}

func (*granted) name() string { return "GrantsInBounds" }

// replied judges the reply to a claim.
func (k *granted) replied(in *engine.ClaimInput, reply *engine.ClaimReply) {
	chains, suspects := 0, 0
	for i := range reply.Picks {
		if reply.Picks[i].Lease.After == 0 {
			chains++
		}
		if reply.Picks[i].Delivery.Takeovers > 0 {
			suspects++
		}
	}
	if all := len(reply.Picks); all > max(in.Limit, 0) || chains > max(in.Room, 0) {
		k.c.fail(k.name(), k.name(), "%d deliveries in %d chains were granted, at most %d in %d were asked for", all, chains, in.Limit, in.Room)
	}
	if suspects > 1 || suspects > 0 && in.SuspectRunning {
		k.c.fail(k.name(), k.name(), "%d suspects were granted at once; one runs already: %v", suspects, in.SuspectRunning)
	}
	for i := range in.Handlers {
		k.room(&in.Handlers[i], reply)
	}
}

// room judges the grants of one handler.
func (k *granted) room(h *engine.HandlerRoom, reply *engine.ClaimReply) {
	n := 0
	for i := range reply.Picks {
		if p := &reply.Picks[i]; p.Lease.After == 0 && p.Delivery.Handler == h.Name {
			n++
		}
	}
	if n > max(h.Room, 0) {
		k.c.fail(k.name(), k.name(), "%d deliveries of %s were granted, it has room for %d", n, h.Name, h.Room)
	}
}

package sim

import (
	"errors"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// asTold checks DoesAsTold: a worker starts no run that it was not granted, none
// twice under one lease, and none that it was told it lost. A run whose lease it
// was told it lost is cancelled at once. It neither renews nor claims a lane by
// an epoch that it was told is not its own. A run is cancelled for a timeout only
// past that, and for a shutdown only when the worker was stopped.
type asTold struct {
	unconcerned
	c *checks
}

const doesAsTold = "DoesAsTold"

func (*asTold) name() string { return doesAsTold }

func (k *asTold) fail(format string, args ...any) { k.c.fail(doesAsTold, doesAsTold, format, args...) }

// starting judges a run that a worker starts.
func (k *asTold) starting(r *handlerRun) {
	l := &r.run.Picked.Lease
	g := k.c.grants.of(r.p, l)
	switch {
	case g == nil:
		k.fail("%s runs %v, which it was not granted", r.p.worker.name, *l)
		return
	case g.run != nil:
		k.fail("%s runs %v twice", r.p.worker.name, *l)
	case g.lost:
		k.fail("%s runs %v, which it was told it lost", r.p.worker.name, *l)
	case g.done || g.rest && g.place > 0 && g.chain[g.place-1].done:
		k.fail("%s runs %v, which it was told is over", r.p.worker.name, *l)
	}
	g.run, r.grant = r, g
}

// notBegun notes that a run's transaction did not begin: it may be started again
// under the same lease.
func (k *asTold) notBegun(r *handlerRun) {
	if g := r.grant; g != nil && g.cancel == nil {
		g.run, g.timedOut = nil, false
	}
}

// cancels notes that a worker cancels a run, which may have returned already.
func (k *asTold) cancels(p *process, e engine.CancelRun) {
	r := p.runOf(e.ID)
	for i := 0; r == nil && i < len(p.returning); i++ {
		if p.returning[i].run.ID == e.ID {
			r = p.returning[i]
		}
	}
	if r != nil {
		k.cancelling(r, e.Cause)
	}
}

// cancelling judges why a run is cancelled.
func (k *asTold) cancelling(r *handlerRun, cause error) {
	timeout := int64(r.handler.timeout())
	ran := int64(r.p.clock.read(k.c.w.now).Mono - r.began)
	switch {
	case errors.Is(cause, engine.ErrHandlerTimeout):
		if ran < timeout {
			k.fail("%v is cancelled with %q before its timeout", r.run.Picked.Lease, cause)
		}
		if r.grant != nil {
			r.grant.timedOut = true
		}
		return
	case errors.Is(cause, engine.ErrShutdown):
		if !r.p.stopping {
			k.fail("%v is cancelled with %q, and nobody stopped %s", r.run.Picked.Lease, cause, r.p.worker.name)
		}
	case !errors.Is(cause, engine.ErrLeaseLost):
		k.fail("%v is cancelled with %q", r.run.Picked.Lease, cause)
	}
	if r.grant != nil {
		r.grant.cancel = cause
	}
}

// claiming judges the lanes of a call that leaves.
func (k *asTold) claiming(p *process, lanes []protocol.LaneEpoch) {
	for _, l := range lanes {
		if k.c.grants.lanes[heldName{p, l}] {
			k.fail("%s names lane %d by epoch %d, and was told that it is not its own", p.worker.name, l.Lane, l.Epoch)
		}
	}
}

// claimed notes what the answer to a claim says.
func (k *asTold) claimed(p *process, in *engine.ClaimInput, reply *engine.ClaimReply) {
	for _, l := range in.Held {
		if slices.Contains(reply.Gone, l.Lane) {
			k.gone(p, l)
		}
	}
	if in.AllMine {
		k.unlisted(p, reply.Lanes)
	}
	for i := range reply.Lanes {
		delete(k.c.grants.lanes, heldName{p, reply.Lanes[i].LaneEpoch})
	}
	for i := range reply.LeaseLost {
		lost := &reply.LeaseLost[i]
		name := leaseName{lost.Delivery, in.Holder, lost.Claim}
		if g := k.c.grants.all[name]; g != nil && g.p == p && !g.sent {
			k.lose(g)
		}
	}
	k.c.grants.granted(p, reply.Picks)
}

// renewed notes what the answer to a renewal says.
func (k *asTold) renewed(p *process, in *engine.ExtendLeaseInput, reply *engine.ExtendLeaseReply) {
	for i, l := range in.Lanes {
		if reply.Verdicts[i] == engine.LeaseLost {
			k.gone(p, l)
		}
	}
}

// gone notes that a worker was told that a lane is not its own: what it was
// granted there is lost.
func (k *asTold) gone(p *process, lane protocol.LaneEpoch) {
	k.c.grants.lanes[heldName{p, lane}] = true
	for _, g := range p.grants {
		if l := &g.picked.Lease; l.Lane == lane.Lane && l.Epoch == lane.Epoch {
			k.loseOne(g)
		}
	}
}

// unlisted notes what an answer about all lanes of a worker leaves out.
func (k *asTold) unlisted(p *process, lanes []engine.ClaimedLane) {
	for _, g := range p.grants {
		if !g.done && !listed(lanes, g.picked.Lease.Lane, g.picked.Lease.Epoch) {
			k.loseOne(g)
		}
	}
}

func listed(lanes []engine.ClaimedLane, lane protocol.LaneID, epoch int64) bool {
	for i := range lanes {
		if lanes[i].Lane == lane && lanes[i].Epoch == epoch {
			return true
		}
	}
	return false
}

// lose notes that a run and those behind it in its chain are lost.
func (k *asTold) lose(g *grant) {
	for _, o := range g.chain[g.place:] {
		k.loseOne(o)
	}
}

func (k *asTold) loseOne(g *grant) {
	if g.sent || g.done || g.lost {
		return // an end that was sent gets its own verdict
	}
	g.lost = true
	if g.run != nil && !g.over() {
		k.c.grants.cut = append(k.c.grants.cut, g)
	}
}

// stepped judges a worker once it has taken in what it was told.
func (k *asTold) stepped() {
	for _, g := range k.c.grants.cut {
		if g.p.alive && !g.over() && g.cancel == nil {
			k.fail("%s was told that it lost %v and does not cancel its run", g.p.worker.name, g.picked.Lease)
		}
	}
	k.c.grants.cut = k.c.grants.cut[:0]
}

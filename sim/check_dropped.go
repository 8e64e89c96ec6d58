package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// dropped checks NothingDropped: a claim, or the return of a lane, never
// drops a run from the lane's list while its worker is still running it.
//
// It is silent once the store has lost a commit: then the list may lack what
// the worker was told.
type dropped struct {
	unconcerned
	c *checks
}

func (*dropped) name() string { return "NothingDropped" }

func (k *dropped) action(_ int64, a protocol.Action) {
	if k.c.lost > 0 {
		return
	}
	switch a := a.(type) {
	case protocol.Claim:
		k.judge(a.Lane, a.Holder, a.Running, a.Name())
	case protocol.Relinquish:
		if a.Verdict == protocol.Applied {
			k.judge(a.Lane, a.Holder, nil, a.Name())
		}
	}
}

func (k *dropped) judge(lane protocol.LaneID, holder protocol.Holder, stated []protocol.Running, action string) {
	for _, d := range k.c.facts.lane(lane).inFlight {
		if d.granted.Holder != holder || states(stated, d.granted.Entry()) {
			continue
		}
		if r := k.c.w.runningUnder(d.granted); r != nil {
			k.c.fail(k.name(), k.name(), "%s of %s on lane %d drops %v, which %s is running", action, holder.Short(), lane, d.granted, r.p.worker.name)
		}
	}
}

// runningUnder returns the run whose body is under way with this lease, nil
// when there is none. A run that its worker gave up does not count.
func (w *world) runningUnder(lease protocol.Lease) *handlerRun {
	for _, k := range w.workers {
		if k.process == nil || k.process.holder != lease.Holder {
			continue
		}
		for _, r := range k.process.runs {
			if r.running && !r.retired && nameOf(r.run.Picked.Lease) == nameOf(lease) {
				return r
			}
		}
	}
	return nil
}

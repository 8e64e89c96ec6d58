package sim

import (
	"errors"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// unrun checks NeverChargedUnrun: a worker charges no delivery whose handler it
// did not call under that lease, and a takeover charges none of a worker that
// is alive before the lease is over. A transaction that did not begin, for want
// of a connection say, is no attempt.
//
// It also holds that no call waits for a connection that a retired run has, and
// that a worker of a store with a reserve never waits in vain for one to keep its
// leases with, or the runs of those would be charged.
type unrun struct {
	unconcerned
	c   *checks
	ran map[leaseName]bool
}

func (*unrun) name() string { return "NeverChargedUnrun" }

func (k *unrun) started(r *handlerRun) {
	if k.ran == nil {
		k.ran = map[leaseName]bool{}
	}
	k.ran[nameOf(r.run.Picked.Lease)] = true
}

func (k *unrun) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Reschedule:
		if a.Verdict == protocol.Applied && !a.Refused {
			k.judge(a.Lease, a.Name())
		}
	case protocol.Bury:
		if a.Verdict == protocol.Applied && a.Charge && !a.Refused {
			k.judge(a.Lease, a.Name())
		}
	case protocol.TakeOver:
		k.takenOver(&a)
	}
}

func (k *unrun) judge(lease protocol.Lease, action string) {
	if !k.ran[nameOf(lease)] {
		k.c.fail(k.name(), k.name(), "%s charged %v, whose handler was not called", action, lease)
	}
}

func (k *unrun) takenOver(a *protocol.TakeOver) {
	l := k.c.facts.lane(a.Lane)
	if len(a.Charged) > 0 && a.Clock < l.expires && k.c.w.lives(l.holder) {
		k.c.fail(k.name(), k.name(), "%s of lane %d charged %v, although its worker lives and its lease has %v left",
			a.Name(), a.Lane, a.Charged, l.expires.Sub(a.Clock))
	}
}

// keeping judges the answer to a call that keeps leases. Of a process that was
// paused nothing is asked: the call's time passed without it.
func (k *unrun) keeping(c *client, err error) {
	if errors.Is(err, engine.ErrNotSent) && c.reserve.size > 0 && c.reserve.used == 0 && c.reserve.gaveUp != c.w.now && c.owner.pauseGen == 0 {
		k.c.fail(k.name(), k.name(), "a call of %s about its leases was not sent, although the connections for such calls are free: %v", c.owner.worker.name, err)
	}
}

// waiting judges a call that finds no connection free.
func (k *unrun) waiting(c *client) {
	for _, t := range k.c.w.tasks {
		if c.owner != nil && t.owner == c.owner && t.conn != nil && t.run != nil && t.run.retired {
			k.c.fail(k.name(), k.name(), "a call of %s waits for a connection that the run of %v has, which was retired", c.owner.worker.name, t.run.run.Picked.Lease)
		}
	}
}

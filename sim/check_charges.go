package sim

import (
	"errors"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// charges checks ChargedOnce: no run is charged twice, none that its own worker
// cancelled because of a lost lease or a shutdown is charged as failed, and the
// attempts that a run is told, and that a row has at the end, are the charges
// since the last requeue.
//
// It believes the store's list of whom a takeover charged as far as each was
// in flight; that it charges all it should is the lock-step model's business.
type charges struct {
	c       *checks
	charged map[leaseName]bool
	// cancelled are runs that their worker cancelled while their body ran.
	cancelled map[leaseName]error
}

func (*charges) name() string { return "ChargedOnce" }

func (k *charges) reset() { clear(k.charged) }

func (k *charges) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Reschedule:
		if a.Verdict == protocol.Applied && !a.Refused {
			k.failed(a.Lease, a.Name())
		}
	case protocol.Bury:
		if a.Verdict == protocol.Applied && a.Charge && !a.Refused {
			k.failed(a.Lease, a.Name())
		}
	case protocol.TakeOver:
		k.takenOver(a.Charged, a.Name(), func(d *deliveryFacts) protocol.Lease { return d.granted })
	case protocol.ChargeLost:
		k.takenOver(a.Charged, a.Name(), func(d *deliveryFacts) protocol.Lease { return d.lost })
	}
}

func (k *charges) takenOver(ids []protocol.DeliveryID, action string, lease func(*deliveryFacts) protocol.Lease) {
	for _, id := range ids {
		d := k.c.facts.delivery(id)
		if d == nil || lease(d).Delivery == 0 {
			k.c.fail(k.name(), k.name(), "%s charged #%d, which was not in flight", action, id)
			continue
		}
		k.charge(lease(d), action)
	}
}

// failed judges the charge of a run that failed.
func (k *charges) failed(lease protocol.Lease, action string) {
	if cause := k.cancelled[nameOf(lease)]; cause != nil {
		k.c.fail(k.name(), k.name(), "%s charged %v, which its worker cancelled: %v", action, lease, cause)
	}
	k.charge(lease, action)
}

// returned: a run that succeeded although it was cancelled is completed, and
// when the store refuses that for good, it is a failed attempt like any other.
func (k *charges) returned(r *handlerRun, err error) {
	if err == nil {
		delete(k.cancelled, nameOf(r.run.Picked.Lease))
	}
}

// cancels notes that a worker cancelled a run.
func (k *charges) cancels(r *handlerRun, cause error) {
	if !r.running || errors.Is(cause, engine.ErrHandlerTimeout) {
		return
	}
	if k.cancelled == nil {
		k.cancelled = map[leaseName]error{}
	}
	k.cancelled[nameOf(r.run.Picked.Lease)] = cause
}

func (k *charges) charge(lease protocol.Lease, action string) {
	if k.charged == nil {
		k.charged = map[leaseName]bool{}
	}
	if k.charged[nameOf(lease)] {
		k.c.fail(k.name(), k.name(), "%s charged the run %v, which was charged before", action, lease)
	}
	k.charged[nameOf(lease)] = true
}

func (k *charges) started(r *handlerRun) {
	row := &r.run.Picked.Delivery
	d := k.c.facts.delivery(row.ID)
	if d == nil || d.changed || d.granted.Token != r.run.Picked.Lease.Token || r.p.losses != k.c.losses {
		// No longer granted, or requeued since, so that what it was told is old;
		// or the store lost the end of a run, and a late repetition of that end
		// may pass a claim.
		return
	}
	if row.Attempts != d.charges {
		k.c.fail(k.name(), k.name(), "%v is told of %d attempts, charged were %d", r.run.Picked.Lease, row.Attempts, d.charges)
	}
}

func (k *charges) finish(bool) {
	for _, row := range k.c.w.store.Snapshot().Deliveries {
		if d := k.c.facts.delivery(row.ID); d != nil && d.charges != row.Attempts {
			k.c.fail(k.name(), k.name(), "#%d, %s of %s, has %d attempts, charged were %d", row.ID, row.Handler, row.Event, row.Attempts, d.charges)
		}
	}
}

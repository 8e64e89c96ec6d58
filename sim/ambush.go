package sim

import (
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// ambush is a crash of the store that waits for a commit it can lose.
type ambush struct {
	lost int
	down time.Duration
	set  bool
}

// spring crashes the store a moment after a commit that is not durable yet.
func (w *world) spring(c simstore.Committed) {
	w.lurk(c)
	if w.ambush.lost == 0 || !c.Async || w.ambush.set {
		return
	}
	w.ambush.set = true
	w.in(4*w.unit(), (*sprung)(w), 0)
}

// sprung is the end of an ambush.
type sprung world

func (s *sprung) fire(uint64) bool {
	w := (*world)(s)
	a := w.ambush
	w.ambush = ambush{}
	if w.calm || w.store.Position() == w.store.Durable() {
		return false
	}
	if w.CrashStore(a.lost, a.down) {
		w.faultStruck(faultLoseCommit)
	}
	return true
}

// lurking is a failover that waits for its moment.
type lurking struct {
	missing int
	after   faults.Moment
	claimed protocol.Holder // who was granted something
	set     bool
}

// lurk begins a failover shortly after the commit it waits for: late enough
// for its client to have heard of it.
func (w *world) lurk(c simstore.Committed) {
	if w.lurking.missing == 0 || w.lurking.set || c.Position == 0 {
		return
	}
	for _, a := range c.Actions {
		if w.lurking.awaits(w, a) {
			w.lurking.set = true
			w.in(6*w.unit(), (*sprungFailover)(w), 0)
			return
		}
	}
}

// awaits reports whether the action is what the failover waits for.
func (l *lurking) awaits(w *world, a protocol.Action) bool {
	switch a := a.(type) {
	case protocol.CompleteMany:
		return l.after == faults.AfterCompletion || l.after == faults.AfterHead && w.leads(a.Leases[len(a.Leases)-1])
	case protocol.Complete:
		return l.after == faults.AfterCompletion || l.after == faults.AfterHead && w.leads(a.Lease)
	case protocol.Reschedule, protocol.Bury:
		return l.after == faults.AfterFailure
	case protocol.Claim:
		l.claimed = a.Holder
		return len(a.Picks) > 0 && (l.after == faults.AfterClaim || l.after == faults.AfterFirstClaim && a.Number <= 2)
	}
	return false
}

// leads reports whether a follower of the delivery is in flight.
func (w *world) leads(lease protocol.Lease) bool {
	for _, d := range w.checks.facts.lane(lease.Lane).inFlight {
		if d.granted.After == lease.Delivery {
			return true
		}
	}
	return false
}

// sprungFailover is the moment of a lurking failover.
type sprungFailover world

func (s *sprungFailover) fire(uint64) bool {
	w := (*world)(s)
	l := w.lurking
	w.lurking = lurking{}
	if w.calm || !w.FailOver(l.missing, faults.AtOnce) {
		return false
	}
	for _, k := range w.workers {
		if l.after == faults.AfterFirstClaim && k.process != nil && k.process.holder != l.claimed {
			k.crash(0, false)
		}
	}
	w.faultStruck(faultFailOver)
	return true
}

// leapPlan is a leap of the store's clock that waits for a run.
type leapPlan struct{ duringRun, duringCommit bool }

// LeapDuring implements [faults.World].
func (w *world) LeapDuring(commit bool) {
	w.deferred = true
	if commit {
		w.leaping.duringCommit = true
	} else {
		w.leaping.duringRun = true
	}
}

// leapBeside ends the lease of the run's lane while the run goes on, and
// reports whether it did. Its process stands still for a moment, or it would
// renew the lease at once.
func (w *world) leapBeside(r *handlerRun, armed *bool) bool {
	if !*armed || w.calm || r.over || r.p.paused || !r.handler.transactional || !w.Leap(int(r.run.Picked.Lease.Lane), 1) {
		return false
	}
	*armed = false
	w.faultStruck(faultExpire)
	w.Hint()
	r.p.pause(60*w.unit(), false)
	return true
}

// fire implements [actor]: the moment of a leap during the run.
func (r *handlerRun) fire(uint64) bool {
	return r.p.alive && r.running && r.p.w.leapBeside(r, &r.p.w.leaping.duringRun)
}

// leaving is a handler that is removed while it runs.
type leaving struct {
	h    *handlerSpec
	bury bool
}

// running tells of a body that began.
func (w *world) bodyBegan(r *handlerRun) {
	if w.leaving.h == r.handler && !w.calm {
		w.in(4*w.unit(), (*removal)(w), 0)
	}
}

// removal is the moment at which a handler is removed.
type removal world

func (m *removal) fire(uint64) bool {
	w := (*world)(m)
	l := w.leaving
	if w.calm || w.down || l.h == nil {
		return false
	}
	w.leaving = leaving{}
	w.faultStruck(faultUnsubscribe)
	t := w.spawn(operatorRole, operatorClient, func() {
		for _, event := range l.h.events {
			// An error leaves the handler as it is.
			operate(w, (*simstore.Store).Unsubscribe, engine.UnsubscribeInput{
				EventHandler: protocol.EventHandler{Event: event, Handler: l.h.name}, Bury: l.bury,
			})
		}
	})
	t.start()
	return true
}

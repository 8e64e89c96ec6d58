package mirror

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Invariants implements Model. A promise is broken when the protocol's own
// ledger says so; NothingDropped also looks at what workers believe.
func (m *relaybus) Invariants() []Invariant[relayState] {
	var all []Invariant[relayState]
	for _, inv := range protocol.Invariants {
		all = append(all, Invariant[relayState]{inv.Name, func(s relayState) bool {
			w := m.world(s)
			return inv.Check(w.state, w.history) == nil && (inv.Name != "NothingDropped" || w.beliefsListed())
		}})
	}
	for _, probe := range relayProbes {
		all = append(all, Invariant[relayState]{probe.name, func(s relayState) bool { return !probe.seen(m, m.world(s)) }})
	}
	return all
}

func (w *relayWorld) beliefsListed() bool {
	for _, worker := range w.workers {
		for _, x := range worker.leases {
			lane, _ := w.state.Lane(x.Lane)
			if x.phase == "run" && lane.Epoch == x.Epoch && !slices.Contains(lane.InFlight, x.Entry()) {
				return false
			}
		}
	}
	return true
}

// relayProbes are situations that a configuration must reach.
var relayProbes = []struct {
	name string
	seen func(*relaybus, *relayWorld) bool
}{
	{"NeverTakenOver", anyLane(func(l *protocol.Lane) bool { return l.Epoch >= 2 })},
	{"NeverStuck", anyLane(func(l *protocol.Lane) bool { return len(l.Stuck) > 0 })},
	{"NeverLost", anyLane(func(l *protocol.Lane) bool { return len(l.Lost) > 0 })},
	{"NeverDrained", func(_ *relaybus, w *relayWorld) bool {
		return !slices.ContainsFunc(w.pairs, func(p relayPair) bool { return p.fate == relayAlive })
	}},
	{"NeverSuspect", func(_ *relaybus, w *relayWorld) bool {
		for d := range w.state.Deliveries() {
			if d.Takeovers > 0 {
				return true
			}
		}
		return false
	}},
	{"NeverDead", anyPair(func(p *relayPair) bool { return p.dead })},
	{"NeverRequeuedGrant", anyPair(func(p *relayPair) bool { return p.lives > 0 && p.run.phase == relayOpen })},
	{"NeverUnknown", anyLease(func(_ *relayWorld, _ string, x *relayLease) bool { return x.phase == "unknown" })},
	{"NeverSideBySide", anyLease(func(w *relayWorld, worker string, x *relayLease) bool {
		return x.phase == "ending" && slices.ContainsFunc(w.aheadOf(worker, x), func(y relayLease) bool {
			return y.phase == "ending"
		})
	})},
	{"NeverUnheard", anyLateClaim(func(_ *relaybus, _ *relayWorld, c *relayCall, l *protocol.Lane) bool {
		return l.Holder == c.holder && slices.ContainsFunc(l.InFlight, func(f protocol.InFlight) bool {
			return f.Claim == c.number
		})
	})},
	{"NeverBothLives", anyLateClaim(func(m *relaybus, w *relayWorld, c *relayCall, l *protocol.Lane) bool {
		return l.Holder == m.holder(w, c.worker) && l.Holder != c.holder
	})},
	{"NeverTwoGroups", func(_ *relaybus, w *relayWorld) bool {
		events := map[string]protocol.LaneID{}
		for l := range w.state.AllLanes() {
			for _, f := range l.InFlight {
				event := w.pair(f.Delivery).event
				if other, there := events[event]; there && other != l.ID {
					return true
				}
				events[event] = l.ID
			}
		}
		return false
	}},
	{"NeverForeignExpired", foreignExpired},
}

// foreignExpired: a lane of another group than a claim's has run out.
func foreignExpired(m *relaybus, w *relayWorld) bool {
	t := &relayTurn{m: m, w: w}
	for i := range w.calls {
		if w.calls[i].kind != "Claim" {
			continue
		}
		own := t.lanesOf(w.calls[i].worker)
		for l := range w.state.AllLanes() {
			if !l.Holder.IsZero() && l.ExpiresAt < w.clock && !slices.Contains(own, l.ID) {
				return true
			}
		}
	}
	return false
}

func anyLane(is func(*protocol.Lane) bool) func(*relaybus, *relayWorld) bool {
	return func(_ *relaybus, w *relayWorld) bool {
		for l := range w.state.AllLanes() {
			if is(&l) {
				return true
			}
		}
		return false
	}
}

func anyPair(is func(*relayPair) bool) func(*relaybus, *relayWorld) bool {
	return func(_ *relaybus, w *relayWorld) bool {
		for i := range w.pairs {
			if is(&w.pairs[i]) {
				return true
			}
		}
		return false
	}
}

func anyLease(is func(*relayWorld, string, *relayLease) bool) func(*relaybus, *relayWorld) bool {
	return func(_ *relaybus, w *relayWorld) bool {
		for name, worker := range w.workers {
			for i := range worker.leases {
				if is(w, name, &worker.leases[i]) {
					return true
				}
			}
		}
		return false
	}
}

func anyLateClaim(is func(*relaybus, *relayWorld, *relayCall, *protocol.Lane) bool) func(*relaybus, *relayWorld) bool {
	return func(m *relaybus, w *relayWorld) bool {
		for i := range w.calls {
			c := &w.calls[i]
			if !c.late || c.kind != "Claim" {
				continue
			}
			for l := range w.state.AllLanes() {
				if is(m, w, c, &l) {
					return true
				}
			}
		}
		return false
	}
}

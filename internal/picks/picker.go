package picks

import (
	"cmp"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// chainName is what an order of deliveries is promised for.
type chainName struct{ key, handler string }

// Picker is the choice of one claim.
type Picker struct {
	in      *engine.ClaimInput
	runs    []engine.Running                  // what the worker states, by delivery
	running map[chainName]protocol.DeliveryID // keys of which something runs
	room    []int                             // per handler of the input
	chains  int                               // more chains this call may grant
	left    int                               // more deliveries this call may grant
	suspect bool                              // no further suspect may be granted
}

// New begins the choice of a claim.
func New(in *engine.ClaimInput) *Picker {
	p := &Picker{in: in, runs: in.Running, chains: in.Room, left: in.Limit, suspect: in.SuspectRunning}
	p.room = make([]int, len(in.Handlers))
	for i := range in.Handlers {
		p.room[i] = in.Handlers[i].Room
	}
	if !slices.IsSortedFunc(p.runs, byDelivery) {
		p.runs = slices.Clone(p.runs)
		slices.SortFunc(p.runs, byDelivery)
	}
	for i := range p.runs {
		if r := &p.runs[i]; r.Key != "" {
			if p.running == nil {
				p.running = map[chainName]protocol.DeliveryID{}
			}
			p.running[chainName{r.Key, r.Handler}] = r.Delivery
		}
	}
	return p
}

func byDelivery(a, b engine.Running) int { return cmp.Compare(a.Delivery, b.Delivery) }

// Full reports whether nothing more can be granted.
func (p *Picker) Full() bool {
	return p.chains <= 0 || p.left <= 0 || !slices.ContainsFunc(p.room, func(n int) bool { return n > 0 })
}

// WithRoom names the handlers that the call may still pick for.
func (p *Picker) WithRoom() []string {
	names := make([]string, 0, len(p.room))
	for i, n := range p.room {
		if n > 0 {
			names = append(names, p.in.Handlers[i].Name)
		}
	}
	return names
}

// Handlers names all handlers of the worker.
func (p *Picker) Handlers() []string {
	names := make([]string, len(p.in.Handlers))
	for i := range p.in.Handlers {
		names[i] = p.in.Handlers[i].Name
	}
	return names
}

// RunningIDs returns the deliveries that the worker states, ascending.
func (p *Picker) RunningIDs() []int64 {
	list := make([]int64, len(p.runs))
	for i := range p.runs {
		list[i] = int64(p.runs[i].Delivery)
	}
	return list
}

// handler returns the index of a handler among those of the worker, -1 when
// the worker lacks it.
func (p *Picker) handler(name string) int {
	for i := range p.in.Handlers {
		if p.in.Handlers[i].Name == name {
			return i
		}
	}
	return -1
}

// Lacks reports whether the worker has no such handler.
func (p *Picker) Lacks(handler string) bool { return p.handler(handler) < 0 }

// HasRoom reports whether one more delivery of a handler may be granted.
func (p *Picker) HasRoom(handler string) bool {
	i := p.handler(handler)
	return i >= 0 && p.room[i] > 0
}

// Runs reports whether the worker states the delivery.
func (p *Picker) Runs(id protocol.DeliveryID) bool {
	_, found := slices.BinarySearchFunc(p.runs, id, func(r engine.Running, id protocol.DeliveryID) int {
		return cmp.Compare(r.Delivery, id)
	})
	return found && !mutant.On("picks-running-deliveries")
}

// Grantable reports whether a candidate of a lane may be granted as far as it
// alone says: with room for it, or as the one suspect.
func (p *Picker) Grantable(stuck []protocol.DeliveryID, c *Candidate) bool {
	return p.pickable(stuck, c) && !p.barred(c)
}

// pickable is Grantable but for the rule of suspects.
func (p *Picker) pickable(stuck []protocol.DeliveryID, c *Candidate) bool {
	return !c.Early && p.HasRoom(c.Handler) && !p.keyRuns(c) && !slices.Contains(stuck, c.ID) && !p.Runs(c.ID)
}

// keyRuns reports whether something of the candidate's key runs, which keeps
// it from starting: whichever of the two is the earlier one.
func (p *Picker) keyRuns(c *Candidate) bool {
	if c.Key == "" {
		return false
	}
	running, any := p.running[chainName{c.Key, c.Handler}]
	if !any || mutant.On("key-order-ignores-running") || mutant.On("requeued-overtakes") && running > c.ID {
		return false
	}
	if running != c.ID {
		keysHeld.Hit()
		if c.ID < running {
			requeuedHeld.Hit()
		}
	}
	return true
}

// barred reports whether the candidate is a suspect beside another. The
// suspects run one at a time, so that a poison delivery charges an innocent
// neighbour at most once.
func (p *Picker) barred(c *Candidate) bool {
	return c.suspect() && p.suspect && !mutant.On("more-than-one-suspect")
}

// Choose takes from what a search found in the lanes what there is room for,
// the earliest due first, and notes which lanes lack a handler.
func (p *Picker) Choose(lanes []*Lane, s *Search) []*Candidate {
	var heads []*Candidate
	for _, l := range lanes {
		if !l.Picks {
			continue
		}
		for _, c := range s.of(l.ID).found {
			l.Lacking = l.Lacking || c.Lacked && !c.Early
			if p.pickable(l.Stuck, c) {
				heads = append(heads, c)
			}
		}
	}
	slices.SortFunc(heads, ByDue)
	chosen := heads[:0]
	for _, c := range heads {
		if p.take(c) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// take grants a candidate if there is room for it.
func (p *Picker) take(c *Candidate) bool {
	i := p.handler(c.Handler)
	switch {
	case (p.chains <= 0 || p.left <= 0) && !mutant.On("picks-beyond-limit"):
		return false
	case p.room[i] <= 0 && !mutant.On("handler-room-ignored"):
		return false
	case p.barred(c):
		suspectsBarred.Hit()
		return false
	}
	if c.suspect() {
		suspectsGranted.Hit()
		p.suspect = true
	}
	p.room[i]--
	p.chains--
	p.left--
	c.chosen = true
	return true
}

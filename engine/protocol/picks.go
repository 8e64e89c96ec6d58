package protocol

import (
	"fmt"
	"slices"
)

// PicksAllowed reports whether every pick of a claim is one that the protocol
// allows: what to pick, and in which order, is the store's choice. [State.Claim]
// asks it unless the claim says that its picks were read at an earlier commit
// position; its caller then asks the State of that position.
//
// picks(lane) of the protocol. Guards: renew, lane; per pick: row, pending,
// row lane, handler, due, running, stuck, twice, fence, then for the head of a
// key: earlier, key, and for a follower: after, chain, charged; suspect.
func (s *State) PicksAllowed(a Claim) Outcome {
	if len(a.Picks) == 0 {
		return applied
	}
	if !s.guard("Claim.renew", a.Renew) {
		return failed("renew", "a lane left to expire", "no picks")
	}
	lane := s.lane(a.Lane)
	if lane == nil {
		return failed("lane", "no such lane", a.Lane)
	}
	for i := range a.Picks {
		if o := s.mayPick(lane, &a, i); !o.OK() {
			return o
		}
	}
	if o := s.maySuspect(&a); !s.guard("Claim.suspect", o.OK()) {
		return o
	}
	return applied
}

func (s *State) mayPick(lane *Lane, a *Claim, i int) Outcome {
	p := &a.Picks[i]
	r := s.row(p.Delivery)
	if o := s.mayStart(r, a, p); !o.OK() {
		return o
	}
	if _, ok := search(lane.Stuck, r.ID, idOf); !s.guard("Claim.stuck", !ok) {
		return failed("stuck", pickName(p), "not stuck")
	}
	if picked(a.Picks[:i], r.ID) {
		return failed("twice", pickName(p), "picked once")
	}
	if s.semantics == Snapshot && !s.guard("Claim.fence", p.Fence == r.Fence) {
		return failed("fence", r.Fence, p.Fence)
	}
	if p.After != 0 {
		return s.mayFollow(a, i, r)
	}
	return s.mayHead(a, r)
}

// mayStart checks the row alone.
func (s *State) mayStart(r *row, a *Claim, p *Picked) Outcome {
	clock := max(a.Now, a.Clock)
	switch {
	case r == nil:
		return failed("row", pickName(p)+" is gone", "a row")
	case !s.guard("Claim.pending", r.Status == Pending):
		return failed("pending", r.Status, Pending)
	case !s.guard("Claim.row lane", r.Lane == a.Lane):
		return failed("row lane", r.Lane, a.Lane)
	case !s.guard("Claim.handler", slices.Contains(a.Handlers, r.Handler)):
		return failed("handler", r.Handler, a.Handlers)
	case !s.guard("Claim.due", r.AvailableAt <= clock):
		return failed("due", "due in "+r.AvailableAt.Sub(clock).String(), "due")
	case !s.guard("Claim.running", !isRunning(a.Running, r.ID)):
		return failed("running", pickName(p)+" runs", "not running")
	}
	return applied
}

func pickName(p *Picked) string { return fmt.Sprintf("#%d", p.Delivery) }

// isRunning reports whether the worker runs a delivery under any claim.
func isRunning(running []Running, id DeliveryID) bool {
	_, ok := search(running, id, runningID)
	return ok
}

func picked(picks []Picked, id DeliveryID) bool {
	for i := range picks {
		if picks[i].Delivery == id {
			return true
		}
	}
	return false
}

// mayHead checks a pick that no other brings: the first pending row of its
// (handler, key), of which nothing runs.
func (s *State) mayHead(a *Claim, r *row) Outcome {
	if r.queue == nil {
		return applied
	}
	if head := r.queue.head(); head != nil && !s.guard("Claim.earlier", head.Sequence >= r.Sequence) {
		return failed("earlier", fmt.Sprintf("#%d before #%d", head.ID, r.ID), "none pending")
	}
	for i := range a.Running {
		if run := &a.Running[i]; !s.guard("Claim.key", run.Key != r.Key || run.Handler != r.Handler) {
			return failed("key", fmt.Sprintf("#%d of the key runs", run.Delivery), "none running")
		}
	}
	return applied
}

// mayFollow checks a follower: the very next pending row behind its
// predecessor, neither of them ever charged. The chain stops at the first row
// that is not due or was charged; passing over one would break the order.
func (s *State) mayFollow(a *Claim, i int, r *row) Outcome {
	p := &a.Picks[i]
	before := s.row(p.After)
	switch {
	case !picked(a.Picks[:i], p.After):
		return failed("after", fmt.Sprintf("#%d not picked before", p.After), "its predecessor")
	case r.queue == nil || before.queue != r.queue:
		return failed("chain", "another key", "the key of its predecessor")
	case !s.guard("Claim.chain", r.queue.next(before.Sequence) == r):
		return failed("chain", pickName(p), fmt.Sprintf("the next row behind #%d", p.After))
	case !s.guard("Claim.charged", !before.charged() && !r.charged()):
		return failed("charged", "a charged row in a chain", "rows never charged")
	}
	return applied
}

func (r *row) charged() bool { return r.Attempts > 0 || r.Takeovers > 0 }

// maySuspect checks that at most one delivery which was in flight when a
// worker died is in flight at this one: the suspects run one at a time, so
// that a poison delivery charges an innocent neighbour at most once.
func (s *State) maySuspect(a *Claim) Outcome {
	suspect := DeliveryID(0)
	for i := range a.Picks {
		id := a.Picks[i].Delivery
		if s.row(id).Takeovers == 0 {
			continue
		}
		if suspect != 0 {
			return failed("suspect", fmt.Sprintf("#%d and #%d", suspect, id), "one per call")
		}
		suspect = id
	}
	if suspect == 0 {
		return applied
	}
	for _, lane := range s.lanes {
		if other := s.suspectIn(lane, a); other != 0 {
			return failed("suspect", fmt.Sprintf("#%d beside #%d", suspect, other), "one per worker")
		}
	}
	if a.SuspectRunning {
		return failed("suspect", fmt.Sprintf("#%d beside a running one", suspect), "one per worker")
	}
	return applied
}

// suspectIn returns a suspect that the worker has in flight in a lane: one it
// states, or one that this call granted a moment ago. What else the lane lists
// came with a reply that was lost, and never started.
func (s *State) suspectIn(lane *Lane, a *Claim) DeliveryID {
	if lane.Holder != a.Holder {
		return 0
	}
	for _, f := range lane.InFlight {
		if f.Claim != a.Number && !runs(a.Running, f) {
			continue
		}
		if r := s.row(f.Delivery); r != nil && r.Takeovers > 0 {
			return r.ID
		}
	}
	return 0
}

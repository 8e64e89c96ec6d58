package linearize

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
)

// Lane ownership, a model per lane.
//
// Verified: a lane has one holder between two takeovers. Each takeover raises
// the epoch by one, so no epoch is granted twice while no commit is lost; it
// happens only to a lane of the caller's group that is free or whose lease has
// run out by the store's clock, never to the caller's own lane, and not through
// a claim that an earlier Relinquish of the same holder has overtaken. A claim,
// a renewal, an end and a Relinquish are accepted from the holder alone, a late
// claim or Relinquish with a number that is not above the lane's is refused, and
// so is one after its not-after. A claim keeps what the lane lists and the
// worker states, adds nothing but picks, and says exactly which stated runs the
// lane no longer lists. An end is accepted only for a run that the lane lists. A
// refused claim, renewal, Release or Relinquish has a reason.
//
// Not verified: why an end of a run was refused (that may be the delivery's
// doing); which deliveries are picked; that a lane is taken over at all. Of
// calls without an answer the claim number and the not-after bound what they
// may still do, the lease's length is what they asked for. In a Snapshot store
// plain completions are fenced by the delivery alone and say nothing here.
type laneRules struct{ family Family }

func (r laneRules) start() laneState { return laneState{} }

func (r laneRules) settled(s laneState, p *part[laneCall]) ([]laneState, *misfit) {
	if p.wrong != "" {
		return nil, mismatch(nil, "%s", p.wrong)
	}
	moves, m := r.moves(s, p)
	return states(moves), m
}

// move is where a call leads to, and whether it took the lane over on the way.
type move struct {
	to       laneState
	tookOver bool
}

func states(moves []move) []laneState {
	if len(moves) == 0 {
		return nil
	}
	list := make([]laneState, len(moves))
	for i, m := range moves {
		list[i] = m.to
	}
	return list
}

func stay(s laneState, m *misfit) ([]move, *misfit) {
	if m != nil {
		return nil, m
	}
	return []move{{to: s}}, nil
}

// moves returns where an answer may lead to.
func (r laneRules) moves(s laneState, p *part[laneCall]) ([]move, *misfit) {
	c := &p.in
	if s.drifted {
		return drifted(s, p)
	}
	switch c.kind {
	case laneHeld:
		return r.held(s, p)
	case laneTaken:
		return r.taken(s, p)
	case laneGivenBack:
		if m := s.mayTake(c.holder, c.number, c.clock); m != nil {
			return nil, m
		}
		next := s.takenOver(r.family, c.holder, c.number, p.op)
		if next.epoch != c.epoch {
			return nil, mismatch(s.since, "a takeover would have made epoch %d, not %d", next.epoch, c.epoch)
		}
		return []move{{next.relinquished(c.number, p.op), true}}, nil
	case laneGone:
		if s.holder == c.holder && c.number > s.claim && !c.late && !s.uncharged() {
			return nil, mismatch(s.since, "%s held the lane and its claim was the newest", c.holder.Short())
		}
		return stay(s, nil)
	case laneExtended:
		m := s.grantedTo(c.holder, c.epoch)
		return stay(s.renewed(c.ttl, c.floor), m)
	case laneNotExtended:
		if s.grantedTo(c.holder, c.epoch) == nil && !c.late {
			return nil, mismatch(s.since, "%s held the lane at epoch %d", c.holder.Short(), c.epoch)
		}
		return stay(s, nil)
	case laneCompleted:
		for i := range c.leases {
			if m := s.runs(&c.leases[i]); m != nil {
				return nil, m
			}
		}
	case laneEnded:
		if m := s.runs(&c.leases[0]); m != nil {
			return nil, m
		}
		return stay(s.left(c, p.op), nil)
	case laneReleased:
		return r.released(s, p)
	case laneRelinquished:
		if m := s.mayRelinquish(c); m != nil {
			return nil, m
		}
		return stay(s.relinquished(c.number, p.op), nil)
	case laneKept:
		doubt := slices.ContainsFunc(s.listed, func(e entry) bool { return has(c.running, e) })
		if s.mayRelinquish(c) == nil && !c.late && !doubt {
			return nil, mismatch(s.since, "%s held the lane and nothing that it states was listed", c.holder.Short())
		}
	case laneInDoubt:
		return stay(r.inDoubt(s, c), nil)
	}
	return stay(s, nil)
}

// inDoubt is the lane from when a call without an answer began: the runs that
// it ends, or that a claim does not state, may leave from now on. Which of them
// do so when makes no difference until an answer tells.
func (r laneRules) inDoubt(s laneState, c *laneCall) laneState {
	if s.holder != c.holder || c.epoch != 0 && c.epoch != s.epoch {
		return s
	}
	if c.leaves == 0 {
		s.hidden = s.hidden || c.renews // a lane that should expire is not picked from
		s.doubt = max(s.doubt, c.number)
		if c.ttl < s.ttl {
			s = s.renewed(c.ttl, c.floor)
		}
		return s.marked(func(e entry) leaving {
			if has(c.running, e) {
				return 0
			}
			return leavesUnstated
		})
	}
	return s.marked(func(e entry) leaving {
		switch {
		case e.id == c.leases[0].Delivery && e.claim == c.leases[0].Claim:
			return c.leaves
		case slices.ContainsFunc(c.rest, func(l engine.Lease) bool { return e.id == l.Delivery && e.claim == l.Claim }):
			return leavesFree
		}
		return 0
	})
}

// drifted judges an answer after takeovers that nobody tells of. Every refusal
// is explained, and nothing else but a Relinquish of all lanes by one of those
// who may have taken this one.
func drifted(s laneState, p *part[laneCall]) ([]move, *misfit) {
	switch c := &p.in; c.kind {
	case laneHeld, laneTaken, laneGivenBack, laneExtended, laneCompleted, laneEnded:
		return nil, mismatch(s.since, "the lane had been taken over")
	case laneReleased:
		if slices.Contains(c.verdicts, engine.Applied) {
			return nil, mismatch(s.since, "the lane had been taken over")
		}
	case laneRelinquished:
		if c.epoch != 0 {
			return nil, mismatch(s.since, "the lane had been taken over")
		}
	}
	return stay(s, nil)
}

// held judges a claim that says that the lane is held.
func (r laneRules) held(s laneState, p *part[laneCall]) ([]move, *misfit) {
	c := &p.in
	if m := s.heldBy(c.holder, c.epoch); m != nil {
		return nil, m
	}
	if r.family == Snapshot && s.uncharged() && len(c.picks) == 0 {
		// Nothing of the lane can be claimed until the losses are charged;
		// the reply shows the lane as it is.
		next := s
		next.listed = slices.DeleteFunc(slices.Clone(s.listed), func(e entry) bool { return has(c.lost, e) })
		return stay(next, s.loses(c))
	}
	if s.uncharged() {
		return nil, mismatch(s.since, "the lane had losses that were not charged yet")
	}
	if m := s.newer(c.number); m != nil {
		return nil, m
	}
	if m := s.loses(c); m != nil {
		return nil, m
	}
	next, m := s.claimed(c.number, c.stated(), c.picks, p.op).lasting(s, c)
	return stay(next, m)
}

// loses checks the runs that a claim's reply calls lost.
func (s laneState) loses(c *laneCall) *misfit {
	for _, e := range c.running {
		listed, may := s.find(e)
		switch lost := has(c.lost, e); {
		case may && listed.leaving == 0 && lost:
			return mismatch(s.latest, "%s is called lost and the lane lists it", e)
		case !may && !lost:
			return mismatch(s.latest, "%s is taken for running and the lane does not list it", e)
		}
	}
	return nil
}

// stated returns what of a claim's running is not called lost.
func (c *laneCall) stated() []entry {
	return slices.DeleteFunc(slices.Clone(c.running), func(e entry) bool { return has(c.lost, e) })
}

// lasting gives a claimed lane the expiry that the reply tells. before is the
// lane before the claim.
func (s laneState) lasting(before laneState, c *laneCall) (laneState, *misfit) {
	switch {
	case c.expires == 0 && c.renews:
		return s.renewed(c.ttl, c.floor), nil
	case c.expires == 0:
		return s, nil
	case c.expires < before.expires && (!c.renews || c.ttl >= before.ttl):
		return s, mismatch(before.since, "the lease lasted until %d already", before.expires)
	}
	s.expires = c.expires
	if c.renews {
		s.ttl = c.ttl
	}
	return s, nil
}

// taken judges a claim that says that it took the lane over and holds it.
func (r laneRules) taken(s laneState, p *part[laneCall]) ([]move, *misfit) {
	c := &p.in
	clock := c.clock
	if c.expires != 0 {
		// The lease was given when the clock was this.
		clock = c.expires.Add(-c.ttl)
	}
	if m := s.mayTake(c.holder, c.number, clock); m != nil {
		return nil, m
	}
	next := s.takenOver(r.family, c.holder, c.number, p.op)
	if next.epoch != c.epoch {
		return nil, mismatch(s.since, "a takeover would have made epoch %d, not %d", next.epoch, c.epoch)
	}
	if m := next.loses(c); m != nil {
		return nil, m
	}
	claimed, m := next.charged().claimed(c.number, c.running, c.picks, p.op).lasting(next, c)
	if m != nil {
		return nil, m
	}
	moves := []move{{claimed, true}}
	if next.uncharged() && len(c.picks) == 0 {
		only, m := next.lasting(next, c)
		if m == nil {
			moves = append(moves, move{only, true})
		}
	}
	return moves, nil
}

// left is the lane without the runs that an end takes out.
func (s laneState) left(c *laneCall, by *op) laneState {
	s.latest = by
	for i := range c.leases {
		s.listed = without(s.listed, &c.leases[i])
	}
	for i := range c.rest {
		if r := &c.rest[i]; r.Epoch == s.epoch && r.Holder == s.holder {
			s.listed = without(s.listed, r)
		}
	}
	return s
}

func (r laneRules) released(s laneState, p *part[laneCall]) ([]move, *misfit) {
	c := &p.in
	for i := range c.leases {
		l := &c.leases[i]
		m := s.runs(l)
		listed, _ := s.find(entry{id: l.Delivery, claim: l.Claim})
		switch applied := c.verdicts[i] == engine.Applied; {
		case applied && m != nil:
			return nil, m
		case m == nil && !applied && listed.leaving == 0:
			return nil, mismatch(s.latest, "the lane listed #%d by claim %d", l.Delivery, l.Claim)
		case m == nil:
			s.listed, s.latest = without(s.listed, l), p.op
		}
	}
	return stay(s, nil)
}

// mayRelinquish checks the guards of Relinquish.
func (s laneState) mayRelinquish(c *laneCall) *misfit {
	if m := s.heldBy(c.holder, c.epoch); m != nil {
		return m
	}
	if m := s.newer(c.number); m != nil {
		return m
	}
	for _, e := range s.listed {
		if e.leaving == 0 && has(c.running, e) {
			return mismatch(s.latest, "the lane lists %s, which still runs", e)
		}
	}
	return nil
}

func (r laneRules) effects(s laneState, p, at *part[laneCall]) []laneState {
	return states(r.openMoves(s, p, at))
}

// openMoves returns where an open call may lead to when it takes effect before
// the part at.
func (r laneRules) openMoves(s laneState, p, at *part[laneCall]) []move {
	c := &p.in
	if s.drifted {
		return nil
	}
	switch c.kind {
	case mayClaim:
		if s.holder != c.holder || c.number <= s.claim || s.uncharged() {
			return nil
		}
		next := s.claimed(c.number, c.running, nil, p.op)
		next.hidden = next.hidden || c.renews // a lane that should expire is not picked from
		if c.renews && c.ttl < s.ttl {
			next = next.renewed(c.ttl, c.floor) // else it lasts longer, which nobody counts on
		}
		return []move{{to: next}}
	case mayTakeOver:
		return r.hiddenTakeOver(s, p, at)
	case mayExtend:
		if s.grantedTo(c.holder, c.epoch) != nil || c.ttl >= s.ttl {
			return nil // it would only make the lease last longer than is known
		}
		return []move{{to: s.renewed(c.ttl, c.floor)}}
	case mayRelinquish:
		if s.mayRelinquish(c) == nil {
			next := s.relinquished(c.lasts, p.op)
			if c.lasts == 0 {
				next.last = engine.Holder{}
			}
			return []move{{to: next}}
		}
	}
	return nil
}

// hiddenTakeOver is the takeover of a claim without an answer. The lane stays
// with the caller, who may have been granted deliveries, or is given back at
// once; whether a little later makes no difference to anybody, nor does who it
// was. A lease that lasts beyond the call's not-after cannot have run out for
// it, nor can one that lasts beyond what the clock was when the answer at came.
func (r laneRules) hiddenTakeOver(s laneState, p, at *part[laneCall]) []move {
	c := &p.in
	clock := c.clock
	if known := at.op.ceil; at.role == settledRole && known != 0 && (clock == 0 || known < clock) {
		clock = known
	}
	if s.mayTake(c.holder, c.number, clock) != nil {
		return nil
	}
	next := s.takenOver(r.family, c.holder, c.number, p.op)
	switch c.epochs.hidden(next.epoch, p.op) {
	case epochTold:
		return nil
	case epochNeverNamed:
		return []move{{laneState{drifted: true, further: c.epochs.further(), since: p.op}, true}}
	}
	next.epoch = min(next.epoch, c.epochs.most+1) // all that nobody names are one
	passed, held := next, next
	passed.holder, passed.claim = engine.Holder{}, 0
	// The lease before had run out, so this one begins no sooner.
	held.expires, held.ttl = max(s.expires, c.floor).Add(c.ttl), c.ttl
	held.claim, held.hidden = c.lasts, true
	return []move{{held, true}, {passed, true}}
}

// silent: a Snapshot store charges what a takeover lost when it comes to it.
func (r laneRules) silent(s laneState) []laneState {
	if s.uncharged() {
		return []laneState{s.charged()}
	}
	return nil
}

// spent: epochs only rise.
func (r laneRules) spent(s laneState, p *part[laneCall]) bool {
	if s.drifted {
		return p.in.kind < rowsCompleted
	}
	switch c := &p.in; c.kind {
	case mayExtend:
		return c.epoch < s.epoch
	case mayRelinquish:
		return c.epoch != 0 && (c.epoch < s.epoch || s.free())
	}
	return false
}

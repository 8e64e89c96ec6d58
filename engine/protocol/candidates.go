package protocol

// Candidates returns one choice of picks that [State.PicksAllowed] allows for
// a claim, for models and tests: heads in the order of their ids, each with at
// most chain−1 followers, up to limit deliveries. Which of the allowed picks a
// store takes, and in which order, is its own affair.
func (s *State) Candidates(a Claim, limit, chain int) []Picked {
	lane := s.lane(a.Lane)
	a.Picks = nil
	if lane == nil || !a.Renew {
		return nil
	}
	for _, r := range s.rows {
		if r.Lane != a.Lane || r.Status != Pending || len(a.Picks) >= limit {
			continue
		}
		after := DeliveryID(0)
		for n := 0; r != nil && n < chain && len(a.Picks) < limit && s.pickNext(lane, &a, r, after); n++ {
			after = r.ID
			r = r.follower()
		}
	}
	return a.Picks
}

// follower returns the next pending row of the same (handler, key).
func (r *row) follower() *row {
	if r.queue == nil {
		return nil
	}
	return r.queue.next(r.Sequence)
}

// pickNext adds a row to the picks unless that is not allowed.
func (s *State) pickNext(lane *Lane, a *Claim, r *row, after DeliveryID) bool {
	n := len(a.Picks)
	a.Picks = append(a.Picks, Picked{Delivery: r.ID, After: after, Fence: r.Fence})
	if s.mayPick(lane, a, n).OK() && s.maySuspect(a).OK() {
		return true
	}
	a.Picks = a.Picks[:n]
	return false
}

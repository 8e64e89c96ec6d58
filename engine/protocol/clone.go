package protocol

import "slices"

// Clone returns a State that shares nothing mutable with s.
func (s *State) Clone() *State {
	c := NewState(s.semantics, s.modulus)
	c.without = s.without
	c.slots = slices.Clone(s.slots)
	c.groups = slices.Clone(s.groups)
	c.cloneEvents(s.events)
	c.cloneRows(s.rows)
	c.cloneLanes(s.lanes)
	c.subscriptions = make([]*Subscription, len(s.subscriptions))
	for i, sub := range s.subscriptions {
		copied := *sub
		c.subscriptions[i] = &copied
	}
	return c
}

func (s *State) cloneEvents(from []*eventRow) {
	block := make([]eventRow, len(from))
	s.events = make([]*eventRow, len(from))
	for i, e := range from {
		block[i] = *e
		s.events[i] = &block[i]
		s.eventOf[e.ID] = &block[i]
	}
}

// cloneRows copies the rows and rebuilds the queues: rows come by id, so each
// queue sorts its own.
func (s *State) cloneRows(from []*row) {
	block := make([]row, len(from))
	s.rows = make([]*row, len(from))
	for i, r := range from {
		to := &block[i]
		to.Delivery = r.Delivery
		to.event = s.eventOf[r.Event]
		if r.Key != "" {
			to.queue = s.queue(handlerKey{r.Handler, r.Key})
		}
		if r.Status == Pending {
			to.queue.add(to)
		}
		s.rows[i] = to
	}
}

// cloneLanes copies the lanes with their lists behind one another in one
// block; each list is capped, so that growing one does not write on the next.
func (s *State) cloneLanes(from []*Lane) {
	entries, ids := 0, 0
	for _, lane := range from {
		entries += len(lane.InFlight) + len(lane.Lost)
		ids += len(lane.Stuck)
	}
	block := make([]Lane, len(from))
	listed := make([]InFlight, 0, entries)
	stuck := make([]DeliveryID, 0, ids)
	s.lanes = make([]*Lane, len(from))
	for i, lane := range from {
		to := &block[i]
		*to = *lane
		to.InFlight, listed = carve(listed, lane.InFlight)
		to.Lost, listed = carve(listed, lane.Lost)
		to.Stuck, stuck = carve(stuck, lane.Stuck)
		s.lanes[i] = to
	}
}

// carve copies a list to the end of a block and returns the copy and the block.
func carve[T any](block, list []T) (copied, rest []T) {
	start := len(block)
	block = append(block, list...)
	return block[start:len(block):len(block)], block
}

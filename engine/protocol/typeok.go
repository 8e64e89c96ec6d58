package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// TypeOK: rows, lanes and lists are well formed. A delivery is in flight in
// its own lane only and listed once; a keyed row stands in its key's lane; an
// (event, handler) has one row.
func TypeOK(in *Scope) *Violation {
	if in.state == nil {
		return nil
	}
	for _, r := range in.rows {
		if v := in.state.rowOK(r); v != nil {
			return v
		}
	}
	if !in.all {
		return in.state.lanesOK(in.lanes)
	}
	return in.state.wellFormed()
}

// wellFormed checks the whole State.
func (s *State) wellFormed() *Violation {
	for _, lane := range s.lanes {
		if v := s.laneOK(lane); v != nil {
			return v
		}
	}
	for i, r := range s.rows {
		if i > 0 && s.rows[i-1].ID >= r.ID {
			return typeBroken(r, "rows are not in the order of their ids")
		}
	}
	return s.uniqueOK()
}

func (s *State) lanesOK(touched []*laneHistory) *Violation {
	for _, h := range touched {
		lane := s.lane(h.id)
		if lane == nil {
			continue
		}
		if v := s.laneOK(lane); v != nil {
			return v
		}
	}
	return nil
}

func (s *State) rowOK(r *row) *Violation {
	switch {
	case r == nil:
		return nil
	case r.Status > Dead:
		return typeBroken(r, "an impossible status")
	case r.Attempts < 0 || r.Takeovers < 0 || r.Fence < 0:
		return typeBroken(r, "a negative counter")
	case r.event == nil || s.eventOf[r.Event] != r.event:
		return typeBroken(r, "its event is gone")
	case r.Key != r.event.Key:
		return typeBroken(r, "another key than its event's")
	case !slices.Contains(r.event.Handlers, r.Handler):
		return typeBroken(r, "its event does not remember the handler")
	case r.Lane%LaneID(s.modulus) != LaneOf(0, s.modulus, r.Key, r.Event):
		return typeBroken(r, fmt.Sprintf("lane %d is not its key's", r.Lane))
	case (s.semantics == Locking) && (r.Fence != 0 || r.Sequence != int64(r.ID)):
		return typeBroken(r, "a locking store has no fence, and the id is the sequence")
	}
	return nil
}

func typeBroken(r *row, detail string) *Violation {
	return &Violation{"TypeOK", fmt.Sprintf("#%d %s/%s", r.ID, r.Event, r.Handler), detail}
}

func (s *State) laneOK(lane *Lane) *Violation {
	for i, f := range lane.InFlight {
		if i > 0 && lane.InFlight[i-1].Delivery >= f.Delivery {
			return laneBroken(lane, "in flight twice or out of order: #%d", f.Delivery)
		}
		if r := s.row(f.Delivery); r != nil && r.Lane != lane.ID {
			return laneBroken(lane, "lists #%d of lane %d", f.Delivery, r.Lane)
		}
	}
	switch {
	case lane.Holder.IsZero() && len(lane.InFlight) > 0:
		return laneBroken(lane, "free, but %d in flight", len(lane.InFlight))
	case !lane.Holder.IsZero() && !lane.LastHolder.IsZero():
		return laneBroken(lane, "held, but remembers a last holder")
	case s.semantics == Locking && len(lane.Lost) > 0:
		return laneBroken(lane, "a locking store has no lost deliveries")
	case len(lane.Lost) > 0 && len(lane.InFlight) > 0:
		return laneBroken(lane, "granted although %d are not charged", len(lane.Lost))
	}
	return nil
}

func laneBroken(lane *Lane, format string, args ...any) *Violation {
	return &Violation{"TypeOK", fmt.Sprintf("lane %d", lane.ID), fmt.Sprintf(format, args...)}
}

// uniqueOK checks that no two rows are of one (event, handler).
func (s *State) uniqueOK() *Violation {
	sorted := slices.Clone(s.rows)
	slices.SortFunc(sorted, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(a.Handler, b.Handler))
	})
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Event == sorted[i-1].Event && sorted[i].Handler == sorted[i-1].Handler {
			return typeBroken(sorted[i], fmt.Sprintf("the same as #%d", sorted[i-1].ID))
		}
	}
	return nil
}

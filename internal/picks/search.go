package picks

import (
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// The rows read per lane: half as many again as an even share of what may be
// granted, because lanes are not even. What is read and not granted is wasted.
const (
	LeastPerLane = 4
	mostPerLane  = 1000
)

// Search is one look for candidates in lanes.
type Search struct {
	// PerLane bounds the unkeyed rows, and the heads of keys, to read of a
	// lane. 0: nothing can be granted, and there is nothing to read.
	PerLane int

	all   bool // every handler of the worker had room
	lanes []searched
}

// searched is what was read of one lane.
type searched struct {
	id    protocol.LaneID
	from  Hint
	found []*Candidate

	rows    int  // unkeyed rows that were read, suspects or not
	fresh   int  // those of them that are no suspects
	heads   int  // heads of keys that were read
	suspect bool // an unkeyed one was found
	last    chainName
}

// Search says what to read of lanes: how much, and from where on.
func (p *Picker) Search(lanes []protocol.LaneID, from func(protocol.LaneID) Hint) *Search {
	s := &Search{all: true}
	if p.Full() || len(lanes) == 0 {
		return s
	}
	share := min(p.chains, p.left) / len(lanes)
	s.PerLane = min(max(share+share/2, LeastPerLane), mostPerLane)
	for _, room := range p.room {
		s.all = s.all && room > 0
	}
	s.lanes = make([]searched, len(lanes))
	for i, id := range lanes {
		s.lanes[i] = searched{id: id, from: from(id)}
	}
	return s
}

// From says where the search of a lane begins.
func (s *Search) From(id protocol.LaneID) Hint { return s.of(id).from }

// of returns what was read of a lane; nothing when the search had none.
func (s *Search) of(id protocol.LaneID) *searched {
	for i := range s.lanes {
		if s.lanes[i].id == id {
			return &s.lanes[i]
		}
	}
	return &searched{id: id}
}

// Take hands over an unkeyed row, in the order they are due, and reports
// whether more of the lane should be read. Suspects do not count: only one of
// them may run, so that a lane whose front is full of them would show nothing
// of what stands behind. The first suspect is kept, granted or not, if it is
// among the first PerLane rows, so that no watermark passes it.
func (s *Search) Take(c *Candidate) bool {
	l := s.of(c.Lane)
	l.rows++
	if c.suspect() && !mutant.On("suspects-hide-fresh") {
		if !l.suspect && l.rows <= s.PerLane {
			l.suspect = true
			l.found = append(l.found, c)
		} else {
			suspectsPassed.Hit()
		}
		return true
	}
	l.fresh++
	l.found = append(l.found, c)
	return l.fresh < s.PerLane
}

// TakeHead hands over the first pending row of a key, in the order of keys and
// handlers, and reports whether more of the lane should be read. Those that
// cannot be granted count too: the cursor of the next search is behind them.
func (s *Search) TakeHead(c *Candidate) bool {
	l := s.of(c.Lane)
	l.heads++
	l.last = chainName{c.Key, c.Handler}
	l.found = append(l.found, c)
	return l.heads < s.PerLane
}

// Again returns the lanes to read once more, from their beginning: those whose
// search began in the middle and found nothing, since a hint must not hide
// work. Behind a watermark that is worth its price only when the whole claim
// would be empty; else the full search of every FullEvery does.
func (s *Search) Again(lanes []*Lane) []protocol.LaneID {
	empty := true
	for i := range s.lanes {
		empty = empty && len(s.lanes[i].found) == 0
	}
	var list []protocol.LaneID
	for i := range s.lanes {
		l := &s.lanes[i]
		lane := laneOf(lanes, l.id)
		if lane == nil || !lane.Picks || len(l.found) > 0 || l.from.Key == "" && (l.from.Due == 0 || !empty) {
			continue
		}
		searchesWrapped.Hit()
		*l = searched{id: l.id}
		list = append(list, l.id)
	}
	return list
}

package postgres

import (
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// hintFor returns where a search of a lane begins.
func (s *Store) hintFor(holder protocol.Holder, id protocol.LaneID) picks.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hints.For(holder, id, s.sinceOpen())
}

// note remembers where the search of a lane ended.
func (s *Store) note(holder protocol.Holder, l *picks.Lane, f *picks.Search) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hints.Note(holder, l, f, s.sinceOpen())
}

// sinceOpen is the time that hints grow old by: of this process, and steady.
func (s *Store) sinceOpen() protocol.Time { return protocol.Time(time.Since(s.opened)) }

// forget drops the hints of lanes: after a failed claim nobody knows what was
// granted.
func (s *Store) forget(lanes []engine.LaneEpoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		s.hints.Forget(l.Lane)
	}
}

// forgetLeases is forget for the lanes of leases that were given back.
func (s *Store) forgetLeases(leases ...engine.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range leases {
		s.hints.Forget(leases[i].Lane)
	}
}

package mirror

import "fmt"

// Invariants are the invariants and probes of CompleteVsTakeoverLocking.tla.
func (m *locking) Invariants() []Invariant[lockingState] {
	return []Invariant[lockingState]{
		{"TypeOK", m.typeOK},
		{"NoLostDelivery", func(s lockingState) bool { return m.nothingLost(s.rows|s.swept, s.completions[:]) }},
		{"NothingInvented", func(s lockingState) bool { return s.granted == 0 }},
		{"AtMostOneCompletion", func(s lockingState) bool { return m.atMostOnce(s.completions[:], s.effects[:]) }},
		{"FencedOut", func(s lockingState) bool { return s.intruders == 0 }},
		{"OneHolderPerLane", func(s lockingState) bool { return s.intruders&^(pairBit(1, 1)|pairBit(2, 2)) == 0 }},
		{"NothingDropped", nothingDroppedLocking},
		{"ReportedIsCompleted", func(s lockingState) bool { return s.reported == 0 }},
		{"SettleHoldsNoLane", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return m.transactional && r.phase == snoozing && s.rowHeld(r.id)
		})},
		{"NeverTakenOverMeanwhile", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return r.tx == judged && r.epoch < s.lane.epoch
		})},
		{"NeverBesideClaim", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return r.tx == deleted && s.calls[r.worker-1].step == claiming
		})},
		{"NeverOrphanStandsInTheWay", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return r.tx == sent && r.phase == unknown && (s.calls[0].step == finding || s.calls[1].step == finding)
		})},
		{"NeverUnknownCommitted", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return r.phase == unknown && r.tx == noTx && s.completions[r.id-1] > 0
		})},
		{"NeverUnknownRolledBack", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return r.phase == unknown && r.tx == noTx && s.has(r.id)
		})},
		{"NeverUnknownStillOpen", noRunOf(func(_ *lockingState, r lockingRunOf) bool {
			return r.phase == unknown && r.tx == sent
		})},
		{"NeverGoneAndListed", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return r.phase == completing && r.tx == shared && !s.has(r.id) && s.good(r.worker, r.number)
		})},
		{"NeverEndedMeanwhile", noRunOf(func(_ *lockingState, r lockingRunOf) bool {
			return r.tx == shared && r.written
		})},
		{"NeverSettledTooLate", noRunOf(func(s *lockingState, r lockingRunOf) bool {
			return r.phase == settling && r.epoch < s.lane.epoch
		})},
	}
}

// lockingRunOf is a run with the worker and the claim number that name it.
type lockingRunOf struct {
	worker, number int
	lockingRun
}

func (s *lockingState) allRuns() []lockingRunOf {
	var runs []lockingRunOf
	for w := range s.runs {
		for n, r := range s.runs[w] {
			if r.phase != noRun {
				runs = append(runs, lockingRunOf{w + 1, n + 1, r})
			}
		}
	}
	return runs
}

// noRunOf is the predicate that no run is so.
func noRunOf(so func(*lockingState, lockingRunOf) bool) func(lockingState) bool {
	return func(s lockingState) bool {
		for w := range s.runs {
			for n, r := range s.runs[w] {
				if r.phase != noRun && so(&s, lockingRunOf{w + 1, n + 1, r}) {
					return false
				}
			}
		}
		return true
	}
}

func (m *locking) typeOK(s lockingState) bool {
	for _, r := range s.allRuns() {
		if r.phase == over && r.tx == noTx {
			return false
		}
	}
	return m.wellFormed(s.lane.epoch, s.lane.holder, s.lane.claim, s.number, s.rows|s.swept)
}

func nothingDroppedLocking(s lockingState) bool {
	if s.lane.holder == 0 {
		return true
	}
	for n, r := range s.runs[s.lane.holder-1] {
		if running <= r.phase && r.phase <= unknown && r.epoch == s.lane.epoch && s.lane.inFlight[n] != r.id {
			return false
		}
	}
	return true
}

// String shows of the arrays what is in use.
func (s lockingState) String() string {
	return fmt.Sprintf("lane %+v, rows %b, calls %+v, runs %+v, completions %v, effects %v, swept %b, intruders %b, granted %b, reported %b",
		s.lane, s.rows, s.calls, s.allRuns(), s.completions, s.effects, s.swept, s.intruders, s.granted, s.reported)
}

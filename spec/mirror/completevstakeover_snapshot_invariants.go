package mirror

import "fmt"

// Invariants are the invariants and probes of CompleteVsTakeoverSnapshot.tla.
func (m *snapshot) Invariants() []Invariant[snapshotState] {
	return []Invariant[snapshotState]{
		{"TypeOK", m.typeOK},
		{"NoLostDelivery", func(s snapshotState) bool { return m.nothingLost(s.rows, s.completions[:]) }},
		{"NothingInvented", func(s snapshotState) bool { return s.granted == 0 }},
		{"AtMostOneCompletion", func(s snapshotState) bool { return m.atMostOnce(s.completions[:], s.effects[:]) }},
		{"FencedOut", func(s snapshotState) bool { return s.intruders == 0 }},
		{"OneHolderPerLane", func(s snapshotState) bool { return s.intruders&^(intruderBit(1, 1)|intruderBit(2, 2)) == 0 }},
		{"NothingDropped", nothingDroppedSnapshot},
		{"ChargedOnce", func(s snapshotState) bool { return !s.twice }},
		{"NeverOldSnapshot", func(s snapshotState) bool {
			return !s.anyRun(func(r *snapshotRun) bool { return r.tx == txOpen && r.epoch < s.lane.epoch })
		}},
		{"NeverCompletedWhileLost", neverCompletedWhileLost},
		{"NeverConflict", func(s snapshotState) bool {
			return !s.anyRun(func(r *snapshotRun) bool { return r.txStale })
		}},
		{"NeverBackBeforeCharge", func(s snapshotState) bool {
			return s.lane.holder == 0 || s.lane.lost[s.lane.holder-1] == [snapshotNumbers]uint8{}
		}},
		{"NeverTwoCharges", func(s snapshotState) bool { return s.charges[0].step != begun || s.charges[1].step != begun }},
		{"NeverRelinquishedWithLost", func(s snapshotState) bool { return s.lane.holder != 0 || !s.lane.hasLost() }},
		{"NeverLateCopy", neverLateCopy},
		{"NeverSettledWhileOpen", func(s snapshotState) bool {
			return !s.anyRun(func(r *snapshotRun) bool { return r.end == begun && r.tx == txSent })
		}},
	}
}

func (m *snapshot) typeOK(s snapshotState) bool {
	idle := s.anyRun(func(r *snapshotRun) bool { return r.phase == snapOver && r.tx == txNone && r.end == notBegun })
	return !idle && m.wellFormed(s.lane.epoch, s.lane.holder, s.lane.claim, s.number, s.rows)
}

func nothingDroppedSnapshot(s snapshotState) bool {
	if s.lane.holder == 0 {
		return true
	}
	for n, r := range s.runs[s.lane.holder-1] {
		if snapRunning <= r.phase && r.phase <= snapUnknown && r.epoch == s.lane.epoch && s.lane.inFlight[n] != r.id {
			return false
		}
	}
	return true
}

func neverCompletedWhileLost(s snapshotState) bool {
	for w := range s.runs {
		for n, r := range s.runs[w] {
			if r.tx == txSent && s.lane.lost[w][n] == r.id {
				return false
			}
		}
	}
	return true
}

func neverLateCopy(s snapshotState) bool {
	for w := range s.runs {
		for n, r := range s.runs[w] {
			if r.tx == txCopy && s.has(r.id) && s.ended[w]&(2<<n) != 0 {
				return false
			}
		}
	}
	return true
}

// String shows of the arrays what is in use.
func (s snapshotState) String() string {
	var runs []string
	for w := range s.runs {
		for n, r := range s.runs[w] {
			if r.phase != snapNone {
				runs = append(runs, fmt.Sprintf("%d/%d %+v", w+1, n+1, r))
			}
		}
	}
	return fmt.Sprintf("lane %+v, rows %b, fence %v, claims %+v, charges %+v, runs %v, completions %v, effects %v, ended %b, intruders %b, granted %b, twice %v",
		s.lane, s.rows, s.fence, s.claims, s.charges, runs, s.completions, s.effects, s.ended, s.intruders, s.granted, s.twice)
}

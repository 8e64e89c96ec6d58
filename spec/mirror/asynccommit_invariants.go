package mirror

import "fmt"

// Invariants are the invariants and probes of AsyncCommit.tla. What TypeOK
// says of sets is true of arrays by their form.
func (m *asyncCommit) Invariants() []Invariant[asyncState] {
	return []Invariant[asyncState]{
		{"TypeOK", m.typeOK},
		{"NoLostDelivery", m.noLostDelivery},
		{"NothingInvented", nothingInventedAsync},
		{"AtMostOneCompletion", atMostOneCompletionAsync},
		{"FencedOut", func(s asyncState) bool { return s.db().intruders == 0 }},
		{"OneHolderPerLane", func(s asyncState) bool {
			return s.db().intruders&^(pairBit(1, 1)|pairBit(2, 2)) == 0
		}},
		{"NothingDropped", nothingDroppedAsync},
		{"DeadStaysDead", func(s asyncState) bool { return s.db().revived == 0 }},
		{"NeverEpochReissued", neverPair(func(r, s asyncRunOf) bool { return r.epoch == s.epoch && r.reign != s.reign })},
		{"NeverClaimReissued", neverPair(func(r, s asyncRunOf) bool {
			return r.epoch == s.epoch && r.number == s.number && r != s
		})},
		{"NeverIdReissued", neverPair(func(r, s asyncRunOf) bool { return r.id == s.id && r.event != s.event })},
		{"NeverJudgedEarlier", neverJudgedEarlier},
		{"NeverCompletionLost", neverCompletionLost},
		{"NeverBuriedMeanwhile", neverBuriedMeanwhile},
	}
}

// asyncRunOf is a run with the worker and the claim number that name it.
type asyncRunOf struct {
	worker, number uint8
	asyncRun
}

func (s *asyncState) allRuns() []asyncRunOf {
	var runs []asyncRunOf
	for w := range s.runs {
		for n, r := range s.runs[w] {
			if r.phase != asyncNone {
				runs = append(runs, asyncRunOf{uint8(w + 1), uint8(n + 1), r})
			}
		}
	}
	return runs
}

func (m *asyncCommit) typeOK(s asyncState) bool {
	db := s.db()
	for i, event := range db.rows {
		if db.dead&(2<<i) != 0 && event == 0 || event > m.maxEvents || event > 0 && uint8(i+1) > db.lastID {
			return false
		}
	}
	return 1 <= s.durable && s.durable <= s.length && s.published <= m.maxEvents &&
		max(s.number[0], s.number[1], db.claim) <= m.maxNumber &&
		s.crashes <= m.maxCrashes && s.failovers <= m.maxFailovers &&
		db.epoch <= 2*m.maxNumber && db.holder <= 2
}

func (m *asyncCommit) noLostDelivery(s asyncState) bool {
	db := s.db()
	var pending uint8
	for _, event := range db.rows {
		pending |= 1 << event
	}
	for e := uint8(1); e <= m.maxEvents; e++ {
		if db.committed&(1<<e) != 0 && pending&(1<<e) == 0 && db.completed[e-1] == 0 {
			return false
		}
	}
	return true
}

func nothingInventedAsync(s asyncState) bool {
	db := s.db()
	for i, n := range db.completed {
		if n > 0 && db.committed&(2<<i) == 0 {
			return false
		}
	}
	return true
}

func atMostOneCompletionAsync(s asyncState) bool {
	db := s.db()
	return max(db.completed[0], db.completed[1]) <= 1
}

func nothingDroppedAsync(s asyncState) bool {
	if s.crashes+s.failovers > 0 || s.db().holder == 0 {
		return true
	}
	db := s.db()
	for n, r := range s.runs[db.holder-1] {
		if (r.phase == asyncRunning || r.phase == asyncSent) && r.epoch == db.epoch && db.inFlight[n] != r.id {
			return false
		}
	}
	return true
}

// neverPair is the probe that no two runs are so.
func neverPair(so func(r, s asyncRunOf) bool) func(asyncState) bool {
	return func(s asyncState) bool {
		runs := s.allRuns()
		for _, r := range runs {
			for _, other := range runs {
				if so(r, other) {
					return false
				}
			}
		}
		return true
	}
}

// never is the probe that no run of the lane's present holder and epoch, with
// its row still there, is so.
func never(s asyncState, so func(r *asyncRun, listed bool) bool) bool {
	db := s.db()
	if db.holder == 0 {
		return true
	}
	for n, r := range s.runs[db.holder-1] {
		if r.phase != asyncNone && r.epoch == db.epoch && db.rows[r.id-1] != 0 && so(&r, db.inFlight[n] == r.id) {
			return false
		}
	}
	return true
}

func neverJudgedEarlier(s asyncState) bool {
	return never(s, func(r *asyncRun, listed bool) bool { return r.judged && !listed })
}

func neverCompletionLost(s asyncState) bool {
	return never(s, func(r *asyncRun, listed bool) bool { return r.phase == asyncOver && listed })
}

func neverBuriedMeanwhile(s asyncState) bool {
	for _, c := range s.claims {
		for i, event := range c.seen {
			if event != 0 && s.db().dead&(2<<i) != 0 {
				return false
			}
		}
	}
	return true
}

// String shows of the arrays what is in use.
func (s asyncState) String() string {
	return fmt.Sprintf("store %+v, %d commits, %d durable, numbers %v, claims %+v, runs %+v",
		*s.db(), s.length, s.durable, s.number, s.claims, s.allRuns())
}

package mirror

// complete is the actions of a completion's statement and transaction.
func (m *locking) complete(s lockingState, w, n int, step func(string, lockingState)) {
	m.completeSnapshot(s, w, n, step)
	m.completeLane(s, w, n, step)
	m.completeRow(s, w, n, step)
	m.sendCommit(s, w, n, step)
	m.commit(s, w, n, step)
	m.abort(s, w, n, step)
}

// refuse is the operator Refused.
func (m *locking) refuse(r *lockingRun) {
	r.rewritten, r.written = 0, false
	if m.transactional && !m.rule("rollback") {
		r.tx = gone
		return
	}
	r.tx = noTx
	r.end()
}

func (m *locking) completeSnapshot(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if r.tx != noTx || r.phase != running && r.phase != completing {
		return
	}
	good := s.good(w, n)
	if !m.transactional {
		r.phase = completing
	}
	if good {
		r.tx, r.rewritten = judged, s.lane.rewritten
	} else {
		m.refuse(r)
	}
	step("CompleteSnapshot", s)
}

func (m *locking) completeLane(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if r.tx != judged || !m.guard("lane", m.laneFree(&s, w, n, keyShare)) {
		return
	}
	if r.rewritten == s.lane.rewritten || !m.rule("lane") || s.good(w, n) {
		r.tx, r.rewritten = shared, 0
	} else {
		m.refuse(r)
	}
	step("CompleteLane", s)
}

func (m *locking) completeRow(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if r.tx != shared || s.rowHeld(r.id) {
		return
	}
	switch {
	case s.has(r.id) && m.guard("meanwhile", !r.written):
		r.tx, r.written = deleted, false
	case !s.has(r.id) && m.transactional && !m.rule("itself"):
		r.tx, r.written = gone, false
	default:
		m.refuse(r)
	}
	step("CompleteRow", s)
}

func (m *locking) sendCommit(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if !m.transactional || r.phase != running {
		return
	}
	switch r.tx {
	case deleted:
		r.tx = sent
	case gone:
		r.tx = sentGone
	default:
		return
	}
	r.phase = committing
	step("SendCommit", s)
}

func (m *locking) commit(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if m.transactional && r.tx != sent && r.tx != sentGone || !m.transactional && r.tx != deleted {
		return
	}
	if m.transactional {
		s.effects[r.id-1]++
	}
	if r.tx != sentGone {
		s.rows &^= 1 << r.id
		s.completions[r.id-1]++
		s.accepted(w, r)
	}
	r.tx = noTx
	heard := s
	heard.runs[w-1][n-1] = lockingRun{}
	switch r.phase {
	case over:
		step("Commit", heard)
		return
	case completing:
		step("Commit", heard)
	case committing:
		step("Commit", heard)
		r.phase = unknown
	}
	step("Commit", s)
}

func (m *locking) abort(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if r.tx == noTx {
		return
	}
	r.tx, r.rewritten, r.written = noTx, 0, false
	switch r.phase {
	case over:
		*r = lockingRun{}
	case committing:
		r.phase = settling
		step("Abort", s)
		r.phase = unknown
	}
	step("Abort", s)
}

// settle is the actions of a Snooze and of what comes before it.
func (m *locking) settle(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	turn := func(action string, to lockingPhase) {
		r.phase = to
		step(action, s)
	}
	switch r.phase {
	case running:
		if r.tx == noTx {
			turn("Fail", settling)
		}
	case completing:
		if r.tx == noTx || r.tx == judged || r.tx == shared {
			turn("BadRow", settling)
		}
	case committing:
		turn("LoseReply", unknown)
	case unknown:
		m.settleWrongly(s, w, n, step)
		if m.rule("snooze") && m.rule("rerun") && m.guard("row", !s.rowHeld(r.id)) {
			r.settle = true
			turn("SettleRow", settling)
		}
	case settling:
		m.snoozeLane(s, w, n, step)
	case snoozing:
		m.snoozeRow(s, w, n, step)
		turn("AbortSnooze", settling)
	}
}

// settleLost is a verdict of LeaseLost on a Snooze, heard or lost.
func (m *locking) settleLost(s lockingState, w, n int, step func(lockingState)) {
	r := &s.runs[w-1][n-1]
	if !m.rule("lost") && r.settle && s.completions[r.id-1] == 0 {
		s.reported |= 1 << r.id
	}
	m.snoozed(s, w, n, step)
}

// snoozed is the end of a Snooze, heard or lost.
func (m *locking) snoozed(s lockingState, w, n int, step func(lockingState)) {
	r := &s.runs[w-1][n-1]
	r.phase = settling
	step(s)
	r.end()
	step(s)
}

func (m *locking) snoozeLane(s lockingState, w, n int, step func(string, lockingState)) {
	if !m.laneFree(&s, w, n, noKeyUpdate) {
		return
	}
	if s.good(w, n) {
		s.runs[w-1][n-1].phase = snoozing
		step("SnoozeLane", s)
		return
	}
	m.settleLost(s, w, n, func(next lockingState) { step("SnoozeLane", next) })
}

func (m *locking) snoozeRow(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if s.rowHeld(r.id) {
		return
	}
	end := m.settleLost
	if s.has(r.id) {
		s.lane.inFlight[n-1] = 0
		s.accepted(w, r)
		s.wrote(r.id)
		end = m.snoozed
	}
	end(s, w, n, func(next lockingState) { step("SnoozeRow", next) })
}

// wrote tells the completions that have judged the lease, and not locked the
// row.
func (s *lockingState) wrote(d uint8) {
	for w := range s.runs {
		for n := range s.runs[w] {
			r := &s.runs[w][n]
			r.written = r.written || r.id == d && (r.tx == judged || r.tx == shared)
		}
	}
}

func (m *locking) settleWrongly(s lockingState, w, n int, step func(string, lockingState)) {
	r := &s.runs[w-1][n-1]
	if r.tx != noTx {
		return
	}
	if !m.rule("snooze") && s.good(w, n) && s.has(r.id) && !s.rowHeld(r.id) {
		next := s
		next.rows &^= 1 << r.id
		next.completions[r.id-1]++
		next.runs[w-1][n-1] = lockingRun{}
		step("SettleWrongly", next)
	}
	if !m.rule("rerun") {
		r.phase = running
		step("SettleWrongly", s)
	}
}

func (m *locking) sweep(s lockingState, step func(string, lockingState)) {
	if !m.sweeps {
		return
	}
	for d := uint8(1); d <= m.maxDeliveries; d++ {
		if s.has(d) && !s.rowHeld(d) {
			next := s
			next.rows &^= 1 << d
			next.swept |= 1 << d
			step("Sweep", next)
		}
	}
}

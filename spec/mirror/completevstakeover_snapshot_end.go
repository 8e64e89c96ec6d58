package mirror

// complete is the actions of a handler's transaction.
func (m *snapshot) complete(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	if r.tx != txNone {
		m.abort(s, w, n, step)
	}
	switch {
	case r.phase == snapRunning && r.tx == txNone && m.transactional:
		m.begin(s, w, n, step)
	case r.tx == txOpen:
		m.completeRow(s, w, n, step)
	case r.phase == snapRunning && r.tx == txDeleted:
		next := s
		next.runs[w-1][n-1].phase, next.runs[w-1][n-1].tx = snapCommitting, txSent
		step("SendCommit", next)
	case r.tx == txSent:
		m.commit(s, w, n, step)
	}
	if r.phase == snapCommitting {
		next := s
		next.runs[w-1][n-1].phase = snapUnknown
		step("LoseReply", next)
	}
}

func (m *snapshot) begin(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	if s.good(w, n) && s.has(r.id) && s.fence[r.id-1] == r.fence {
		r.tx = txOpen
	} else {
		r.over()
	}
	step("Begin", s)
}

func (m *snapshot) completeRow(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	if m.guard("conflict", !r.txStale) && s.has(r.id) && !m.rowHeld(&s, r.id) {
		r.tx, r.txStale = txDeleted, false
	} else {
		r.leave(true, false)
	}
	step("Complete", s)
}

// removed deletes the delivery of a run that is accepted as completed.
func (m *snapshot) removed(s *snapshotState, w, n int) {
	d := s.runs[w-1][n-1].id
	charged := m.chargedRows(s)
	s.rows &^= 1 << d
	s.fence[d-1] = 0
	s.completions[d-1]++
	s.accepted(w, n, true)
	m.wrote(s, false, 1<<d, charged)
}

func (m *snapshot) commit(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	s.effects[r.id-1]++
	m.removed(&s, w, n)
	if r.phase == snapCommitting {
		heard := s
		heard.runs[w-1][n-1] = snapshotRun{}
		step("Commit", heard)
		r.phase = snapUnknown
	}
	r.leave(true, false)
	step("Commit", s)
}

func (m *snapshot) abort(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	r.leave(true, false)
	if r.phase == snapCommitting {
		r.phase = snapEnding
		step("Abort", s)
		r.phase = snapUnknown
	}
	step("Abort", s)
}

// completeMany is CompleteMany and BadRow.
func (m *snapshot) completeMany(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	listening := r.phase == snapRunning || r.phase == snapCompleting
	if m.transactional || !listening && r.tx != txCopy {
		return
	}
	if listening {
		bad := s
		bad.runs[w-1][n-1].phase, bad.runs[w-1][n-1].tx = snapEnding, txCopy
		step("BadRow", bad)
	}
	there := s.has(r.id) && m.guard("fence", s.fence[r.id-1] == r.fence)
	if there && m.rowHeld(&s, r.id) {
		return
	}
	if there {
		m.removed(&s, w, n)
	}
	if !listening {
		r.leave(true, false)
		step("CompleteMany", s)
		return
	}
	if there {
		r.phase = snapCompleting
		step("CompleteMany", s)
	}
	*r = snapshotRun{}
	step("CompleteMany", s)
}

// finish is the actions of a Reschedule and of what comes before it.
func (m *snapshot) finish(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	switch {
	case r.phase == snapRunning && r.tx == txNone:
		r.phase = snapEnding
		step("Fail", s)
	case r.phase == snapUnknown:
		m.settle(s, w, n, step)
	case r.phase == snapEnding && r.end == notBegun:
		m.rescheduleBegin(s, w, n, step)
	case r.end == begun:
		m.rescheduleWrite(s, w, n, step)
	case r.end == written:
		m.reschedule(s, w, n, step)
	}
}

// settle is Settle and SettleWrongly.
func (m *snapshot) settle(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	if m.rule("snooze") {
		r.phase = snapEnding
		step("Settle", s)
		return
	}
	if s.has(r.id) && s.fence[r.id-1] == r.fence && !m.rowHeld(&s, r.id) {
		m.removed(&s, w, n)
		*r = snapshotRun{}
		step("SettleWrongly", s)
	}
}

func (m *snapshot) rescheduleBegin(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	if s.good(w, n) && s.has(r.id) {
		r.end = begun
	} else {
		r.over()
	}
	step("RescheduleBegin", s)
}

func (m *snapshot) rescheduleWrite(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	free := !r.endStale && m.guard("lane", !m.laneHeld(&s)) && m.guard("delivery", !m.rowHeld(&s, r.id))
	aborted := s
	aborted.runs[w-1][n-1].leave(false, true)
	step("RescheduleAbort", aborted)
	if free {
		r.end = written
		step("RescheduleWrite", s)
	}
}

func (m *snapshot) reschedule(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	aborted := s
	aborted.runs[w-1][n-1].leave(false, true)
	step("RescheduleAbort", aborted)
	var rows uint8
	if m.rule("lane") {
		s.lane.inFlight[n-1] = 0
	}
	if m.rule("delivery") {
		rows = 1 << r.id
		if s.has(r.id) && m.rule("raise") {
			s.fence[r.id-1]++
		}
	}
	s.accepted(w, n, false)
	m.wrote(&s, m.rule("lane"), rows, m.chargedRows(&s))
	r.leave(false, true)
	if r.phase != snapNone {
		step("Reschedule", s)
		r.over()
	}
	step("Reschedule", s)
}

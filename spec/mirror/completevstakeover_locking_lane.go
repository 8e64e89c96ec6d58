package mirror

func (m *locking) claimSnapshot(s lockingState, w int, step func(string, lockingState)) {
	if s.calls[w-1].step != idle || s.number[w-1] >= m.maxNumber || int(s.lane.holder) != w {
		return
	}
	s.number[w-1]++
	s.calls[w-1] = lockingCall{step: reading, number: s.number[w-1], stated: s.statedBy(w), seen: s.rows}
	step("ClaimSnapshot", s)
}

func (m *locking) claimLock(s lockingState, w int, step func(string, lockingState)) {
	c := &s.calls[w-1]
	if c.step != reading || !m.laneFree(&s, w, 0, noKeyUpdate) {
		return
	}
	if m.guard("again", int(s.lane.holder) == w && c.number > s.lane.claim) {
		c.step = claiming
	} else {
		*c = lockingCall{}
	}
	step("ClaimLock", s)
}

func (m *locking) claimCommit(s lockingState, w int, step func(string, lockingState)) {
	c := s.calls[w-1]
	if c.step != claiming {
		return
	}
	s.calls[w-1] = lockingCall{}
	if int(s.lane.holder) != w {
		s.intruders |= pairBit(uint8(w), s.lane.holder)
	}
	heard := s
	for i, id := range c.stated {
		kept := id != 0 && s.lane.inFlight[i] == id
		if !kept {
			s.lane.inFlight[i] = 0
		}
		if r := &heard.runs[w-1][i]; id != 0 && !kept && r.stated() && r.id == id {
			r.end()
		}
	}
	s.lane.holder, s.lane.claim = uint8(w), c.number
	heard.lane = s.lane
	step("ClaimCommit", heard)
	step("ClaimCommit", s)
	m.grants(s, heard, w, &c, c.seen, func(next lockingState) { step("ClaimCommit", next) })
}

// grants adds a grant of each pickable delivery to the two states in which the
// reply is lost or heard.
func (m *locking) grants(lost, heard lockingState, w int, c *lockingCall, seen uint8, step func(lockingState)) {
	for _, id := range c.stated {
		seen &^= 1 << id
	}
	for d := uint8(1); d <= m.maxDeliveries; d++ {
		if seen&(1<<d) == 0 {
			continue
		}
		next, heardNext := lost, heard
		next.lane.inFlight[c.number-1] = d
		if next.completions[d-1] > 0 {
			next.granted |= 1 << d
		}
		step(next)
		heardNext.lane, heardNext.granted = next.lane, next.granted
		heardNext.runs[w-1][c.number-1] = lockingRun{phase: running, id: d, epoch: next.lane.epoch}
		step(heardNext)
	}
}

func (m *locking) takeOverFind(s lockingState, w int, step func(string, lockingState)) {
	if s.calls[w-1].step != idle || s.number[w-1] >= m.maxNumber || int(s.lane.holder) == w {
		return
	}
	s.number[w-1]++
	c := lockingCall{step: finding, number: s.number[w-1], stated: s.statedBy(w)}
	if !m.rule("later") {
		c.seen = s.rows
	}
	s.calls[w-1] = c
	step("TakeOverFind", s)
}

func (m *locking) takeOverLock(s lockingState, w int, step func(string, lockingState)) {
	if s.calls[w-1].step != finding || int(s.lane.holder) == w || !m.laneFree(&s, w, 0, m.takeOverLocks()) {
		return
	}
	s.calls[w-1].step = taking
	step("TakeOverLock", s)
}

func (m *locking) takeOverCommit(s lockingState, w int, step func(string, lockingState)) {
	c := s.calls[w-1]
	if c.step != taking {
		return
	}
	for _, id := range s.lane.inFlight {
		if id != 0 && s.rowHeld(id) {
			return
		}
	}
	s.calls[w-1] = lockingCall{}
	seen := c.seen
	if m.rule("later") {
		seen = s.rows
	}
	rewritten := s.lane.rewritten
	if m.rule("update") {
		rewritten++
	}
	s.lane = lockingLane{epoch: s.lane.epoch + 1, holder: uint8(w), claim: c.number, rewritten: rewritten}
	step("TakeOverCommit", s)
	m.grants(s, s, w, &c, seen, func(next lockingState) { step("TakeOverCommit", next) })
}

func (m *locking) abortCall(s lockingState, w int, step func(string, lockingState)) {
	if s.calls[w-1].step != idle {
		s.calls[w-1] = lockingCall{}
		step("AbortCall", s)
	}
}

func (m *locking) hearLost(s lockingState, w int, step func(string, lockingState)) {
	some := false
	for i := range s.runs[w-1] {
		if r := &s.runs[w-1][i]; r.stated() && r.epoch < s.lane.epoch {
			some = true
			r.end()
		}
	}
	if some {
		step("HearLost", s)
	}
}

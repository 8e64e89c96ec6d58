package mirror

func (m *snapshot) takeOver(s snapshotState, w int, step func(string, snapshotState)) {
	if int(s.lane.holder) == w || s.number[w-1] >= m.maxNumber || s.claims[w-1].number != 0 || m.laneHeld(&s) {
		return
	}
	s.number[w-1]++
	next := snapshotLane{epoch: s.lane.epoch + 1, holder: uint8(w), claim: s.number[w-1], lost: s.lane.lost}
	if m.rule("move") && s.lane.holder != 0 {
		for i, id := range s.lane.inFlight {
			if id != 0 {
				next.lost[s.lane.holder-1][i] = id
			}
		}
	}
	s.lane = next
	m.wrote(&s, true, 0, 0)
	step("TakeOver", s)
}

// charge is the actions of a ChargeLost transaction.
func (m *snapshot) charge(s snapshotState, w int, step func(string, snapshotState)) {
	c := &s.charges[w-1]
	switch c.step {
	case notBegun:
		if int(s.lane.holder) == w && s.lane.hasLost() {
			c.step = begun
			step("ChargeBegin", s)
		}
	case begun:
		m.chargeWrite(s, w, step)
	case written:
		m.chargeLost(s, w, step)
	}
}

func (m *snapshot) chargeWrite(s snapshotState, w int, step func(string, snapshotState)) {
	c := &s.charges[w-1]
	rows := m.chargedRows(&s)
	free := !c.stale && !m.laneHeld(&s)
	for d := uint8(1); d <= m.maxDeliveries; d++ {
		free = free && !(rows&(1<<d) != 0 && m.rowHeld(&s, d))
	}
	*c = snapshotCharge{}
	step("ChargeAbort", s)
	if free {
		*c = snapshotCharge{step: written, rows: rows}
		step("ChargeWrite", s)
	}
}

func (m *snapshot) chargeLost(s snapshotState, w int, step func(string, snapshotState)) {
	rows := s.charges[w-1].rows
	s.charges[w-1] = snapshotCharge{}
	step("ChargeAbort", s)
	charged := m.chargedRows(&s)
	for v := range s.lane.lost {
		for i, id := range s.lane.lost[v] {
			if id == 0 || !s.has(id) {
				continue
			}
			s.twice = s.twice || s.ended[v]&(2<<i) != 0
			s.ended[v] |= 2 << i
		}
	}
	s.lane.lost = [2][snapshotNumbers]uint8{}
	for d := range m.maxDeliveries {
		if m.rule("bump") && rows&(2<<d) != 0 {
			s.fence[d]++
		}
	}
	m.wrote(&s, true, rows, charged)
	step("ChargeLost", s)
}

func (m *snapshot) charged(s *snapshotState) bool { return m.guard("charged", !s.lane.hasLost()) }

func (m *snapshot) claimRead(s snapshotState, w int, step func(string, snapshotState)) {
	if s.claims[w-1].number != 0 || s.number[w-1] >= m.maxNumber || int(s.lane.holder) != w || !m.guard("after", m.charged(&s)) {
		return
	}
	s.number[w-1]++
	s.claims[w-1] = snapshotClaim{number: s.number[w-1], epoch: s.lane.epoch, stated: s.statedBy(w), seen: s.fence}
	step("ClaimRead", s)
}

// claim is Claim and DropClaim.
func (m *snapshot) claim(s snapshotState, w int, step func(string, snapshotState)) {
	c := s.claims[w-1]
	if c.number == 0 {
		return
	}
	s.claims[w-1] = snapshotClaim{}
	step("DropClaim", s)
	if int(s.lane.holder) != w || s.lane.epoch != c.epoch || c.number <= s.lane.claim || !m.charged(&s) || m.laneHeld(&s) {
		return
	}
	heard := s
	pickable := c.seen
	for i, id := range c.stated {
		kept := id != 0 && s.lane.inFlight[i] == id
		if !kept {
			s.lane.inFlight[i] = 0
		}
		if id == 0 {
			continue
		}
		pickable[id-1] = 0
		if r := &heard.runs[w-1][i]; !kept && r.stated() && r.id == id {
			r.over()
		}
	}
	s.lane.claim = c.number
	m.claimed(s, heard, step)
	for d := uint8(1); d <= m.maxDeliveries; d++ {
		if pickable[d-1] == 0 {
			continue
		}
		lost, granted := s, heard
		lost.lane.inFlight[c.number-1] = d
		if s.completions[d-1] > 0 {
			lost.granted |= 1 << d
		}
		granted.runs[w-1][c.number-1] = snapshotRun{phase: snapRunning, id: d, epoch: s.lane.epoch, fence: pickable[d-1]}
		m.claimed(lost, granted, step)
	}
}

// claimed is a claim whose reply is lost, or heard: then the runs are others.
func (m *snapshot) claimed(lost, heard snapshotState, step func(string, snapshotState)) {
	next := lost
	m.wrote(&next, true, 0, 0)
	step("Claim", next)
	lost.runs = heard.runs
	m.wrote(&lost, true, 0, 0)
	step("Claim", lost)
}

func (m *snapshot) relinquish(s snapshotState, w int, step func(string, snapshotState)) {
	if int(s.lane.holder) != w || s.claims[w-1].number != 0 || s.number[w-1] >= m.maxNumber || m.laneHeld(&s) {
		return
	}
	for i, id := range s.statedBy(w) {
		if id != 0 && s.lane.inFlight[i] == id {
			return
		}
	}
	s.number[w-1]++
	s.lane.holder, s.lane.claim, s.lane.inFlight = 0, s.number[w-1], [snapshotNumbers]uint8{}
	if !m.rule("stays") {
		s.lane.lost = [2][snapshotNumbers]uint8{}
	}
	m.wrote(&s, true, 0, 0)
	step("Relinquish", s)
}

func (m *snapshot) hearLost(s snapshotState, w int, step func(string, snapshotState)) {
	some := false
	for i := range s.runs[w-1] {
		if r := &s.runs[w-1][i]; r.stated() && r.epoch < s.lane.epoch {
			some = true
			r.over()
		}
	}
	if some {
		step("HearLost", s)
	}
}

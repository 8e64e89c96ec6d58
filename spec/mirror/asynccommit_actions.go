package mirror

func (m *asyncCommit) publish(s asyncState, step func(string, asyncState)) {
	if s.published >= m.maxEvents {
		return
	}
	s.published++
	db := *s.db()
	db.lastID++
	db.rows[db.lastID-1] = s.published
	db.committed |= 1 << s.published
	sync := s
	m.commit(&sync, db, true)
	step("Publish", sync)
	if m.asyncPublish {
		m.commit(&s, db, false)
		step("Publish", s)
	}
}

func (m *asyncCommit) takeOver(s asyncState, w int, step func(string, asyncState)) {
	db := *s.db()
	if int(db.holder) == w || s.claims[w-1].number != 0 || s.number[w-1] >= m.maxNumber {
		return
	}
	s.number[w-1]++
	db.epoch++
	db.holder, db.claim = uint8(w), s.number[w-1]
	db.inFlight = [asyncNumbers]uint8{}
	db.reign = reignOf(db.holder, db.claim)
	m.commit(&s, db, false)
	step("TakeOver", s)
}

func (m *asyncCommit) claimSnapshot(s asyncState, w int, step func(string, asyncState)) {
	db := s.db()
	if int(db.holder) != w || s.claims[w-1].number != 0 || s.number[w-1] >= m.maxNumber {
		return
	}
	s.number[w-1]++
	c := asyncClaim{number: s.number[w-1], epoch: db.epoch, list: db.inFlight, seen: db.rows}
	for i := range c.seen {
		if c.seen[i] != 0 && !db.pending(uint8(i+1)) {
			c.seen[i] = 0
		}
	}
	for i, r := range s.runs[w-1] {
		if r.stated() {
			c.stated[i] = r.id
			c.seen[r.id-1] = 0
		}
	}
	s.claims[w-1] = c
	step("ClaimSnapshot", s)
}

func (m *asyncCommit) claim(s asyncState, w int, step func(string, asyncState)) {
	c := s.claims[w-1]
	if c.number == 0 {
		return
	}
	s.claims[w-1] = asyncClaim{}
	db := *s.db()
	if int(db.holder) != w || c.number <= db.claim {
		step("Claim", s)
		return
	}
	same := m.guard("same", db.epoch == c.epoch && db.inFlight == c.list)
	heard := s
	for i, id := range c.stated {
		if id != 0 && !m.rule("keep") {
			db.inFlight[i] = id
		}
		if id == 0 || db.inFlight[i] != id {
			db.inFlight[i] = 0
		}
		if r := &heard.runs[w-1][i]; id != 0 && db.inFlight[i] == 0 && r.stated() && r.id == id {
			r.hear()
		}
	}
	db.claim = c.number
	m.claimed(s, heard, db, step)
	for i, event := range c.seen {
		if event == 0 || !same {
			continue
		}
		id := uint8(i + 1)
		picked, granted := db, heard
		picked.inFlight[c.number-1] = id
		picked.revived |= db.dead & (1 << id)
		granted.runs[w-1][c.number-1] = asyncRun{phase: asyncRunning, id: id, event: event, epoch: db.epoch, reign: db.reign}
		m.claimed(s, granted, picked, step)
	}
}

// claimed commits a claim whose reply is lost, or heard.
func (m *asyncCommit) claimed(lost, heard asyncState, db asyncStore, step func(string, asyncState)) {
	m.commit(&lost, db, false)
	step("Claim", lost)
	m.commit(&heard, db, false)
	step("Claim", heard)
}

func (m *asyncCommit) sendCompletion(s asyncState, w, n int, step func(string, asyncState)) {
	r := &s.runs[w-1][n-1]
	if r.phase != asyncRunning {
		return
	}
	r.phase = asyncSent
	step("SendCompletion", s)
}

func (m *asyncCommit) judgeCompletion(s asyncState, w, n int, step func(string, asyncState)) {
	r := &s.runs[w-1][n-1]
	if r.phase != asyncSent && r.phase != asyncOver || r.judged {
		return
	}
	switch {
	case m.guard("together", m.holds(s.db(), w, r)) && m.listed(s.db(), n, r):
		r.judged = true
	case r.phase == asyncSent:
		r.phase = asyncOver
	default:
		return
	}
	step("JudgeCompletion", s)
}

// completeMany is CompleteMany and RefuseCompletion.
func (m *asyncCommit) completeMany(s asyncState, w, n int, step func(string, asyncState)) {
	r := &s.runs[w-1][n-1]
	if !r.judged {
		return
	}
	r.judged = false
	db := *s.db()
	action := "RefuseCompletion"
	if m.holds(&db, w, r) {
		action = "CompleteMany"
		if db.pending(r.id) {
			db.rows[r.id-1] = 0
			db.completed[r.event-1]++
			db.accepted(r)
			m.commit(&s, db, true)
		}
	}
	step(action, s)
	r.hear()
	step(action, s)
}

func (m *asyncCommit) sendBury(s asyncState, w, n int, step func(string, asyncState)) {
	r := &s.runs[w-1][n-1]
	if !m.buries || r.phase != asyncRunning {
		return
	}
	r.phase = asyncFailing
	step("SendBury", s)
}

func (m *asyncCommit) bury(s asyncState, w, n int, step func(string, asyncState)) {
	r := &s.runs[w-1][n-1]
	if r.phase != asyncFailing && r.phase != asyncFailed {
		return
	}
	db := *s.db()
	switch {
	case m.holds(&db, w, r) && m.listed(&db, n, r) && db.pending(r.id):
		db.dead |= 1 << r.id
		if db.inFlight[n-1] == r.id {
			db.inFlight[n-1] = 0
		}
		db.accepted(r)
		m.commit(&s, db, true)
		step("Bury", s)
	case r.phase == asyncFailed:
		return
	}
	r.hear()
	step("Bury", s)
}

func pairBit(caller, holder uint8) uint8 { return 1 << ((caller-1)*2 + holder - 1) }

// restart keeps the first commits of the log and ends every statement.
func (m *asyncCommit) restart(s *asyncState, kept uint8) {
	clear(s.log[kept:])
	s.length, s.durable = kept, kept
	m.keep(s)
	for w := range s.runs {
		s.claims[w] = asyncClaim{}
		for n := range s.runs[w] {
			s.runs[w][n].judged = false
		}
	}
}

func (m *asyncCommit) loseCommit(s asyncState, step func(string, asyncState)) {
	if s.crashes >= m.maxCrashes {
		return
	}
	for kept := s.durable; kept < s.length; kept++ {
		next := s
		next.crashes++
		m.restart(&next, kept)
		step("LoseCommit", next)
	}
}

func (m *asyncCommit) failover(s asyncState, step func(string, asyncState)) {
	if s.failovers >= m.maxFailovers {
		return
	}
	for kept := uint8(1); kept < s.length; kept++ {
		next := s
		next.failovers++
		m.restart(&next, kept)
		step("Failover", next)
	}
}

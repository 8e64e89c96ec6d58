package mirror

import (
	"errors"
	"fmt"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

// The bounds that the arrays below allow.
const (
	lockingDeliveries = 2
	lockingNumbers    = 4
)

// locking is the twin of CompleteVsTakeoverLocking.tla.
type locking struct {
	rules
	maxDeliveries, maxNumber uint8
	transactional, sweeps    bool
}

// lockingLane is the lane as committed. Workers, deliveries and numbers count
// from 1; 0 is none.
type lockingLane struct {
	epoch, holder, claim, rewritten uint8
	inFlight                        [lockingNumbers]uint8 // delivery id, by claim number - 1
}

type lockingCall struct {
	step   lockingStep
	number uint8
	stated [lockingNumbers]uint8 // as inFlight
	seen   uint8                 // bit set of deliveries
}

type lockingStep uint8

const (
	idle lockingStep = iota
	reading
	claiming
	finding
	taking
)

type lockingRun struct {
	phase                lockingPhase
	tx                   lockingTx
	id, epoch, rewritten uint8
	settle               bool
}

type lockingPhase uint8

const (
	noRun lockingPhase = iota
	running
	completing
	committing
	unknown
	settling
	snoozing
	over
)

type lockingTx uint8

const (
	noTx lockingTx = iota
	judged
	shared
	deleted
	gone
	sent
	sentGone
)

type lockingState struct {
	lane                         lockingLane
	rows, swept                  uint8 // bit sets of deliveries
	calls                        [2]lockingCall
	number                       [2]uint8
	runs                         [2][lockingNumbers]lockingRun // by worker - 1, claim number - 1
	completions, effects         [lockingDeliveries]uint8      // by delivery - 1
	intruders, granted, reported uint8                         // the fields of wrong
}

func newLocking(c cfg.Config) (Model[lockingState], error) {
	r := cfg.NewReader(c)
	m := &locking{
		rules:         rules{r.Strings("Without")},
		maxDeliveries: uint8(r.Int("MaxDeliveries")),
		maxNumber:     uint8(r.Int("MaxNumber")),
		transactional: r.Bool("Transactional"),
		sweeps:        r.Bool("Sweeps"),
	}
	err := errors.Join(r.Err(), m.known("update", "lane", "again", "later", "rollback", "itself", "snooze", "rerun", "row", "lost"))
	if m.maxDeliveries > lockingDeliveries || m.maxNumber > lockingNumbers {
		err = errors.Join(err, fmt.Errorf("the twin allows %d deliveries and %d numbers", lockingDeliveries, lockingNumbers))
	}
	return m, err
}

// lockMode is a strength of a row lock.
type lockMode uint8

const (
	noLock lockMode = iota
	keyShare
	noKeyUpdate
	update
)

// conflict is PostgreSQL's table of row-level lock conflicts, for the modes in
// use.
func conflict(a, b lockMode) bool {
	return a != noLock && b != noLock && (a == update || b == update || a == noKeyUpdate && b == noKeyUpdate)
}

func (m *locking) takeOverLocks() lockMode {
	if m.rule("update") {
		return update
	}
	return noKeyUpdate
}

func (m *locking) callLock(s *lockingState, w int) lockMode {
	switch s.calls[w-1].step {
	case claiming:
		return noKeyUpdate
	case taking:
		return m.takeOverLocks()
	}
	return noLock
}

// laneFree reports whether the lane can be locked in this mode by the call of
// worker w, or, with n, by run n of it.
func (m *locking) laneFree(s *lockingState, w, n int, mode lockMode) bool {
	for v := 1; v <= 2; v++ {
		if (v != w || n != 0) && conflict(mode, m.callLock(s, v)) {
			return false
		}
		for i := range s.runs[v-1] {
			r := &s.runs[v-1][i]
			if v == w && i+1 == n {
				continue
			}
			sharing := (r.tx == shared || r.tx == deleted || r.tx == sent) && m.rule("lane")
			if sharing && conflict(mode, keyShare) || r.phase == snoozing && conflict(mode, noKeyUpdate) {
				return false
			}
		}
	}
	return true
}

func (s *lockingState) rowHeld(d uint8) bool {
	for w := range s.runs {
		for _, r := range s.runs[w] {
			if r.id == d && (r.tx == deleted || r.tx == sent) {
				return true
			}
		}
	}
	return false
}

func (s *lockingState) has(d uint8) bool { return s.rows&(1<<d) != 0 }

// good reports whether the lane, as committed, grants run n of worker w.
func (s *lockingState) good(w, n int) bool {
	r := &s.runs[w-1][n-1]
	return s.lane.epoch == r.epoch && int(s.lane.holder) == w && s.lane.inFlight[n-1] == r.id
}

func (r *lockingRun) stated() bool { return r.phase != noRun && r.phase != over }

// end is the operator Over: the run is forgotten unless it has a transaction.
func (r *lockingRun) end() {
	if r.phase = over; r.tx == noTx {
		*r = lockingRun{}
	}
}

func (s *lockingState) statedBy(w int) (entries [lockingNumbers]uint8) {
	for i, r := range s.runs[w-1] {
		if r.stated() {
			entries[i] = r.id
		}
	}
	return entries
}

// accepted notes a change that a run made under another lease than the lane's
// present one.
func (s *lockingState) accepted(w int, r *lockingRun) {
	if r.epoch != s.lane.epoch {
		s.intruders |= pairBit(uint8(w), s.lane.holder)
	}
}

// Init is the operator Init.
func (m *locking) Init(add func(lockingState)) {
	add(lockingState{rows: 1<<(m.maxDeliveries+1) - 2})
}

// Next is the operator Next.
func (m *locking) Next(s lockingState, step func(string, lockingState)) {
	for w := 1; w <= 2; w++ {
		m.claimSnapshot(s, w, step)
		m.claimLock(s, w, step)
		m.claimCommit(s, w, step)
		m.takeOverFind(s, w, step)
		m.takeOverLock(s, w, step)
		m.takeOverCommit(s, w, step)
		m.abortCall(s, w, step)
		m.hearLost(s, w, step)
		for n := 1; n <= int(m.maxNumber); n++ {
			if s.runs[w-1][n-1].phase != noRun {
				m.complete(s, w, n, step)
				m.settle(s, w, n, step)
			}
		}
	}
	m.sweep(s, step)
}

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
	r.rewritten = 0
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
	case s.has(r.id):
		r.tx = deleted
	case m.transactional && !m.rule("itself"):
		r.tx = gone
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
	r.tx, r.rewritten = noTx, 0
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
		end = m.snoozed
	}
	end(s, w, n, func(next lockingState) { step("SnoozeRow", next) })
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

package mirror

import (
	"errors"
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

// The bounds that the arrays below allow.
const (
	snapshotDeliveries = 2
	snapshotNumbers    = 5
)

// snapshot is the twin of CompleteVsTakeoverSnapshot.tla.
type snapshot struct {
	rules
	maxDeliveries, maxNumber uint8
	transactional            bool
}

// snapshotLane is the lane document. Workers, deliveries and numbers count from
// 1; 0 is none.
type snapshotLane struct {
	epoch, holder, claim uint8
	inFlight             [snapshotNumbers]uint8    // delivery id, by claim number - 1
	lost                 [2][snapshotNumbers]uint8 // the same by worker - 1
}

type snapshotClaim struct {
	number, epoch uint8
	stated        [snapshotNumbers]uint8    // as inFlight
	seen          [snapshotDeliveries]uint8 // fence by delivery - 1, 0 for one that is gone
}

type snapshotCharge struct {
	step  snapshotStep
	rows  uint8 // bit set of deliveries
	stale bool
}

// snapshotStep is how far a transaction that writes has come.
type snapshotStep uint8

const (
	notBegun snapshotStep = iota
	begun
	written
)

type snapshotRun struct {
	phase             snapshotPhase
	tx                snapshotTx
	end               snapshotStep
	txStale, endStale bool
	id, epoch, fence  uint8
}

type snapshotPhase uint8

const (
	snapNone snapshotPhase = iota
	snapRunning
	snapCompleting
	snapCommitting
	snapUnknown
	snapEnding
	snapOver
)

type snapshotTx uint8

const (
	txNone snapshotTx = iota
	txOpen
	txDeleted
	txSent
)

type snapshotState struct {
	lane                 snapshotLane
	rows                 uint8 // bit set of deliveries
	fence                [snapshotDeliveries]uint8
	claims               [2]snapshotClaim
	charges              [2]snapshotCharge
	number               [2]uint8
	runs                 [2][snapshotNumbers]snapshotRun // by worker - 1, claim number - 1
	completions, effects [snapshotDeliveries]uint8       // by delivery - 1
	ended                [2]uint8                        // by worker - 1, bit set of numbers
	intruders            uint16                          // the fields of wrong; see intruderBit
	granted              uint8
	twice                bool
}

func newSnapshot(c cfg.Config) (Model[snapshotState], error) {
	r := cfg.NewReader(c)
	m := &snapshot{
		rules:         rules{r.Strings("Without")},
		maxDeliveries: uint8(r.Int("MaxDeliveries")),
		maxNumber:     uint8(r.Int("MaxNumber")),
		transactional: r.Bool("Transactional"),
	}
	err := errors.Join(r.Err(), m.known("rows", "every", "lane", "delivery", "move", "bump", "after", "charged", "stays", "conflict", "fence"))
	if m.maxDeliveries > snapshotDeliveries || m.maxNumber > snapshotNumbers {
		err = errors.Join(err, fmt.Errorf("the twin allows %d deliveries and %d numbers", snapshotDeliveries, snapshotNumbers))
	}
	return m, err
}

func (s *snapshotState) has(d uint8) bool { return s.rows&(1<<d) != 0 }

// good reports whether the lane grants run n of worker w.
func (s *snapshotState) good(w, n int) bool {
	r := &s.runs[w-1][n-1]
	return s.lane.epoch == r.epoch && int(s.lane.holder) == w && s.lane.inFlight[n-1] == r.id
}

func (l *snapshotLane) hasLost() bool { return l.lost != [2][snapshotNumbers]uint8{} }

// chargedRows are the deliveries that a ChargeLost writes.
func (m *snapshot) chargedRows(s *snapshotState) uint8 {
	if !m.rule("rows") {
		return 0
	}
	var rows uint8
	for _, ids := range s.lane.lost {
		for _, id := range ids {
			rows |= 1 << id & s.rows
		}
	}
	if m.rule("every") {
		return rows
	}
	return rows & -rows
}

func (m *snapshot) laneHeld(s *snapshotState) bool {
	if s.charges[0].step == written || s.charges[1].step == written {
		return true
	}
	return m.rule("lane") && s.anyRun(func(r *snapshotRun) bool { return r.end == written })
}

func (m *snapshot) rowHeld(s *snapshotState, d uint8) bool {
	for _, c := range s.charges {
		if c.step == written && c.rows&(1<<d) != 0 {
			return true
		}
	}
	return s.anyRun(func(r *snapshotRun) bool {
		return r.id == d && (r.tx == txDeleted || r.tx == txSent || m.rule("delivery") && r.end == written)
	})
}

func (s *snapshotState) anyRun(so func(*snapshotRun) bool) bool {
	for w := range s.runs {
		for n := range s.runs[w] {
			if so(&s.runs[w][n]) {
				return true
			}
		}
	}
	return false
}

// wrote makes older snapshots stale: the lane, some deliveries were written.
// charged are the rows that a ChargeLost had to write before that.
func (m *snapshot) wrote(s *snapshotState, lane bool, rows, charged uint8) {
	for w := range s.runs {
		for n := range s.runs[w] {
			r := &s.runs[w][n]
			hit := rows&(1<<r.id) != 0
			r.txStale = r.txStale || r.tx == txOpen && hit
			r.endStale = r.endStale || r.end == begun && (m.rule("lane") && lane || m.rule("delivery") && hit)
		}
		c := &s.charges[w]
		c.stale = c.stale || c.step == begun && (lane || rows&charged != 0)
	}
}

func (r *snapshotRun) stated() bool { return r.phase != snapNone && r.phase != snapOver }

// over is the operator Over: the run is forgotten unless it has a transaction.
func (r *snapshotRun) over() {
	if r.phase = snapOver; r.tx == txNone && r.end == notBegun {
		*r = snapshotRun{}
	}
}

// leave ends the run's transactions as given, and forgets a run that is over.
func (r *snapshotRun) leave(tx, end bool) {
	if tx {
		r.tx, r.txStale = txNone, false
	}
	if end {
		r.end, r.endStale = notBegun, false
	}
	if r.phase == snapOver {
		r.over()
	}
}

func (s *snapshotState) statedBy(w int) (entries [snapshotNumbers]uint8) {
	for i, r := range s.runs[w-1] {
		if r.stated() {
			entries[i] = r.id
		}
	}
	return entries
}

func intruderBit(caller int, holder uint8) uint16 { return 1 << ((caller-1)*3 + int(holder)) }

// late reports whether a completion of the run may come behind a takeover.
func (s *snapshotState) late(w, n int) bool {
	id := s.runs[w-1][n-1].id
	return s.lane.lost[w-1][n-1] == id && !slices.Contains(s.lane.inFlight[:], id)
}

// accepted notes an accepted end.
func (s *snapshotState) accepted(w, n int, completed bool) {
	r := &s.runs[w-1][n-1]
	if r.epoch != s.lane.epoch && !(completed && s.late(w, n)) {
		s.intruders |= intruderBit(w, s.lane.holder)
	}
	s.twice = s.twice || s.ended[w-1]&(1<<n) != 0
	s.ended[w-1] |= 1 << n
}

// Init is the operator Init.
func (m *snapshot) Init(add func(snapshotState)) {
	s := snapshotState{rows: 1<<(m.maxDeliveries+1) - 2}
	for d := range m.maxDeliveries {
		s.fence[d] = 1
	}
	add(s)
}

// Next is the operator Next.
func (m *snapshot) Next(s snapshotState, step func(string, snapshotState)) {
	for w := 1; w <= 2; w++ {
		m.takeOver(s, w, step)
		m.claimRead(s, w, step)
		m.claim(s, w, step)
		m.relinquish(s, w, step)
		m.hearLost(s, w, step)
		m.charge(s, w, step)
		for n := 1; n <= int(m.maxNumber); n++ {
			if s.runs[w-1][n-1].phase != snapNone {
				m.complete(s, w, n, step)
				m.completeMany(s, w, n, step)
				m.finish(s, w, n, step)
			}
		}
	}
}

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

func (m *snapshot) completeMany(s snapshotState, w, n int, step func(string, snapshotState)) {
	r := &s.runs[w-1][n-1]
	if m.transactional || r.phase != snapRunning && r.phase != snapCompleting {
		return
	}
	if !s.has(r.id) || !m.guard("fence", s.fence[r.id-1] == r.fence) {
		*r = snapshotRun{}
		step("CompleteMany", s)
		return
	}
	if m.rowHeld(&s, r.id) {
		return
	}
	m.removed(&s, w, n)
	r.phase = snapCompleting
	step("CompleteMany", s)
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
		r.phase = snapEnding
		step("Settle", s)
	case r.phase == snapEnding && r.end == notBegun:
		m.rescheduleBegin(s, w, n, step)
	case r.end == begun:
		m.rescheduleWrite(s, w, n, step)
	case r.end == written:
		m.reschedule(s, w, n, step)
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
		if s.has(r.id) {
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

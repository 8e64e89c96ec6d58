package mirror

import (
	"slices"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

// The bounds that the arrays below allow.
const (
	snapshotDeliveries = 2
	snapshotNumbers    = 5
)

// snapshot is the twin of CompleteVsTakeoverSnapshot.tla.
type snapshot struct{ completeVsTakeover }

// snapshotLane is the lane document; 0 is none.
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
	txCopy
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
	both, err := readCompleteVsTakeover(cfg.NewReader(c), snapshotDeliveries, snapshotNumbers,
		"rows", "every", "lane", "delivery", "move", "bump", "after", "charged", "stays", "conflict", "fence", "raise", "snooze")
	return &snapshot{both}, err
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
	s := snapshotState{rows: m.deliveries()}
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

package mirror

import "github.com/relaybus-go/relaybus/spec/cfg"

// The bounds that the arrays below allow.
const (
	lockingDeliveries = 2
	lockingNumbers    = 4
)

// locking is the twin of CompleteVsTakeoverLocking.tla.
type locking struct {
	completeVsTakeover
	sweeps bool
}

// lockingLane is the lane as committed; 0 is none.
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
	written, settle      bool
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
	sweeps := r.Bool("Sweeps")
	both, err := readCompleteVsTakeover(r, lockingDeliveries, lockingNumbers,
		"update", "lane", "again", "later", "rollback", "itself", "snooze", "rerun", "row", "lost", "meanwhile")
	return &locking{both, sweeps}, err
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
	add(lockingState{rows: m.deliveries()})
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

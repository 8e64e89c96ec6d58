package mirror

import (
	"errors"
	"fmt"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

// The bounds that the arrays below allow.
const (
	asyncEvents  = 2
	asyncNumbers = 4
	asyncCommits = 1 + 2*asyncEvents + 2*asyncNumbers
)

// asyncCommit is the twin of AsyncCommit.tla.
type asyncCommit struct {
	rules
	maxEvents, maxNumber     uint8
	maxCrashes, maxFailovers uint8
	asyncPublish             bool
}

// reign names what one TakeOver begins: its holder in the upper four bits, its
// number in the lower.
type reign uint8

func reignOf(holder, number uint8) reign { return reign(holder<<4 | number) }

func (r reign) holder() uint8 { return uint8(r) >> 4 }

// asyncStore is what the store holds after one commit. Workers, events,
// delivery ids and claim numbers count from 1; 0 is none.
type asyncStore struct {
	epoch, holder, claim uint8
	inFlight             [asyncNumbers]uint8 // delivery id, by claim number - 1
	lastID               uint8
	rows                 [asyncEvents]uint8 // event, by delivery id - 1
	committed            uint8              // bit set of events
	completed            [asyncEvents]uint8 // by event - 1
	reign                reign
	intruders            uint8 // bit set of pairs of holders, see pairBit
}

// asyncRun is a lease in its worker's hands.
type asyncRun struct {
	phase            asyncPhase
	judged           bool
	id, event, epoch uint8
	reign            reign
}

type asyncPhase uint8

const (
	asyncNone asyncPhase = iota // no such run
	asyncRunning
	asyncSent
	asyncOver
)

type asyncState struct {
	log                [asyncCommits]asyncStore
	length, durable    uint8
	published          uint8
	number             [2]uint8
	runs               [2][asyncNumbers]asyncRun // by worker - 1, claim number - 1
	crashes, failovers uint8
}

func newAsyncCommit(c cfg.Config) (Model[asyncState], error) {
	r := cfg.NewReader(c)
	m := &asyncCommit{
		rules:        rules{r.Strings("Without")},
		maxEvents:    uint8(r.Int("MaxEvents")),
		maxNumber:    uint8(r.Int("MaxNumber")),
		maxCrashes:   uint8(r.Int("MaxCrashes")),
		maxFailovers: uint8(r.Int("MaxFailovers")),
		asyncPublish: r.Bool("AsyncPublish"),
	}
	err := errors.Join(r.Err(), m.known("epoch", "holder", "claim", "keep", "together"))
	if m.maxEvents > asyncEvents || m.maxNumber > asyncNumbers {
		err = errors.Join(err, fmt.Errorf("the twin allows %d events and %d numbers", asyncEvents, asyncNumbers))
	}
	return m, err
}

func (s *asyncState) db() *asyncStore { return &s.log[s.length-1] }

// keep forgets what cannot come back: the operator Keep.
func (m *asyncCommit) keep(s *asyncState) {
	first := s.length - 1
	if s.failovers < m.maxFailovers {
		first = 0
	} else if s.crashes < m.maxCrashes {
		first = s.durable - 1
	}
	n := copy(s.log[:], s.log[first:s.length])
	clear(s.log[n:])
	s.length = uint8(n)
	s.durable = max(s.durable, first+1) - first
}

// commit makes db the store's newest state.
func (m *asyncCommit) commit(s *asyncState, db asyncStore, sync bool) {
	s.log[s.length] = db
	s.length++
	if sync {
		s.durable = s.length
	}
	m.keep(s)
}

// stated reports whether the worker says that it still runs r.
func (r *asyncRun) stated() bool { return r.phase == asyncRunning || r.phase == asyncSent }

// hear tells the worker that the run is over.
func (r *asyncRun) hear() {
	switch r.phase {
	case asyncRunning:
		*r = asyncRun{}
	case asyncSent:
		r.phase = asyncOver
	}
}

func (m *asyncCommit) holds(db *asyncStore, w int, r *asyncRun) bool {
	return m.guard("epoch", db.epoch == r.epoch) && m.guard("holder", int(db.holder) == w)
}

func (m *asyncCommit) listed(db *asyncStore, n int, r *asyncRun) bool {
	if m.rule("claim") {
		return db.inFlight[n-1] == r.id
	}
	for _, id := range db.inFlight {
		if id == r.id {
			return true
		}
	}
	return false
}

// Init is the operator Init.
func (m *asyncCommit) Init(add func(asyncState)) {
	add(asyncState{length: 1, durable: 1})
}

// Next is the operator Next.
func (m *asyncCommit) Next(s asyncState, step func(string, asyncState)) {
	m.publish(s, step)
	for w := 1; w <= 2; w++ {
		m.takeOver(s, w, step)
		m.claim(s, w, step)
		for n := 1; n <= asyncNumbers; n++ {
			m.sendCompletion(s, w, n, step)
			m.judgeCompletion(s, w, n, step)
			m.completeMany(s, w, n, step)
		}
	}
	m.loseCommit(s, step)
	m.failover(s, step)
}

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
	if int(db.holder) == w || s.number[w-1] >= m.maxNumber {
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

func (m *asyncCommit) claim(s asyncState, w int, step func(string, asyncState)) {
	db := *s.db()
	if int(db.holder) != w || s.number[w-1] >= m.maxNumber || s.number[w-1]+1 <= db.claim {
		return
	}
	s.number[w-1]++
	n := s.number[w-1]
	heard := s
	var runningIDs uint8
	for i := range s.runs[w-1] {
		r := &s.runs[w-1][i]
		if r.stated() {
			runningIDs |= 1 << r.id
		}
		switch {
		case !r.stated():
			db.inFlight[i] = 0
		case !m.rule("keep"):
			db.inFlight[i] = r.id
		case db.inFlight[i] != r.id:
			db.inFlight[i] = 0
			heard.runs[w-1][i].hear()
		}
	}
	db.claim = n
	m.claimed(s, heard, db, step)
	for id := uint8(1); id <= m.maxEvents; id++ {
		event := db.rows[id-1]
		if event == 0 || runningIDs&(1<<id) != 0 {
			continue
		}
		picked, granted := db, heard
		picked.inFlight[n-1] = id
		granted.runs[w-1][n-1] = asyncRun{phase: asyncRunning, id: id, event: event, epoch: db.epoch, reign: db.reign}
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
		if db.rows[r.id-1] != 0 {
			db.rows[r.id-1] = 0
			db.completed[r.event-1]++
			if r.reign != db.reign {
				db.intruders |= pairBit(r.reign.holder(), db.reign.holder())
			}
			m.commit(&s, db, true)
		}
	}
	step(action, s)
	r.hear()
	step(action, s)
}

func pairBit(caller, holder uint8) uint8 { return 1 << ((caller-1)*2 + holder - 1) }

// restart keeps the first commits of the log and ends every statement.
func (m *asyncCommit) restart(s *asyncState, kept uint8) {
	clear(s.log[kept:])
	s.length, s.durable = kept, kept
	m.keep(s)
	for w := range s.runs {
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

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
	asyncPublish, buries     bool
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
	dead, revived        uint8              // bit sets of delivery ids
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
	asyncFailing
	asyncFailed
)

// asyncClaim is a claim whose statement has begun.
type asyncClaim struct {
	number, epoch uint8
	stated, list  [asyncNumbers]uint8 // as inFlight
	seen          [asyncEvents]uint8  // as rows
}

type asyncState struct {
	log                [asyncCommits]asyncStore
	length, durable    uint8
	published          uint8
	number             [2]uint8
	runs               [2][asyncNumbers]asyncRun // by worker - 1, claim number - 1
	claims             [2]asyncClaim
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
		buries:       r.Bool("Buries"),
	}
	err := errors.Join(r.Err(), m.known("epoch", "holder", "claim", "keep", "together", "same"))
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
func (r *asyncRun) stated() bool {
	return r.phase == asyncRunning || r.phase == asyncSent || r.phase == asyncFailing
}

// hear tells the worker that the run is over.
func (r *asyncRun) hear() {
	switch r.phase {
	case asyncRunning:
		*r = asyncRun{}
	case asyncSent:
		r.phase = asyncOver
	case asyncFailing:
		r.phase = asyncFailed
	}
}

// pending reports whether there is a row of that id, and not dead.
func (db *asyncStore) pending(id uint8) bool { return db.rows[id-1] != 0 && db.dead&(1<<id) == 0 }

// accepted notes an accepted call of a run that another reign has granted.
func (db *asyncStore) accepted(r *asyncRun) {
	if r.reign != db.reign {
		db.intruders |= pairBit(r.reign.holder(), db.reign.holder())
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
		m.claimSnapshot(s, w, step)
		m.claim(s, w, step)
		for n := 1; n <= asyncNumbers; n++ {
			m.sendCompletion(s, w, n, step)
			m.judgeCompletion(s, w, n, step)
			m.completeMany(s, w, n, step)
			m.sendBury(s, w, n, step)
			m.bury(s, w, n, step)
		}
	}
	m.loseCommit(s, step)
	m.failover(s, step)
}

package simstore

import (
	"math"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// database is the multi-version core: tables, open transactions, and the log
// of commits.
type database struct {
	semantics protocol.Semantics
	sched     Scheduler
	observer  Observer
	locked    func(*Tx, *rowLock, strength) // a test hears of each lock taken

	events        *table[string, protocol.Event]
	deliveries    *table[protocol.DeliveryID, protocol.Delivery]
	lanes         *table[protocol.LaneID, protocol.Lane]
	slots         *table[int32, int64]
	subscriptions *table[protocol.EventHandler, protocol.Subscription]
	groups        *table[string, int32]
	counters      *table[string, int64]
	history       *table[int64, Completion]
	user          *table[userKey, []byte]

	index deliveryIndex
	subs  subscriptionIndex

	// pos is the position of the last commit, durable that of the last one a
	// crash of the store cannot lose. log holds what undoes the commits after
	// forgotten, in order.
	pos, durable, forgotten int64
	log                     []logged
	keepLog                 bool

	sequence sequence
	drawn    sequence  // what sequence was at the commit forgotten
	open     []*Tx     // in order of their beginning
	timed    int       // how many of them have a deadline
	garbage  []garbage // rows with versions that some snapshot may still need
	crashes  int64     // counts Crash, so that calls notice one
	begun    int64
}

// logged undoes one commit.
type logged struct {
	undos    []undo
	sequence sequence // as it was after the commit
}

// garbage is a row to prune once every snapshot has reached pos.
type garbage struct {
	pos int64
	row written
}

// commit makes the writes of t one commit and returns its position.
func (db *database) commit(t *Tx, durable bool) int64 {
	db.pos++
	if durable {
		db.durable = db.pos
	}
	entry := logged{sequence: db.sequence, undos: make([]undo, 0, len(t.writes))}
	for _, r := range t.writes {
		if u := r.commit(t, db.pos); u != nil {
			entry.undos = append(entry.undos, u)
		}
	}
	db.log = append(db.log, entry)
	if !db.keepLog {
		db.forget(db.durable)
	}
	oldest := db.oldestSnapshot()
	for _, r := range t.writes {
		if db.pos <= oldest {
			r.prune(oldest)
		} else {
			db.garbage = append(db.garbage, garbage{db.pos, r})
		}
	}
	return db.pos
}

// forget drops the undo records of the commits up to pos: no crash will take
// them back any more.
func (db *database) forget(pos int64) {
	drop := min(pos-db.forgotten, int64(len(db.log)))
	if drop <= 0 {
		return
	}
	rest := len(db.log) - int(drop)
	db.drawn = db.log[drop-1].sequence
	copy(db.log, db.log[drop:])
	clear(db.log[rest:])
	db.log = db.log[:rest]
	db.forgotten += drop
}

// crash takes back every commit after keep.
func (db *database) crash(keep int64) {
	db.crashes++
	for len(db.open) > 0 {
		db.open[len(db.open)-1].end(ErrConnectionLost)
	}
	db.collect()
	keep = min(max(keep, db.forgotten), db.pos)
	if db.semantics == protocol.Snapshot {
		keep = max(keep, db.durable)
	}
	for db.pos > keep {
		last := &db.log[len(db.log)-1]
		for i := len(last.undos) - 1; i >= 0; i-- {
			last.undos[i].revert()
		}
		*last = logged{}
		db.log = db.log[:len(db.log)-1]
		db.pos--
	}
	db.durable = db.pos
	db.sequence = db.drawn
	if len(db.log) > 0 {
		db.sequence = db.log[len(db.log)-1].sequence
	}
	db.sched.Wake()
}

// oldestSnapshot returns the oldest position that an open transaction or
// statement still reads at.
func (db *database) oldestSnapshot() int64 {
	oldest := int64(math.MaxInt64)
	for _, t := range db.open {
		if t.reading {
			oldest = min(oldest, t.snap)
		}
	}
	return oldest
}

// collect prunes the rows whose old versions nobody needs any more.
func (db *database) collect() {
	if len(db.garbage) == 0 {
		return
	}
	oldest := db.oldestSnapshot()
	n := 0
	for n < len(db.garbage) && db.garbage[n].pos <= oldest {
		db.garbage[n].row.prune(oldest)
		n++
	}
	if n > 0 {
		rest := copy(db.garbage, db.garbage[n:])
		clear(db.garbage[rest:])
		db.garbage = db.garbage[:rest]
	}
}

// expire ends the transactions whose deadline has passed. Nobody is woken for
// it: whoever looks next notices, which nobody can tell from the moment itself.
func (db *database) expire() {
	if db.timed == 0 {
		return
	}
	now := db.sched.Now()
	for i := 0; i < len(db.open); {
		t := db.open[i]
		if d := t.deadline(); d != 0 && now >= d {
			timedOut.Hit()
			t.end(ErrIdleTimeout)
			continue // end took t out of open
		}
		i++
	}
}

// nextDeadline returns the earliest deadline of an open transaction, 0 for
// none.
func (db *database) nextDeadline() protocol.Time {
	var next protocol.Time
	if db.timed == 0 {
		return next
	}
	for _, t := range db.open {
		if d := t.deadline(); d != 0 && (next == 0 || d < next) {
			next = d
		}
	}
	return next
}

// emit tells the observer of a commit, or of evaluated calls at position 0.
func (db *database) emit(c Committed) {
	if db.observer != nil && (c.Position > 0 || len(c.Actions) > 0) {
		db.observer(c)
	}
}

// evaluated tells the observer of a call that changed nothing but returned a
// verdict.
func (db *database) evaluated(actions ...protocol.Action) {
	db.emit(Committed{Actions: actions})
}

// seenAt returns what an action's Seen says of a snapshot: 0 when it is the
// state right before the commit at pos.
func seenAt(snap, pos int64) int64 {
	if snap < pos-1 {
		return snap
	}
	return 0
}

// sequence draws delivery ids. As in both real stores it is not undone by a
// rollback; a crash goes back to what the surviving prefix says, so that ids
// are issued again.
type sequence struct {
	next    protocol.DeliveryID    // ids up to here are drawn, or in a block
	blocks  [2]protocol.DeliveryID // Snapshot: the next id of each client's block
	left    [2]int32
	history int64 // keys of the completion history
}

// idBlock is how many ids a client of a Snapshot store takes at once. It is
// small so that short runs meet ids that are not in commit order.
const idBlock = 8

// draw returns the next id of a locking store's sequence.
func (s *sequence) draw() protocol.DeliveryID {
	s.next++
	return s.next
}

// drawFrom returns the next id of a client's block. Clients of a Snapshot
// store hold a block each, so that id order is not commit order.
func (s *sequence) drawFrom(client int) protocol.DeliveryID {
	if s.left[client] == 0 {
		s.blocks[client], s.left[client] = s.next+1, idBlock
		s.next += idBlock
	}
	id := s.blocks[client]
	s.blocks[client]++
	s.left[client]--
	return id
}

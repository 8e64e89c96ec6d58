package simstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Isolation is how isolated a transaction of a locking store is. A Snapshot
// store's transactions always read one snapshot.
type Isolation uint8

// The isolation levels.
const (
	// ReadCommitted: each statement has a snapshot of its own; a target row
	// that changed since is read again.
	ReadCommitted Isolation = iota
	// RepeatableRead: one snapshot, taken by the first statement; a target row
	// that changed since is an error.
	RepeatableRead
	// Serializable equals RepeatableRead here: anomalies that only predicate
	// locks prevent (write skew) are not detected.
	Serializable
)

// Tx is a transaction. It belongs to one caller at a time.
type Tx struct {
	store     *Store
	db        *database
	id        int64
	call      string // the Call of its Points
	isolation Isolation

	now     protocol.Time // at its first statement; 0 before
	snap    int64         // the position it reads at, while reading
	reading bool

	writes  []written
	locks   []taken
	actions []protocol.Action
	seen    []int64 // per action: the position its verdict or picks were read at
	// beforeCommit notes actions that can be described only at the commit.
	beforeCommit func()

	// err is set when the transaction is over: what its statements answer.
	err      error
	finished bool
	crashes  int64

	waitsFor    *rowLock
	waitMode    strength
	lockTimeout time.Duration

	timed       bool
	idleTimeout time.Duration
	idleSince   protocol.Time // 0 while a statement runs
	lifeEnds    protocol.Time // 0: no limit
}

// begin opens a transaction. It costs nothing at the store until its first
// statement.
func (s *Store) begin(call string, isolation Isolation) *Tx {
	db := &s.db
	db.begun++
	t := &Tx{store: s, db: db, id: db.begun, call: call, isolation: isolation, crashes: db.crashes}
	db.open = append(db.open, t)
	return t
}

// oneSnapshot reports whether the whole transaction reads one snapshot.
func (t *Tx) oneSnapshot() bool {
	return t.db.semantics == protocol.Snapshot || t.isolation != ReadCommitted
}

// stmt is one statement of a transaction: what it reads is the snapshot snap,
// except for target rows that it locks.
type stmt struct {
	ctx  context.Context
	tx   *Tx
	step string
	snap int64
}

// statement begins the next statement: it lets others run, and then takes the
// statement's snapshot.
func (t *Tx) statement(ctx context.Context, step string) (stmt, error) {
	return t.statementAt(ctx, Point{Call: t.call, Step: step})
}

// statementAt is statement with a point that names the one row it is about.
func (t *Tx) statementAt(ctx context.Context, p Point) (stmt, error) {
	if !t.oneSnapshot() {
		t.reading = false
	}
	t.idleSince = 0
	if err := t.pause(ctx, p); err != nil {
		return stmt{}, err
	}
	if t.now == 0 {
		t.now = t.db.sched.Now()
		if t.db.semantics == protocol.Snapshot {
			t.lifeEnds = t.now.Add(transactionLifetime)
			t.watch()
		}
	}
	if !t.reading {
		t.snap, t.reading = t.db.pos, true
	}
	return stmt{ctx: ctx, tx: t, step: p.Step, snap: t.snap}, nil
}

// transactionLifetime is MongoDB's transactionLifetimeLimitSeconds.
const transactionLifetime = 60 * time.Second

// rest marks the end of a statement of a caller's transaction: from here on it
// is idle.
func (t *Tx) rest() {
	if t.finished {
		return
	}
	if !t.oneSnapshot() && t.reading {
		t.reading = false
		t.db.collect()
	}
	if t.idleTimeout > 0 {
		t.idleSince = t.db.sched.Now()
	}
}

// pause lets others run.
func (t *Tx) pause(ctx context.Context, p Point) error {
	if t.err != nil {
		return t.err
	}
	err := t.db.sched.Pause(ctx, p)
	t.db.expire()
	if t.err != nil {
		return t.err
	}
	return err
}

// pause lets others run within a statement, whose snapshot stays.
func (st *stmt) pause(step string) error {
	return st.tx.pause(st.ctx, Point{Call: st.tx.call, Step: step})
}

// pauseAt lets others run before the statement writes one row.
func (st *stmt) pauseAt(step string, lane protocol.LaneID, id protocol.DeliveryID) error {
	return st.tx.pause(st.ctx, Point{Call: st.tx.call, Step: step, Lane: lane, Delivery: id})
}

// clock is the store's time now, after any waiting.
func (st *stmt) clock() protocol.Time { return st.tx.db.sched.Now() }

// waitAtMost sets a local lock timeout, never above one that is set already,
// and returns what takes it back.
func (t *Tx) waitAtMost(d time.Duration) (restore func()) {
	before := t.lockTimeout
	if before == 0 || d < before {
		t.lockTimeout = d
	}
	return func() { t.lockTimeout = before }
}

// allowIdle sets a local idle-in-transaction timeout, never above one that is
// set already.
func (t *Tx) allowIdle(d time.Duration) {
	if d <= 0 || t.idleTimeout > 0 && t.idleTimeout <= d {
		return
	}
	t.idleTimeout = d
	t.watch()
}

func (t *Tx) watch() {
	if !t.timed {
		t.timed = true
		t.db.timed++
	}
}

// deadline is when the store ends the transaction on its own; 0: never.
func (t *Tx) deadline() protocol.Time {
	var idle protocol.Time
	if t.idleTimeout > 0 && t.idleSince != 0 {
		idle = t.idleSince.Add(t.idleTimeout)
	}
	return earliest(t.lifeEnds, idle)
}

// note records an action of the transaction, whose picks or verdicts were read
// at position snap.
func (t *Tx) note(a protocol.Action, snap int64) {
	t.actions = append(t.actions, a)
	t.seen = append(t.seen, snap)
}

// savepoint is a state of a transaction to return to.
type savepoint struct{ writes, locks, actions int }

func (t *Tx) savepoint() savepoint {
	return savepoint{len(t.writes), len(t.locks), len(t.actions)}
}

// rollbackTo undoes the writes after the savepoint and gives the locks taken
// since back.
func (t *Tx) rollbackTo(s savepoint) {
	for i := len(t.writes) - 1; i >= s.writes; i-- {
		t.writes[i].undoWrite(t)
	}
	released := len(t.locks) > s.locks
	for i := len(t.locks) - 1; i >= s.locks; i-- {
		t.locks[i].lock.set(t, t.locks[i].before)
	}
	t.writes, t.locks = t.writes[:s.writes], t.locks[:s.locks]
	t.actions, t.seen = t.actions[:s.actions], t.seen[:s.actions]
	if released {
		t.db.sched.Wake()
	}
}

// commit lets others run once more and then makes the writes permanent; async
// commits are acknowledged before a crash of the store would spare them.
func (t *Tx) commit(ctx context.Context, async bool) error {
	if err := t.pause(ctx, Point{Call: t.call, Step: "commit"}); err != nil {
		return err
	}
	t.commitNow(async)
	return nil
}

// commitNow is commit without an interruption before it.
func (t *Tx) commitNow(async bool) {
	if t.beforeCommit != nil {
		t.beforeCommit()
	}
	db, c := t.db, Committed{Actions: t.actions}
	last := db.pos
	if len(t.writes) > 0 {
		c.Position, c.Async = db.commit(t, !async), async
	}
	for i, snap := range t.seen {
		if snap < last {
			c.Actions[i] = withSeen(c.Actions[i], snap)
		}
	}
	t.finish(engine.ErrTxDone)
	db.emit(c)
}

// end rolls the transaction back; what its statements answer from now on is
// err.
func (t *Tx) end(err error) {
	if t.finished {
		return
	}
	for i := len(t.writes) - 1; i >= 0; i-- {
		t.writes[i].undoWrite(t)
	}
	t.finish(err)
}

// finish releases what a transaction held.
func (t *Tx) finish(err error) {
	db := t.db
	t.finished, t.err, t.reading = true, err, false
	for i := len(t.locks) - 1; i >= 0; i-- {
		t.locks[i].lock.set(t, unlocked)
	}
	for i, o := range db.open {
		if o == t {
			db.open = append(db.open[:i], db.open[i+1:]...)
			break
		}
	}
	if t.timed {
		db.timed--
	}
	if len(t.locks) > 0 {
		db.sched.Wake()
	}
	t.writes, t.locks, t.actions, t.seen = nil, nil, nil, nil
	db.collect()
}

// withSeen returns the action with its Seen set.
func withSeen(a protocol.Action, snap int64) protocol.Action {
	switch a := a.(type) {
	case protocol.Claim:
		a.Seen = snap
		return a
	case protocol.CompleteMany:
		a.Seen = snap
		return a
	case protocol.Reschedule:
		a.Seen = snap
		return a
	case protocol.Snooze:
		a.Seen = snap
		return a
	case protocol.Bury:
		a.Seen = snap
		return a
	case protocol.Release:
		a.Seen = snap
		return a
	}
	return a
}

// Begin opens a READ COMMITTED (or snapshot) transaction for the caller, who
// must end it with Commit or Rollback.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	return s.BeginTx(ctx, ReadCommitted)
}

// BeginTx is Begin with an isolation level. In a Snapshot store every
// transaction reads one snapshot, whatever the level.
func (s *Store) BeginTx(ctx context.Context, isolation Isolation) (*Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.db.sched.Enter()
	defer s.db.sched.Leave()
	t := s.begin("Tx", isolation)
	t.allowIdle(s.options.IdleTimeout)
	t.rest()
	return t, nil
}

// Commit makes the transaction's writes permanent. The error wraps
// [engine.ErrCommitUnknown] when COMMIT was sent and its outcome is not known;
// any other error means that nothing was committed.
func (t *Tx) Commit(ctx context.Context) error {
	t.db.sched.Enter()
	defer t.db.sched.Leave()
	if t.err != nil {
		return commitError(t.err)
	}
	t.idleSince = 0
	if err := t.commit(ctx, false); err != nil {
		t.end(brokenOff(err))
		return commitError(err)
	}
	if err := t.store.reply(ctx, t.call, t.crashes); err != nil {
		return commitError(err)
	}
	return nil
}

// commitError classifies what interrupted a COMMIT.
func commitError(err error) error {
	var broken *brokenTx
	if errors.Is(err, engine.ErrRetryable) || engine.IsDefinite(err) ||
		errors.Is(err, engine.ErrTxDone) || errors.As(err, &broken) {
		return err
	}
	return fmt.Errorf("simstore: %w: %w", engine.ErrCommitUnknown, err)
}

// Rollback undoes the transaction. After Commit or Rollback it does nothing
// and returns [engine.ErrTxDone].
func (t *Tx) Rollback() error {
	t.db.sched.Enter()
	defer t.db.sched.Leave()
	if errors.Is(t.err, engine.ErrTxDone) {
		return t.err
	}
	t.end(engine.ErrTxDone)
	t.err = engine.ErrTxDone
	return nil
}

// ID returns a number that tells the store's transactions apart.
func (t *Tx) ID() int64 { return t.id }

// run performs a statement of the caller's transaction. An error ends the
// transaction, as in PostgreSQL without a savepoint and in MongoDB always.
func (t *Tx) run(body func() error) error {
	t.db.sched.Enter()
	defer t.db.sched.Leave()
	t.db.expire()
	if t.err != nil {
		return t.err
	}
	defer t.rest()
	err := body()
	if err != nil {
		t.end(brokenOff(err))
	}
	return err
}

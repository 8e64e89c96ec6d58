package simstore

import (
	"context"
	"errors"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// strength is how strongly a row is locked.
type strength uint8

// The strengths, weakest first, as PostgreSQL names them. FOR SHARE is left
// out: nothing in the protocol takes it.
const (
	unlocked strength = iota
	forKeyShare
	forNoKeyUpdate // what an UPDATE of no key column takes
	forUpdate      // what a DELETE takes
)

// conflicting is PostgreSQL's table of row-level lock conflicts.
var conflicting = [4][4]bool{
	forKeyShare:    {forUpdate: true},
	forNoKeyUpdate: {forNoKeyUpdate: true, forUpdate: true},
	forUpdate:      {forKeyShare: true, forNoKeyUpdate: true, forUpdate: true},
}

// patience says what to do when a lock is not free.
type patience uint8

const (
	wait patience = iota
	skipLocked
	noWait
)

// rowLock is the lock of one row: who holds it, and how strongly.
type rowLock struct {
	holds []hold
}

type hold struct {
	tx   *Tx
	mode strength
}

// taken remembers a lock that a transaction took, and what it held before, so
// that a savepoint can give it back.
type taken struct {
	lock   *rowLock
	before strength
}

// heldBy returns how strongly t holds the lock.
func (l *rowLock) heldBy(t *Tx) strength {
	for _, h := range l.holds {
		if h.tx == t {
			return h.mode
		}
	}
	return unlocked
}

// free reports whether t may hold the lock in this mode now.
func (l *rowLock) free(t *Tx, mode strength) bool {
	for _, h := range l.holds {
		if h.tx != t && conflicting[mode][h.mode] {
			return false
		}
	}
	return true
}

// set makes t hold the lock in this mode; unlocked takes its hold away.
func (l *rowLock) set(t *Tx, mode strength) {
	for i := range l.holds {
		if l.holds[i].tx != t {
			continue
		}
		if mode == unlocked {
			l.holds = append(l.holds[:i], l.holds[i+1:]...)
		} else {
			l.holds[i].mode = mode
		}
		return
	}
	if mode != unlocked {
		l.holds = append(l.holds, hold{t, mode})
	}
}

// tryLock takes the lock if nobody stands in the way.
func (t *Tx) tryLock(l *rowLock, mode strength) bool {
	held := l.heldBy(t)
	if held >= mode {
		return true
	}
	if !l.free(t, mode) {
		return false
	}
	l.set(t, mode)
	t.locks = append(t.locks, taken{l, held})
	if t.db.locked != nil {
		t.db.locked(t, l, mode)
	}
	return true
}

// acquire takes the lock, waiting as patience says.
func (t *Tx) acquire(ctx context.Context, l *rowLock, mode strength, p patience, at Point) error {
	var give protocol.Time // when to give up
	for !t.tryLock(l, mode) {
		if p != wait {
			return errRowLocked
		}
		if give == 0 && t.lockTimeout > 0 {
			give = t.db.sched.Now().Add(t.lockTimeout)
		}
		if err := t.await(ctx, l, mode, give, at); err != nil {
			return err
		}
	}
	return t.err
}

// await blocks until somebody released locks, or fails. A lock timeout at
// give, deadlocks, and the end of the transaction meanwhile are errors.
func (t *Tx) await(ctx context.Context, l *rowLock, mode strength, give protocol.Time, at Point) error {
	db := t.db
	db.expire()
	if t.err != nil || l.free(t, mode) {
		return t.err
	}
	t.waitsFor, t.waitMode = l, mode
	defer func() { t.waitsFor = nil }()
	if t.inCircle(t, 0) {
		deadlocks.Hit()
		return ErrDeadlock
	}
	err := db.sched.Block(ctx, at, earliest(give, db.nextDeadline()))
	if t.err != nil {
		return t.err
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		if db.expire(); give != 0 && db.sched.Now() >= give {
			lockTimeouts.Hit()
			return ErrLockTimeout
		}
		return nil
	}
	return err
}

// inCircle reports whether from, which holds a lock somebody waits for, itself
// waits for something that goal holds.
func (from *Tx) inCircle(goal *Tx, depth int) bool {
	if from.waitsFor == nil || depth > len(goal.db.open) {
		return false
	}
	for _, h := range from.waitsFor.holds {
		if h.tx == from || !conflicting[from.waitMode][h.mode] {
			continue
		}
		if h.tx == goal || h.tx.inCircle(goal, depth+1) {
			return true
		}
	}
	return false
}

// earliest returns the smaller of two optional times.
func earliest(a, b protocol.Time) protocol.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// lockTimeoutOf is the lock timeout of ending statements and takeovers: a
// tenth of the lease.
func lockTimeoutOf(ttl time.Duration) time.Duration { return max(ttl/10, time.Millisecond) }

package simstore

import (
	"errors"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
)

// Errors after which nothing was applied; all wrap [engine.ErrRetryable].
var (
	// ErrSerialization: under REPEATABLE READ or SERIALIZABLE, a row changed
	// after the transaction's snapshot (PostgreSQL's 40001).
	ErrSerialization = fmt.Errorf("simstore: could not serialize access: %w", engine.ErrRetryable)
	// ErrDeadlock: waiting would have closed a circle of transactions
	// (PostgreSQL's 40P01).
	ErrDeadlock = fmt.Errorf("simstore: deadlock detected: %w", engine.ErrRetryable)
	// ErrLockTimeout: a lock was not granted within the transaction's lock
	// timeout (PostgreSQL's 55P03).
	ErrLockTimeout = fmt.Errorf("simstore: lock timeout: %w", engine.ErrRetryable)
	// ErrWriteConflict: another transaction updated the row first (MongoDB's
	// code 112).
	ErrWriteConflict = fmt.Errorf("simstore: write conflict: %w", engine.ErrRetryable)
	// ErrTooLate: the call was served after its NotAfter and changed nothing.
	ErrTooLate = fmt.Errorf("simstore: %w", engine.ErrTooLate)
)

// Errors after which a transaction is over.
var (
	// ErrConnectionLost: the store crashed or failed over under the call. What
	// was not committed is gone; whether a COMMIT on its way took effect is
	// not known.
	ErrConnectionLost = errors.New("simstore: connection lost")
	// ErrIdleTimeout: the transaction was left alone for longer than its idle
	// timeout, or outlived the store's limit, and was rolled back.
	ErrIdleTimeout = errors.New("simstore: transaction timed out and was rolled back")
)

// errRowLocked is the answer of SKIP LOCKED and NOWAIT.
var errRowLocked = fmt.Errorf("simstore: row is locked: %w", engine.ErrRetryable)

// brokenTx is what statements of a transaction answer after it was rolled back:
// by an error of an earlier statement, or because its context ended.
type brokenTx struct{ cause error }

func (e *brokenTx) Error() string {
	return "simstore: the transaction was rolled back before: " + e.cause.Error()
}

func (e *brokenTx) Unwrap() error { return e.cause }

func brokenOff(cause error) error { return &brokenTx{cause} }

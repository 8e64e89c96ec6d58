package engine

import (
	"errors"
	"fmt"
)

var (
	// ErrRetryable marks an error after which nothing was applied and the
	// same call may succeed: a serialization failure, a deadlock, a write
	// conflict. Stores wrap it in what the database answered; what it was never
	// asked is [ErrNotSent].
	ErrRetryable = errors.New("nothing was applied; try again")
	// ErrNotSent is returned by stores for a call that never left: no
	// connection was free in time, or none could be made. It wraps
	// ErrRetryable: nothing was applied, and nothing will be. InTx returns it
	// only when its function was not entered. Calls that fail so in a row are
	// an outage, which conflicts are not.
	ErrNotSent = fmt.Errorf("the call was not sent: %w", ErrRetryable)
	// ErrTooLate is returned by stores for a call that was served after its
	// NotAfter: nothing was applied. It wraps ErrRetryable. The caller's idea
	// of the store's clock is wrong, or the call was held up on its way.
	ErrTooLate = fmt.Errorf("the call reached the store after its time: %w", ErrRetryable)
	// ErrCommitUnknown is returned by InTx when COMMIT was sent and its
	// outcome was not learnt.
	ErrCommitUnknown = errors.New("the outcome of COMMIT is unknown")
	// ErrLeaseLost is the cause of a handler's context when its lease ran out
	// or its lane changed hands. What the handler does from then on may be
	// done by another worker as well.
	ErrLeaseLost = errors.New("lease lost: another worker may run this delivery")
	// ErrShutdown is the cause of a handler's context when the bus stops and
	// the deadline for running handlers has passed.
	ErrShutdown = errors.New("bus is shutting down")
	// ErrHandlerTimeout is the cause of a handler's context when the handler
	// ran longer than its timeout.
	ErrHandlerTimeout = errors.New("handler timed out")
	// ErrInvalid marks input that was refused before anything was done: a
	// name, key, payload or setting outside its limits.
	ErrInvalid = errors.New("invalid")
	// ErrMismatch is returned by Publish and PublishNow when an event id is
	// taken by an event of another type or key: the new event was not added.
	ErrMismatch = errors.New("event id is taken by an event of another type or key")
	// ErrStarted is returned when a bus that runs is started again, and when
	// a handler is registered on a bus that was started.
	ErrStarted = errors.New("bus was started already")
	// ErrTxDone is returned by stores for a statement on a transaction that
	// was committed or rolled back.
	ErrTxDone = errors.New("transaction is already finished")
)

type definiteError struct{ err error }

func (e definiteError) Error() string { return e.err.Error() }
func (e definiteError) Unwrap() error { return e.err }

// Definite marks err as definite: the call applied nothing and trying it
// again would not help (a constraint, a trigger, a value the store cannot
// hold). Definite(nil) is nil.
func Definite(err error) error {
	if err == nil {
		return nil
	}
	return definiteError{err}
}

// IsDefinite reports whether err is marked by [Definite].
func IsDefinite(err error) bool {
	var d definiteError
	return errors.As(err, &d)
}

package engine

import (
	"fmt"
	"time"
)

// An outcome is an error by which a handler says more than "failed". It is
// found behind any wrapping; of several in one tree the first that errors.As
// meets counts.
type outcome interface {
	error
	result() RunResult
}

type retryAfter struct {
	delay time.Duration
	err   error
}

type snooze struct{ delay time.Duration }

type cancel struct{ reason error }

// RetryAfter returns an error by which a handler fails its attempt and says
// when to try again, instead of the retry policy: after d, between [MinDelay]
// and [MaxDelay]. The attempt is charged; the last one ends in the dead
// letters all the same. In a transactional handler the transaction is rolled
// back.
func RetryAfter(d time.Duration, err error) error {
	return &retryAfter{delay: clampDelay(d), err: err}
}

// Snooze returns an error by which a handler puts its delivery off: it runs
// again after d (between [MinDelay] and [MaxDelay]) and nothing is charged, so
// a handler that always snoozes never ends. Later events of the same key wait.
// In a transactional handler the transaction is rolled back.
func Snooze(d time.Duration) error { return &snooze{delay: clampDelay(d)} }

// Cancel returns an error by which a handler gives its delivery up for good:
// it goes to the dead letters at once, with the reason, whatever attempts are
// left. In a transactional handler the transaction is rolled back.
func Cancel(reason error) error { return &cancel{reason: reason} }

func (e *retryAfter) Error() string {
	if e.err == nil {
		return fmt.Sprintf("handler asked to be retried after %v", e.delay)
	}
	return e.err.Error()
}

func (e *retryAfter) Unwrap() error { return e.err }

func (e *retryAfter) result() RunResult { return RunResult{Outcome: Failed, Delay: e.delay} }

func (e *snooze) Error() string { return fmt.Sprintf("handler asked to be snoozed for %v", e.delay) }

func (e *snooze) result() RunResult { return RunResult{Outcome: Snoozed, Delay: e.delay} }

func (e *cancel) Error() string {
	if e.reason == nil {
		return "handler cancelled the delivery"
	}
	return e.reason.Error()
}

func (e *cancel) Unwrap() error { return e.reason }

func (e *cancel) result() RunResult { return RunResult{Outcome: Cancelled} }

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// maxReruns is how often a transaction's body may run again after a conflict
// within one attempt.
const maxReruns = 3

var (
	errEventMissing = errors.New("the event row of this delivery is missing: the store is damaged; run Verify")
	errGoexit       = errors.New("the handler ended its goroutine with runtime.Goexit, as testing.T.FailNow does: return an error instead")
	errNotDone      = errors.New("InTx of the store returned nil although its transaction did not end with Complete")
)

// execute runs one delivery and says how that ended. It blocks as long as the
// handler does: time limits are the Dispatcher's, which cancels ctx.
func (b *Bus[Tx]) execute(ctx *runContext) RunResult {
	run := ctx.run
	event := run.Picked.Event
	if event == nil {
		return RunResult{Outcome: Cancelled, Err: errEventMissing}
	}
	bind := b.routes[EventHandler{Event: event.Type, Handler: run.Handler}]
	if bind == nil {
		// A rolling deploy: the newer release registered this handler for one
		// more type. Another worker gets it once this one is gone.
		probeNoRoute.Hit()
		return RunResult{Outcome: Snoozed, Delay: b.cfg.Lease / 2,
			Err: fmt.Errorf("handler %q is not registered for %q in this release", run.Handler, event.Type)}
	}
	var handler body[Tx]
	err := guarded(func() (err error) {
		handler, err = bind(run)
		return err
	})
	if err != nil {
		return failed(ctx, err)
	}
	result := b.call(ctx, run, handler)
	result.published = ctx.published.Load()
	return result
}

// call runs the bound handler, in a transaction if it wants one.
func (b *Bus[Tx]) call(ctx context.Context, run *Run, handler body[Tx]) RunResult {
	if b.handlers[run.Handler].transactional {
		return b.executeTx(ctx, run, handler)
	}
	var none Tx
	if err := guarded(func() error { return b.around(ctx, run, none, handler) }); err != nil {
		return failed(ctx, err)
	}
	return RunResult{Outcome: Succeeded}
}

// around calls the handler inside the middleware.
func (b *Bus[Tx]) around(ctx context.Context, run *Run, tx Tx, handler body[Tx]) error {
	if len(b.cfg.Middleware) == 0 {
		return handler.call(ctx, tx)
	}
	info := run.describe()
	next := func(ctx context.Context) error { return handler.call(ctx, tx) }
	for i := len(b.cfg.Middleware) - 1; i >= 0; i-- {
		outer, inner := b.cfg.Middleware[i], next
		next = func(ctx context.Context) error { return outer(ctx, info, inner) }
	}
	return next(ctx)
}

// executeTx runs a transactional handler, again after conflicts that left
// nothing behind. Once COMMIT was sent the body never runs again.
func (b *Bus[Tx]) executeTx(ctx context.Context, run *Run, handler body[Tx]) RunResult {
	t := &transaction[Tx]{bus: b, run: run, handler: handler}
	body := t.body
	for reruns := 0; ; reruns++ {
		t.entered = false
		err := b.store.InTx(ctx, body)
		if err != nil && !t.entered {
			return notBegun(ctx, err)
		}
		result, conflict := t.classify(ctx, err)
		if !conflict || ctx.Err() != nil {
			return result
		}
		if reruns == maxReruns {
			probeReruns.Hit()
			return result
		}
		probeRerun.Hit()
		run.Gate.Reopen()
	}
}

// transaction is the tries of a transactional handler, one after another.
type transaction[Tx any] struct {
	bus     *Bus[Tx]
	run     *Run
	handler body[Tx]

	entered   bool  // this try began
	completed bool  // Complete was Applied: only COMMIT was left
	err       error // what body returned: with an error COMMIT was never sent
}

// body is one try: the handler, then Complete as the last statement.
func (t *transaction[Tx]) body(ctx context.Context, tx Tx) error {
	t.entered, t.completed, t.err = true, false, nil
	t.err = t.statements(ctx, tx)
	t.completed = t.err == nil
	return t.err
}

func (t *transaction[Tx]) statements(ctx context.Context, tx Tx) error {
	err := guarded(func() error { return t.bus.around(ctx, t.run, tx, t.handler) })
	if err != nil {
		return err
	}
	if (ctx.Err() != nil || !t.run.Gate.Pass()) && !mutant.On("retired-run-sends-end") {
		// This worker gave the run up, and may have ended the attempt itself.
		probeTooLate.Hit()
		return fmt.Errorf("the handler returned too late to be committed: %w", cmp.Or(context.Cause(ctx), ErrHandlerTimeout))
	}
	lease := t.run.Picked.Lease
	verdict, err := t.bus.store.Complete(ctx, tx, CompleteInput{Lease: lease, TTL: t.run.TTL})
	if err != nil {
		return fmt.Errorf("complete %v: %w", lease, err)
	}
	if verdict == LeaseLost && !mutant.On("lost-complete-committed") {
		return fencedError{lease}
	}
	return nil
}

// fencedError rolls the transaction back when Complete said LeaseLost. It is
// a type of its own because a handler may well return ErrLeaseLost, its
// context's cause, while the lease stands in the store.
type fencedError struct{ lease Lease }

func (e fencedError) Error() string { return fmt.Sprintf("complete %v: %v", e.lease, ErrLeaseLost) }
func (e fencedError) Unwrap() error { return ErrLeaseLost }

// classify says how the transaction ended, and whether it was a conflict
// after which the body may run again. err is what InTx returned.
func (t *transaction[Tx]) classify(ctx context.Context, err error) (result RunResult, conflict bool) {
	switch {
	case err == nil && t.completed:
		return RunResult{Outcome: Committed}, false
	case err == nil:
		// The store broke its contract. It alone knows what was committed, so
		// it is asked again, as after a COMMIT without an answer.
		return RunResult{Outcome: CommitUnknown, Err: errNotDone}, false
	case t.completed && errors.Is(err, ErrCommitUnknown):
		// Only here: an ErrCommitUnknown out of the handler itself is about
		// some other transaction of its own.
		probeUnknown.Hit()
		return unknown(err)
	}
	if fenced := (fencedError{}); errors.As(t.err, &fenced) {
		probeFenced.Hit()
		return RunResult{Outcome: Fenced, Err: fenced}, false
	}
	if t.err == nil {
		return failed(ctx, err), errors.Is(err, ErrRetryable)
	}
	result = failed(ctx, t.err)
	if mutant.On("body-runs-again-after-any-error") {
		return result, true
	}
	chosen := result.Outcome != Failed || result.Delay >= 0 || result.Panic
	return result, !chosen && (errors.Is(t.err, ErrRetryable) || errors.Is(err, ErrRetryable))
}

// notBegun is the result of a run whose handler was not called, whatever the
// error says: no attempt was made. The Dispatcher tries again, and not the loop
// around the body: its reruns are for conflicts.
func notBegun(ctx context.Context, err error) RunResult {
	probeNotBegun.Hit()
	result := failed(ctx, fmt.Errorf("the transaction did not begin: %w", err))
	if mutant.On("begin-failure-charged") {
		return result
	}
	return RunResult{Outcome: NotBegun, Err: result.Err}
}

func unknown(err error) (result RunResult, conflict bool) {
	switch {
	case mutant.On("unknown-commit-reruns-body"):
		return RunResult{Outcome: Failed, Err: err, Delay: -1}, true
	case mutant.On("unknown-commit-taken-as-failure"):
		return RunResult{Outcome: Failed, Err: err, Delay: -1}, false
	case mutant.On("unknown-commit-taken-as-success"):
		return RunResult{Outcome: Committed}, false
	}
	return RunResult{Outcome: CommitUnknown, Err: err}, false
}

// failed turns an error of a handler, or of the store around it, into the
// result it asks for. Delay is negative where the retry policy decides.
func failed(ctx context.Context, err error) RunResult {
	result := RunResult{Outcome: Failed, Delay: -1}
	var asked outcome
	if errors.As(err, &asked) {
		probeAsked.Hit()
		result = asked.result()
		if mutant.On("cancel-retried") && result.Outcome == Cancelled {
			result = RunResult{Outcome: Failed, Delay: -1}
		}
		if result.Outcome == Failed && result.Delay == 0 {
			result.Delay = -1
		}
	}
	var panicked *panicError
	result.Panic = errors.As(err, &panicked)
	cause := context.Cause(ctx)
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (its context was cancelled: %w)", err, cause)
	}
	// fmt, not err.Error(): it survives an Error method that panics. The text
	// is made once, here, where a broken one cannot hurt.
	result.Err = &attemptError{text: CleanText(fmt.Sprint(err)), err: err}
	return result
}

// attemptError is why an attempt failed, with a text every store can keep.
type attemptError struct {
	text string
	err  error
}

func (e *attemptError) Error() string { return e.text }
func (e *attemptError) Unwrap() error { return e.err }

// panicError is a panic of a handler.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// Unwrap lets errors.Is see an error that was the panic's value.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// guarded calls fn and returns its panic as an error. It also walks the error
// that fn returned, all of it: a nil pointer in there whose Unwrap, Is or As
// panics does so here, where that hurts nobody.
func guarded(fn func() error) (err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		probePanic.Hit()
		err = &panicError{value: value, stack: stackBelow("engine.guarded")}
	}()
	if err = fn(); err != nil {
		errors.Is(err, errEventMissing)
		errors.As(err, new(outcome))
	}
	return err
}

// ours are the functions between guarded and a handler, and those of the
// runtime that lead from a panic to its recovery.
var ours = regexp.MustCompile(`^runtime\.|/engine\.(\(\*(Bus|bound|transaction)\[|(Handle(Tx)?|bindTo)\[)`)

// stackBelow lists the functions that were called by the one named and led to
// the panic now being recovered. It holds no addresses, goroutine numbers or
// folders, so that the same panic gives the same text on every machine.
func stackBelow(name string) string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]) // Callers, stackBelow, the deferred function
	var stack strings.Builder
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, name) {
			return stack.String()
		}
		if !ours.MatchString(frame.Function) {
			fmt.Fprintf(&stack, "  %s (%s:%d)\n", frame.Function, filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return stack.String()
		}
	}
}

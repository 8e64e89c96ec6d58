package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// order is the payload of these tests.
type order struct{ ID string }

// machineWith returns a machine that runs fn as the handler "h" of type "e".
func machineWith(t *testing.T, cfg Config, fn func(context.Context, Event[order]) error) *Machine {
	t.Helper()
	bus, _ := newTestBus(t, cfg)
	must(t, Handle(bus, Handler{Event: "e", Name: "h"}, fn))
	m, err := NewMachine(bus)
	must(t, err)
	return m
}

func txMachine(t *testing.T, fn func(context.Context, *fakeTx, Event[order]) error) (*Machine, *fakeStore) {
	t.Helper()
	bus, store := newTestBus(t, Config{})
	must(t, HandleTx(bus, Handler{Event: "e", Name: "h"}, fn))
	m, err := NewMachine(bus)
	must(t, err)
	return m, store
}

func aRun(payload string) *Run {
	p := picked(5, "e", "h", payload)
	p.Event.Key = "k"
	p.Event.Headers = []Header{{Name: "trace", Value: "t1"}}
	p.Lease.Token = Token{Lane: 3, Epoch: 4, Claim: 6, Holder: Holder{0xab}}
	p.Delivery.Attempts, p.Delivery.Sequence = 2, 99
	return &Run{ID: 1, Picked: p, Handler: "h", MaxAttempts: 20, TTL: 30 * time.Second}
}

func TestExecuteSucceeds(t *testing.T) {
	var got Event[order]
	var info DeliveryInfo
	m := machineWith(t, Config{}, func(ctx context.Context, e Event[order]) error {
		got = e
		info, _ = DeliveryFrom(ctx)
		return nil
	})
	if r := m.Execute(t.Context(), aRun(`{"ID":"o1"}`)); r != (RunResult{Outcome: Succeeded}) {
		t.Fatalf("result: %+v", r)
	}
	if got.ID != "e5" || got.Type != "e" || got.Key != "k" || got.Payload.ID != "o1" || got.Header("trace") != "t1" ||
		got.Attempt != 3 || got.MaxAttempts != 20 || got.PublishedAt.UnixNano() != 1 {
		t.Errorf("event: %+v", got)
	}
	want := DeliveryInfo{
		Delivery: 5, Event: "e5", Type: "e", Key: "k", Handler: "h", Lane: 3, Sequence: 99,
		PublishedAt: time.Unix(0, 1).UTC(), Headers: []Header{{Name: "trace", Value: "t1"}},
		Attempt: 3, MaxAttempts: 20, Token: "3:4:6@ab000000",
	}
	if !reflect.DeepEqual(info, want) {
		t.Errorf("delivery: %+v", info)
	}
	if _, ok := DeliveryFrom(t.Context()); ok {
		t.Error("a delivery outside of a handler")
	}
}

// aTypedNil has an Error method that panics, as nil pointers with an error
// type often do.
type aTypedNil struct{ text string }

func (e *aTypedNil) Error() string { return e.text }

// aWrappingNil is one with an Unwrap method besides.
type aWrappingNil struct{ err error }

func (e *aWrappingNil) Error() string { return "wrapped" }
func (e *aWrappingNil) Unwrap() error { return e.err }

var errPlain = errors.New("mail server said 451")

// Every way a handler can end, for both kinds of handler: what it returned
// decides, whatever is wrapped around it.
var endings = map[string]struct {
	end  func() error
	want RunResult // Err is compared by text and errors.Is
	text string
	is   error
}{
	"error":                 {func() error { return errPlain }, RunResult{Outcome: Failed, Delay: -1}, "mail server said 451", errPlain},
	"wrapped error":         {func() error { return fmt.Errorf("send: %w", errPlain) }, RunResult{Outcome: Failed, Delay: -1}, "send: mail server said 451", errPlain},
	"retry after":           {func() error { return fmt.Errorf("later: %w", RetryAfter(time.Minute, errPlain)) }, RunResult{Outcome: Failed, Delay: time.Minute}, "later: mail server said 451", errPlain},
	"retry after, no why":   {func() error { return RetryAfter(time.Minute, nil) }, RunResult{Outcome: Failed, Delay: time.Minute}, "retried after 1m0s", nil},
	"retry at once":         {func() error { return RetryAfter(0, errPlain) }, RunResult{Outcome: Failed, Delay: MinDelay}, "451", errPlain},
	"retry in the past":     {func() error { return RetryAfter(-time.Hour, errPlain) }, RunResult{Outcome: Failed, Delay: MinDelay}, "451", errPlain},
	"retry in an age":       {func() error { return RetryAfter(1<<63-1, errPlain) }, RunResult{Outcome: Failed, Delay: MaxDelay}, "451", errPlain},
	"snooze":                {func() error { return fmt.Errorf("not yet: %w", Snooze(time.Hour)) }, RunResult{Outcome: Snoozed, Delay: time.Hour}, "snoozed for 1h0m0s", nil},
	"snooze for nothing":    {func() error { return Snooze(0) }, RunResult{Outcome: Snoozed, Delay: MinDelay}, "", nil},
	"cancel":                {func() error { return fmt.Errorf("give up: %w", Cancel(errPlain)) }, RunResult{Outcome: Cancelled}, "give up: mail server said 451", errPlain},
	"cancel, no why":        {func() error { return Cancel(nil) }, RunResult{Outcome: Cancelled}, "cancelled the delivery", nil},
	"joined":                {func() error { return errors.Join(errPlain, Cancel(nil)) }, RunResult{Outcome: Cancelled}, "451", errPlain},
	"the outermost counts":  {func() error { return RetryAfter(time.Second, Cancel(errPlain)) }, RunResult{Outcome: Failed, Delay: time.Second}, "451", errPlain},
	"panic":                 {func() error { panic("index out of order") }, RunResult{Outcome: Failed, Delay: -1, Panic: true}, "panic: index out of order", nil},
	"panic with an error":   {func() error { panic(errPlain) }, RunResult{Outcome: Failed, Delay: -1, Panic: true}, "panic: mail server said 451", errPlain},
	"panic with nil":        {func() error { panic(nil) }, RunResult{Outcome: Failed, Delay: -1, Panic: true}, "panic: panic called with nil", nil},
	"nil dereference":       {func() error { var p *order; p.ID = ""; return nil }, RunResult{Outcome: Failed, Delay: -1, Panic: true}, "nil pointer dereference", nil},
	"an error that panics":  {func() error { return (*aTypedNil)(nil) }, RunResult{Outcome: Failed, Delay: -1}, "nil", nil},
	"an unwrap that panics": {func() error { return (*aWrappingNil)(nil) }, RunResult{Outcome: Failed, Delay: -1, Panic: true}, "nil pointer dereference", nil},
	"unprintable error":     {func() error { return errors.New("a\x00\xff" + strings.Repeat("x", 1<<20)) }, RunResult{Outcome: Failed, Delay: -1}, "a\uFFFD\uFFFDxx", nil},
}

func checkEnding(t *testing.T, name string, got RunResult) {
	t.Helper()
	c := endings[name]
	err := got.Err
	got.Err = nil
	if got != c.want {
		t.Errorf("result %+v, want %+v", got, c.want)
	}
	if err == nil {
		t.Fatal("no error")
	}
	wantText(t, err.Error(), c.text)
	if CleanText(err.Error()) != err.Error() {
		t.Errorf("the text is not clean: %d bytes", len(err.Error()))
	}
	if c.is != nil && !errors.Is(err, c.is) {
		t.Errorf("%v lost the error %v", err, c.is)
	}
}

func TestExecuteEndings(t *testing.T) {
	for name, c := range endings {
		t.Run(name, func(t *testing.T) {
			m := machineWith(t, Config{}, func(context.Context, Event[order]) error { return c.end() })
			checkEnding(t, name, m.Execute(t.Context(), aRun(`{}`)))
		})
	}
}

// The attempt is recorded by the Dispatcher in a transaction of its own: what
// the handler wrote must be gone, and its text must not.
func TestExecuteTxEndings(t *testing.T) {
	for name, c := range endings {
		t.Run(name, func(t *testing.T) {
			m, store := txMachine(t, func(_ context.Context, tx *fakeTx, _ Event[order]) error {
				tx.rows = append(tx.rows, "effect")
				return c.end()
			})
			checkEnding(t, name, m.Execute(t.Context(), aRun(`{}`)))
			if len(store.committed) != 0 || store.rolled != 1 {
				t.Errorf("%d commits and %d rollbacks, want 0 and 1", len(store.committed), store.rolled)
			}
		})
	}
}

func TestPanicTextIsReproducible(t *testing.T) {
	m := machineWith(t, Config{}, func(context.Context, Event[order]) error { return deep(3) })
	first := m.Execute(t.Context(), aRun(`{}`)).Err.Error()
	again := make(chan string)
	go func() { again <- m.Execute(context.Background(), aRun(`{}`)).Err.Error() }()
	if second := <-again; second != first {
		t.Errorf("two texts of one panic:\n%s\n%s", first, second)
	}
	wantText(t, first, "panic: too deep", "engine.deep", "(execute_test.go:")
	for _, noise := range []string{"0x", "goroutine", "/execute_test.go", "runtime.", "(*Bus", "engine.Handle", "engine.guarded"} {
		if strings.Contains(first, noise) {
			t.Errorf("the stack contains %q:\n%s", noise, first)
		}
	}
}

func deep(n int) error {
	if n == 0 {
		panic("too deep")
	}
	return deep(n - 1)
}

func TestExecuteUndecodable(t *testing.T) {
	called := false
	m := machineWith(t, Config{}, func(context.Context, Event[order]) error { called = true; return nil })
	r := m.Execute(t.Context(), aRun(`{"ID":7}`))
	if r.Outcome != Failed || r.Delay != -1 || called {
		t.Fatalf("result %+v, called %v", r, called)
	}
	wantText(t, r.Err.Error(), `payload of event "e5" (e, 8 bytes) cannot be decoded into engine.order`)

	m, store := txMachine(t, func(context.Context, *fakeTx, Event[order]) error { return nil })
	if r = m.Execute(t.Context(), aRun(`nonsense`)); r.Outcome != Failed || store.rolled != 0 {
		t.Errorf("result %+v, %d transactions for a payload that nobody can read", r, store.rolled)
	}
}

type bomb struct{}

func (*bomb) UnmarshalJSON([]byte) error { panic("bad decoder") }

func TestExecuteDecoderThatPanics(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	must(t, Handle(bus, Handler{Event: "e", Name: "h"}, func(context.Context, Event[bomb]) error { return nil }))
	m, err := NewMachine(bus)
	must(t, err)
	if r := m.Execute(t.Context(), aRun(`{}`)); r.Outcome != Failed || !r.Panic {
		t.Errorf("result %+v", r)
	}
}

// During a rolling deploy an old release must neither fail nor finish what
// only the new one can handle.
func TestExecuteWithoutRoute(t *testing.T) {
	m := machineWith(t, Config{Lease: 20 * time.Second}, func(context.Context, Event[order]) error { return nil })
	run := aRun(`{}`)
	run.Picked.Event.Type = "e2"
	r := m.Execute(t.Context(), run)
	if r.Outcome != Snoozed || r.Delay != 10*time.Second {
		t.Fatalf("result %+v", r)
	}
	wantText(t, r.Err.Error(), `handler "h" is not registered for "e2"`)
}

func TestExecuteWithoutEvent(t *testing.T) {
	m := machineWith(t, Config{}, func(context.Context, Event[order]) error { return nil })
	run := aRun(`{}`)
	run.Picked.Event = nil
	if r := m.Execute(t.Context(), run); r.Outcome != Cancelled || !errors.Is(r.Err, errEventMissing) {
		t.Errorf("result %+v", r)
	}
}

func TestExecuteTxCommits(t *testing.T) {
	m, store := txMachine(t, func(ctx context.Context, tx *fakeTx, e Event[order]) error {
		if _, ok := DeliveryFrom(ctx); !ok {
			t.Error("no delivery in the context of a transactional handler")
		}
		tx.rows = append(tx.rows, e.Payload.ID)
		return nil
	})
	run := aRun(`{"ID":"o1"}`)
	if r := m.Execute(t.Context(), run); r != (RunResult{Outcome: Committed}) {
		t.Fatalf("result %+v", r)
	}
	tx := store.committed[0]
	if !slices.Equal(tx.rows, []string{"o1"}) || !slices.Equal(tx.completed, []Lease{run.Picked.Lease}) {
		t.Errorf("committed %+v", tx)
	}
}

// Every way a transaction can end around a handler that succeeds.
func TestExecuteTxClassification(t *testing.T) {
	conflict := fmt.Errorf("40001: %w", ErrRetryable)
	unknown := fmt.Errorf("line dropped: %w", ErrCommitUnknown)
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		scripts []script
		want    Outcome
		is      error
		calls   int // of the handler
	}{
		"lease lost":                      {[]script{{lost: true}}, Fenced, ErrLeaseLost, 1},
		"commit unknown":                  {[]script{{commit: unknown}}, CommitUnknown, ErrCommitUnknown, 1},
		"commit unknown and retryable":    {[]script{{commit: errors.Join(conflict, unknown)}}, CommitUnknown, ErrCommitUnknown, 1},
		"commit failed":                   {[]script{{commit: down}}, Failed, down, 1},
		"commit conflicts once":           {[]script{{commit: conflict}}, Committed, nil, 2},
		"complete conflicts once":         {[]script{{complete: conflict}}, Committed, nil, 2},
		"complete fails":                  {[]script{{complete: down}}, Failed, down, 1},
		"complete of unknown outcome":     {[]script{{complete: unknown}}, Failed, unknown, 1},
		"begin fails":                     {[]script{{begin: down}}, NotBegun, down, 0},
		"begin is not sent":               {[]script{{begin: fmt.Errorf("pool: %w", ErrNotSent)}}, NotBegun, ErrNotSent, 0},
		"begin conflicts":                 {[]script{{begin: conflict}}, NotBegun, ErrRetryable, 0},
		"conflict, then begin fails":      {[]script{{commit: conflict}, {begin: down}}, NotBegun, down, 1},
		"conflicts three times":           {repeat(script{commit: conflict}, 3), Committed, nil, 4},
		"conflicts four times":            {repeat(script{commit: conflict}, 9), Failed, ErrRetryable, 4},
		"conflict, then the lease lost":   {[]script{{commit: conflict}, {lost: true}}, Fenced, ErrLeaseLost, 2},
		"conflict, then commit unknown":   {[]script{{commit: conflict}, {commit: unknown}}, CommitUnknown, ErrCommitUnknown, 2},
		"a store that hides a lost lease": {[]script{{lost: true, swallow: true}}, CommitUnknown, errNotDone, 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			m, store := txMachine(t, func(context.Context, *fakeTx, Event[order]) error { calls++; return nil })
			store.scripts = c.scripts
			r := m.Execute(t.Context(), aRun(`{}`))
			if r.Outcome != c.want || calls != c.calls {
				t.Fatalf("result %+v after %d calls, want outcome %d after %d", r, calls, c.want, c.calls)
			}
			if c.is != nil && !errors.Is(r.Err, c.is) {
				t.Errorf("error %v is not %v", r.Err, c.is)
			}
			if r.Outcome == Failed && r.Delay != -1 {
				t.Errorf("delay %v: the policy was to decide", r.Delay)
			}
			if commits := len(store.committed); (commits == 1) != (c.want == Committed) || commits > 1 {
				t.Errorf("%d commits", commits)
			}
		})
	}
}

// What a handler returns from inside can look like what InTx returns; only
// after fn returned nil is it about our COMMIT.
func TestExecuteTxErrorsOfTheHandlerAreItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"conflict":                 {fmt.Errorf("update stock: %w", ErrRetryable), 4},
		"conflict as text":         {errors.New(ErrRetryable.Error()), 1},
		"its own unknown commit":   {fmt.Errorf("other database: %w", ErrCommitUnknown), 1},
		"its context's cause":      {fmt.Errorf("stopped: %w", ErrLeaseLost), 1},
		"conflict, asked to wait":  {RetryAfter(time.Minute, ErrRetryable), 1},
		"conflict, given up":       {Cancel(ErrRetryable), 1},
		"conflict, to be snoozed":  {errors.Join(Snooze(time.Minute), ErrRetryable), 1},
		"conflict as panic":        {nil, 1},
		"an ordinary failed check": {errPlain, 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			m, store := txMachine(t, func(context.Context, *fakeTx, Event[order]) error {
				calls++
				if c.err == nil {
					panic(ErrRetryable)
				}
				return c.err
			})
			r := m.Execute(t.Context(), aRun(`{}`))
			if r.Outcome == CommitUnknown || r.Outcome == Fenced || r.Outcome == Committed {
				t.Errorf("outcome %d although COMMIT was never sent", r.Outcome)
			}
			if calls != c.calls || store.rolled != calls {
				t.Errorf("%d calls, want %d; %d rollbacks", calls, c.calls, store.rolled)
			}
		})
	}
}

// A run that this worker gave up must not commit behind its back.
func TestExecuteTxTooLate(t *testing.T) {
	for name, giveUp := range map[string]func(cancel context.CancelCauseFunc, g *Gate){
		"cancelled": func(cancel context.CancelCauseFunc, _ *Gate) { cancel(ErrHandlerTimeout) },
		"retired":   func(_ context.CancelCauseFunc, g *Gate) { g.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			run := aRun(`{}`)
			m, store := txMachine(t, func(context.Context, *fakeTx, Event[order]) error {
				giveUp(cancel, &run.Gate)
				return nil
			})
			r := m.Execute(ctx, run)
			if r.Outcome != Failed || !errors.Is(r.Err, ErrHandlerTimeout) || len(store.committed) != 0 {
				t.Errorf("result %+v, %d commits", r, len(store.committed))
			}
		})
	}
}

// Once Complete was sent the run can no longer be retired, until a conflict
// sends it back to its start.
func TestExecuteTxGate(t *testing.T) {
	run := aRun(`{}`)
	calls := 0
	m, store := txMachine(t, func(context.Context, *fakeTx, Event[order]) error {
		if calls++; calls == 2 && !run.Gate.Close() {
			t.Error("a run whose body runs again cannot be retired")
		}
		return nil
	})
	store.scripts = []script{{commit: ErrRetryable}}
	if r := m.Execute(t.Context(), run); r.Outcome != Failed || calls != 2 || len(store.committed) != 0 {
		t.Errorf("result %+v after %d calls", r, calls)
	}
	run = aRun(`{}`)
	if r := m.Execute(t.Context(), run); r.Outcome != Committed || run.Gate.Close() {
		t.Errorf("result %+v, and the run was retired after its commit", r)
	}
}

func TestExecuteCancelled(t *testing.T) {
	for _, cause := range []error{ErrLeaseLost, ErrShutdown, ErrHandlerTimeout} {
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := func(ctx context.Context, _ Event[order]) error {
			cancel(cause)
			return ctx.Err()
		}
		r := machineWith(t, Config{}, wait).Execute(ctx, aRun(`{}`))
		if r.Outcome != Failed || !errors.Is(r.Err, cause) || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("cause %v: %+v", cause, r)
		}
		wantText(t, r.Err.Error(), cause.Error())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	m, _ := txMachine(t, func(context.Context, *fakeTx, Event[order]) error {
		calls++
		cancel(ErrShutdown)
		return ErrRetryable
	})
	if r := m.Execute(ctx, aRun(`{}`)); r.Outcome != Failed || calls != 1 {
		t.Errorf("a cancelled run went on after a conflict: %+v, %d calls", r, calls)
	}
}

func TestMiddleware(t *testing.T) {
	var log []string
	note := func(name string) Middleware {
		return func(ctx context.Context, d DeliveryInfo, next func(context.Context) error) error {
			log = append(log, name+" "+d.Handler)
			err := next(context.WithValue(ctx, publishedKey{}, name))
			log = append(log, fmt.Sprintf("%s %v", name, err))
			return err
		}
	}
	m := machineWith(t, Config{Middleware: []Middleware{note("outer"), note("inner")}}, func(ctx context.Context, _ Event[order]) error {
		log = append(log, fmt.Sprint("handler sees ", ctx.Value(publishedKey{})))
		return errPlain
	})
	r := m.Execute(t.Context(), aRun(`{}`))
	want := []string{"outer h", "inner h", "handler sees inner", "inner mail server said 451", "outer mail server said 451"}
	if r.Outcome != Failed || !slices.Equal(log, want) {
		t.Errorf("result %+v, log %q", r, log)
	}
	m = machineWith(t, Config{Middleware: []Middleware{func(context.Context, DeliveryInfo, func(context.Context) error) error { panic("tracer") }}}, nil2)
	if r := m.Execute(t.Context(), aRun(`{}`)); r.Outcome != Failed || !r.Panic {
		t.Errorf("a middleware that panics: %+v", r)
	}
}

func nil2(context.Context, Event[order]) error { return nil }

// Two handlers of one event share its row in memory; neither may see what the
// other writes into it.
func TestHandlersDoNotShareMemory(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	must(t, Handle(bus, Handler{Event: "e", Name: "h"}, func(_ context.Context, e Event[[]byte]) error {
		e.Payload[0], e.Headers[0].Value = 'X', "X"
		return nil
	}))
	m, err := NewMachine(bus)
	must(t, err)
	run := aRun(`{}`)
	m.Execute(t.Context(), run)
	if e := run.Picked.Event; string(e.Payload) != `{}` || e.Headers[0].Value != "t1" {
		t.Errorf("the handler changed the event to %s %v", e.Payload, e.Headers)
	}
}

package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Handler says which events a handler wants and how it is run. Event and Name
// must be set; every other field at zero takes its default.
type Handler struct {
	// Event is the event type, 1 to [MaxName] bytes.
	Event string
	// Name identifies the handler for good: what is pending belongs to the
	// name. 1 to [MaxName] bytes. One name may be registered for several
	// event types, with the same settings: a projection keeps the order of a
	// key across types that way.
	Name string
	// Concurrency bounds the runs of this handler at once in this bus; 0
	// means no bound but [Config.Concurrency].
	Concurrency int
	// Timeout is how long one run may take before its context is cancelled
	// with [ErrHandlerTimeout]; default 15 min, from 1 ms to 168 h. It cannot
	// be switched off.
	Timeout time.Duration
	// Grace is how long a run may take to return after that; default 30 s,
	// from 1 ms to 24 h. A run that does not is given up: its attempt counts
	// as failed and its transaction is never committed, but its goroutine may
	// overlap with the next run.
	Grace time.Duration
	// MaxAttempts is how many attempts may be charged before the delivery
	// goes to the dead letters; default 20, at most 1,000,000. With 1, a
	// delivery that was running when its worker died is never tried again.
	MaxAttempts int
	// Retry says how long to wait after a failed attempt; default
	// [Exponential], 1 s to 1 h.
	Retry RetryPolicy
}

const (
	defaultTimeout     = 15 * time.Minute
	defaultGrace       = 30 * time.Second
	defaultMaxAttempts = 20

	maxTimeout  = 7 * 24 * time.Hour
	maxGrace    = 24 * time.Hour
	maxAttempts = 1_000_000
)

// Validate reports the first field that cannot work; the error wraps
// [ErrInvalid]. [Handle] and [HandleTx] call it.
func (h Handler) Validate() error {
	h = h.withDefaults()
	if err := checkName("Handler.Name", h.Name, MaxName); err != nil {
		return err
	}
	what := fmt.Sprintf("handler %q: ", h.Name)
	return cmp.Or(
		checkName(what+"Event", h.Event, MaxName),
		checkRange(what+"Concurrency", h.Concurrency, 0, maxConcurrency),
		checkRange(what+"Timeout", h.Timeout, time.Millisecond, maxTimeout),
		checkRange(what+"Grace", h.Grace, time.Millisecond, maxGrace),
		checkRange(what+"MaxAttempts", h.MaxAttempts, 1, maxAttempts),
		checkPolicy(what, h.Retry),
	)
}

func checkPolicy(what string, policy RetryPolicy) error {
	checked, ok := policy.(interface{ Validate() error })
	if !ok {
		return nil
	}
	if err := checked.Validate(); err != nil {
		return fmt.Errorf("%sRetry: %w", what, err)
	}
	return nil
}

func (h Handler) withDefaults() Handler {
	orDefault(&h.Timeout, defaultTimeout)
	orDefault(&h.Grace, defaultGrace)
	orDefault(&h.MaxAttempts, defaultMaxAttempts)
	if h.Retry == nil {
		h.Retry = Exponential{}
	}
	return h
}

// sameSettings reports whether two registrations of one name agree in all but
// the event.
func (h Handler) sameSettings(o Handler) bool {
	same := samePolicy(h.Retry, o.Retry)
	h.Event, h.Retry, o.Event, o.Retry = "", nil, "", nil
	return same && h == o
}

// Event is an event as a handler receives it.
type Event[P any] struct {
	// ID is the publisher's id of the event: the same in every run, and the
	// thing to give to other systems as an idempotency key.
	ID string
	// Type is the event type.
	Type string
	// Key is the ordering key, "" when the event has none.
	Key string
	// Headers travelled with the event, in the publisher's order.
	Headers []Header
	// PublishedAt is when the event was published, by the store's clock.
	PublishedAt time.Time
	// Payload is what was published, decoded. For P = []byte and
	// json.RawMessage it is the published bytes, unchanged.
	Payload P
	// Attempt counts the attempts charged before this run, plus one.
	Attempt int
	// MaxAttempts is the handler's limit; Attempt == MaxAttempts is the last.
	MaxAttempts int
}

// Header returns the value of the first header with that name, or "".
func (e Event[P]) Header(name string) string {
	for _, h := range e.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Handle registers a handler that owns no transaction. fn is called for each
// event of the type at least once, one at a time and in commit order per key.
// It may be called again after it succeeded (a crash before the completion
// was stored), so it must be idempotent; [HandleTx] has no such gap.
//
// nil completes the delivery. An error fails the attempt, unless it is one of
// [RetryAfter], [Snooze] and [Cancel]; so does a panic, and a payload that
// cannot be decoded into P. The context is cancelled, with the cause saying
// why, when the run has no more value: see [ErrHandlerTimeout],
// [ErrLeaseLost] and [ErrShutdown].
//
// P is the payload's type; with []byte or json.RawMessage the handler gets
// the published bytes. Handlers are registered before the bus starts. The
// error wraps [ErrInvalid] or [ErrStarted].
func Handle[P any, Tx any](bus *Bus[Tx], h Handler, fn func(ctx context.Context, e Event[P]) error) error {
	if err := checkHandle(bus, h, fn == nil); err != nil {
		return err
	}
	call := func(ctx context.Context, _ Tx, e Event[P]) error { return fn(ctx, e) }
	return bus.register(h, false, bindTo(bus.cfg.Codec, call))
}

// HandleTx registers a handler that runs inside a transaction of the store:
// what fn writes through tx commits together with the completion of the
// delivery, or not at all. fn's effects through tx therefore happen exactly
// once; its other effects, at least once.
//
// fn neither commits nor rolls back. When the store reports a conflict that
// left nothing behind, fn is called again in a fresh transaction, up to three
// more times within the same attempt. Everything else is as for [Handle].
func HandleTx[P any, Tx any](bus *Bus[Tx], h Handler, fn func(ctx context.Context, tx Tx, e Event[P]) error) error {
	if err := checkHandle(bus, h, fn == nil); err != nil {
		return err
	}
	return bus.register(h, true, bindTo(bus.cfg.Codec, fn))
}

func checkHandle[Tx any](bus *Bus[Tx], h Handler, noFunction bool) error {
	switch {
	case bus == nil:
		return invalid("handler %q of %q got a nil bus: look at the error of engine.New", h.Name, h.Event)
	case noFunction:
		return invalid("handler %q of %q has no function", h.Name, h.Event)
	}
	return nil
}

// body is a handler bound to one decoded event. tx is zero for plain ones.
type body[Tx any] interface {
	call(ctx context.Context, tx Tx) error
}

// binder decodes the event of a run for a handler.
type binder[Tx any] func(run *Run) (body[Tx], error)

func bindTo[P, Tx any](c Codec, fn func(ctx context.Context, tx Tx, e Event[P]) error) binder[Tx] {
	return func(run *Run) (body[Tx], error) {
		b := &bound[P, Tx]{fn: fn, codec: c, run: run}
		return b, b.decode()
	}
}

// bound is the body for one type of payload.
type bound[P, Tx any] struct {
	fn    func(ctx context.Context, tx Tx, e Event[P]) error
	codec Codec
	run   *Run
	e     Event[P]
	given bool // fn has had e, and may have changed what it points to
}

// call decodes the event anew for a body that runs again: each run of it gets
// the event as it was published.
func (b *bound[P, Tx]) call(ctx context.Context, tx Tx) error {
	if b.given && !mutant.On("rerun-given-used-event") {
		if err := b.decode(); err != nil {
			return err
		}
	}
	b.given = true
	return b.fn(ctx, tx, b.e)
}

func (b *bound[P, Tx]) decode() error {
	raw, run := b.run.Picked.Event, b.run
	b.e = Event[P]{}
	b.e.ID, b.e.Type, b.e.Key, b.e.PublishedAt = raw.ID, raw.Type, raw.Key, raw.PublishedAt.Std()
	b.e.Headers = append([]Header(nil), raw.Headers...) // other handlers share the event
	if mutant.On("headers-shared") {
		b.e.Headers = raw.Headers
	}
	b.e.Attempt, b.e.MaxAttempts = run.attempt(), run.MaxAttempts
	if err := decodePayload(b.codec, raw.Payload, &b.e.Payload); err != nil {
		return fmt.Errorf("payload of event %q (%s, %d bytes) cannot be decoded into %T: %w",
			raw.ID, raw.Type, len(raw.Payload), b.e.Payload, err)
	}
	return nil
}

// registered is all that goes by one handler name.
type registered struct {
	settings      Handler // with defaults; Event is that of the first registration
	transactional bool
}

func (b *Bus[Tx]) register(h Handler, transactional bool, bind binder[Tx]) error {
	if err := h.Validate(); err != nil {
		return err
	}
	h = h.withDefaults()
	pair := EventHandler{Event: h.Event, Handler: h.Name}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkRegistration(pair, h, transactional); err != nil {
		return err
	}
	if b.handlers[h.Name] == nil {
		b.handlers[h.Name] = &registered{settings: h, transactional: transactional}
		b.names = append(b.names, h.Name)
	}
	b.routes[pair] = bind
	b.pairs = append(b.pairs, pair)
	return nil
}

func (b *Bus[Tx]) checkRegistration(pair EventHandler, h Handler, transactional bool) error {
	if b.sealed {
		return fmt.Errorf("register handler %q of %q: %w; register every handler before Run or Start", h.Name, h.Event, ErrStarted)
	}
	if b.routes[pair] != nil {
		return invalid("handler %q is registered for %q already", h.Name, h.Event)
	}
	first := b.handlers[h.Name]
	if first == nil {
		return nil
	}
	if first.transactional != transactional {
		return invalid("handler %q is registered both with Handle and with HandleTx: give the two different names", h.Name)
	}
	if !first.settings.sameSettings(h) {
		return invalid("handler %q of %q has other settings than for %q: one name has one set of settings", h.Name, h.Event, first.settings.Event)
	}
	return nil
}

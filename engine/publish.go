package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// Message is an event to be published.
type Message struct {
	// ID identifies the event; [Config.NewID] makes one when it is empty.
	// Publishing an id again is harmless: handlers that have had the event do
	// not get it again while it is kept. At most [MaxID] bytes, compared byte
	// by byte.
	ID string
	// Type is what handlers subscribe to: 1 to [MaxName] bytes.
	Type string
	// Key orders events: those of one key reach a handler one at a time, in
	// the order their transactions committed. Empty means no order. At most
	// [MaxKey] bytes.
	Key string
	// Payload is encoded by [Config.Codec], except []byte and
	// json.RawMessage, whose bytes are kept as they are. At most [MaxPayload]
	// bytes.
	Payload any
	// Headers travel with the event unchanged: at most [MaxHeaders], with
	// names of 1 to [MaxName] bytes and values of at most [MaxHeaderValue].
	Headers []Header
	// Delay puts the event off: its handlers get it no sooner than this long
	// after it was published, by the store's clock. At most [MaxDelay]; 0
	// means at once. With a Key, later events of the key wait for it, as for
	// any other.
	Delay time.Duration
	// At puts the event off until that time, by the store's clock; one that
	// has passed means at once. Between the years 2000 and 2200; the zero
	// Time means at once. Set at most one of Delay and At. When an id is
	// published again, Delay and At count only for handlers that have not had
	// the event.
	At time.Time
}

// Published is what became of one message.
type Published struct {
	// ID is the message's, or the one that was made for it.
	ID string
	// Result is [Added], [Known] or [Mismatch].
	Result PublishResult
}

// Publish writes messages inside the caller's transaction, with one delivery
// for every handler subscribed to their type, committed or rolled back with
// everything else in tx.
//
// The messages are checked first: when one is refused (the error wraps
// [ErrInvalid]) nothing was written and tx is as before. An error that wraps
// [ErrMismatch] says that an id is taken by an event of another type or key;
// that message was not added, the others were, and tx can still be used. After
// any other error roll tx back. Publishing no message does nothing.
//
// Publish once and last in a transaction, all messages together: the keys stay
// locked until the commit, and other publishers of the same keys wait for it.
func (b *Bus[Tx]) Publish(ctx context.Context, tx Tx, msgs ...Message) error {
	return b.send(ctx, msgs, func(ctx context.Context, events []protocol.Event) error {
		published, err := b.publish(ctx, tx, events)
		if err != nil {
			return err
		}
		return mismatches(published)
	})
}

// PublishAll is [Bus.Publish] that tells what became of each message, in
// order, with the ids that were made. A mismatch is a result here, not an
// error.
func (b *Bus[Tx]) PublishAll(ctx context.Context, tx Tx, msgs []Message) (published []Published, err error) {
	err = b.send(ctx, msgs, func(ctx context.Context, events []protocol.Event) (err error) {
		published, err = b.publish(ctx, tx, events)
		return err
	})
	return published, err
}

const (
	publishTries = 5
	publishPause = 20 * time.Millisecond // doubled after each try
)

// PublishNow publishes messages in a transaction of its own and wakes this
// bus. All are published or, on any error but [ErrCommitUnknown], none.
//
// A conflict and an unknown outcome of COMMIT are tried again a few times with
// growing pauses: the ids stay the same, so nothing is published twice. When
// the outcome is still unknown the error wraps [ErrCommitUnknown]; repeating
// the call with the same ids is safe.
func (b *Bus[Tx]) PublishNow(ctx context.Context, msgs ...Message) error {
	return b.send(ctx, msgs, b.publishNow)
}

func (b *Bus[Tx]) publishNow(ctx context.Context, events []protocol.Event) error {
	var unknown error
	for try := 1; ; try++ {
		err := b.InTx(ctx, func(ctx context.Context, tx Tx) error {
			published, err := b.publish(ctx, tx, events)
			if err != nil {
				return err
			}
			return mismatches(published)
		})
		if err == nil {
			return nil
		}
		again := errors.Is(err, ErrRetryable)
		if errors.Is(err, ErrCommitUnknown) {
			unknown, again = err, true
		}
		if again && try < publishTries && sleep(ctx, publishPause<<try) == nil {
			continue
		}
		if unknown != nil && !errors.Is(err, ErrCommitUnknown) {
			return fmt.Errorf("%w; an earlier try may have committed: %w", err, unknown)
		}
		return err
	}
}

func (b *Bus[Tx]) publish(ctx context.Context, tx Tx, events []protocol.Event) ([]Published, error) {
	if isNil(tx) {
		return nil, fmt.Errorf("publish: %w", invalid("the transaction is nil: PublishNow has one of its own"))
	}
	results, err := b.store.Publish(ctx, tx, events)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	notePublish(ctx)
	published := make([]Published, len(events))
	for i := range events {
		published[i] = Published{ID: events[i].ID, Result: results[i]}
	}
	return published, nil
}

func mismatches(published []Published) error {
	var ids []string
	for _, p := range published {
		if p.Result == Mismatch {
			ids = append(ids, fmt.Sprintf("%q", p.ID))
		}
	}
	if ids == nil {
		return nil
	}
	return fmt.Errorf("publish: %w: %s; give the new event an id of its own", ErrMismatch, strings.Join(ids, ", "))
}

// PublishMiddleware stands around a publication. msgs are a copy for it to
// change, with their ids and with the headers of the context; next checks,
// encodes and writes what it is given. It is called at most once, with ctx or
// a context made from it. Before next returns nothing was committed, and after
// it only for PublishNow.
type PublishMiddleware func(ctx context.Context, msgs []Message, next func(context.Context, []Message) error) error

// send takes messages through the middleware to insert.
func (b *Bus[Tx]) send(ctx context.Context, msgs []Message, insert func(context.Context, []protocol.Event) error) error {
	if len(msgs) == 0 {
		return nil
	}
	next := func(ctx context.Context, msgs []Message) error {
		events, err := b.events(msgs)
		if err != nil || len(events) == 0 {
			return err
		}
		return insert(ctx, events)
	}
	for i := len(b.cfg.PublishMiddleware) - 1; i >= 0; i-- {
		outer, inner := b.cfg.PublishMiddleware[i], next
		next = func(ctx context.Context, msgs []Message) error { return outer(ctx, msgs, inner) }
	}
	return b.watchPublish(len(msgs), func() error { return next(ctx, b.address(ctx, msgs)) })
}

// address returns the messages with ids and with the headers of the context.
func (b *Bus[Tx]) address(ctx context.Context, msgs []Message) []Message {
	addressed := make([]Message, len(msgs))
	headers := HeadersFrom(ctx)
	for i, m := range msgs {
		if m.ID == "" {
			m.ID = b.cfg.NewID()
		}
		m.Headers = merge(m.Headers, headers)
		addressed[i] = m
	}
	return addressed
}

// events checks and encodes a whole batch before any of it is written.
func (b *Bus[Tx]) events(msgs []Message) ([]protocol.Event, error) {
	events := make([]protocol.Event, len(msgs))
	for i, m := range msgs {
		event, err := b.event(m)
		if err != nil {
			return nil, fmt.Errorf("publish: message %d of %d, type %.*q: %w", i+1, len(msgs), MaxName, m.Type, err)
		}
		events[i] = event
	}
	return events, nil
}

func (b *Bus[Tx]) event(m Message) (protocol.Event, error) {
	if err := m.check(); err != nil {
		return protocol.Event{}, err
	}
	payload, err := encodePayload(b.cfg.Codec, m.Payload)
	if err != nil {
		return protocol.Event{}, invalid("payload of type %T cannot be encoded: %w", m.Payload, err)
	}
	if len(payload) > MaxPayload {
		return protocol.Event{}, invalid("payload has %d bytes, at most %d are allowed", len(payload), MaxPayload)
	}
	return protocol.Event{
		ID: m.ID, Type: m.Type, Key: m.Key, Payload: payload,
		Headers: append([]Header(nil), m.Headers...),
		Due:     m.due(),
	}, nil
}

func (m Message) due() Due {
	switch {
	case mutant.On("delay-dropped"):
		return Due{}
	case mutant.On("delay-doubled"):
		return Due{Delay: 2 * m.Delay}
	case mutant.On("at-in-seconds") && !m.At.IsZero():
		return Due{At: StoreTime(m.At.Unix())}
	case m.At.IsZero():
		return Due{Delay: m.Delay}
	}
	return Due{At: StoreTime(m.At.UnixNano())}
}

func (m Message) check() error {
	if err := checkName("type", m.Type, MaxName); err != nil {
		return err
	}
	if err := checkName("id", m.ID, MaxID); err != nil {
		return err
	}
	if err := checkText("key", m.Key, MaxKey); err != nil {
		return err
	}
	if err := m.checkDue(); err != nil {
		return err
	}
	return m.checkHeaders()
}

// The years that a store can hold and that no mistaken unit lands in: seconds
// taken for nanoseconds are 1970, nanoseconds for milliseconds far away.
const firstYear, lastYear = 2000, 2200

func (m Message) checkDue() error {
	switch year := m.At.UTC().Year(); {
	case m.Delay != 0 && !m.At.IsZero():
		return invalid("both Delay %v and At %v are set: set one", m.Delay, m.At)
	case m.Delay < 0 || m.Delay > MaxDelay:
		return invalid("Delay is %v: it must lie between 0 and %v", m.Delay, time.Duration(MaxDelay))
	case !m.At.IsZero() && (year < firstYear || year >= lastYear):
		return invalid("At is %v: it must lie between the years %d and %d", m.At, firstYear, lastYear)
	}
	return nil
}

func (m Message) checkHeaders() error {
	if len(m.Headers) > MaxHeaders {
		return invalid("%d headers, at most %d are allowed", len(m.Headers), MaxHeaders)
	}
	for _, h := range m.Headers {
		if err := checkName("header name", h.Name, MaxName); err != nil {
			return err
		}
		if err := checkText(fmt.Sprintf("header %q", h.Name), h.Value, MaxHeaderValue); err != nil {
			return err
		}
	}
	return nil
}

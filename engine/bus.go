package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Bus publishes events and runs handlers on one store. Make one per process
// and group; its methods may be called from many goroutines.
type Bus[Tx any] struct {
	store    TxStore[Tx]
	cfg      Config   // with defaults
	notifier Notifier // the store, when it is one

	// Registrations. They change under mu until sealed is set, and never
	// after, so that runs read them without a lock.
	handlers map[string]*registered
	names    []string // the keys of handlers, in order of registration
	routes   map[EventHandler]binder[Tx]
	pairs    []EventHandler // the keys of routes, in order of registration

	mu     sync.Mutex
	sealed bool
	runner *runner // nil while the bus does not run
}

// New returns a bus on a store. Tx, the driver's transaction type, is inferred
// from the store. The error wraps [ErrInvalid].
func New[Tx any](store TxStore[Tx], cfg Config) (*Bus[Tx], error) {
	if isNil(store) {
		return nil, invalid("engine.New needs a store, and got nil: look at the error of what made it")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, ok := any(store).(Operator); cfg.Retention.on() && !ok {
		return nil, invalid("Config.Retention is set, and a %T is no Operator that could purge", store)
	}
	cfg = cfg.withDefaults()
	cfg.Middleware = slices.Clone(cfg.Middleware)
	cfg.PublishMiddleware = slices.Clone(cfg.PublishMiddleware)
	notifier, _ := any(store).(Notifier)
	return &Bus[Tx]{
		store:    store,
		cfg:      cfg,
		notifier: notifier,
		handlers: map[string]*registered{},
		routes:   map[EventHandler]binder[Tx]{},
	}, nil
}

// InTx runs fn in a transaction of the store's choosing, commits when fn
// returns nil, and then wakes this bus, so that what fn published starts
// without waiting for the next poll. fn runs once: after an error that wraps
// [ErrRetryable] nothing was applied and the caller may call InTx again; after
// one that wraps [ErrCommitUnknown] it may have been committed, and publishing
// the same ids again is safe. Other processes are woken where the store can,
// if fn published with the ctx it was given.
func (b *Bus[Tx]) InTx(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	var published atomic.Bool
	if b.notifier != nil {
		ctx = context.WithValue(ctx, publishedKey{}, &published)
	}
	err := b.store.InTx(ctx, fn)
	if err == nil || errors.Is(err, ErrCommitUnknown) {
		b.wakeHere()
		if published.Load() {
			b.notifier.Notify()
		}
	}
	return err
}

// Wake hints that work may be due: call it after the commit of a transaction
// of your own in which [Bus.Publish] was called. Without it the work starts
// with the next poll. Other processes are woken too, where the store can. It
// never blocks and is harmless on a bus that does not run.
func (b *Bus[Tx]) Wake() {
	b.wakeHere()
	if b.notifier != nil {
		b.notifier.Notify()
	}
}

func (b *Bus[Tx]) wakeHere() {
	if r := b.current(); r != nil {
		r.nudge()
	}
}

func (b *Bus[Tx]) current() *runner {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runner
}

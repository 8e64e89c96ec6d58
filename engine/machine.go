package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// dispatcherConfig is everything the pure Dispatcher decides from.
type dispatcherConfig struct {
	Holder       Holder
	Owner, Group string
	Revive       bool

	Lease, Poll, Window, CallTimeout time.Duration

	Concurrency, ClaimLimit, LanesPerClaim, CompletionBatch int

	Handlers      []dispatchHandler // sorted by Name, one per handler name
	Subscriptions []EventHandler
	Jitter        func(n int64) int64 // uniform in [0, n)
	Retention     Retention
}

// dispatchHandler is what the Dispatcher needs to know of one handler name.
type dispatchHandler struct {
	Name           string
	Concurrency    int
	MaxAttempts    int
	Transactional  bool
	Timeout, Grace time.Duration
	Retry          RetryPolicy

	active int  // its chains that take a slot
	short  bool // the last claim may have left some of it in the store
}

// Machine is one life of a bus without goroutines, timers and clocks: whoever
// drives it feeds inputs to Step and performs the effects that come back.
// [Bus.Run] is one driver; a simulator in virtual time is another.
//
// It stands for one bus instance: a process that restarts makes a new Machine,
// with a new holder. Its methods follow the Dispatcher's needs and are not
// stable: they may change in any release.
type Machine struct {
	store      Store
	executes   func(ctx *runContext) RunResult
	dispatcher *Dispatcher
	holder     Holder
}

// NewMachine returns a machine for the handlers of bus, which takes no more
// registrations from then on. The error wraps [ErrInvalid].
func NewMachine[Tx any](bus *Bus[Tx]) (*Machine, error) {
	bus.mu.Lock()
	defer bus.mu.Unlock()
	return bus.newMachine()
}

// newMachine needs b.mu.
func (b *Bus[Tx]) newMachine() (*Machine, error) {
	if len(b.names) == 0 {
		return nil, invalid("no handler is registered: call Handle or HandleTx before Run or Start")
	}
	holder := b.cfg.NewHolder()
	if holder.IsZero() {
		return nil, invalid("Config.NewHolder returned sixteen zero bytes, which name nobody")
	}
	if mutant.On("restarted-worker-adopts-lanes") {
		holder = Holder{}
		copy(holder[:], b.cfg.Owner)
	}
	b.sealed = true
	return &Machine{
		store:      b.store,
		executes:   b.execute,
		dispatcher: newDispatcher(b.dispatcherConfig(holder)),
		holder:     holder,
	}, nil
}

func (b *Bus[Tx]) dispatcherConfig(holder Holder) dispatcherConfig {
	jitter := b.cfg.Jitter
	if jitter == nil {
		jitter = newJitter()
	}
	return dispatcherConfig{
		Holder: holder, Owner: b.cfg.Owner, Group: b.cfg.Group, Revive: b.cfg.Revive,
		Lease: b.cfg.Lease, Poll: b.cfg.Poll, Window: b.cfg.Window, CallTimeout: b.cfg.CallTimeout,
		Concurrency: b.cfg.Concurrency, ClaimLimit: b.cfg.ClaimLimit,
		LanesPerClaim: b.cfg.LanesPerClaim, CompletionBatch: b.cfg.CompletionBatch,
		Handlers:      b.dispatchHandlers(),
		Subscriptions: slices.SortedFunc(slices.Values(b.pairs), comparePairs),
		Jitter:        boundedJitter(jitter),
		Retention:     b.cfg.Retention,
	}
}

func (b *Bus[Tx]) dispatchHandlers() []dispatchHandler {
	handlers := make([]dispatchHandler, 0, len(b.names))
	for _, name := range slices.Sorted(slices.Values(b.names)) {
		h := b.handlers[name]
		concurrency := h.settings.Concurrency
		if concurrency == 0 {
			concurrency = b.cfg.Concurrency
		}
		handlers = append(handlers, dispatchHandler{
			Name: name, Concurrency: concurrency, MaxAttempts: h.settings.MaxAttempts,
			Transactional: h.transactional,
			Timeout:       h.settings.Timeout, Grace: h.settings.Grace,
			Retry: boundedRetry{h.settings.Retry},
		})
	}
	return handlers
}

func comparePairs(a, b EventHandler) int {
	if c := strings.Compare(a.Event, b.Event); c != 0 {
		return c
	}
	return strings.Compare(a.Handler, b.Handler)
}

// Holder returns the identity of this instance.
func (m *Machine) Holder() Holder { return m.holder }

// Step feeds inputs and returns what is to be done, in order. The first
// input must be [Start]; after [Stopped] no input may follow.
func (m *Machine) Step(at Instant, inputs ...Input) []Effect { return m.dispatcher.Step(at, inputs...) }

// Hash returns a hash of the Dispatcher's state: the same on every machine
// after the same inputs.
func (m *Machine) Hash() uint64 { return m.dispatcher.Hash() }

// Execute runs one delivery and blocks until its handler returned and, for a
// transactional one, its transaction ended. A panic of the handler is a
// failed attempt.
func (m *Machine) Execute(ctx context.Context, run *Run) RunResult {
	return m.executes(&runContext{Context: ctx, run: run})
}

// Perform makes one store call and blocks until it returns. It does not
// enforce Timeout: give it a context that does.
func (m *Machine) Perform(ctx context.Context, c Call) CallReturned {
	reply, err := m.perform(ctx, c.Input)
	if err != nil {
		return CallReturned{ID: c.ID, Err: err}
	}
	return CallReturned{ID: c.ID, Reply: reply}
}

func (m *Machine) perform(ctx context.Context, input any) (any, error) {
	switch in := input.(type) {
	case SubscribeInput:
		return pointer(m.store.Subscribe(ctx, in))
	case ClaimInput:
		return pointer(m.store.Claim(ctx, in))
	case ExtendLeaseInput:
		return pointer(m.store.ExtendLease(ctx, in))
	case CompleteManyInput:
		return pointer(m.store.CompleteMany(ctx, in))
	case RescheduleInput:
		in.Error = CleanText(in.Error)
		return pointer(m.store.Reschedule(ctx, in))
	case SnoozeInput:
		return pointer(m.store.Snooze(ctx, in))
	case BuryInput:
		in.Error = CleanText(in.Error)
		return pointer(m.store.Bury(ctx, in))
	case ReleaseInput:
		return pointer(m.store.Release(ctx, in))
	case RelinquishInput:
		return pointer(m.store.Relinquish(ctx, in))
	case PurgeInput:
		return pointer(m.store.(Operator).Purge(ctx, in)) // New has seen that it is one
	}
	panic(fmt.Sprintf("engine: no store call takes a %T", input))
}

func pointer[Reply any](reply Reply, err error) (any, error) { return &reply, err }

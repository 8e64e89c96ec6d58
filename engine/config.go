package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Config holds the settings of a [Bus]. The zero value works; a field at zero
// takes its default. A Config is read once, by [New].
type Config struct {
	// Group names the set of handlers that are deployed together; default
	// "default". Workers lease lanes of their own group only, so that one
	// service never waits for the handlers of another. A handler belongs to
	// the group of its first subscription; moving it is an operator's action.
	Group string
	// Owner is the human-readable name of this worker beside its leases;
	// default "hostname:pid". It identifies nothing: two workers may share
	// one.
	Owner string
	// Revive brings subscriptions back that an operator removed with
	// Unsubscribe; default false, so that an old release starting late does
	// not resurrect a handler.
	Revive bool

	// Lease is how long a lane stays with a worker that falls silent; default
	// 30 s, from 100 ms to 1 h. Shorter: a dead worker's deliveries run
	// elsewhere sooner. Longer: a longer outage of the store is survived
	// without charging what was running.
	Lease time.Duration
	// Poll is the longest pause between two looks for due work; default 1 s,
	// or Lease/20 when that is less. It may not exceed Lease/20. Shorter:
	// less delay where no wake-up arrives, more statements while idle.
	Poll time.Duration
	// Window is how long the completion of a plain handler may wait for
	// others to share a write; default 2 ms, at most 1 s and Lease/20. A
	// crash within the window runs those handlers again.
	Window time.Duration
	// CallTimeout is after how long a store call is given up; default
	// Lease/3, from 10 ms to Lease/2, so that a call that hangs leaves time
	// for another before the lease runs out.
	CallTimeout time.Duration
	// StopTimeout bounds a graceful stop; default 30 s, from 1 ms to 24 h.
	// Handlers may finish during the first three quarters of it (all but 5 s,
	// when it is longer than 20 s); the rest is for storing results and
	// giving lanes back. See [Bus.Stop].
	StopTimeout time.Duration

	// Retention is what this bus deletes on a schedule: dead letters, events
	// and completions of some age; default nothing.
	Retention Retention

	// Concurrency bounds the handlers that run at once in this bus; default
	// 100, at most 100,000. Of four or more, one slot is kept free for each
	// handler that runs nothing now, as far as a quarter of them goes: a
	// handler that hangs leaves room for the others. A handler whose lease was
	// lost counts until it returns, or its grace is over.
	Concurrency int
	// ClaimLimit bounds the deliveries one claim brings; default 100, at most
	// 10,000. Larger: fewer statements per delivery, and more that waits for
	// the lease to run out if this worker dies.
	ClaimLimit int
	// LanesPerClaim bounds the lanes one claim takes over; default 8, at most
	// 256. Larger: a new worker gets work sooner and spreads it less evenly.
	LanesPerClaim int
	// CompletionBatch bounds the completions of one write; default 200, at
	// most 1,000.
	CompletionBatch int

	// Codec encodes and decodes payloads; default [JSON]. Publishers and
	// handlers of an event type must agree on it.
	Codec Codec
	// Middleware wraps every run of every handler, the first one outermost:
	// the place for traces, metrics and loggers. Around a transactional
	// handler it runs inside the transaction, before COMMIT.
	Middleware []Middleware
	// PublishMiddleware wraps every call of Publish, PublishAll and
	// PublishNow, the first one outermost.
	PublishMiddleware []PublishMiddleware
	// Observer is told what happens, for metrics; default nobody.
	Observer Observer
	// NewID makes the id of a message that has none; default a UUID of
	// version 7. Ids must be unique for as long as events are kept: a second
	// event with a known id is taken for the first.
	NewID func() string
	// NewHolder makes the 16 bytes that identify a bus instance each time it
	// starts; default crypto/rand. They must never repeat: fencing rests on
	// them. Only simulators have a reason to set it.
	NewHolder func() Holder
	// Jitter returns a uniformly random number in [0, n) for n > 0; default a
	// PCG seeded from crypto/rand. It is called by one goroutine at a time.
	Jitter func(n int64) int64
	// Logger receives what an operator should know: leases lost, deliveries
	// buried, the store away; default [slog.Default].
	Logger *slog.Logger
	// BaseContext returns the context whose values every handler's context
	// carries; default the context given to [Bus.Run] or [Bus.Start]. Its
	// cancellation is ignored: a handler's context ends as [Handler.Timeout]
	// and [Bus.Stop] say.
	BaseContext func() context.Context
}

// Defaults and bounds of Config.
const (
	defaultLease       = 30 * time.Second
	defaultPoll        = time.Second
	defaultWindow      = 2 * time.Millisecond
	defaultStopTimeout = 30 * time.Second

	defaultConcurrency     = 100
	defaultClaimLimit      = 100
	defaultLanesPerClaim   = 8
	defaultCompletionBatch = 200

	maxConcurrency     = 100_000
	maxClaimLimit      = 10_000
	maxCompletionBatch = 1_000

	pollsPerLease = 20 // the protocol's "poll interval ≤ ttl/20"
)

// Validate reports the first setting that cannot work, in a sentence that
// says what would; the error wraps [ErrInvalid]. [New] calls it.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, check := range []func() error{c.checkNames, c.checkTimes, c.Retention.check, c.checkCounts, c.checkMiddleware} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkNames() error {
	if err := checkName("Config.Group", c.Group, MaxName); err != nil {
		return err
	}
	return checkName("Config.Owner", c.Owner, MaxName)
}

func (c Config) checkTimes() error {
	if err := checkRange("Config.Lease", c.Lease, 100*time.Millisecond, time.Hour); err != nil {
		return err
	}
	if most := c.Lease / pollsPerLease; c.Poll < time.Millisecond || c.Poll > most {
		return invalid("Config.Poll is %v with a Lease of %v: it must lie between 1ms and a twentieth of the lease, %v", c.Poll, c.Lease, most)
	}
	if most := min(time.Second, c.Lease/pollsPerLease); c.Window < 0 || c.Window > most {
		return invalid("Config.Window is %v with a Lease of %v: it must lie between 1ns and %v", c.Window, c.Lease, most)
	}
	if most := c.Lease / 2; c.CallTimeout < 10*time.Millisecond || c.CallTimeout > most {
		return invalid("Config.CallTimeout is %v with a Lease of %v: it must lie between 10ms and half of the lease, %v", c.CallTimeout, c.Lease, most)
	}
	return checkRange("Config.StopTimeout", c.StopTimeout, time.Millisecond, 24*time.Hour)
}

func (c Config) checkCounts() error {
	for _, n := range []struct {
		what        string
		value, most int
	}{
		{"Config.Concurrency", c.Concurrency, maxConcurrency},
		{"Config.ClaimLimit", c.ClaimLimit, maxClaimLimit},
		{"Config.LanesPerClaim", c.LanesPerClaim, protocol.DefaultLanes},
		{"Config.CompletionBatch", c.CompletionBatch, maxCompletionBatch},
	} {
		if err := checkRange(n.what, n.value, 1, n.most); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkMiddleware() error {
	if i := slices.IndexFunc(c.Middleware, func(m Middleware) bool { return m == nil }); i >= 0 {
		return invalid("Config.Middleware[%d] is nil", i)
	}
	if i := slices.IndexFunc(c.PublishMiddleware, func(m PublishMiddleware) bool { return m == nil }); i >= 0 {
		return invalid("Config.PublishMiddleware[%d] is nil", i)
	}
	return nil
}

// checkRange refuses a duration or count outside [least, most].
func checkRange[N int | time.Duration](what string, value, least, most N) error {
	if value < least || value > most {
		return invalid("%s is %v: it must lie between %v and %v", what, value, least, most)
	}
	return nil
}

// withDefaults returns c with every field set that New does not make itself.
func (c Config) withDefaults() Config {
	orDefault(&c.Group, "default")
	orDefault(&c.Lease, defaultLease)
	orDefault(&c.Poll, min(defaultPoll, c.Lease/pollsPerLease))
	orDefault(&c.Window, min(defaultWindow, c.Lease/pollsPerLease))
	orDefault(&c.CallTimeout, c.Lease/3)
	orDefault(&c.StopTimeout, defaultStopTimeout)
	orDefault(&c.Retention.Every, defaultRetentionEvery)
	orDefault(&c.Concurrency, defaultConcurrency)
	orDefault(&c.ClaimLimit, defaultClaimLimit)
	orDefault(&c.LanesPerClaim, defaultLanesPerClaim)
	orDefault(&c.CompletionBatch, defaultCompletionBatch)
	if c.Owner == "" {
		c.Owner = processName()
	}
	if c.Codec == nil {
		c.Codec = JSON{}
	}
	if c.NewID == nil {
		c.NewID = newUUID
	}
	if c.NewHolder == nil {
		c.NewHolder = newHolder
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func orDefault[V comparable](field *V, value V) {
	var zero V
	if *field == zero {
		*field = value
	}
}

package simstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// Store implements the protocol in memory.
var _ engine.TxStore[*Tx] = (*Store)(nil)

// Options configure a [Store]. The zero value is a live locking store.
type Options struct {
	// Semantics is the family of stores to behave like.
	Semantics protocol.Semantics
	// Lanes per group; 0 means [protocol.DefaultLanes].
	Lanes int32
	// AsyncClaims acknowledges claims, takeovers and renewals of a locking
	// store before they are durable (PostgreSQL's synchronous_commit = off).
	AsyncClaims bool
	// History keeps a row per completion, see [Contents].
	History bool
	// Scheduler interleaves calls; nil means goroutines and the wall clock.
	Scheduler Scheduler
	// Observer, if set, is told of every commit.
	Observer Observer
	// LockTimeout bounds the lock waits of calls that end a run and that name
	// no lease duration; 0 means 3 s, a tenth of the default lease.
	LockTimeout time.Duration
	// Hook, if set, is called before each statement of a live store, with the
	// store unlocked: a test may call the store from it. Its error is raised by
	// the statement, as one of [Scheduler].Pause.
	Hook func(ctx context.Context, p Point) error
	// IdleTimeout rolls callers' transactions back that were idle for longer;
	// 0: never. Publish and Complete set shorter ones.
	IdleTimeout time.Duration
	// PublishIdle is the idle timeout that a keyed Publish sets in a locking
	// store, so that a vanished publisher does not keep its slots; 0 means
	// 60 s, negative leaves the transaction's timeout alone.
	PublishIdle time.Duration
}

// Store is an in-memory store of events, deliveries and the user's own rows.
// Its methods may be called from many goroutines when its Scheduler is the
// live one.
type Store struct {
	options  Options
	db       database
	verified verified
	hints    map[protocol.Holder]*picks.Hints // of the workers' processes
}

// New returns a live locking store with 256 lanes per group.
func New() *Store { return NewWith(Options{}) }

// NewWith returns a store with the given options.
func NewWith(o Options) *Store {
	live := o.Scheduler == nil
	if live {
		o.Scheduler = newLive(o.Hook)
	}
	if o.Lanes <= 0 {
		o.Lanes = protocol.DefaultLanes
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = 3 * time.Second
	}
	if o.PublishIdle == 0 {
		o.PublishIdle = time.Minute
	}
	s := &Store{options: o}
	// A live store loses nothing that is durable, so it need not remember how
	// to undo it; a simulator may fail over to any former state.
	s.db.init(o, !live)
	return s
}

func (db *database) init(o Options, keepLog bool) {
	db.semantics, db.sched, db.observer, db.keepLog = o.Semantics, o.Scheduler, o.Observer, keepLog
	db.index = newDeliveryIndex()
	db.subs.byEvent = map[string]*sorted[*subscriptionRow]{}
	db.events = newTable[string, protocol.Event](db)
	db.deliveries = newTable[protocol.DeliveryID, protocol.Delivery](db)
	db.deliveries.changed = db.index.changed
	db.lanes = newTable[protocol.LaneID, protocol.Lane](db)
	db.slots = newTable[int32, int64](db)
	db.subscriptions = newTable[protocol.EventHandler, protocol.Subscription](db)
	db.subscriptions.changed = db.subs.changed
	db.groups = newTable[string, int32](db)
	db.counters = newTable[string, int64](db)
	db.counters.seed(groupCounter, new(int64))
	db.history = newTable[int64, Completion](db)
	db.user = newTable[userKey, []byte](db)
}

// Position returns the position of the last commit.
func (s *Store) Position() int64 { return s.locked(func() int64 { return s.db.pos }) }

// Durable returns the position of the last commit that a crash of the store
// cannot lose.
func (s *Store) Durable() int64 { return s.locked(func() int64 { return s.db.durable }) }

func (s *Store) locked(read func() int64) int64 {
	s.db.sched.Enter()
	defer s.db.sched.Leave()
	return read()
}

// Crash takes the store back to the commit at position keep: every later
// commit is lost, open transactions end with [ErrConnectionLost] and locks are
// dropped. A crash of the store itself keeps at least [Store.Durable]; a
// failover of a locking store to a replica that lags may keep less. A Snapshot
// store acknowledges what a majority of its members have and reads nothing
// else, so it loses no commit; only open transactions end. Ids, epochs and
// counters go back with the commits and are issued again.
func (s *Store) Crash(keep int64) {
	s.db.sched.Enter()
	defer s.db.sched.Leave()
	s.db.crash(keep)
}

// Forget says that no Crash will go back before position pos, so that the
// store can drop what it would need for it.
func (s *Store) Forget(pos int64) {
	s.db.sched.Enter()
	defer s.db.sched.Leave()
	s.db.forget(min(pos, s.db.durable))
}

// call is one call into the store. It carries the call's context to its
// statements and lives no longer than the call.
type call struct {
	ctx     context.Context
	s       *Store
	db      *database
	name    string
	crashes int64
}

// serve runs one call: body, and then the reply, which may be lost.
func (s *Store) serve(ctx context.Context, name string, body func(c *call) error) error {
	s.db.sched.Enter()
	defer s.db.sched.Leave()
	c := &call{ctx: ctx, s: s, db: &s.db, name: name, crashes: s.db.crashes}
	if err := body(c); err != nil {
		return err
	}
	return s.reply(ctx, name, c.crashes)
}

// reply lets the answer travel. An error of it says nothing about the call, so
// it never counts as "nothing was applied".
func (s *Store) reply(ctx context.Context, name string, crashes int64) error {
	err := s.db.sched.Pause(ctx, Point{Call: name, Step: "reply"})
	switch {
	case err == nil && crashes != s.db.crashes:
		return ErrConnectionLost
	case errors.Is(err, engine.ErrRetryable) || engine.IsDefinite(err):
		return fmt.Errorf("simstore: reply lost: %v", err)
	}
	return err
}

// begin opens a transaction of the call's own, READ COMMITTED whatever the
// store's default is.
func (c *call) begin() *Tx {
	t := c.s.begin(c.name, ReadCommitted)
	t.crashes = c.crashes
	return t
}

// transact runs body in a transaction of the call's own and commits it. When
// the call dies in the middle, the transaction is rolled back as if its
// connection had gone.
func (c *call) transact(async bool, lockTimeout time.Duration, body func(t *Tx) error) error {
	t := c.begin()
	defer t.end(ErrConnectionLost)
	t.lockTimeout = lockTimeout
	if err := body(t); err != nil {
		return err
	}
	return t.commit(c.ctx, async)
}

// now is the store's clock.
func (c *call) now() protocol.Time { return c.db.sched.Now() }

// InTx runs fn in a READ COMMITTED (or snapshot) transaction and commits it
// when fn returns nil. A live store rolls it back as soon as ctx ends, whatever
// fn is doing; with a Scheduler of the caller's own that is for the caller.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	t, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer t.Rollback()
	if l, ok := s.db.sched.(*live); ok {
		defer l.whenOver(ctx, func() {
			t.end(brokenOff(fmt.Errorf("its context ended: %w", context.Cause(ctx))))
		})()
	}
	if err := fn(ctx, t); err != nil {
		return err
	}
	return t.Commit(ctx)
}

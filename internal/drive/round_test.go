package drive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/sim"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// The settings of all rounds.
const (
	lanes          = 4
	lease          = 4 * time.Second
	poll           = lease / 20
	callTimeout    = 600 * time.Millisecond
	handlerTimeout = time.Second
	handlerGrace   = 300 * time.Millisecond
	attempts       = 4
	// drainWithin is far more than the longest chain of retries, settles and
	// leases that run out takes.
	drainWithin = 3 * time.Minute
	// slowClaim is how long a claim takes while hints are measured. promptly is
	// when work that a hint announced must have begun: after the rest of a claim
	// under way and one more, far sooner than the poll.
	slowClaim = 30 * time.Millisecond
	promptly  = 2*slowClaim + 5*time.Millisecond
	// silence is how long a claim does not return, whatever its context says.
	silence = 20 * time.Second
	// afterSilence is when a bus with such a claim must have made another.
	afterSilence = 2 * callTimeout
)

type bus = engine.Bus[*simstore.Tx]

// round is one story: buses that come and go over a store that fails, then
// calm, in which everything must come to its end.
type round struct {
	dice    *dice
	weather *weather
	store   *simstore.Store
	began   time.Time

	mu     sync.Mutex // of what follows
	judge  *sim.Judge
	broken error
	seen   map[string]time.Time // when the body of an event began last
	told   map[string]time.Time // when an event was committed
	cut    map[string]bool      // runs, by runName, that their bus retired
	done   map[string]bool      // transactional runs that committed
}

// fail notes the first thing that went wrong.
func (r *round) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = fmt.Errorf("after %v: "+format, append([]any{time.Since(r.began)}, args...)...)
	}
}

// play runs the round of a seed, in a bubble of synctest.
func play(seed uint64) error {
	d := newDice(seed)
	semantics := protocol.Locking
	if d.one(2) {
		semantics = protocol.Snapshot
	}
	r := &round{
		dice: d, began: time.Now(), seen: map[string]time.Time{}, told: map[string]time.Time{}, cut: map[string]bool{}, done: map[string]bool{},
		weather: &weather{dice: d, often: 4 + d.n(20), limit: callTimeout},
		judge: sim.NewJudge(semantics, lanes, []sim.JudgedHandler{
			{Name: "plain", MaxAttempts: attempts},
			{Name: "tx", Transactional: true, MaxAttempts: attempts},
			{Name: "follow", MaxAttempts: attempts},
		}),
	}
	options := simstore.Options{Semantics: semantics, Lanes: lanes, Observer: r.committed}
	if d.one(2) {
		options.Hook = r.weather.hook
	}
	r.store = simstore.NewWith(options)
	r.stormAndCalm()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.judge.Finish(r.store)
		r.look()
	}
	return r.broken
}

func (r *round) committed(x simstore.Committed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge.Committed(x)
	r.look()
	for _, a := range x.Actions {
		switch a := a.(type) {
		case protocol.Publish:
			for i := range a.Events {
				r.told[a.Events[i].Event.ID] = time.Now()
			}
		case protocol.Complete:
			if a.Verdict == protocol.Applied && x.Position > 0 {
				name := runName(a.Lease.Delivery, a.Lease.Token.String())
				r.done[name] = true
				r.neverBoth(name)
			}
		}
	}
}

func runName(id protocol.DeliveryID, token string) string { return fmt.Sprintf("#%d %s", id, token) }

// neverBoth: a run that was retired never commits. It needs r.mu.
func (r *round) neverBoth(name string) {
	if r.cut[name] && r.done[name] && r.broken == nil {
		r.broken = fmt.Errorf("after %v: the run %s was retired and committed", time.Since(r.began), name)
	}
}

// Observe implements [engine.Observer].
func (k *worker) Observe(o engine.Observation) {
	if o.Kind != engine.ObservedRetired {
		return
	}
	r := k.r
	r.mu.Lock()
	defer r.mu.Unlock()
	name := runName(o.Delivery, k.tokens[o.Delivery])
	r.cut[name] = true
	r.neverBoth(name)
}

// look takes the judge's word. It needs r.mu.
func (r *round) look() {
	if v := r.judge.Violation(); v != nil && r.broken == nil {
		r.broken = fmt.Errorf("after %v: %v", time.Since(r.began), v)
	}
}

func (r *round) pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.judge.Pending()
}

// worker is one process: a bus, its way to the store, and what is known of it.
type worker struct {
	r           *round
	bus         *bus
	link        *link
	limit       time.Duration // of a stop
	concurrency int64
	life        atomic.Pointer[life] // the latest
	stopping    atomic.Bool
	tokens      map[protocol.DeliveryID]string // of the latest run of each; under r.mu
}

// life is one start of a bus, until its stop. The contexts of its handlers and
// calls carry it.
type life struct {
	running map[*int]context.Context // of bodies; under the round's mu
	bodies  atomic.Int64             // that have not returned
	calls   atomic.Int64             // that have not returned
}

func newLife() *life { return &life{running: map[*int]context.Context{}} }

// enter counts a body in. One whose context has ended may have been given up,
// so that its place is taken by another.
func (l *life) enter(r *round, ctx context.Context, most int64) (leave func()) {
	mine := new(int)
	r.mu.Lock()
	defer r.mu.Unlock()
	l.running[mine] = ctx
	n := int64(0)
	for _, c := range l.running {
		if c.Err() == nil {
			n++
		}
	}
	if n > most && r.broken == nil {
		r.broken = fmt.Errorf("after %v: %d handlers run at once, allowed are %d", time.Since(r.began), n, most)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(l.running, mine)
	}
}

type lifeKey struct{}

// lifeOf returns the life that a call or handler belongs to; what a publisher
// does belongs to none.
func lifeOf(ctx context.Context) *life {
	if l, ok := ctx.Value(lifeKey{}).(*life); ok {
		return l
	}
	return newLife()
}

// base begins a life.
func (k *worker) base() context.Context {
	l := newLife()
	k.life.Store(l)
	return context.WithValue(context.Background(), lifeKey{}, l)
}

// newWorker returns a worker that runs and claims at least so many deliveries at
// once.
func (r *round) newWorker(least int) *worker {
	d := r.dice
	k := &worker{
		tokens: map[protocol.DeliveryID]string{},
		r:      r, link: &link{Store: r.store, w: r.weather},
		limit: time.Second + d.upTo(2*time.Second), concurrency: int64(least + d.n(4)),
	}
	b, err := engine.New(k.link, engine.Config{
		Lease: lease, Poll: poll, CallTimeout: callTimeout, StopTimeout: k.limit,
		Concurrency: int(k.concurrency), ClaimLimit: least + d.n(8), CompletionBatch: 1 + d.n(5),
		Middleware: []engine.Middleware{k.around}, BaseContext: k.base, Observer: k, Logger: slog.New(slog.DiscardHandler),
		Jitter: func(n int64) int64 { return int64(d.n(int(min(n, 1<<30)))) },
	})
	must(err)
	k.bus = b
	h := engine.Handler{
		Name: "plain", Event: "a", Timeout: handlerTimeout, Grace: handlerGrace, MaxAttempts: attempts,
		Retry: engine.Exponential{Base: 100 * time.Millisecond, Cap: time.Second},
	}
	must(engine.Handle(b, h, func(ctx context.Context, e engine.Event[int]) error { return k.body(ctx, e.ID) }))
	h.Name = "follow"
	h.Event = "b"
	must(engine.Handle(b, h, func(ctx context.Context, e engine.Event[int]) error { return k.body(ctx, e.ID) }))
	h.Name, h.Event = "tx", "a"
	must(engine.HandleTx(b, h, k.transaction))
	return k
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// transaction is the transactional handler. It publishes what follows.
func (k *worker) transaction(ctx context.Context, tx *simstore.Tx, e engine.Event[int]) error {
	info, _ := engine.DeliveryFrom(ctx)
	put := func(table, key string) error { return tx.Put(ctx, table, key, nil) }
	if err := sim.WriteEffect(put, info); err != nil {
		return err
	}
	if err := k.body(ctx, e.ID); err != nil {
		return err
	}
	if k.r.weather.slow.Load() { // the claims that its own grant caused are over by then
		time.Sleep(3*slowClaim + k.r.dice.upTo(slowClaim))
	}
	return k.bus.Publish(ctx, tx, engine.Message{ID: "after " + e.ID, Type: "b", Key: e.Key, Payload: 0})
}

// body is what a handler does: mostly well, and at once.
func (k *worker) body(ctx context.Context, id string) error {
	d := k.r.dice
	k.r.mu.Lock()
	k.r.seen[id] = time.Now()
	k.r.mu.Unlock()
	if k.r.weather.calm.Load() {
		return nil
	}
	switch d.n(16) {
	case 0:
		return errors.New("drive: failed")
	case 1:
		panic("drive: panicked")
	case 2:
		runtime.Goexit()
	case 3: // until it is cancelled
		<-ctx.Done()
		return ctx.Err()
	case 4: // nothing stops it
		time.Sleep(d.upTo(3 * (handlerTimeout + handlerGrace)))
	case 5, 6, 7, 8:
		return sleep(ctx, d.upTo(handlerTimeout/2))
	case 9:
		return engine.Snooze(d.upTo(time.Second))
	case 10: // cancelled, and done all the same
		<-ctx.Done()
	}
	return nil
}

// around stands around every body, and tells the judge of it.
func (k *worker) around(ctx context.Context, info engine.DeliveryInfo, next func(context.Context) error) (err error) {
	r := k.r
	l := lifeOf(ctx)
	l.bodies.Add(1)
	defer l.bodies.Add(-1)
	leave := l.enter(r, ctx, k.concurrency)
	defer leave()
	began := time.Now()
	r.mu.Lock()
	judged := r.judge.Started(info)
	k.tokens[info.Delivery] = info.Token
	r.look()
	r.mu.Unlock()
	over := false // under r.mu
	unwatch := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		ended := over
		if !ended {
			r.judge.Cancelled(judged, context.Cause(ctx))
		}
		r.mu.Unlock()
		if !ended {
			k.judgeCause(info, context.Cause(ctx), time.Since(began))
		}
	})
	err = errors.New("drive: the body did not return")
	defer func() {
		unwatch()
		r.mu.Lock()
		defer r.mu.Unlock()
		over = true
		r.judge.Returned(judged, err)
		r.look()
	}()
	return next(ctx)
}

// judgeCause looks at why a running body was cancelled.
func (k *worker) judgeCause(info engine.DeliveryInfo, cause error, after time.Duration) {
	switch {
	case errors.Is(cause, engine.ErrHandlerTimeout):
		if info.Handler != "tx" && after < handlerTimeout {
			k.r.fail("%s was cancelled after %v: %v", info.Handler, after, cause)
		}
	case errors.Is(cause, engine.ErrShutdown):
		if !k.stopping.Load() {
			k.r.fail("%s was cancelled although nobody stops its bus: %v", info.Handler, cause)
		}
	case !errors.Is(cause, engine.ErrLeaseLost):
		k.r.fail("%s was cancelled for no known reason: %v", info.Handler, cause)
	}
}

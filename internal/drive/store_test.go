package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// dice are a source of random numbers that goroutines share.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 12))} }

// n returns a number in [0, n).
func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// one is true once in n times.
func (d *dice) one(n int) bool { return d.n(n) == 0 }

// upTo returns whole milliseconds in [0, most): things that happen at one
// instant are what the driver must get right.
func (d *dice) upTo(most time.Duration) time.Duration {
	return time.Duration(d.n(int(most/time.Millisecond))) * time.Millisecond
}

var errStoreAway = errors.New("drive: the connection was lost")

// link is the way of one bus to the store. What goes wrong on it is drawn.
type link struct {
	*simstore.Store
	w      *weather
	closed atomic.Bool // the process is dead: nothing reaches the store
	// beside, if set, is called once, between a claim that found nothing and its
	// return: the hint that it causes and the report meet.
	beside atomic.Pointer[func()]
}

// weather is how likely calls go wrong, for all links of a round.
type weather struct {
	dice  *dice
	calm  atomic.Bool   // nothing goes wrong any more
	slow  atomic.Bool   // claims take a while, even in calm
	mute  atomic.Bool   // the next claim gets no answer for a long time
	often int           // one call in so many goes wrong
	limit time.Duration // the CallTimeout of the buses

	mu     sync.Mutex
	listen []*listener
}

type listener struct {
	link *link
	wake func()
}

// Listen implements [engine.Waker].
func (k *link) Listen(ctx context.Context, _ string, wake func()) error {
	l := &listener{k, wake}
	w := k.w
	w.mu.Lock()
	w.listen = append(w.listen, l)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, o := range w.listen {
			if o == l {
				w.listen = append(w.listen[:i:i], w.listen[i+1:]...)
				return
			}
		}
	}()
	for {
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
			if !w.calm.Load() && w.dice.one(4) {
				return errStoreAway
			}
		}
	}
}

// Notify implements [engine.Notifier]. Hints may be lost, or come twice.
func (k *link) Notify() {
	if !k.w.calm.Load() && k.w.dice.one(3) || k.closed.Load() {
		return
	}
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	for _, l := range k.w.listen {
		if l.link != k { // that bus woke itself
			l.wake()
		}
	}
}

// sleep waits, and no longer than ctx lives.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send makes one call, which may go wrong.
func send[Reply any](ctx context.Context, k *link, name string, call func(context.Context) (Reply, error)) (reply Reply, err error) {
	l := lifeOf(ctx)
	l.calls.Add(1)
	defer l.calls.Add(-1)
	w, d := k.w, k.w.dice
	if k.closed.Load() {
		return reply, errStoreAway
	}
	if name == "Claim" && w.mute.CompareAndSwap(true, false) {
		time.Sleep(silence)
		return reply, errStoreAway
	}
	if w.slow.Load() && name == "Claim" {
		if err := sleep(ctx, slowClaim); err != nil {
			return reply, err
		}
	}
	if w.calm.Load() || !d.one(w.often) {
		if err := sleep(ctx, d.upTo(3*time.Millisecond)); err != nil { // a call takes time
			return reply, err
		}
		return call(ctx)
	}
	switch d.n(9) {
	case 0: // slow
		if err := sleep(ctx, d.upTo(w.limit)); err != nil {
			return reply, err
		}
		return call(ctx)
	case 1: // given up by its caller, and applied all the same
		time.Sleep(d.upTo(2 * w.limit))
		return call(context.WithoutCancel(ctx))
	case 2: // silent for as long as its context lives
		<-ctx.Done()
		return reply, ctx.Err()
	case 3: // silent for longer
		time.Sleep(w.limit*3 + d.upTo(w.limit))
		return reply, errStoreAway
	case 4:
		return reply, fmt.Errorf("drive: conflict: %w", engine.ErrRetryable)
	case 5:
		return reply, errStoreAway
	case 6: // applied, the reply lost
		if _, err := call(ctx); err != nil {
			return reply, err
		}
		return reply, errStoreAway
	case 7: // applied, the reply late
		reply, err = call(ctx)
		time.Sleep(d.upTo(2 * w.limit))
		return reply, err
	}
	if name == "CompleteMany" || name == "Reschedule" {
		return reply, engine.Definite(errors.New("drive: refused for good"))
	}
	return call(ctx)
}

func (k *link) Subscribe(ctx context.Context, in engine.SubscribeInput) (engine.SubscribeReply, error) {
	return send(ctx, k, "Subscribe", func(ctx context.Context) (engine.SubscribeReply, error) { return k.Store.Subscribe(ctx, in) })
}

func (k *link) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	return send(ctx, k, "Claim", func(ctx context.Context) (engine.ClaimReply, error) {
		reply, err := k.Store.Claim(ctx, in)
		if len(reply.Picks) == 0 && err == nil {
			if publish := k.beside.Swap(nil); publish != nil {
				(*publish)()
			}
		}
		return reply, err
	})
}

func (k *link) ExtendLease(ctx context.Context, in engine.ExtendLeaseInput) (engine.ExtendLeaseReply, error) {
	return send(ctx, k, "ExtendLease", func(ctx context.Context) (engine.ExtendLeaseReply, error) { return k.Store.ExtendLease(ctx, in) })
}

func (k *link) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	return send(ctx, k, "CompleteMany", func(ctx context.Context) (engine.CompleteManyReply, error) { return k.Store.CompleteMany(ctx, in) })
}

func (k *link) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	return send(ctx, k, "Reschedule", func(ctx context.Context) (engine.EndReply, error) { return k.Store.Reschedule(ctx, in) })
}

func (k *link) Snooze(ctx context.Context, in engine.SnoozeInput) (engine.EndReply, error) {
	return send(ctx, k, "Snooze", func(ctx context.Context) (engine.EndReply, error) { return k.Store.Snooze(ctx, in) })
}

func (k *link) Bury(ctx context.Context, in engine.BuryInput) (engine.EndReply, error) {
	return send(ctx, k, "Bury", func(ctx context.Context) (engine.EndReply, error) { return k.Store.Bury(ctx, in) })
}

func (k *link) Release(ctx context.Context, in engine.ReleaseInput) (engine.ReleaseReply, error) {
	return send(ctx, k, "Release", func(ctx context.Context) (engine.ReleaseReply, error) { return k.Store.Release(ctx, in) })
}

func (k *link) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	return send(ctx, k, "Relinquish", func(ctx context.Context) (engine.RelinquishReply, error) { return k.Store.Relinquish(ctx, in) })
}

// InTx loses the outcome of some commits.
func (k *link) InTx(ctx context.Context, fn func(ctx context.Context, tx *simstore.Tx) error) error {
	if k.closed.Load() {
		return errStoreAway
	}
	l := lifeOf(ctx)
	l.calls.Add(1)
	defer l.calls.Add(-1)
	d := k.w.dice
	wrong := !k.w.calm.Load() && d.one(k.w.often)
	if wrong && d.one(3) {
		return fmt.Errorf("drive: conflict: %w", engine.ErrRetryable)
	}
	err := k.Store.InTx(ctx, fn)
	if err == nil && wrong {
		if d.one(2) {
			time.Sleep(d.upTo(4 * k.w.limit))
		}
		return fmt.Errorf("drive: %w", engine.ErrCommitUnknown)
	}
	return err
}

// hook is called before each statement of the store.
func (w *weather) hook(ctx context.Context, p simstore.Point) error {
	if w.calm.Load() || !w.dice.one(12) {
		return nil
	}
	if p.Step != "commit" && p.Step != "reply" && w.dice.one(6) {
		return fmt.Errorf("drive: conflict at %s: %w", p.Step, engine.ErrRetryable)
	}
	return sleep(ctx, w.dice.upTo(5*time.Millisecond))
}

var (
	_ engine.TxStore[*simstore.Tx] = (*link)(nil)
	_ engine.Waker                 = (*link)(nil)
	_ engine.Notifier              = (*link)(nil)
)

package simstore

import (
	"context"
	"sync"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// live is the Scheduler of a store that goroutines use: one mutex around every
// call, one condition variable for the waiters, the wall clock. Statements of
// different calls interleave only where a call waits for a lock; callers'
// transactions interleave statement by statement.
type live struct {
	mu       sync.Mutex
	released *sync.Cond
	began    time.Time // its monotonic reading keeps the clock from going back
	hook     func(context.Context, Point) error
}

func newLive(hook func(context.Context, Point) error) *live {
	l := &live{began: time.Now(), hook: hook}
	l.released = sync.NewCond(&l.mu)
	return l
}

// Now implements [Scheduler].
func (l *live) Now() protocol.Time {
	return protocol.Time(l.began.UnixNano() + int64(time.Since(l.began)))
}

// Pause implements [Scheduler]: a call whose context has ended goes no
// further, unless it has committed already.
func (l *live) Pause(ctx context.Context, p Point) error {
	if l.hook != nil {
		l.mu.Unlock()
		defer l.mu.Lock()
		if err := l.hook(ctx, p); err != nil {
			return err
		}
	}
	if p.Step == "reply" {
		return nil
	}
	return ctx.Err()
}

// Block implements [Scheduler].
func (l *live) Block(ctx context.Context, _ Point, deadline protocol.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wake := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.released.Broadcast()
	}
	defer context.AfterFunc(ctx, wake)()
	if deadline != 0 {
		defer time.AfterFunc(deadline.Sub(l.Now()), wake).Stop()
	}
	l.released.Wait()
	if deadline != 0 && l.Now() >= deadline {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// whenOver calls do, with the store locked, when the context ends before stop
// is called. Everybody who waits looks again: it may be do that ended the wait.
func (l *live) whenOver(ctx context.Context, do func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		do()
		l.released.Broadcast()
	})
}

// Wake implements [Scheduler].
func (l *live) Wake() { l.released.Broadcast() }

// Enter implements [Scheduler].
func (l *live) Enter() { l.mu.Lock() }

// Leave implements [Scheduler].
func (l *live) Leave() { l.mu.Unlock() }

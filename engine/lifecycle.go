package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Run runs the registered handlers until ctx is cancelled, then stops
// gracefully within [Config.StopTimeout]. It returns nil after a graceful
// stop, also one that [Bus.Stop] asked for, and an error when the bus cannot
// start or could not stop in time. A store that is away is no error: it is
// tried again. One that refuses the subscriptions with a definite error, because
// its schema is of another release, say, is: nothing of that heals by waiting.
func (b *Bus[Tx]) Run(ctx context.Context) error {
	r, err := b.begin(ctx)
	if err != nil {
		return err
	}
	<-r.done
	return r.err
}

// Start starts the registered handlers and returns once their subscriptions
// are stored: what is published from then on reaches them. While the store is
// away it waits; a definite error of the store is returned. The bus runs until [Bus.Stop] is called or ctx is cancelled;
// both stop it gracefully, so nothing that a handler finished is lost. ctx
// must therefore live as long as the bus. After a stop it may be started
// again.
func (b *Bus[Tx]) Start(ctx context.Context) error {
	r, err := b.begin(ctx)
	if err != nil {
		return err
	}
	select {
	case <-r.subscribed:
		return nil
	case <-r.done:
		if r.refused != nil {
			return fmt.Errorf("start: %w", r.refused)
		}
		err := fmt.Errorf("start: %w before its subscriptions were stored", ErrShutdown)
		if cause := cmp.Or(r.err, context.Cause(ctx)); cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return err
	}
}

// Stop stops the bus gracefully: no new handler starts, what was claimed and
// not started is given back, running handlers may finish for a while, then
// their contexts are cancelled with [ErrShutdown] and their deliveries given
// back uncharged; completions are stored and the lanes released to other
// workers.
//
// The stop takes at most [Config.StopTimeout], or until the deadline of ctx
// when that is sooner; then it is cut off, and an error says what was left: a
// handler that does not return keeps its goroutine, and what was not stored
// runs again once its lease expires. When ctx is cancelled Stop returns at
// once and the stop goes on by itself.
//
// Stopping a bus that does not run is harmless and returns nil; so is stopping
// it twice, where the sooner deadline counts.
func (b *Bus[Tx]) Stop(ctx context.Context) error {
	r := b.current()
	if r == nil {
		return nil
	}
	r.requestStop(stopWithin(ctx, b.cfg.StopTimeout))
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("stop: %w; the bus goes on stopping by itself", context.Cause(ctx))
	}
}

// handlerGrace is the part of a stop in which handlers may finish.
func handlerGrace(limit time.Duration) time.Duration {
	return limit - min(limit/4, 5*time.Second)
}

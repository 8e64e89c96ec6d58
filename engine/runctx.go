package engine

import (
	"context"
	"sync/atomic"
)

// runContext is the context of a handler: that of its runner, and what the
// engine keeps in it, in one piece.
type runContext struct {
	context.Context
	run       *Run
	published atomic.Bool // Publish was called with it
}

// task is one run on its way through a worker.
type task struct {
	ctx    runContext
	cancel context.CancelCauseFunc
	next   *task // behind it in the queue
}

type (
	deliveryKey  struct{} // *Run
	publishedKey struct{} // *atomic.Bool
)

// Value implements [context.Context].
func (c *runContext) Value(key any) any {
	switch key.(type) {
	case deliveryKey:
		return c.run
	case publishedKey:
		return &c.published
	case headersKey:
		outer := HeadersFrom(c.Context)
		if trace := traceOf(c.run.Picked.Event.Headers); trace != nil {
			return merge(trace, outer)
		}
		return outer
	}
	return c.Context.Value(key)
}

// notePublish notes that the handler with this context published something,
// so that the bus looks for work once that is committed.
func notePublish(ctx context.Context) {
	if published, ok := ctx.Value(publishedKey{}).(*atomic.Bool); ok {
		published.Store(true)
	}
}

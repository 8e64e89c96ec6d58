package engine

import "context"

// Waker is what a [Store] may offer beside its methods: hints from the
// database (LISTEN and NOTIFY, change streams) that save polls. Hints may be
// late, repeated or missing; polling finds everything without them.
type Waker interface {
	// Listen calls wake whenever work of the group may be due, until ctx is
	// done, and blocks meanwhile. When it returns an error before that, a lost
	// connection say, it is called again after a pause.
	Listen(ctx context.Context, group string, wake func()) error
}

// Notifier is what a [Store] may offer beside its methods: it tells the
// [Waker]s of other processes that something was published.
type Notifier interface {
	// Notify is called after a commit. It must not block and cannot fail: a
	// hint that cannot be sent costs those processes a wait for their poll.
	Notify()
}

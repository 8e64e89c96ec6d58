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

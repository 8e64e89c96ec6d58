package engine

import "sync/atomic"

// Gate decides a race that a run and its Dispatcher may enter at once: either
// the run passes on to Complete and COMMIT, or it is retired and never sends
// an end. Exactly one of the two happens. The zero Gate is open.
type Gate struct{ state atomic.Int32 }

const (
	gateOpen int32 = iota
	gatePassed
	gateClosed
)

// Pass is called by the run right before it sends Complete. When it returns
// false the run was retired and must roll back. It may be called again by the
// same run, whose body runs anew after a conflict.
func (g *Gate) Pass() bool {
	return g.state.CompareAndSwap(gateOpen, gatePassed) || g.state.Load() == gatePassed
}

// Reopen is called by the run when nothing was committed and its body runs
// again: it may be retired from here on.
func (g *Gate) Reopen() { g.state.CompareAndSwap(gatePassed, gateOpen) }

// Close retires the run and reports whether it came in time.
func (g *Gate) Close() bool {
	return g.state.CompareAndSwap(gateOpen, gateClosed) || g.state.Load() == gateClosed
}

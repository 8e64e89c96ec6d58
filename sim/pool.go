package sim

import (
	"context"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// connections is a pool of connections of one process: whoever finds none free
// waits for its turn.
type connections struct {
	size   int // 0: unlimited
	used   int
	others bool          // the process uses them for other work too, which may take all
	queue  []*task       // who waits, in order
	gaveUp protocol.Time // when a call last waited for one in vain
}

// reserveConns is how many connections the store for PostgreSQL keeps for calls
// about leases.
const reserveConns = 2

// newPools gives a process its connections. The store for PostgreSQL has a
// reserve beside the pool it was given; snapshot stores have none.
func (c *client) newPools() {
	c.pool = connections{size: c.w.knobs.Pool, others: true}
	if c.w.knobs.Semantics == protocol.Locking && c.w.knobs.Pool > 0 {
		c.reserve = connections{size: reserveConns}
	}
}

// reserved reports whether the reserve is for the call: it keeps or gives back
// what a lease stands for.
func reserved(call callKind) bool {
	return call == callClaim || call == callExtendLease || call == callRelease || call == callRelinquish
}

// poolOf returns the connections that a call uses.
func (c *client) poolOf(call callKind) *connections {
	if c.w.knobs.Semantics == protocol.Locking && reserved(call) && !mutant.On("lease-calls-without-reserve") {
		return &c.reserve
	}
	return &c.pool
}

// take waits for a connection. A call that ends before it has one was not sent.
func (c *client) take(ctx context.Context, t *task, p *connections) error {
	if len(p.queue) == 0 && c.free(p) {
		p.used++
		return nil
	}
	probeQueued.Hit()
	c.w.checks.unrun.waiting(c)
	p.queue = append(p.queue, t)
	defer p.leave(t)
	for p.queue[0] != t || !c.free(p) {
		t.park(c.until(ctx, p))
		if err := ctx.Err(); err != nil {
			probeUnsent.Hit()
			p.gaveUp = c.w.now
			return fmt.Errorf("no connection was free: %w: %w", engine.ErrNotSent, err)
		}
	}
	p.used++
	return nil
}

// free reports whether somebody may take a connection now.
func (c *client) free(p *connections) bool {
	return (p.size == 0 || p.used < p.size) && !c.takenByOthers(p)
}

// takenByOthers reports whether the process's other work has what is free.
func (c *client) takenByOthers(p *connections) bool {
	return p.others && c.owner != nil && c.w.now < c.owner.worker.busy
}

// until returns when a waiting call looks again at the latest, 0: when it is
// woken.
func (c *client) until(ctx context.Context, p *connections) protocol.Time {
	until := deadlineOf(ctx)
	if c.takenByOthers(p) && (until == 0 || c.owner.worker.busy < until) {
		until = c.owner.worker.busy
	}
	return until
}

// leave takes a call out of the queue; the next may have its turn now.
func (p *connections) leave(t *task) {
	for i, q := range p.queue {
		if q == t {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			break
		}
	}
	p.wakeNext()
}

// give gives a connection back.
func (p *connections) give() {
	p.used--
	p.wakeNext()
}

func (p *connections) wakeNext() {
	if len(p.queue) > 0 {
		p.queue[0].wake(0)
	}
}

// disconnect gives back the connection of the task's transaction, if it has one.
func (t *task) disconnect() {
	if t.conn != nil {
		t.conn.give()
		t.conn = nil
	}
}

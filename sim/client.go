package sim

import (
	"context"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// client is the store as one process reaches it: every call is a request and
// a reply that travel, may be late, and may be lost. It implements
// [engine.TxStore].
type client struct {
	w      *world
	id     int // in world.clients
	owner  *process
	faulty bool          // the message faults apply
	muted  protocol.Time // until when its ends are lost
	// How many of its calls the store serves now, and until when it served the
	// last.
	serving int
	served  protocol.Time

	pool            connections
	reserve         connections // for calls about leases
	engine.Operator             // of it a bus calls Purge alone; the rest is nil
}

var _ engine.TxStore[*simstore.Tx] = (*client)(nil)

// exchange is a call with its input and, once served, its output.
type exchange[In, Out any] struct {
	store  *simstore.Store
	method func(*simstore.Store, context.Context, In) (Out, error)
	in     In
	out    Out
	err    error
}

// completeMany is the exchange that may arrive twice.
type completeMany = exchange[engine.CompleteManyInput, engine.CompleteManyReply]

func (x *exchange[In, Out]) serve() {
	x.out, x.err = x.method(x.store, context.Background(), x.in)
}

// roundTrip sends a call and waits for its answer.
func roundTrip[In, Out any](c *client, ctx context.Context, call callKind, in In,
	method func(*simstore.Store, context.Context, In) (Out, error)) (Out, error) {
	x := &exchange[In, Out]{store: c.w.store, method: method, in: in}
	told := c.w.history.begin(c.id, in)
	if err := c.send(ctx, call, x, told); err != nil {
		var none Out
		told.end(none, err)
		return none, err
	}
	told.end(x.out, x.err)
	return x.out, x.err
}

// Subscribe implements [engine.Store].
func (c *client) Subscribe(ctx context.Context, in engine.SubscribeInput) (engine.SubscribeReply, error) {
	return roundTrip(c, ctx, callSubscribe, in, (*simstore.Store).Subscribe)
}

// ends returns the checker of what a worker sends, nil for other clients.
func (c *client) ends() *oneEnd {
	if c.owner == nil {
		return nil
	}
	return c.w.checks.ends
}

// Claim implements [engine.Store].
func (c *client) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	k := c.ends()
	left := k.claiming(c.owner, &in)
	c.w.checks.told.claiming(c.owner, in.Held)
	c.w.checks.rooms.claiming(c.owner, &in)
	reply, err := roundTrip(c, ctx, callClaim, in, (*simstore.Store).Claim)
	c.w.checks.unrun.keeping(c, err)
	k.claimed(c.owner, &in, left, c.w.current.message, err)
	if err == nil {
		c.w.checks.granted.replied(&in, &reply)
		c.w.checks.rooms.claimed(c.owner, &in, &reply)
		c.w.checks.told.claimed(c.owner, &in, &reply)
	}
	return reply, err
}

// ExtendLease implements [engine.Store].
func (c *client) ExtendLease(ctx context.Context, in engine.ExtendLeaseInput) (engine.ExtendLeaseReply, error) {
	c.ends().renewing(c.owner, in.Lanes, nil)
	c.w.checks.told.claiming(c.owner, in.Lanes)
	reply, err := roundTrip(c, ctx, callExtendLease, in, (*simstore.Store).ExtendLease)
	c.w.checks.unrun.keeping(c, err)
	if err == nil {
		c.w.checks.told.renewed(c.owner, &in, &reply)
	}
	return reply, err
}

// CompleteMany implements [engine.Store].
func (c *client) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	k, o := c.ends(), c.w.checks.outcomes
	k.completions(in.Leases)
	for _, l := range in.Leases {
		k.sending(c.owner, callCompleteMany, l, nil, false)
		o.sending(c.owner, sentEnd{kind: callCompleteMany, lease: l})
	}
	reply, err := roundTrip(c, ctx, callCompleteMany, in, (*simstore.Store).CompleteMany)
	for i, l := range in.Leases {
		if err != nil {
			k.answered(c.owner, l, nil, engine.LeaseLost, err)
			o.answered(c.owner, callCompleteMany, &in.Leases[i], nil, engine.LeaseLost, err)
		} else {
			k.answered(c.owner, l, nil, reply.Ended[i].Verdict, reply.Ended[i].Err)
			o.answered(c.owner, callCompleteMany, &in.Leases[i], nil, reply.Ended[i].Verdict, reply.Ended[i].Err)
		}
	}
	return reply, err
}

// Reschedule implements [engine.Store].
func (c *client) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	c.ends().sending(c.owner, callReschedule, in.Lease, in.Rest, in.Settle)
	c.w.checks.outcomes.sending(c.owner, sentEnd{kind: callReschedule, lease: in.Lease, rest: in.Rest, delay: in.Delay, text: in.Error, settle: in.Settle})
	reply, err := roundTrip(c, ctx, callReschedule, in, (*simstore.Store).Reschedule)
	c.ends().answered(c.owner, in.Lease, in.Rest, reply.Verdict, err)
	c.w.checks.outcomes.answered(c.owner, callReschedule, &in.Lease, in.Rest, reply.Verdict, err)
	return reply, err
}

// Snooze implements [engine.Store].
func (c *client) Snooze(ctx context.Context, in engine.SnoozeInput) (engine.EndReply, error) {
	c.ends().sending(c.owner, callSnooze, in.Lease, in.Rest, in.Settle)
	c.w.checks.outcomes.sending(c.owner, sentEnd{kind: callSnooze, lease: in.Lease, rest: in.Rest, delay: in.Delay, settle: in.Settle})
	reply, err := roundTrip(c, ctx, callSnooze, in, (*simstore.Store).Snooze)
	c.ends().answered(c.owner, in.Lease, in.Rest, reply.Verdict, err)
	c.w.checks.outcomes.answered(c.owner, callSnooze, &in.Lease, in.Rest, reply.Verdict, err)
	return reply, err
}

// Bury implements [engine.Store].
func (c *client) Bury(ctx context.Context, in engine.BuryInput) (engine.EndReply, error) {
	c.ends().sending(c.owner, callBury, in.Lease, in.Rest, false)
	c.w.checks.outcomes.sending(c.owner, sentEnd{kind: callBury, lease: in.Lease, rest: in.Rest, text: in.Error, charge: in.Charge})
	reply, err := roundTrip(c, ctx, callBury, in, (*simstore.Store).Bury)
	c.ends().answered(c.owner, in.Lease, in.Rest, reply.Verdict, err)
	c.w.checks.outcomes.answered(c.owner, callBury, &in.Lease, in.Rest, reply.Verdict, err)
	return reply, err
}

// Release implements [engine.Store].
func (c *client) Release(ctx context.Context, in engine.ReleaseInput) (engine.ReleaseReply, error) {
	k, o := c.ends(), c.w.checks.outcomes
	for _, l := range in.Leases {
		k.sending(c.owner, callRelease, l, nil, false)
		o.sending(c.owner, sentEnd{kind: callRelease, lease: l})
	}
	reply, err := roundTrip(c, ctx, callRelease, in, (*simstore.Store).Release)
	for i, l := range in.Leases {
		if err != nil {
			k.answered(c.owner, l, nil, engine.LeaseLost, err)
			o.answered(c.owner, callRelease, &in.Leases[i], nil, engine.LeaseLost, err)
		} else {
			k.answered(c.owner, l, nil, reply.Verdicts[i], nil)
			o.answered(c.owner, callRelease, &in.Leases[i], nil, reply.Verdicts[i], nil)
		}
	}
	return reply, err
}

// Relinquish implements [engine.Store].
func (c *client) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	return roundTrip(c, ctx, callRelinquish, in, (*simstore.Store).Relinquish)
}

// Purge implements [engine.Operator].
func (c *client) Purge(ctx context.Context, in engine.PurgeInput) (engine.PurgeReply, error) {
	reply, err := roundTrip(c, ctx, callPurge, in, func(s *simstore.Store, ctx context.Context, in engine.PurgeInput) (engine.PurgeReply, error) {
		return c.w.purge(s, c.w.knobs.retention(), func() (engine.PurgeReply, error) { return s.Purge(ctx, in) })
	})
	if err == nil && reply.Dead+reply.Events+reply.History > 0 {
		probeRetained.Hit()
	}
	return reply, err
}

// openTx is a transaction that a task has open.
type openTx struct {
	w         *world
	tx        *simstore.Tx
	life      int  // of the store it was begun in
	completed bool // Complete was called in it
	dropped   bool // the store ended it
}

// drop rolls the transaction back from outside, as the store does when its
// client is gone.
func (o *openTx) drop() {
	if o.life == o.w.storeLife {
		o.dropped = true
		o.tx.Rollback()
	}
}

// InTx implements [engine.TxStore]. Statements run in the caller's task, each
// of which the store may delay or fail; COMMIT is a message.
func (c *client) InTx(ctx context.Context, fn func(context.Context, *simstore.Tx) error) error {
	g := c.w.current.grant()
	g.began()
	err := c.inTx(ctx, fn)
	if g != nil {
		g.inTx = err
	}
	return err
}

func (c *client) inTx(ctx context.Context, fn func(context.Context, *simstore.Tx) error) error {
	w := c.w
	t := w.current
	t.mustLive()
	if cut, _ := c.cutOff(); w.down || cut {
		t.sleep(w.unit())
		return errAway
	}
	if err := c.take(ctx, t, &c.pool); err != nil {
		return err
	}
	t.conn = &c.pool
	defer t.disconnect()
	tx, err := w.store.Begin(ctx)
	if err != nil {
		return err
	}
	t.tx = &openTx{w: w, tx: tx, life: w.storeLife}
	t.told = w.history.beginTx(c.id)
	sent := false
	defer func() {
		if !sent {
			t.told.endTx(errRollback)
		}
		t.tx, t.told = nil, nil
	}()
	err = fn(ctx, tx)
	t.mustLive()
	if err != nil {
		c.rollback(t)
		if mutant.On("connection-kept-after-rollback") {
			t.conn = nil
		}
		return err
	}
	sent = true
	err = c.commit(ctx, t)
	t.told.endTx(err)
	if t.run != nil {
		c.ends().committed(c.owner, t.run.run.Picked.Lease, err)
	}
	return err
}

// rollback ends the transaction without a message: the store would do the
// same when it saw the connection close.
func (c *client) rollback(t *task) {
	if t.tx.life == c.w.storeLife {
		t.tx.tx.Rollback()
	}
}

// commitBody serves a COMMIT.
type commitBody struct {
	w    *world
	open *openTx
	err  error
}

func (b *commitBody) serve() {
	if b.open.life != b.w.storeLife {
		b.err = errReset
		return
	}
	b.err = b.open.tx.Commit(context.Background())
}

// commit sends COMMIT. Once it is on its way the transaction belongs to the
// request: it may still commit when the client has given up.
func (c *client) commit(ctx context.Context, t *task) error {
	open := t.tx
	if p := c.owner; p != nil && p.worker.orphan.strikes(open) {
		p.vanish(t)
	}
	t.tx = nil
	body := &commitBody{w: c.w, open: open}
	err := c.send(ctx, callCommit, body, t.told)
	if err != nil {
		return fmt.Errorf("commit: %w: %w", engine.ErrCommitUnknown, err)
	}
	return body.err
}

// Publish implements [engine.TxStore].
func (c *client) Publish(ctx context.Context, tx *simstore.Tx, events []protocol.Event) ([]engine.PublishResult, error) {
	results, err := c.w.store.Publish(ctx, tx, events)
	c.w.current.told.published(events, results)
	return results, err
}

// Complete implements [engine.TxStore].
func (c *client) Complete(ctx context.Context, tx *simstore.Tx, in engine.CompleteInput) (engine.Verdict, error) {
	c.ends().completing(c.owner, in.Lease)
	c.w.checks.outcomes.completing(c.owner, &in.Lease)
	verdict, err := c.w.store.Complete(ctx, tx, in)
	if g := c.w.current.grant(); g != nil && err == nil {
		g.asked, g.complete = true, verdict
	}
	if open := c.w.current.tx; open != nil && err == nil {
		open.completed = true
		c.w.current.told.completed(in.Lease, verdict)
	}
	return verdict, err
}

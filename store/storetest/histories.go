package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/linearize"
)

// histories lets several clients loose on the store at once: each in a
// goroutine of its own, with leases that really run out, answers that are lost
// and calls that come after their client gave up. What they asked and were told
// is judged by package linearize, for lane ownership, at least once, effectively
// once, key order and the charging of attempts. What a user would lose if it
// failed: whatever goes wrong only when two calls meet.
//
// The clients keep to the rules for clients of a store, which random commands
// do not: the models judge a store, not its callers.
func (h Harness[Tx]) histories(t testing.TB) {
	unknown, runs := 0, 0
	fewer(t, "12")
	rapid.Check(t, func(rt *rapid.T) {
		s := &scope{TB: t}
		defer s.end()
		b := newBench(drawn{s, rt}, h.Semantics, adapt(h.Open(s)))
		report := newStage(b).play(rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 40, 120), 4, 4).Draw(rt, "scripts"))
		runs++
		switch report.Status() {
		case linearize.Illegal:
			t.Logf("%s", report) // rapid may not see it again
			rt.Fatalf("no order of the calls explains what they returned:\n%s", report)
		case linearize.Unknown:
			unknown++
		}
	})
	if unknown > runs/2 {
		t.Errorf("%d of %d histories could not be judged: too many calls were open at once", unknown, runs)
	}
}

// shortLease is a lease that runs out while its worker pauses.
const shortLease = 100 * time.Millisecond

// The handlers of the stage: one completes by CompleteMany, one in a
// transaction with an effect.
const (
	plainHandler = "plain"
	txHandler    = "tx"
)

// stage is one store, those who call it, and the record of their calls.
type stage struct {
	*bench
	history *linearize.History
	began   time.Time
	late    sync.WaitGroup // calls that nobody waits for any more
	ids     []string       // of events, in two lanes
}

func newStage(b *bench) *stage {
	family := linearize.Locking
	if b.snapshot() {
		family = linearize.Snapshot
	}
	s := &stage{bench: b, history: linearize.NewHistory(family), began: time.Now()}
	in := engine.SubscribeInput{Group: "default", Handlers: []engine.EventHandler{
		{Event: "e", Handler: plainHandler}, {Event: "e", Handler: txHandler},
	}}
	call := s.history.Begin(0, s.now(), in)
	reply, err := b.Subscribe(b.ctx, in)
	b.ok(err, "subscribe")
	call.Return(s.now(), reply)
	b.group, b.lanes = reply.Group, reply.Lanes
	s.ids = append(b.sameLane("a", 4), b.sameLane("b", 4)...)
	return s
}

func (s *stage) now() int64 { return int64(time.Since(s.began)) }

// play lets one operator and the workers follow their scripts, reads what is
// left, and judges the history.
func (s *stage) play(scripts [][]byte) linearize.Report {
	var cast sync.WaitGroup
	for i, script := range scripts {
		c := &caller{stage: s, id: i, tape: script, act: (*caller).operate}
		if i > 0 {
			c.act = (*caller).work
			c.reborn()
		}
		cast.Go(func() {
			for len(c.tape) > 0 {
				c.act(c)
			}
		})
	}
	cast.Wait()
	s.late.Wait()
	s.closing()
	return linearize.Check(s.history, 0)
}

// closing records all rows and effects that are left.
func (s *stage) closing() {
	call := s.history.Begin(0, s.now(), engine.ListInput{Limit: engine.MaxList})
	reply, err := s.List(s.ctx, engine.ListInput{Limit: engine.MaxList})
	s.ok(err, "list")
	call.Return(s.now(), reply)
	for _, id := range s.ids {
		name := linearize.Name{Event: id, Handler: txHandler}
		call := s.history.Begin(0, s.now(), linearize.CountEffects{Name: name})
		call.Return(s.now(), s.effects(name.String()))
	}
}

// caller is a client with the script of its choices. Client 0 publishes and
// operates, the others work.
type caller struct {
	*stage
	id   int
	tape []byte
	act  func(*caller)
	dead []engine.DeliveryID // as last listed

	w     *worker
	doubt bool          // a call was abandoned and no claim has succeeded since
	clock protocol.Time // the store's, in the last answer …
	heard time.Time     // … and when that came
	ends  map[protocol.InFlight]*runEnd
}

// choose returns a number below n; 0 once the script is over.
func (c *caller) choose(n int) int {
	if len(c.tape) == 0 {
		return 0
	}
	first := int(c.tape[0])
	c.tape = c.tape[1:]
	return first % n
}

// ask makes a call and records it. Some answers are lost, and some calls reach
// the store when their caller has given up.
func ask[In, Out any](c *caller, in In, method func(context.Context, In) (Out, error)) (out Out, ok bool) {
	var none Out
	call := c.history.Begin(c.id, c.now(), in)
	switch c.choose(12) {
	case 1:
		wait := time.Duration(c.choose(8)) * shortLease / 8
		c.late.Go(func() {
			time.Sleep(wait)
			_, _ = method(c.ctx, in)
		})
		return none, false
	case 2:
		_, _ = method(c.ctx, in)
		return none, false
	}
	out, err := method(c.ctx, in)
	call.End(c.now(), out, err)
	return out, err == nil
}

// transaction records a transaction whose body says what it did. ok is false
// when nobody knows, or nothing, whether it was committed.
func (c *caller) transaction(body func(ctx context.Context, tx any, did *linearize.Transaction) error) (ok bool) {
	op := linearize.Operation{Client: c.id}
	lost := c.choose(12) == 1
	err := c.inTx(c.ctx, "", func(ctx context.Context, tx any) error {
		var did linearize.Transaction
		op.Call = c.now()
		err := body(ctx, tx, &did)
		op.Input = did
		return err
	})
	switch {
	case lost && err == nil || errors.Is(err, engine.ErrCommitUnknown):
		c.history.Record(op)
		return false
	case err != nil:
		return errors.Is(err, errRollback) // it was rolled back
	}
	op.Return, op.Outcome = c.now(), linearize.Returned
	c.history.Record(op)
	return true
}

func (c *caller) operate() {
	switch c.choose(10) {
	default:
		c.publishSome()
	case 5, 6:
		if reply, ok := ask(c, engine.ListInput{Limit: engine.MaxList}, c.List); ok {
			c.dead = nil
			for _, l := range reply.Deliveries {
				if l.Delivery.Status == protocol.Dead {
					c.dead = append(c.dead, l.Delivery.ID)
				}
			}
		}
	case 7:
		if len(c.dead) > 0 {
			ask(c, engine.RequeueInput{IDs: slices.Clone(c.dead)}, c.Requeue)
		}
	case 8:
		ask(c, engine.PurgeInput{DeadAfter: time.Hour, EventsAfter: shortLease, HistoryAfter: time.Hour}, c.Purge)
	case 9:
		c.rest()
	}
}

func (c *caller) rest() { time.Sleep(time.Duration(1+c.choose(4)) * shortLease / 3) }

func (c *caller) publishSome() {
	var list []protocol.Event
	first, n := c.choose(len(c.ids)), 1+c.choose(3)
	for i := first; i < min(first+n, len(c.ids)); i++ {
		list = append(list, protocol.Event{ID: c.ids[i], Type: "e", Key: [...]string{"", "k"}[i%2], Payload: []byte{}})
	}
	c.transaction(func(ctx context.Context, tx any, did *linearize.Transaction) error {
		results, err := c.publishIn(ctx, tx, list)
		if err != nil {
			return err
		}
		for i, r := range results {
			e := &list[i]
			did.Published = append(did.Published, linearize.Published{Event: e.ID, Type: e.Type, Key: e.Key, Result: r})
		}
		return nil
	})
}

// reborn starts a new life of a worker.
func (c *caller) reborn() {
	var holder engine.Holder
	if c.w != nil {
		holder = c.w.holder
	}
	c.w = &worker{bench: c.bench, handlers: []string{plainHandler, txHandler}, owner: fmt.Sprint("worker ", c.id)}
	c.w.holder[0], c.w.holder[1] = byte(c.id), holder[1]+1
	c.doubt, c.ends = false, map[protocol.InFlight]*runEnd{}
}

func (c *caller) work() {
	switch c.choose(16) {
	default:
		c.claimSome()
	case 4, 5, 6, 7, 8, 9, 10, 11:
		c.finish()
	case 12:
		ask(c, engine.ExtendLeaseInput{Holder: c.w.holder, Lanes: slices.Clone(c.w.held), TTL: shortLease}, c.ExtendLease)
	case 13:
		c.giveBack()
	case 14:
		c.rest()
	case 15:
		if c.choose(2) == 0 {
			c.reborn()
		}
	}
}

func (c *caller) claimSome() {
	in := c.w.input()
	in.TTL, in.AllMine, in.MaxLanes = shortLease, c.doubt, 1+c.choose(3)
	if c.clock != 0 && c.choose(2) == 0 {
		in.NotAfter = c.clock.Add(time.Since(c.heard) + shortLease/2)
	}
	reply, ok := ask(c, in, c.Claim)
	if c.doubt = !ok; !ok {
		return
	}
	c.clock, c.heard = reply.Now, time.Now()
	c.w.adopt(reply)
	for _, lost := range reply.LeaseLost {
		c.over(lost.InFlight)
	}
}

// over drops a run from what the worker states.
func (c *caller) over(run protocol.InFlight) {
	c.w.running = slices.DeleteFunc(c.w.running, func(r engine.Running) bool { return r.InFlight == run })
}

// runEnd is how a run is ended. It is sent until its outcome is known.
type runEnd struct {
	send func() (v engine.Verdict, known bool)
	// completes: the rest of the chain goes on.
	completes bool
	// settle is sent in its place once its outcome is unknown; nil: the same
	// again.
	settle *runEnd
}

// finish ends a run, and after any end but a completion the rest of its chain.
func (c *caller) finish() {
	if len(c.w.running) == 0 {
		return
	}
	run := c.w.running[c.choose(len(c.w.running))].InFlight
	p := c.w.pickOf(run)
	end := c.ends[run]
	if end == nil {
		end = c.endOf(p)
		c.ends[run] = end
	}
	verdict, known := end.send()
	if !known {
		if end.settle != nil {
			c.ends[run] = end.settle
		}
		return
	}
	c.over(run)
	if !end.completes || verdict != engine.Applied {
		for _, l := range c.w.followers(p) {
			c.over(l.Entry())
		}
	}
}

// endOf draws how a run ends.
func (c *caller) endOf(p engine.Picked) *runEnd {
	l, rest := p.Lease, c.w.followers(p)
	switch c.choose(8) {
	case 1:
		return ending(c, engine.RescheduleInput{Lease: l, Rest: rest, Error: "it failed"}, c.Reschedule)
	case 2:
		return ending(c, engine.SnoozeInput{Lease: l, Rest: rest}, c.Snooze)
	case 3:
		return ending(c, engine.BuryInput{Lease: l, Rest: rest, Error: "no more", Charge: c.choose(2) == 0}, c.Bury)
	case 4:
		return &runEnd{send: func() (engine.Verdict, bool) {
			reply, ok := ask(c, engine.ReleaseInput{Leases: append([]engine.Lease{l}, rest...)}, c.Release)
			return engine.LeaseLost, ok && len(reply.Verdicts) > 0
		}}
	}
	if p.Delivery.Handler == txHandler {
		settle := ending(c, engine.SnoozeInput{Lease: l, Rest: rest, Settle: true}, c.Snooze)
		return &runEnd{completes: true, settle: settle, send: func() (engine.Verdict, bool) { return c.completeTx(p) }}
	}
	return &runEnd{completes: true, send: func() (v engine.Verdict, known bool) {
		reply, ok := ask(c, engine.CompleteManyInput{Leases: []engine.Lease{l}}, c.CompleteMany)
		if !ok || reply.Ended[0].Err != nil {
			return v, false
		}
		return reply.Ended[0].Verdict, true
	}}
}

func ending[In any](c *caller, in In, method func(context.Context, In) (engine.EndReply, error)) *runEnd {
	return &runEnd{send: func() (engine.Verdict, bool) {
		reply, ok := ask(c, in, method)
		return reply.Verdict, ok
	}}
}

// completeTx completes a run in a transaction that leaves an effect.
func (c *caller) completeTx(p engine.Picked) (v engine.Verdict, known bool) {
	name := linearize.Name{Event: p.Delivery.Event, Handler: txHandler}
	known = c.transaction(func(ctx context.Context, tx any, did *linearize.Transaction) (err error) {
		if err = c.putIn(ctx, tx, name.String(), "done"); err != nil {
			return err
		}
		if v, err = c.completeIn(ctx, tx, engine.CompleteInput{Lease: p.Lease, TTL: shortLease}); err != nil {
			return err
		}
		did.Effects = []linearize.Name{name}
		did.Completed = []linearize.Completed{{Lease: p.Lease, Verdict: v}}
		if v == engine.LeaseLost {
			return errRollback
		}
		return nil
	})
	return v, known
}

// giveBack relinquishes the lanes that the worker believes to hold.
func (c *caller) giveBack() {
	c.w.number += 2
	in := engine.RelinquishInput{Holder: c.w.holder, Group: c.group, Number: c.w.number, Lanes: slices.Clone(c.w.held), Running: slices.Clone(c.w.running)}
	if reply, ok := ask(c, in, c.Relinquish); ok {
		c.w.held = slices.DeleteFunc(c.w.held, func(l engine.LaneEpoch) bool { return slices.Contains(reply.Lanes, l.Lane) })
		return
	}
	c.doubt = true
}

// pickOf returns the grant of a run.
func (w *worker) pickOf(run protocol.InFlight) engine.Picked {
	i := slices.IndexFunc(w.picks, func(p engine.Picked) bool { return p.Lease.Entry() == run })
	return w.picks[i]
}

// followers returns the leases of what runs behind a run in its chain.
func (w *worker) followers(p engine.Picked) []engine.Lease {
	var rest []engine.Lease
	last := p.Lease
	for _, o := range w.picks {
		still := slices.ContainsFunc(w.running, func(r engine.Running) bool { return r.InFlight == o.Lease.Entry() })
		if still && o.Lease.Claim == last.Claim && o.Lease.After == last.Delivery {
			rest, last = append(rest, o.Lease), o.Lease
		}
	}
	return rest
}

// fewer lowers the default number of sequences.
func fewer(t testing.TB, checks string) {
	f := flag.Lookup("rapid.checks")
	if f == nil || f.Value.String() != f.DefValue {
		return
	}
	if err := f.Value.Set(checks); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
}

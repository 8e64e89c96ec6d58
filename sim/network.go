package sim

import (
	"context"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
)

// callKind names a request.
type callKind uint8

const (
	callSubscribe callKind = iota
	callClaim
	callExtendLease
	callCompleteMany
	callReschedule
	callSnooze
	callBury
	callRelease
	callRelinquish
	callCommit
	callPurge
	callKinds
)

// callBits is how many bits of an actor on the tape name the call.
const callBits = 4

var callNames = [callKinds]string{
	"Subscribe", "Claim", "ExtendLease", "CompleteMany", "Reschedule",
	"Snooze", "Bury", "Release", "Relinquish", "Commit", "Purge",
}

func (k callKind) String() string { return callNames[k] }

// request is one request and its reply on their way.
type request struct {
	w       *world
	call    callKind
	from    *client
	fate    faults.Fate
	struck  int // the kind of fault that decided it last
	body    served
	told    *told // its record, if the history is recorded
	waiting *task // who waits for the answer; nil once it gave up
	server  *task
	answer  answer
	gone    bool // the store has served it, or never will
	goneAt  protocol.Time
}

// served is the part of a request that depends on the types of the call.
type served interface{ serve() }

type answer uint8

const (
	noAnswer answer = iota
	replied
	broken // the connection failed; what the store did is not known
)

// keepAlive is how many leases it takes an operating system to find a silent
// connection dead, where the call itself has no deadline.
const keepAlive = 3

// send sends a request and blocks until the answer, the end of ctx, or the
// failure of the connection.
func (c *client) send(ctx context.Context, call callKind, body served, told *told) error {
	w := c.w
	t := w.current
	t.mustLive()
	t.message = nil
	if call != callCommit { // a transaction has its connection
		pool := c.poolOf(call)
		if err := c.take(ctx, t, pool); err != nil {
			return err
		}
		defer pool.give()
	}
	r := &request{w: w, call: call, from: c, body: body, told: told, waiting: t}
	t.message = r
	r.fate = w.fateOf(r)
	if call == callCommit && t.run != nil && w.leapBeside(t.run, &w.leaping.duringCommit) {
		r.fate.Request += 45 * w.unit() // within the idle limit of the transaction
	}
	r.note("> ")
	r.depart()
	defer func() { r.waiting = nil }()
	deadline := deadlineOf(ctx)
	if deadline == 0 {
		deadline = w.now.Add(keepAlive * w.knobs.Lease)
	}
	for r.answer == noAnswer {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !t.park(deadline) && r.answer == noAnswer {
			probeGaveUp.Hit()
			return context.DeadlineExceeded
		}
	}
	if r.answer == broken {
		return errReset
	}
	return nil
}

// The stages of a request, as arguments of its events.
const (
	arriveStage uint64 = iota
	replyStage
	breakStage
	giveUpStage
	lostStage
)

func (r *request) depart() {
	w := r.w
	travel := w.travelTime(LabelRequest, r.from.id, r.call)
	if r.fate.GiveUp > 0 {
		w.in(r.fate.GiveUp, r, giveUpStage)
	}
	if r.fate.LoseRequest {
		w.in(2*travel, r, lostStage)
		return
	}
	w.in(travel+r.fate.Request, r, arriveStage)
}

// fire implements [actor].
func (r *request) fire(stage uint64) bool {
	w := r.w
	switch stage {
	case arriveStage:
		r.arrive()
	case replyStage:
		if cut, silent := r.from.cutOff(); cut {
			r.failIn(w.unit(), silent)
			break
		}
		r.settle(replied)
	case lostStage:
		r.neverServed(r.fate.Silent)
	case breakStage, giveUpStage:
		if r.waiting == nil || r.answer != noAnswer {
			return false
		}
		r.settle(broken)
	}
	return true
}

func (r *request) arrive() {
	w := r.w
	if cut, silent := r.from.cutOff(); w.down || cut {
		r.neverServed(silent || w.down && w.silent)
		return
	}
	if r.waiting == nil || r.answer != noAnswer {
		probeLate.Hit()
	}
	t := w.spawn(serverRole, r.from.id, r.body.serve)
	t.message, t.told = r, r.told
	r.server = t
	r.from.serving++
	t.after = r.served
	t.resume(true)
}

// note tells the observer.
func (r *request) note(what string) {
	if r.w.observe != nil {
		r.w.observe.message(r.w, r, what)
	}
}

// served sends the reply.
func (r *request) served() {
	r.leave()
	r.w.history.served(r.told)
	r.w.acknowledged = r.w.store.Position()
	travel := r.w.travelTime(LabelReply, r.from.id, r.call)
	if r.fate.LoseReply {
		r.w.faultWorked(r.struck)
		r.failIn(travel, r.fate.Silent)
		return
	}
	r.w.in(travel+r.fate.Reply, r, replyStage)
}

// neverServed ends a request that the store will not see. A COMMIT that never
// comes means that the store rolls back when it sees the connection close.
func (r *request) neverServed(silent bool) {
	r.leave()
	if commit, ok := r.body.(*commitBody); ok {
		commit.open.drop()
	}
	r.failIn(r.w.unit(), silent)
}

// leave notes that the store is done with the request.
func (r *request) leave() {
	if r.server != nil {
		r.from.serving--
		r.from.served = r.w.now
	}
	r.server, r.gone, r.goneAt = nil, true, r.w.now
}

// failIn lets the client see its connection fail after d, unless it fails
// silently.
func (r *request) failIn(d time.Duration, silent bool) {
	if !silent {
		r.w.in(d, r, breakStage)
	}
}

func (r *request) settle(a answer) {
	if r.waiting == nil || r.answer != noAnswer {
		r.note("! too late")
		return // it gave up: the answer is thrown away
	}
	r.note([...]string{replied: "< ", broken: "! connection failed"}[a])
	r.answer = a
	r.waiting.wake(0)
}

// callContext is the context of a store call: it ends at a virtual time.
type callContext struct {
	w        *world
	deadline protocol.Time
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline.Std(), true }
func (c *callContext) Done() <-chan struct{}       { return nil }
func (c *callContext) Value(any) any               { return nil }

func (c *callContext) Err() error {
	if c.w.now >= c.deadline {
		return context.DeadlineExceeded
	}
	return nil
}

// deadlineOf returns the virtual deadline of ctx, 0 when it has none.
func deadlineOf(ctx context.Context) protocol.Time {
	if c, ok := ctx.(*callContext); ok {
		return c.deadline
	}
	return 0
}

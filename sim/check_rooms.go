package sim

import (
	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// rooms checks LimitsOfWorker: a worker runs no more handlers at once than its
// concurrency, and of one handler no more than that handler's own; it holds no
// more granted deliveries and no more lanes than it may; and a claim takes over
// no more lanes than it asks for, which is at most those of one claim.
//
// It counts bodies, also of runs that were cancelled or lost their lease. One that
// was retired does not count: its place is given to others though its body may
// still be at work. What a claim grants is GrantsInBounds' business.
type rooms struct {
	unconcerned
	c *checks
}

const limitsOfWorker = "LimitsOfWorker"

func (*rooms) name() string { return limitsOfWorker }

func (k *rooms) fail(format string, args ...any) {
	k.c.fail(limitsOfWorker, limitsOfWorker, format, args...)
}

func (k *rooms) started(r *handlerRun) {
	all, same := 1, 1
	for _, o := range r.p.runs {
		if o == r || !o.running || o.retired {
			continue
		}
		all++
		if o.handler == r.handler {
			same++
		}
	}
	switch limit := r.handler.concurrency; {
	case all > r.p.concurrency():
		k.fail("%s runs %d handlers at once, its limit is %d", r.p.worker.name, all, r.p.concurrency())
	case limit > 0 && same > limit:
		k.fail("%s runs %d of %s at once, its limit is %d", r.p.worker.name, same, r.handler.name, limit)
	}
}

// claiming judges what a claim asks for.
func (k *rooms) claiming(p *process, in *engine.ClaimInput) {
	lanes := p.lanesPerClaim()
	switch {
	case in.MaxLanes > lanes || len(in.Held) > lanes:
		k.fail("%s claims from %d lanes and %d new ones, its limit is %d", p.worker.name, len(in.Held), in.MaxLanes, lanes)
	case in.Room > p.concurrency() || in.Limit > p.batch():
		k.fail("%s claims %d chains and %d deliveries, its limits are %d and %d", p.worker.name, in.Room, in.Limit, p.concurrency(), p.batch())
	case len(in.Running) > p.mostBuffered() && in.Limit > 0:
		k.fail("%s claims while it has %d deliveries, its limit is %d", p.worker.name, len(in.Running), p.mostBuffered())
	}
}

// claimed judges how many lanes a claim took over.
func (k *rooms) claimed(p *process, in *engine.ClaimInput, reply *engine.ClaimReply) {
	taken := len(reply.GivenBack)
	for i := range reply.Lanes {
		if reply.Lanes[i].TakenOver {
			taken++
		}
	}
	if taken > in.MaxLanes {
		k.fail("a claim of %s took over %d lanes, it asked for %d", p.worker.name, taken, in.MaxLanes)
	}
}

// action counts the lanes that a worker holds after a takeover. After a call that
// failed there may be some that it never heard of.
func (k *rooms) action(_ int64, a protocol.Action) {
	t, ok := a.(protocol.TakeOver)
	if !ok {
		return
	}
	if p := k.c.w.processOf(t.Holder); p == nil || p.patience.harmed != 0 {
		return
	}
	held := 1
	for i := range k.c.facts.lanes {
		if k.c.facts.lanes[i].holder == t.Holder {
			held++
		}
	}
	if per := k.c.w.knobs.lanesPerClaim(); held > lanesAtOnce*per {
		k.fail("%s holds %d lanes, its limit is %d", t.Holder.Short(), held, lanesAtOnce*per)
	}
}

// lanesAtOnce bounds the lanes of a worker, in claims' worth: four, and what
// the last claim adds.
const lanesAtOnce = 5

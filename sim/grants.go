package sim

import (
	"errors"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// wish is what a handler asks for by the error that it returns.
type wish uint8

const (
	wishRetry  wish = iota // an error of its own: the policy decides
	wishSnooze             // engine.Snooze
	wishAfter              // engine.RetryAfter
	wishCancel             // engine.Cancel
)

// asks is the wish that a behaviour's error stands for.
type asks struct {
	err   error
	wish  wish
	delay int64 // of wishSnooze and wishAfter, in nanoseconds
}

// grant is one lease as its worker knows it: what it was told, and what the run
// under the lease came to. Nothing in it comes from the Dispatcher.
type grant struct {
	p      *process
	picked engine.Picked
	chain  []*grant // what the same claim granted of its key, in order
	place  int      // in chain

	run      *handlerRun
	body     bodyState // of the last try
	err      error     // what the body returned
	inTx     error     // what the last transaction ended with
	complete protocol.Verdict
	asked    bool  // Complete was sent in the last try
	cancel   error // why its worker cancelled the run, other than its timeout
	timedOut bool
	unknowns int // unknown COMMITs of the delivery in a row, with this one

	sent    bool // an end was sent
	flight  bool // an end is under way
	rest    bool // it was named in the rest of another end
	loose   bool // … which came to nothing: it is released
	refused error
	turned  bool // its completion was LeaseLost
	done    bool // its worker knows that it is over
	lost    bool // its worker was told that it lost it
}

// bodyState is how far the body of a handler came.
type bodyState uint8

const (
	bodyNotBegun bodyState = iota
	bodyBegun
	bodyReturned
	bodyPanicked
)

// over reports whether nothing of the run can follow: it returned, or it was
// retired.
func (g *grant) over() bool { return g.run != nil && (g.run.over || g.run.retired) }

// later returns the members of the chain behind g.
func (g *grant) later() []*grant { return g.chain[g.place+1:] }

// grants is what all workers were told. It is kept beside the store's commits:
// what a worker was told stays so when the store loses commits.
type grants struct {
	c        *checks
	all      map[leaseName]*grant
	lanes    map[heldName]bool // lanes that a worker was told are not its own
	unknowns map[unknownName]int
	cut      []*grant // lost while they ran, since the last step
}

// heldName is a lane as one process held it.
type heldName struct {
	p    *process
	lane protocol.LaneEpoch
}

type unknownName struct {
	p  *process
	id protocol.DeliveryID
}

func newGrants(c *checks) *grants {
	return &grants{c: c, all: map[leaseName]*grant{}, lanes: map[heldName]bool{}, unknowns: map[unknownName]int{}}
}

// of returns the grant of a lease to a process, nil when there is none.
func (k *grants) of(p *process, l *protocol.Lease) *grant {
	if g := k.all[nameOf(*l)]; g != nil && g.p == p {
		return g
	}
	return nil
}

// granted notes the picks of a claim that was answered.
func (k *grants) granted(p *process, picks []engine.Picked) {
	p.grants = slices.DeleteFunc(p.grants, func(g *grant) bool { return g.done || g.lost && g.over() })
	var before *grant
	for i := range picks {
		g := &grant{p: p, picked: picks[i]}
		l := &g.picked.Lease
		if before != nil && l.After != 0 && l.After == before.picked.Lease.Delivery && l.Lane == before.picked.Lease.Lane {
			g.chain, g.place = before.chain, before.place+1
		}
		g.chain = append(g.chain, g)
		for _, o := range g.chain {
			o.chain = g.chain
		}
		k.all[nameOf(*l)] = g
		p.grants = append(p.grants, g)
		before = g
	}
}

// grant returns the grant that a task runs, nil for none.
func (t *task) grant() *grant {
	if t.run == nil {
		return nil
	}
	return t.run.grant
}

// began notes that a transaction of a run begins, and with it a new try.
func (g *grant) began() {
	if g != nil {
		g.body, g.err, g.asked = bodyNotBegun, nil, false
	}
}

// returned notes what a body returned.
func (g *grant) returned(err error) {
	if g == nil {
		return
	}
	g.body, g.err = bodyReturned, err
	if errors.Is(err, errPanic) {
		g.body = bodyPanicked
	}
}

// unknown reports whether COMMIT was sent and its outcome not learnt.
func (g *grant) unknown() bool {
	return g.asked && g.complete == protocol.Applied && errors.Is(g.inTx, engine.ErrCommitUnknown)
}

// fenced reports whether Complete was refused.
func (g *grant) fenced() bool { return g.asked && g.complete == protocol.LeaseLost }

// ranOut notes that a run returned to its worker, which counts unknown
// COMMITs of one delivery in a row.
func (k *grants) ranOut(r *handlerRun) {
	g := r.grant
	if g == nil {
		return
	}
	name := unknownName{r.p, g.picked.Lease.Delivery}
	if !r.handler.transactional || !g.unknown() {
		delete(k.unknowns, name)
		return
	}
	k.unknowns[name]++
	g.unknowns = k.unknowns[name]
}

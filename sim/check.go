package sim

import (
	"fmt"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// Violation is a broken promise, or an action of the store that the protocol
// does not allow.
type Violation struct {
	Checker   string // which checker fired
	Invariant string // which promise it found broken
	Detail    string
	Step      int
}

func (v *Violation) String() string {
	if v.Checker == v.Invariant {
		return fmt.Sprintf("%s: %s", v.Checker, v.Detail)
	}
	return fmt.Sprintf("%s (%s): %s", v.Invariant, v.Checker, v.Detail)
}

// checker watches a run for one kind of broken promise. All hooks are called
// on the loop, in the order in which things happen.
type checker interface {
	// name is the checker's name: that of the invariant it watches, where it
	// watches one.
	name() string
	// reset forgets everything: the store lost commits, and those that are
	// left will be told again.
	reset()
	// action tells of an action that the store committed or, with a position
	// of 0, evaluated. facts are those before it.
	action(position int64, a protocol.Action)
	// started and returned tell of a run of a handler's body.
	started(r *handlerRun)
	returned(r *handlerRun, err error)
	// finish is called once everything has drained or the run is given up.
	finish(drained bool)
}

// unconcerned is embedded by checkers that do not need every hook.
type unconcerned struct{}

func (unconcerned) reset()                        {}
func (unconcerned) action(int64, protocol.Action) {}
func (unconcerned) started(*handlerRun)           {}
func (unconcerned) returned(*handlerRun, error)   {}
func (unconcerned) finish(bool)                   {}

// checks is everything that watches a run.
type checks struct {
	w         *world
	facts     facts
	model     model
	all       []checker
	log       []simstore.Committed // what the store still has; position i+1 at index i
	lost      int                  // commits taken back by crashes and failovers
	rewinding bool
	kills     []kill
	violation *Violation
}

func (c *checks) init(w *world) {
	c.w = w
	c.model.init(c)
	c.facts.semantics = w.knobs.Semantics
	c.facts.init()
	c.all = []checker{
		&effects{c: c},
		&keyOrder{c: c},
		&lostDeliveries{c: c},
		&invented{c: c},
		&holders{c: c},
		&fenced{c: c},
		&dropped{c: c},
		&charges{c: c},
		&limits{c: c},
		&neighbours{c: c},
		&deadLetters{c: c},
		&repeats{c: c},
	}
}

// fail records the first violation and ends the run.
func (c *checks) fail(checker, invariant, format string, args ...any) {
	if c.violation != nil || c.rewinding {
		return
	}
	c.violation = &Violation{Checker: checker, Invariant: invariant, Detail: fmt.Sprintf(format, args...), Step: c.w.steps}
	c.w.over = true
}

// panicked turns a panic into a violation.
func (c *checks) panicked(value any) {
	c.rewinding = false
	if p, ok := value.(taskPanic); ok {
		c.fail("panic", "NoPanic", "%v\n%s", p.value, p.stack)
		return
	}
	c.fail("panic", "NoPanic", "%v\n%s", value, callers())
}

// committed is the store's observer.
func (w *world) committed(x simstore.Committed) {
	c := &w.checks
	w.changed = true
	w.print.add(uint64(x.Position)<<8 | uint64(len(x.Actions)))
	if x.Position > 0 {
		c.log = append(c.log, x)
		if int(x.Position) != len(c.log) {
			panic(fmt.Sprintf("sim: the store committed at position %d after %d", x.Position, len(c.log)-1))
		}
	}
	w.spring(x)
	if w.observe != nil {
		w.observe.committed(w, x)
	}
	c.apply(x)
}

func (c *checks) apply(x simstore.Committed) {
	for _, a := range x.Actions {
		if c.violation != nil {
			return
		}
		c.model.step(x.Position, a)
		for _, k := range c.all {
			k.action(x.Position, a)
		}
		c.facts.apply(a)
	}
}

// kill is a process that a delivery killed, and when.
type kill struct {
	holder   protocol.Holder
	delivery protocol.DeliveryID
	event    string
	after    int // commits that came before it
}

// poisoned notes that a delivery killed its process.
func (c *checks) poisoned(p *process) {
	k := kill{holder: p.holder, delivery: p.killer, after: len(c.log)}
	if d := c.facts.delivery(p.killer); d != nil {
		k.event = d.event
	}
	c.kills = append(c.kills, k)
	c.model.killed(k)
}

// retell repeats the kills that came after so many commits. One whose
// delivery was lost means nothing any more.
func (c *checks) retell(kills []kill, commits int) []kill {
	for len(kills) > 0 && kills[0].after <= commits {
		if d := c.facts.delivery(kills[0].delivery); d != nil && d.event == kills[0].event {
			c.model.killed(kills[0])
		}
		kills = kills[1:]
	}
	return kills
}

// rewound tells the checkers that only the commits up to keep are left.
func (c *checks) rewound(keep int64) {
	if c.violation != nil || int(keep) >= len(c.log) {
		return
	}
	if c.w.observe != nil {
		c.w.observe.rewound(c.w, keep)
	}
	c.lost += len(c.log) - int(keep)
	clear(c.log[keep:])
	c.log = c.log[:keep]
	c.rewinding = true
	c.facts.init()
	c.model.reset()
	for _, k := range c.all {
		k.reset()
	}
	for i := range c.kills {
		c.kills[i].after = min(c.kills[i].after, int(keep))
	}
	kills := c.kills
	for i, x := range c.log {
		kills = c.retell(kills, i)
		c.apply(x)
	}
	c.retell(kills, len(c.log))
	c.rewinding = false
}

func (c *checks) started(r *handlerRun) {
	if c.w.observe != nil {
		c.w.observe.ran(c.w, r, "run")
	}
	for _, k := range c.all {
		k.started(r)
	}
	r.running = true
}

func (c *checks) returned(r *handlerRun, err error) {
	if !r.running || r.task.dead {
		return
	}
	r.running = false
	if c.w.observe != nil {
		c.w.observe.ran(c.w, r, map[bool]string{true: "done", false: "fail"}[err == nil])
	}
	for _, k := range c.all {
		k.returned(r, err)
	}
}

func (c *checks) finish(drained bool) {
	for _, k := range c.all {
		if c.violation == nil {
			k.finish(drained)
		}
	}
}

// state is the protocol's view of what the store holds.
func (c *checks) state() *protocol.State { return c.model.state }

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

// String returns the violation as a sentence.
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
	w          *world
	facts      facts
	model      model
	all        []checker
	ends       *oneEnd
	charges    *charges
	limits     *limits
	effects    *effects
	conserving *conserving
	deadlines  *deadlines
	log        []simstore.Committed // what the store still has; position i+1 at index i
	losses     int                  // how often the store lost commits
	lost       int                  // commits taken back by crashes and failovers
	rewinding  bool
	kills      []kill
	lostEnds   []protocol.Lease // whose completion the store lost
	violation  *Violation
	deaf       bool // nothing but the history of calls is to be judged
	given      *given
	unrun      *unrun
	granted    *granted
	grants     *grants
	outcomes   *outcomes
	rooms      *rooms
	told       *asTold
	ages       *ages
	filtered   *filtered
	looks      *looks
}

func (c *checks) init(w *world) {
	c.w = w
	c.model.init(c)
	c.facts.semantics = w.knobs.Semantics
	c.facts.init()
	c.ends, c.charges, c.unrun = &oneEnd{c: c}, &charges{c: c}, &unrun{c: c}
	c.limits, c.effects = &limits{c: c}, &effects{c: c}
	c.conserving, c.deadlines = &conserving{c: c}, &deadlines{c: c}
	c.granted = &granted{c: c}
	c.given, c.grants = &given{c: c}, newGrants(c)
	c.rooms = &rooms{c: c}
	c.outcomes, c.told = &outcomes{c: c}, &asTold{c: c}
	c.ages = &ages{c: c, died: map[protocol.DeliveryID]protocol.Time{}, published: map[string]protocol.Time{}}
	c.filtered, c.looks = &filtered{c: c}, &looks{c: c}
	c.all = []checker{
		c.ends,
		c.effects,
		&keyOrder{c: c},
		&lostDeliveries{c: c},
		&invented{c: c, grants: map[leaseName]bool{}},
		&holders{c: c},
		&groups{c: c},
		&fenced{c: c},
		&dropped{c: c},
		c.charges,
		c.unrun,
		c.limits,
		c.given,
		c.outcomes,
		c.rooms,
		c.told,
		&members{c: c},
		c.granted,
		&due{c: c},
		c.ages,
		c.filtered,
		c.looks,
		&neighbours{c: c},
		&deadLetters{c: c},
		&repeats{c: c},
		c.conserving,
		c.deadlines,
		&fairShare{c: c},
	}
}

// fail records the first violation and ends the run.
func (c *checks) fail(checker, invariant, format string, args ...any) {
	if c.violation != nil || c.rewinding {
		return
	}
	if c.deaf {
		c.w.over = c.w.over || invariant == drains || checker == noPanic
		return
	}
	c.violation = &Violation{Checker: checker, Invariant: invariant, Detail: fmt.Sprintf(format, args...), Step: c.w.steps}
	c.w.over = true
}

// noPanic is the name of the checker of panics.
const noPanic = "panic"

// panicked turns a panic into a violation.
func (c *checks) panicked(value any) {
	c.rewinding = false
	if p, ok := value.(taskPanic); ok {
		c.fail(noPanic, "NoPanic", "%v\n%s", p.value, p.stack)
		return
	}
	c.fail(noPanic, "NoPanic", "%v\n%s", value, callers())
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
	w.history.touched(x)
	w.noteIssued(&x)
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
	lease  protocol.Lease // the run that killed it
	life   int            // of the delivery
	after  int            // commits that came before it
	counts bool           // the surviving commits granted that run
	void   bool           // the store lost what the process had done before
}

// poisoned notes that a delivery killed its process.
func (c *checks) poisoned(r *handlerRun) {
	k := kill{lease: r.run.Picked.Lease, after: len(c.log), void: r.p.losses != c.losses}
	c.tell(&k)
	c.kills = append(c.kills, k)
	c.limits.killed(r)
}

// tell tells the model of a kill. Where the store has lost commits of the
// process, its lanes list what it no longer ran, and may lack what it ran; then
// it is a death like any other.
func (c *checks) tell(k *kill) {
	if k.counts = !k.void && c.facts.accepted(k.lease); k.counts {
		k.life = c.facts.delivery(k.lease.Delivery).lives
		c.model.killed(*k)
	}
}

// retell repeats the kills from the given one on that came after so many
// commits, and returns the first that did not.
func (c *checks) retell(next, commits int) int {
	for next < len(c.kills) && c.kills[next].after <= commits {
		c.tell(&c.kills[next])
		next++
	}
	return next
}

// rewound tells the checkers that only the commits up to keep are left.
func (c *checks) rewound(keep int64) {
	if c.violation != nil || int(keep) >= len(c.log) {
		return
	}
	c.lost += len(c.log) - int(keep)
	for _, x := range c.log[keep:] {
		for _, a := range x.Actions {
			c.lostCompletions(a)
		}
	}
	noteLost(c.log[keep:])
	clear(c.log[keep:])
	c.log = c.log[:keep]
	c.rewinding = true
	c.facts.init()
	c.model.reset()
	for _, k := range c.all {
		k.reset()
	}
	c.losses++
	for i := range c.kills {
		k := &c.kills[i]
		k.void = k.void || k.after > int(keep)
		k.after = min(k.after, int(keep))
	}
	next := 0
	for i, x := range c.log {
		next = c.retell(next, i)
		c.apply(x)
	}
	c.retell(next, len(c.log))
	c.rewinding = false
}

// lostCompletions notes which completions went with a lost action.
func (c *checks) lostCompletions(a protocol.Action) {
	acceptedEnds(a, func(e end) {
		if e.plain {
			c.lostEnds = append(c.lostEnds, e.lease)
		}
	})
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

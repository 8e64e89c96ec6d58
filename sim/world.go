package sim

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// world is one simulated run: everything there is, and the order in which it
// happens. One goroutine owns it.
type world struct {
	knobs Knobs
	tape  *tape
	print fingerprint

	now          protocol.Time
	leapt        time.Duration // how far the store's clock is ahead
	sequence     uint64
	heap         eventHeap
	steps        int
	over         bool
	issued       []string // the event of each delivery id, as last published
	acknowledged int64    // commits up to here were acknowledged to somebody

	pool     *coroutines
	tasks    []*task
	victims  []*task // scratch
	current  *task
	alone    bool // the current task may let time pass without a switch
	nextTask uint32
	blocked  []*task // wait for a lock, in order

	store     *simstore.Store
	storeLife int           // raised whenever open transactions die with the store
	down      bool          // the store's process is not running
	away      protocol.Time // until when workers do not reach the store
	silent    bool          // requests in vain time out instead of failing
	downGen   uint64
	ambush    ambush
	leaving   leaving
	leaping   leapPlan
	lurking   lurking
	landings  [faults.Edges]landing
	landed    *task // whose statements take no time, because it landed
	deferred  bool  // the fault that strikes waits for its moment

	plan           plan
	handlers       []*handlerSpec
	workers        []*worker
	processes      []*process // all lives, for reports
	publishing     int        // publishers at work
	stopPublishing bool
	heldBack       bool       // the workers wait until everything is published
	racer          *publisher // publishes beside the others
	slowness       []uint8    // per client, with Knobs.Steady

	stage                                                                                        stage
	changed                                                                                      bool // something was committed since watch looked
	deadline                                                                                     protocol.Time
	lastStep                                                                                     int  // when the run is given up, should time stand still
	calm                                                                                         bool // no more faults
	tick                                                                                         uint64
	badRows                                                                                      []badRow // by delivery
	poison                                                                                       []uint8
	messageFaults, commitFaults, statementFaults, rowFaults, runFaults, batchFaults, timedFaults []int
	fired, worked                                                                                []int // per kind of fault

	checks  checks
	history *history // nil: not recorded
	observe observer
	discard *slog.Logger
}

// Clients of the store are numbered: the operator, then the workers, then the
// publishers.
const operatorClient = 0

// cut reports whether no worker and no publisher reaches the store.
func (w *world) cut() bool { return w.now < w.away }

// cutOff reports whether a client does not reach the store, and whether it is
// left to find that out by itself.
func (c *client) cutOff() (cut, silent bool) {
	switch {
	case !c.faulty:
		return false, false
	case c.w.cut():
		return true, c.w.silent
	case c.owner != nil && c.w.now < c.owner.worker.away:
		return true, c.owner.worker.silent
	}
	return false, false
}

// newWorld builds a world whose workers are about to start.
func newWorld(knobs Knobs, d driver, pool *coroutines) *world {
	w := &world{knobs: knobs, now: epoch, pool: pool, print: fnvOffset, discard: slog.New(slog.DiscardHandler)}
	w.tape = newTape(d, &w.print)
	w.sortFaults()
	w.store = simstore.NewWith(simstore.Options{
		Semantics:   knobs.Semantics,
		Lanes:       int32(knobs.Lanes),
		AsyncClaims: knobs.AsyncClaims,
		History:     knobs.History,
		Scheduler:   scheduler{w},
		Observer:    w.committed,
	})
	w.checks.init(w)
	return w
}

// publishers is how many publish at once.
const publishers = 2

// populate makes the handlers, workers and publishers of a drawn workload.
func (w *world) populate() {
	k := &w.knobs
	w.plan.total = k.Events
	for i := range k.Handlers {
		h := &handlerSpec{
			w: w, index: i, events: []string{typeName(i % k.Types)}, name: "handler" + string(rune('a'+i)),
			transactional: i%2 == 1, maxAttempts: k.attemptsOf(i), stubborn: k.Stubborn&(1<<i) != 0,
			concurrency: k.Limits >> (2 * i) & 3,
		}
		if i < 2 && k.Types > 1 {
			h.events = append(h.events, typeName((i+1)%k.Types)) // keys are ordered across types
		}
		w.handlers = append(w.handlers, h)
	}
	w.staff(publishers)
}

// staff makes the workers and starts everybody.
func (w *world) staff(publishing int) {
	w.knobs.Groups = max(1, min(w.knobs.Groups, w.knobs.Workers, len(w.handlers)))
	w.slowness = make([]uint8, 1+w.knobs.Workers+publishing+1)
	w.racer = w.newPublisher(1 + w.knobs.Workers + publishing)
	for i := range w.knobs.Workers {
		k := &worker{w: w, id: 1 + i, name: "worker" + string(rune('1'+i)), group: i % w.knobs.Groups}
		k.groupName = "group" + strconv.Itoa(k.group)
		k.handlers = w.ofGroup(k.group)
		if w.knobs.SameName {
			k.name = "worker"
		}
		if some := k.handlers &^ (1 << (i % len(w.handlers))); w.knobs.Split && some != 0 && w.knobs.Workers > 1 {
			k.handlers = some
		}
		k.clock = clock{since: w.now, wall: int64(w.now)}
		w.workers = append(w.workers, k)
	}
	for _, k := range w.workers {
		k.start()
	}
	for i := range publishing {
		w.newPublisher(1 + w.knobs.Workers + i).start()
	}
	w.in(0, (*ticker)(w), 0)
}

// ofGroup returns the handlers of a group, as bits.
func (w *world) ofGroup(group int) uint32 {
	var set uint32
	for i := range w.handlers {
		if i%w.knobs.Groups == group {
			set |= 1 << i
		}
	}
	return set
}

// lanesInAll is the number of lanes of all groups.
func (w *world) lanesInAll() int { return w.knobs.Lanes * w.knobs.Groups }

// close ends every task that is left.
func (w *world) close() {
	for _, k := range w.workers {
		k.buried = true
		if k.process != nil {
			k.process.die(false)
		}
	}
	for len(w.tasks) > 0 {
		w.tasks[len(w.tasks)-1].kill()
	}
}

// observed notes what a process reports.
func (w *world) observed(p *process, e engine.Observed) {
	w.checks.deadlines.reported(p, e)
	if w.observe != nil {
		w.observe.report(w, p, e)
	}
}

// notePoint notes the statement that is about to run.
func (w *world) notePoint(t *task, p simstore.Point) {
	if w.observe != nil {
		w.observe.statement(w, t, p)
	}
}

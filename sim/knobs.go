package sim

import (
	"math/rand/v2"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
)

// Bounds of what may be asked for.
const (
	MaxWorkers = 16
	MaxLanes   = 256
	MaxKeys    = 10_000
	MaxEvents  = 100_000
	MaxSteps   = 10_000_000
)

// Knobs are the settings of one run. They are drawn from the seed, and stand
// in a schedule beside its choices.
type Knobs struct {
	Semantics   protocol.Semantics
	Lanes       int // per group
	Batch       int // deliveries per claim
	Lease       time.Duration
	Window      time.Duration // how long completions wait for each other
	Workers     int
	Keys        int // 0: events have no key
	Events      int
	Types       int
	Handlers    int
	Groups      int // handlers and workers are dealt out to so many
	MaxAttempts int
	Concurrency int
	Timeout     int // of handlers, in leases
	Pool        int // connections of a worker; 0: unlimited
	Stubborn    int // which handlers do not listen to their context, as bits
	Limits      int // the handlers' own concurrency, two bits each; 0: no limit
	// AsyncClaims: the store acknowledges claims before they are durable.
	AsyncClaims bool
	// History: completed deliveries leave a row.
	History bool
	// Steady draws how slow each client is now and then, as in priority
	// scheduling with few change points, instead of drawing every delay.
	Steady bool
	// Split: the workers start with different sets of handlers.
	Split bool
	// SameName: all workers have the same owner name.
	SameName bool
	// Uneven: handlers have limits, and workers sizes, of their own.
	Uneven bool
	// Delays: some events are put off.
	Delays bool
	// Backlog: no worker is up while the events are published.
	Backlog bool
	// LanesPerClaim bounds what one claim takes over; 0: half of the lanes.
	LanesPerClaim int
	// Gather is how many completions share a write; 0: one more than Batch.
	Gather int
	// Retention says which ages the workers delete from; 0: nothing.
	Retention int
	// Hints: publishers wake workers.
	Hints bool
	// Steps bounds the safety phase.
	Steps  int
	Faults faults.Set
}

// odds returns how often each label of a seeded run is not calm. Each seed
// leaves some kinds of faults out and weighs the others differently: a fault
// that always comes with all the others hides what it does alone. Kinds that
// somebody named are never left out.
func (k *Knobs) odds(r *rand.Rand) []uint32 {
	odds := make([]uint32, len(labels))
	for _, l := range [...]Label{LabelType, LabelKey, LabelBatch, LabelGap, LabelSurvivor, LabelJitter} {
		odds[l] = always
	}
	slow := uint32(r.IntN(4)) * always / 6
	odds[LabelStatement], odds[LabelRequest], odds[LabelReply] = slow, slow, slow
	odds[LabelPriority] = always / 8
	odds[LabelTimer] = always / 16
	odds[LabelWork] = always / 2
	odds[LabelOutcome] = uint32(r.IntN(3)) * always / 50
	odds[LabelFilter], odds[LabelAges] = always/2, always*3/4
	odds[LabelLook] = always / 128
	odds[LabelDelay] = always / 3
	odds[LabelWake] = uint32(r.IntN(2)) * always / 4
	weights := weightings[r.IntN(len(weightings))]
	for i, kind := range faults.All() {
		weight := weights[r.IntN(len(weights))]
		if k.Faults != faults.Every() {
			weight = max(weight, 4)
		}
		if k.Faults.Has(i) {
			odds[faultLabel(i)] = uint32(min(weight*kind.Rate, 9000) * always / 10000)
		}
	}
	return odds
}

// weightings are what the weight of a kind is drawn from: most seeds have many
// kinds at once, others few and those often.
var weightings = [...][]int{
	{0, 0, 1, 2, 4},
	{0, 0, 1, 2, 4},
	{0, 0, 0, 0, 0, 0, 0, 3, 6},
}

// drawLimits gives some handlers a limit of one or two runs at once, in every
// second seed.
func drawLimits(r *rand.Rand, handlers int) (limits int) {
	if r.IntN(2) == 0 {
		return 0
	}
	for i := range handlers {
		limits |= r.IntN(3) << (2 * i)
	}
	return limits
}

// drawKnobs draws the settings of a seed.
func drawKnobs(r *rand.Rand, set faults.Set) Knobs {
	k := Knobs{Faults: set, Steps: 2000}
	if r.IntN(2) == 1 {
		k.Semantics = protocol.Snapshot
	}
	k.Lanes = 1 + r.IntN(8)
	k.Batch = 1 + r.IntN(5)
	k.Lease = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 60 * time.Second}[r.IntN(4)]
	k.Window = [...]time.Duration{1, 2 * time.Millisecond, 50 * time.Millisecond}[r.IntN(3)]
	k.Workers = 1 + r.IntN(4)
	k.Keys = [...]int{0, 1, 2, 3, 5, 8}[r.IntN(6)]
	k.Events = 5 + r.IntN(40)
	k.Types = 1 + r.IntN(2)
	k.Handlers = 1 + r.IntN(4)
	k.Groups = 1
	if k.Handlers > 1 && k.Workers > 1 && r.IntN(4) == 0 {
		k.Groups = 2
	}
	k.MaxAttempts = 1 + r.IntN(6)
	k.Concurrency = 1 + r.IntN(8)
	k.Timeout = 1 + 3*r.IntN(2)
	k.Stubborn = r.IntN(16) & r.IntN(16)
	k.AsyncClaims = r.IntN(3) > 0
	k.History = r.IntN(3) == 0
	k.Steady = r.IntN(2) == 0
	k.Split = r.IntN(4) == 0
	k.SameName = r.IntN(4) == 0
	k.Hints = r.IntN(3) > 0
	k.Limits = drawLimits(r, k.Handlers)
	drawInputs(r, &k)
	return k
}

// drawPool draws how many connections a worker has, from a source of its own:
// the other knobs of a seed are what they were when pools had no bounds.
func drawPool(r *rand.Rand) int {
	if r.IntN(3) > 0 {
		return 0
	}
	return 1 + r.IntN(5)
}

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// drawInputs draws the settings that most seeds leave alone: each is an input
// that a bus takes and that changes what its workers do.
func drawInputs(r *rand.Rand, k *Knobs) {
	k.Delays = r.IntN(4) == 0
	k.Uneven = r.IntN(4) == 0
	if r.IntN(6) == 0 {
		k.LanesPerClaim = 1
		k.Lanes = 5 + r.IntN(28)
	}
	if r.IntN(4) == 0 {
		k.Gather = 64
		k.Window = time.Second // as long as the poll interval: see config
	}
	if r.IntN(16) == 0 {
		k.Keys = 40
		k.Events += 40
	}
	if r.IntN(100) == 0 {
		k.Backlog = true
		k.Events = 100 + r.IntN(100)
		k.Steps = 5000
	}
	if k.Lease >= retentionLease && r.IntN(2) == 0 {
		k.Retention = 1 + r.IntN(retentions)
	}
}

// due draws how long an event is put off, if at all. Delays stay within a few
// leases: draining waits for them.
func (w *world) due(m *engine.Message, event int) {
	if !w.knobs.Delays {
		return
	}
	lease := w.knobs.Lease
	eighths := [...]time.Duration{1, 3, 8, 16}
	switch v := w.tape.Choose(1+2*len(eighths)+1, LabelDelay, event); {
	case v == 0:
	case v <= len(eighths):
		m.Delay = eighths[v-1] * lease / 8
	case v <= 2*len(eighths):
		m.At = timeOf(w.storeClock().Add(eighths[v-1-len(eighths)] * lease / 8))
	default:
		m.At = timeOf(w.storeClock().Add(-lease)) // has passed: at once
	}
}

// timeOf returns a reading of the store's clock as publishers write it.
func timeOf(t protocol.Time) time.Time { return time.Unix(0, int64(t)).UTC() }

// storeClock is what the store's clock says.
func (w *world) storeClock() protocol.Time { return w.now.Add(w.leapt) }

// lanesPerClaim returns how many lanes one claim may take over.
func (k *Knobs) lanesPerClaim() int {
	if k.LanesPerClaim > 0 {
		return k.LanesPerClaim
	}
	return 1 + (k.Lanes-1)/2
}

// completionBatch returns how many completions share a write. With Gather it
// is more than what comes within a window, so that the window decides.
func (k *Knobs) completionBatch() int {
	if k.Gather > 0 {
		return k.Gather
	}
	return 1 + k.Batch
}

// attemptsOf and timeoutOf are the limits of one handler: with Uneven no two
// neighbours have the same.
func (k *Knobs) attemptsOf(handler int) int {
	if !k.Uneven {
		return k.MaxAttempts
	}
	return 1 + (k.MaxAttempts+2*handler)%6
}

func (k *Knobs) timeoutOf(handler int) time.Duration {
	leases := k.Timeout
	if k.Uneven && handler%2 == 1 {
		leases = max(1, k.Timeout/2)
	}
	return time.Duration(leases) * k.Lease
}

// uneven makes the settings of one worker differ from those of its neighbours.
func (k *Knobs) uneven(cfg *engine.Config, worker int) {
	cfg.Concurrency, cfg.ClaimLimit = k.concurrencyOf(worker), k.batchOf(worker)
}

// concurrencyOf and batchOf are the settings of one worker.
func (k *Knobs) concurrencyOf(worker int) int {
	if !k.Uneven {
		return k.Concurrency
	}
	return 1 + (k.Concurrency+3*worker)%8
}

func (k *Knobs) batchOf(worker int) int {
	if !k.Uneven {
		return k.Batch
	}
	return 1 + (k.Batch+2*worker)%6
}

// Retention deletes nothing younger than a minute, which few runs with a
// shorter lease come to.
const retentionLease = 30 * time.Second

// retentionAges are the ages to choose from; 0 keeps everything.
var retentionAges = [...]time.Duration{0, time.Minute, 3 * time.Minute, 8 * time.Minute}

// retentions is how many ways there are to give each kind an age of its own.
const retentions = 4 * 3 * 2

// retention returns what the workers delete by themselves: for each kind
// another age, so that one taken for another shows.
func (k *Knobs) retention() (r engine.Retention) {
	if k.Retention == 0 {
		return r
	}
	n, left := k.Retention-1, retentionAges[:]
	for i, age := range [...]*time.Duration{&r.DeadAfter, &r.EventsAfter, &r.HistoryAfter} {
		choices := len(retentionAges) - i
		j := n % choices
		n /= choices
		*age = left[j]
		left = append(append([]time.Duration(nil), left[:j]...), left[j+1:]...)
	}
	r.Every = k.Lease / 2
	return r
}

// multiplesOfAge are what an operator's purge multiplies an age by, for dead
// letters, events and completions; 0 keeps the kind.
var multiplesOfAge = [...][3]time.Duration{
	{1, 1, 1}, {1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}, {1, 0, 2}, {0, 1, 2}, {1, 2, 0},
}

func agesOf(way int, age time.Duration) engine.Retention {
	m := multiplesOfAge[way]
	return engine.Retention{DeadAfter: m[0] * age, EventsAfter: m[1] * age, HistoryAfter: m[2] * age}
}

// holdBack ends all workers once every handler is subscribed, and starts them
// again when everything is published: what a new deployment finds.
func (w *world) holdBack() {
	if !w.knobs.Backlog || w.heldBack || w.calm {
		return
	}
	w.heldBack = true
	w.in(0, (*backlog)(w), 0)
}

// backlog ends the workers from outside of the publishers' tasks.
type backlog world

func (b *backlog) fire(uint64) bool {
	w := (*world)(b)
	probeBacklog.Hit()
	for _, k := range w.workers {
		k.crash(backlogLeases*w.knobs.Lease, false)
	}
	return true
}

// backlogLeases bounds how long workers stay away while a backlog builds up.
const backlogLeases = 20

// letGo starts the workers that were held back.
func (w *world) letGo() {
	if !w.heldBack || w.publishing > 0 || w.calm {
		return
	}
	for _, k := range w.workers {
		if k.process == nil && !k.buried {
			k.startIn(0)
		}
	}
}

// subscriptions is how many there will be once every worker has started.
func (w *world) subscriptions() int {
	if w.plan.recorded != nil {
		return len(w.plan.types) * len(w.handlers)
	}
	n := 0
	for _, h := range w.handlers {
		n += len(h.events)
	}
	return n
}

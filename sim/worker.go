package sim

import (
	"encoding/binary"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// worker is a slot in which processes follow one another under one name.
type worker struct {
	w        *world
	id       int // in world.clients
	group    int
	name     string
	handlers uint32 // which of world.handlers it serves, as bits
	process  *process
	clock    clock
	lives    int
	startGen uint64
	downFor  time.Duration // after the stop that is under way
	orphan   orphanPlan
	buried   bool // dead for good

	away   protocol.Time // until when it does not reach the store …
	silent bool          // … and is not told

	groupName string        // as its buses are told
	busy      protocol.Time // until when its other work has what is free of its pool
}

// orphanPlan is a host about to vanish in the middle of a transaction.
type orphanPlan struct {
	armed bool
	late  bool // only once the delivery is completed
	down  time.Duration
}

// strikes reports whether the host vanishes now.
func (o *orphanPlan) strikes(tx *openTx) bool {
	return o.armed && (tx.completed || !o.late)
}

// starter is a worker as the receiver of its own start.
type starter worker

func (s *starter) fire(gen uint64) bool {
	k := (*worker)(s)
	if k.buried || gen != k.startGen || k.process != nil {
		return false
	}
	k.start()
	return true
}

// startIn starts a new process after d.
func (k *worker) startIn(d time.Duration) {
	k.startGen++
	k.w.in(d, (*starter)(k), k.startGen)
}

// start begins a new life: a new bus with a new holder under the old name.
func (k *worker) start() {
	w := k.w
	k.lives++
	p := &process{w: w, worker: k, handlers: k.handlers, clock: &k.clock, alive: true, losses: w.checks.losses}
	p.client = &client{w: w, id: k.id, owner: p, faulty: true}
	p.client.newPools()
	bus, err := w.newBus(p.client, k)
	if err != nil {
		panic(err)
	}
	if p.machine, err = engine.NewMachine(bus); err != nil {
		panic(err)
	}
	p.holder = p.machine.Holder()
	k.process = p
	w.processes = append(w.processes, p)
	k.note("start")
	p.feed(engine.Start{})
}

// holderOf makes the sixteen bytes of a life. They are never made twice.
func holderOf(worker, life int) (h protocol.Holder) {
	binary.BigEndian.PutUint16(h[:], uint16(0xa000+worker))
	binary.BigEndian.PutUint16(h[2:], uint16(life))
	binary.BigEndian.PutUint64(h[8:], uint64(worker)<<32|uint64(life))
	return h
}

// groupOf names the group of the worker that a holder is a life of.
func (w *world) groupOf(h protocol.Holder) string {
	for i := len(w.processes) - 1; i >= 0; i-- {
		if p := w.processes[i]; p.holder == h {
			return p.worker.groupName
		}
	}
	return ""
}

// jitterGrain is how many values the jitter of a worker can take.
const jitterGrain = 16

// newBus makes the bus of a worker's next life.
func (w *world) newBus(c *client, k *worker) (*engine.Bus[*simstore.Tx], error) {
	cfg := w.config(k.name)
	cfg.Retention = w.knobs.retention()
	w.knobs.uneven(&cfg, k.id)
	cfg.Group = k.groupName
	cfg.NewHolder = func() protocol.Holder { return holderOf(k.id, k.lives) }
	cfg.Jitter = func(n int64) int64 {
		return n / jitterGrain * int64(w.tape.Choose(jitterGrain, LabelJitter, k.id))
	}
	bus, err := engine.New(c, cfg)
	if err != nil {
		return nil, err
	}
	for _, h := range w.handlers {
		if k.handlers&(1<<h.index) == 0 {
			continue
		}
		if err := h.register(bus); err != nil {
			return nil, err
		}
	}
	return bus, nil
}

// config returns the settings that all buses of a run share.
func (w *world) config(owner string) engine.Config {
	k := &w.knobs
	return engine.Config{
		Owner:           owner,
		Lease:           k.Lease,
		Window:          w.window(),
		Poll:            w.poll(),
		Concurrency:     k.Concurrency,
		ClaimLimit:      k.Batch,
		LanesPerClaim:   k.lanesPerClaim(),
		CompletionBatch: k.completionBatch(),
		Logger:          w.discard,
	}
}

// window is how long completions wait for each other.
func (w *world) window() time.Duration { return min(w.knobs.Window, w.knobs.Lease/20) }

// lanesPerClaim, concurrency and limit are what the process was configured with.
func (p *process) lanesPerClaim() int { return p.w.knobs.lanesPerClaim() }
func (p *process) batch() int         { return p.w.knobs.batchOf(p.worker.id) }
func (p *process) concurrency() int   { return p.w.knobs.concurrencyOf(p.worker.id) }

// mostBuffered is how many granted deliveries a process may have before it claims
// more.
func (p *process) mostBuffered() int { return 2*p.concurrency() + p.batch() }

// limit is how many runs of the handler may go on at once in a process.
func (h *handlerSpec) limit(p *process) int {
	if h.concurrency > 0 {
		return min(h.concurrency, p.concurrency())
	}
	return p.concurrency()
}

// poll is the poll interval of the workers.
func (w *world) poll() time.Duration { return w.knobs.Lease / 20 }

// crash ends the process, and starts another after down.
func (k *worker) crash(down time.Duration, orphan bool) bool {
	if k.buried {
		return false
	}
	k.orphan = orphanPlan{}
	p := k.process
	if p != nil {
		p.die(orphan)
		k.process = nil
	}
	k.startIn(down)
	return p != nil
}

// short is the worker's name in the log.
func (k *worker) short() string { return k.w.clientName(k.id) }

func (k *worker) note(what string) {
	if k.w.observe != nil {
		k.w.observe.life(k.w, k, what)
	}
}

// stop begins an orderly shutdown.
func (k *worker) stop(grace, down time.Duration) bool {
	p := k.process
	if p == nil || p.stopping {
		return false
	}
	p.stopping, k.downFor = true, down
	p.pledge.stopAt = k.w.now
	k.note("stop")
	p.input(engine.Stop{Grace: grace})
	return true
}

// input feeds an input that comes from outside, when the process can take it.
func (p *process) input(in engine.Input) {
	if p.paused {
		p.keep(&outsideInput{p, in}, 0)
		return
	}
	p.feed(in)
}

// outsideInput is an input that waits for the end of a pause.
type outsideInput struct {
	p  *process
	in engine.Input
}

func (o *outsideInput) fire(uint64) bool {
	if !o.p.alive {
		return false
	}
	o.p.input(o.in)
	return true
}

// stopped ends a process that reported that it is done. Handlers that did not
// return die with it.
func (p *process) stopped() {
	k := p.worker
	p.stoppedWell = true
	k.note("stopped")
	p.die(false)
	k.process = nil
	if !k.buried {
		k.startIn(k.downFor)
	}
}

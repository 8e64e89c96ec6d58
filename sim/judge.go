package sim

import (
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// Judge holds a store that goroutines use against the lock-step model and the
// direct checkers. Whoever drives the buses tells it of every commit and of
// every run of a handler's body, one at a time.
//
// It leaves out the checkers that need to know what the simulator alone knows:
// which requests are under way, and which processes died.
type Judge struct {
	w         *world
	grants    map[string]protocol.Lease // by runName
	processes map[protocol.Holder]*process
}

// Judged is one run of a handler's body.
type Judged struct{ run *handlerRun }

// JudgedHandler is what a Judge must know of a handler.
type JudgedHandler struct {
	Name          string
	Transactional bool
	MaxAttempts   int
}

// NewJudge returns a judge of an empty store.
func NewJudge(s protocol.Semantics, lanes int, handlers []JudgedHandler) *Judge {
	w := &world{knobs: Knobs{Semantics: s, Lanes: lanes}}
	for _, h := range handlers {
		w.handlers = append(w.handlers, &handlerSpec{
			w: w, name: h.Name, transactional: h.Transactional, maxAttempts: h.MaxAttempts,
		})
	}
	c := &w.checks
	c.init(w)
	c.all = []checker{
		c.effects,
		&keyOrder{c: c},
		&lostDeliveries{c: c},
		&holders{c: c},
		&fenced{c: c},
		c.charges,
		c.limits,
		&deadLetters{c: c},
		&repeats{c: c},
	}
	return &Judge{w: w, grants: map[string]protocol.Lease{}, processes: map[protocol.Holder]*process{}}
}

// Committed is an observer of the store.
func (j *Judge) Committed(x simstore.Committed) {
	c := &j.w.checks
	if x.Position > 0 {
		c.log = append(c.log, x)
	}
	c.apply(x)
	for _, a := range x.Actions {
		if claim, ok := a.(protocol.Claim); ok {
			j.granted(&claim)
		}
	}
}

func (j *Judge) granted(claim *protocol.Claim) {
	for _, p := range claim.Picks {
		if d := j.w.checks.facts.delivery(p.Delivery); d != nil {
			j.grants[runName(p.Delivery, d.granted.Token.String())] = d.granted
		}
	}
}

func runName(id protocol.DeliveryID, token string) string { return fmt.Sprintf("%d %s", id, token) }

// Started tells of a body that begins. It returns nil when no committed claim
// granted the run, which is a violation.
func (j *Judge) Started(d engine.DeliveryInfo) *Judged {
	c := &j.w.checks
	lease, ok := j.grants[runName(d.Delivery, d.Token)]
	if !ok {
		c.fail("NothingInvented", "NothingInvented", "%s runs for %s under %s, which no committed claim granted", d.Handler, d.Event, d.Token)
		return nil
	}
	p := j.process(lease.Holder)
	r := &handlerRun{p: p, task: &task{}, handler: j.w.handlerNamed(d.Handler), run: &engine.Run{
		Handler: d.Handler, MaxAttempts: d.MaxAttempts,
		Picked: engine.Picked{Lease: lease, Delivery: protocol.Delivery{
			ID: d.Delivery, Event: d.Event, Handler: d.Handler, Key: d.Key,
			Sequence: d.Sequence, Attempts: int32(d.Attempt - 1), Lane: d.Lane,
		}},
	}}
	p.runs = append(p.runs, r)
	c.started(r)
	return &Judged{r}
}

func (j *Judge) process(h protocol.Holder) *process {
	p := j.processes[h]
	if p == nil {
		p = &process{w: j.w, holder: h}
		j.processes[h] = p
		j.w.processes = append(j.w.processes, p)
	}
	return p
}

// Cancelled tells that the context of a running body has ended, and why.
func (j *Judge) Cancelled(r *Judged, cause error) {
	if r != nil {
		j.w.checks.charges.cancels(r.run, cause)
	}
}

// Returned tells what a body returned, before its bus learns of it.
func (j *Judge) Returned(r *Judged, err error) {
	if r != nil {
		j.w.checks.returned(r.run, err)
	}
}

// Pending is the number of deliveries that are neither completed nor dead.
func (j *Judge) Pending() int { return j.w.checks.facts.open }

// Finish compares what the store holds with what it committed. Nothing may use
// the store any more.
func (j *Judge) Finish(s *simstore.Store) {
	j.w.store = s
	j.w.checks.finish(true)
}

// Violation returns the first broken promise, nil when there is none.
func (j *Judge) Violation() *Violation { return j.w.checks.violation }

// WriteEffect is what each transactional handler must do once: it leaves a row
// that Finish counts against the completions.
func WriteEffect(put func(table, key string) error, d engine.DeliveryInfo) error {
	return put(effectTable, fmt.Sprintf("%s/%s@%s", d.Event, d.Handler, d.Token))
}

package sim

import (
	"encoding/json"
	"io"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// Trace writes what the store did as NDJSON: one line per action, and one per
// rewind of the store.
type Trace struct {
	Out io.Writer
	// Err is the first error of writing.
	Err error
}

// traceLine is one line of a trace. Position is the commit's place in the
// log, 0 for a call that was evaluated and changed nothing.
type traceLine struct {
	Step     int             `json:"step"`
	At       int64           `json:"at"` // virtual nanoseconds since the run began
	Action   string          `json:"action"`
	Position int64           `json:"position"`
	Async    bool            `json:"async,omitempty"`
	Args     protocol.Action `json:"args,omitempty"`
}

func (t *Trace) write(line traceLine) {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = t.Out.Write(append(text, '\n'))
	}
	if t.Err == nil {
		t.Err = err
	}
}

func (t *Trace) committed(w *world, c simstore.Committed) {
	for _, a := range c.Actions {
		t.write(traceLine{w.steps, int64(w.now - epoch), a.Name(), c.Position, c.Async, a})
	}
}

func (t *Trace) rewound(w *world, keep int64) {
	t.write(traceLine{Step: w.steps, At: int64(w.now - epoch), Action: "Rewind", Position: keep})
}

func (*Trace) statement(*world, *task, simstore.Point)  {}
func (*Trace) message(*world, *request, string)         {}
func (*Trace) report(*world, *process, engine.Observed) {}
func (*Trace) struck(*world, *strike, bool)             {}
func (*Trace) ran(*world, *handlerRun, string)          {}
func (*Trace) life(*world, *worker, string)             {}

// both tells two observers.
type both struct{ a, b observer }

func (o both) statement(w *world, t *task, p simstore.Point) {
	o.a.statement(w, t, p)
	o.b.statement(w, t, p)
}
func (o both) committed(w *world, c simstore.Committed) { o.a.committed(w, c); o.b.committed(w, c) }
func (o both) rewound(w *world, keep int64)             { o.a.rewound(w, keep); o.b.rewound(w, keep) }
func (o both) message(w *world, r *request, what string) {
	o.a.message(w, r, what)
	o.b.message(w, r, what)
}
func (o both) report(w *world, p *process, e engine.Observed) {
	o.a.report(w, p, e)
	o.b.report(w, p, e)
}
func (o both) struck(w *world, s *strike, worked bool) {
	o.a.struck(w, s, worked)
	o.b.struck(w, s, worked)
}
func (o both) ran(w *world, r *handlerRun, what string) { o.a.ran(w, r, what); o.b.ran(w, r, what) }
func (o both) life(w *world, k *worker, what string)    { o.a.life(w, k, what); o.b.life(w, k, what) }

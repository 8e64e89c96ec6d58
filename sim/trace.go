package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// traceFormat is the version of the lines that a Trace writes.
const traceFormat = 1

// Trace writes what the store did as NDJSON: a header with the format, the
// store's semantics ("locking" or "snapshot"), the lanes of a group and the
// seed, then one line per action, and one, named StoreCrash, per crash or
// failover of the store. Each of these has the step, the virtual
// nanoseconds since the run began, the action and a commit position: that of
// the action's transaction, 0 for a call that was evaluated and changed
// nothing, and for StoreCrash the last one that is left. Arguments have the
// names of the protocol's action types; holders are 32 hexadecimal digits,
// verdicts and results their names.
type Trace struct {
	Out io.Writer
	// Err is the first error of writing.
	Err error

	seed  uint64
	begun bool
	line  []byte
}

// head writes the header before the first line.
func (t *Trace) head(w *world) {
	if t.begun {
		return
	}
	t.begun = true
	t.line = fmt.Appendf(t.line[:0], `{"format":%d,"semantics":%q,"lanes":%d,"seed":%d`,
		traceFormat, w.knobs.Semantics, w.knobs.Lanes, t.seed)
	t.end()
}

func (t *Trace) begin(w *world, action string, position int64) {
	t.head(w)
	b := append(t.line[:0], `{"step":`...)
	b = strconv.AppendInt(b, int64(w.steps), 10)
	b = strconv.AppendInt(append(b, `,"at":`...), int64(w.now-epoch), 10)
	b = strconv.AppendQuote(append(b, `,"action":`...), action)
	t.line = strconv.AppendInt(append(b, `,"position":`...), position, 10)
}

func (t *Trace) end() {
	t.line = append(t.line, "}\n"...)
	if _, err := t.Out.Write(t.line); t.Err == nil {
		t.Err = err
	}
}

func (t *Trace) committed(w *world, c simstore.Committed) {
	for _, a := range c.Actions {
		t.begin(w, a.Name(), c.Position)
		if c.Async {
			t.line = append(t.line, `,"async":true`...)
		}
		t.line = appendValue(append(t.line, `,"args":`...), reflect.ValueOf(a))
		t.end()
	}
}

func (t *Trace) crashed(w *world, keep int64) {
	t.begin(w, "StoreCrash", keep)
	t.end()
}

// appendValue appends v as JSON. The protocol's types are written by their
// fields: encoding/json would see the token inside a lease and nothing else.
func appendValue(b []byte, v reflect.Value) []byte {
	switch x := v.Interface().(type) {
	case protocol.Holder:
		return strconv.AppendQuote(b, x.String())
	case protocol.Verdict:
		return strconv.AppendQuote(b, x.String())
	case protocol.PublishResult:
		return strconv.AppendQuote(b, x.String())
	case protocol.Status:
		return strconv.AppendQuote(b, x.String())
	}
	switch {
	case v.Kind() == reflect.Struct:
		return append(appendFields(append(b, '{'), v), '}')
	case v.Kind() == reflect.Slice && v.Type() != reflect.TypeFor[[]byte]():
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, v.Index(i))
		}
		return append(b, ']')
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err) // numbers, strings and bytes always marshal
	}
	return append(b, text...)
}

// appendFields appends the fields of a struct; those of embedded ones count as
// its own.
func appendFields(b []byte, v reflect.Value) []byte {
	for i := range v.NumField() {
		if i > 0 {
			b = append(b, ',')
		}
		field := v.Type().Field(i)
		if field.Anonymous {
			b = appendFields(b, v.Field(i))
			continue
		}
		b = append(strconv.AppendQuote(b, field.Name), ':')
		b = appendValue(b, v.Field(i))
	}
	return b
}

func (*Trace) statement(*world, *task, simstore.Point)  {}
func (*Trace) message(*world, *request, string)         {}
func (*Trace) report(*world, *process, engine.Observed) {}
func (*Trace) struck(*world, *strike, bool)             {}
func (*Trace) sprung(*world, int)                       {}
func (*Trace) ran(*world, *handlerRun, string)          {}
func (*Trace) life(*world, *worker, string)             {}

// both tells two observers.
type both struct{ a, b observer }

func (o both) statement(w *world, t *task, p simstore.Point) {
	o.a.statement(w, t, p)
	o.b.statement(w, t, p)
}

func (o both) committed(w *world, c simstore.Committed) {
	o.a.committed(w, c)
	o.b.committed(w, c)
}

func (o both) crashed(w *world, keep int64) {
	o.a.crashed(w, keep)
	o.b.crashed(w, keep)
}

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

func (o both) sprung(w *world, kind int) {
	o.a.sprung(w, kind)
	o.b.sprung(w, kind)
}

func (o both) ran(w *world, r *handlerRun, what string) {
	o.a.ran(w, r, what)
	o.b.ran(w, r, what)
}

func (o both) life(w *world, k *worker, what string) {
	o.a.life(w, k, what)
	o.b.life(w, k, what)
}

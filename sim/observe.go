package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// observer is told of everything that happens, for logs and traces. It must
// not change anything.
type observer interface {
	statement(w *world, t *task, p simstore.Point)
	committed(w *world, c simstore.Committed)
	crashed(w *world, keep int64)
	message(w *world, r *request, what string)
	report(w *world, p *process, e engine.Observed)
	struck(w *world, s *strike, worked bool)
	sprung(w *world, kind int)
	ran(w *world, r *handlerRun, what string)
	life(w *world, k *worker, what string)
}

// Legend explains the lines of [Log].
const Legend = `one line per event: virtual seconds, step, who, what, and more
who   store; wN: worker N; pN: publisher N; op: the operator
what  > call           a request leaves its client        < call    its answer arrives
      ! call           its answer is lost or late         · call    a statement of the store begins
      = Action         the store committed (position) or evaluated (position 0) an action
      fault            a fault struck; (in vain): it changed nothing; (armed): it waits for its moment
      strikes          a fault that was armed strikes
      run, done, fail  a handler's body began, returned nil, returned an error
      start, die, …    a worker's process began or ended
      note             what a worker would write into its own log
      crash            the store crashed or failed over; a position is left of its commits`

// Log writes one line per event, as [Legend] explains.
type Log struct{ Out io.Writer }

func (l *Log) line(w *world, who, what, format string, args ...any) {
	at := w.now.Sub(epoch)
	fmt.Fprintf(l.Out, "%6d.%06d %7d %-5s %-14s %s\n", at/time.Second, at%time.Second/time.Microsecond, w.steps, who, what,
		strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// clientName names a client of the store in the log.
func (w *world) clientName(id int) string {
	switch {
	case id == operatorClient:
		return "op"
	case id <= len(w.workers):
		return fmt.Sprintf("w%d", id)
	default:
		return fmt.Sprintf("p%d", id-len(w.workers))
	}
}

func (l *Log) statement(w *world, t *task, p simstore.Point) {
	on := ""
	if p.Delivery != 0 {
		on = fmt.Sprintf("#%d", p.Delivery)
	} else if p.Lane != 0 {
		on = fmt.Sprintf("lane %d", p.Lane)
	}
	l.line(w, w.clientName(t.client), "· "+p.Call, "%s %s", p.Step, on)
}

func (l *Log) committed(w *world, c simstore.Committed) {
	async := ""
	if c.Async {
		async = " async"
	}
	for _, a := range c.Actions {
		l.line(w, "store", "= "+a.Name(), "%d%s %s", c.Position, async, summary(a))
	}
}

func (l *Log) crashed(w *world, keep int64) { l.line(w, "store", "crash", "position %d is left", keep) }

func (l *Log) message(w *world, r *request, what string) {
	l.line(w, w.clientName(r.from.id), what[:1]+" "+r.call.String(), "%s", strings.TrimSpace(what[1:]))
}

func (l *Log) report(w *world, p *process, e engine.Observed) {
	on := ""
	if e.Run != nil {
		on = e.Run.Picked.Lease.String()
	} else if e.Lane != 0 {
		on = fmt.Sprintf("lane %d", e.Lane)
	}
	err := ""
	if e.Err != nil {
		err = firstLine(e.Err.Error())
	}
	l.line(w, p.worker.short(), "note", "%s %s %s %s", e.Event, e.Handler, on, err)
}

func (l *Log) struck(w *world, s *strike, worked bool) {
	k := faults.All()[s.kind]
	on, vain := "", ""
	if k.Target != faults.OnWorld {
		on = fmt.Sprintf("%d", s.target)
	}
	switch {
	case worked:
	case w.deferred:
		vain = "(armed)"
	default:
		vain = "(in vain)"
	}
	l.line(w, "", "fault", "%s %s variant %d %s", k.Name, on, s.variant, vain)
}

func (l *Log) sprung(w *world, kind int) {
	l.line(w, "", "strikes", "%s", faults.All()[kind].Name)
}

func (l *Log) ran(w *world, r *handlerRun, what string) {
	p := &r.run.Picked
	l.line(w, r.p.worker.short(), what, "%s of %s key %q %v", r.handler.name, p.Delivery.Event, p.Delivery.Key, p.Lease)
}

func (l *Log) life(w *world, k *worker, what string) {
	l.line(w, k.short(), what, "%s life %d", k.name, k.lives)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// summary says what an action did, in a few words.
func summary(a protocol.Action) string {
	switch a := a.(type) {
	case protocol.Publish:
		var b strings.Builder
		for _, e := range a.Events {
			fmt.Fprintf(&b, "%s %s key %q %v", e.Event.ID, e.Event.Type, e.Event.Key, e.Result)
			for _, d := range e.Deliveries {
				fmt.Fprintf(&b, " #%d %s lane %d", d.ID, d.Handler, d.Lane)
			}
			b.WriteString("; ")
		}
		return b.String()
	case protocol.Claim:
		return fmt.Sprintf("lane %d by %s n=%d picks %v keeps %s renew %v", a.Lane, a.Holder.Short(), a.Number, pickedIDs(a.Picks), entries(a.Running, a.Lane), a.Renew)
	case protocol.TakeOver:
		return fmt.Sprintf("lane %d by %s n=%d charged %v", a.Lane, a.Holder.Short(), a.Number, a.Charged)
	case protocol.ChargeLost:
		return fmt.Sprintf("lane %d charged %v", a.Lane, a.Charged)
	case protocol.ExtendLease:
		return fmt.Sprintf("lane %d epoch %d by %s %v", a.Lane, a.Epoch, a.Holder.Short(), a.Verdict)
	case protocol.CompleteMany:
		return fmt.Sprintf("%v %v", a.Leases, a.Verdicts)
	case protocol.Complete:
		return fmt.Sprintf("%v %v", a.Lease, a.Verdict)
	case protocol.Reschedule:
		return fmt.Sprintf("%v %v in %v rest %v", a.Lease, a.Verdict, a.Delay, a.Rest)
	case protocol.Snooze:
		return fmt.Sprintf("%v %v in %v rest %v", a.Lease, a.Verdict, a.Delay, a.Rest)
	case protocol.Bury:
		return fmt.Sprintf("%v %v charge %v rest %v", a.Lease, a.Verdict, a.Charge, a.Rest)
	case protocol.Release:
		return fmt.Sprintf("%v %v", a.Leases, a.Verdicts)
	case protocol.Relinquish:
		return fmt.Sprintf("lane %d by %s n=%d %v", a.Lane, a.Holder.Short(), a.Number, a.Verdict)
	case protocol.Requeue:
		return fmt.Sprintf("%v", a.Requeued)
	case protocol.Subscribe:
		return fmt.Sprintf("%s %v", a.Group, a.Handlers)
	default:
		return fmt.Sprintf("%+v", a)
	}
}

func pickedIDs(picks []protocol.Picked) string {
	var b strings.Builder
	for i, p := range picks {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "#%d", p.Delivery)
		if p.After != 0 {
			fmt.Fprintf(&b, "<#%d", p.After)
		}
	}
	return "[" + b.String() + "]"
}

// entries names what of running is in the lane.
func entries(running []protocol.Running, lane protocol.LaneID) string {
	var b strings.Builder
	for _, r := range running {
		if r.Lane == lane {
			fmt.Fprintf(&b, " #%d:%d", r.Delivery, r.Claim)
		}
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}

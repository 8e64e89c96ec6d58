package linearize

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// explainTime bounds the search for the shortest prefix that is illegal.
const explainTime = 2 * time.Second

// Explanation says why no order of a partition's calls is possible.
type Explanation struct {
	Property  Property
	Partition string
	// Operations is the length of the shortest prefix of the partition that
	// is illegal already.
	Operations int
	// Misfits are the calls of that prefix that fit nowhere once the others
	// are in the best order.
	Misfits []Misfit
	// State is what the partition was in before them.
	State string
}

// Misfit is a call whose answer fits nowhere.
type Misfit struct {
	// Call says who called what, when, and the answer.
	Call string
	// Reasons say why the answer is impossible, one for each state that the
	// partition may have been in.
	Reasons []string
	// Because are the calls that made the state what it was.
	Because []string
}

// String returns the explanation in a few lines.
func (e *Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is broken in %s: no order of its first %d operations explains all answers.\n", e.Property, e.Partition, e.Operations)
	for _, m := range e.Misfits {
		fmt.Fprintf(&b, "  does not fit: %s\n", m.Call)
		for _, why := range m.Reasons {
			fmt.Fprintf(&b, "    %s\n", why)
		}
		for _, call := range m.Because {
			fmt.Fprintf(&b, "    since %s\n", call)
		}
	}
	fmt.Fprintf(&b, "  before it: %s", e.State)
	return b.String()
}

func (m *machine[S, P]) name() string { return m.title }

func (m *machine[S, P]) size() int { return len(m.parts) }

// check looks for an order, first without the calls that hardly ever explain
// anything: an order that is found without them is one. The order of the
// answers is tried before any search.
func (m *machine[S, P]) check(timeout time.Duration) Status {
	w := newWatch(timeout)
	likely := slices.DeleteFunc(slices.Clone(m.parts), func(p *part[P]) bool { return p.farFetched })
	if m.explains(likely) {
		return OK
	}
	if len(likely) < len(m.parts) && m.checkParts(likely, timeout/4) == OK {
		return OK
	}
	left, ok := w.left()
	if !ok {
		return Unknown
	}
	return m.checkParts(m.parts, left)
}

// explains reports whether the order of the answers explains them.
func (m *machine[S, P]) explains(parts []*part[P]) bool {
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b *part[P]) int { return cmp.Compare(a.ret, b.ret) })
	r := &run[S, P]{machine: m, overflow: new(atomic.Bool)}
	at := r.initial()
	for _, p := range parts {
		if at = r.step(at, p); len(at.nodes) == 0 {
			return false
		}
	}
	return true
}

func (m *machine[S, P]) checkParts(parts []*part[P], timeout time.Duration) Status {
	model, overflow := m.model()
	switch result := porcupine.CheckOperationsTimeout(model, operations(parts), timeout); {
	case overflow.Load() || result == porcupine.Unknown:
		return Unknown
	case result == porcupine.Illegal:
		return Illegal
	}
	return OK
}

// prefix returns the partition up to a time: a call that was outstanding then
// may have got the answer it got later, or not.
func (m *machine[S, P]) prefix(at int64) []*part[P] {
	var list []*part[P]
	for _, p := range m.parts {
		switch {
		case p.call > at:
			continue
		case p.ret > at:
			cut := *p
			cut.ret = forever
			if p.role == settledRole {
				cut.role = maybeRole
			}
			p = &cut
		}
		list = append(list, p)
	}
	return list
}

// shortest returns the shortest prefix that is illegal.
func (m *machine[S, P]) shortest(timeout time.Duration) []*part[P] {
	var ends []int64
	for _, p := range m.parts {
		if p.role == settledRole {
			ends = append(ends, p.ret)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	w := newWatch(timeout)
	at, _ := slices.BinarySearchFunc(ends, true, func(end int64, _ bool) int {
		left, ok := w.left()
		if !ok || m.checkParts(m.prefix(end), left) != Illegal {
			return -1
		}
		return 1
	})
	if at == len(ends) {
		return m.parts // the time was over
	}
	return m.prefix(ends[at])
}

func (m *machine[S, P]) explain(timeout time.Duration) *Explanation {
	parts := m.shortest(timeout)
	e := &Explanation{Partition: m.title, Operations: len(parts)}
	model, _ := m.model()
	_, info := porcupine.CheckOperationsVerbose(model, operations(parts), timeout)
	r := &run[S, P]{machine: m, overflow: new(atomic.Bool)}
	at := r.initial()
	fitting := make(map[*part[P]]bool)
	for _, o := range longest(info) {
		p := o.Input.(*part[P])
		fitting[p] = true
		at = r.step(at, p)
	}
	e.State = at.String()
	for _, p := range parts {
		if p.role == settledRole && !fitting[p] {
			e.Misfits = append(e.Misfits, r.misfit(at, p))
		}
	}
	return e
}

// longest returns the longest order of calls that porcupine found to be
// possible; of several the same one each time.
func longest(info porcupine.LinearizationInfo) []porcupine.Operation {
	var best []porcupine.Operation
	var bestIDs []int
	for i, ids := range info.PartialLinearizations()[0] {
		if c := cmp.Compare(len(ids), len(bestIDs)); c > 0 || c == 0 && slices.Compare(ids, bestIDs) < 0 {
			best, bestIDs = info.PartialLinearizationsOperations()[0][i], ids
		}
	}
	return best
}

// misfit says why a part is impossible in each of the states.
func (r *run[S, P]) misfit(at *set[S], p *part[P]) Misfit {
	m := Misfit{Call: p.timed()}
	for _, n := range r.settle(at.nodes, p) {
		_, why := r.rules.settled(n.state, p)
		if why == nil {
			continue
		}
		m.Reasons = appendNew(m.Reasons, why.String())
		if why.because != nil {
			m.Because = appendNew(m.Because, r.textOf(why.because))
		}
	}
	if len(m.Reasons) == 0 {
		m.Reasons = []string{"it fits, but not beside the others"}
	}
	return m
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// timed is the part with its times.
func (p *part[P]) timed() string {
	if p.op.Return == forever {
		return fmt.Sprintf("operation %d from %d on, %s", p.op.number, p.op.Call, p)
	}
	return fmt.Sprintf("operation %d from %d to %d, %s", p.op.number, p.op.Call, p.op.Return, p)
}

// textOf describes a call by what it did in this partition.
func (r *run[S, P]) textOf(o *op) string {
	for _, p := range r.parts {
		if p.op == o {
			return p.timed()
		}
	}
	return fmt.Sprintf("operation %d", o.number)
}

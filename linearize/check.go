package linearize

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Property is one of the promises that are checked.
type Property uint8

// The properties, one model each.
const (
	LaneOwnership Property = iota
	AtLeastOnce
	EffectivelyOnce
	KeyOrder
	AttemptCharging
)

// Properties returns all properties in the order of reports.
func Properties() []Property {
	return []Property{LaneOwnership, AtLeastOnce, EffectivelyOnce, KeyOrder, AttemptCharging}
}

// String returns the property's name in words.
func (p Property) String() string {
	return [...]string{"lane ownership", "at least once", "effectively once", "key order", "attempt charging"}[p]
}

// Status is what a check found out.
type Status uint8

// The outcomes of a check.
const (
	// OK: some order of the calls explains every answer.
	OK Status = iota
	// Illegal: no order does.
	Illegal
	// Unknown: the time was over, or too many calls are open at once.
	Unknown
)

// String returns "ok", "illegal" or "unknown".
func (s Status) String() string { return [...]string{"ok", "illegal", "unknown"}[s] }

// Result is what became of one property.
type Result struct {
	Property Property
	Status   Status
	// Partitions and Operations say how much was checked: an operation counts
	// once in every partition that it touches.
	Partitions, Operations int
	// Skipped are partitions that were not judged because another property
	// fails there already.
	Skipped int
	// Explanation is the shortest one found when Status is Illegal, else nil.
	Explanation *Explanation

	failing partition
}

// Report is the outcome of [Check].
type Report struct {
	// Operations is the length of the history.
	Operations int
	// Results has one entry per property, in the order of [Properties].
	Results []Result
}

// OK reports whether every property holds.
func (r Report) OK() bool {
	return r.Status() == OK
}

// Status is Illegal when a property is illegal, else Unknown when one is, else
// OK.
func (r Report) Status() Status {
	worst := OK
	for _, p := range r.Results {
		if p.Status == Illegal {
			return Illegal
		}
		worst = max(worst, p.Status)
	}
	return worst
}

// Result returns the result of one property.
func (r Report) Result(p Property) Result { return r.Results[p] }

// String returns one line per property, and the explanations.
func (r Report) String() string {
	var b strings.Builder
	for _, p := range r.Results {
		fmt.Fprintf(&b, "%-16s %-7s %d partitions, %d operations", p.Property, p.Status, p.Partitions, p.Operations)
		if p.Skipped > 0 {
			fmt.Fprintf(&b, ", %d not judged", p.Skipped)
		}
		b.WriteByte('\n')
	}
	for _, p := range r.Results {
		if p.Explanation != nil {
			fmt.Fprintf(&b, "\n%s\n", p.Explanation)
		}
	}
	return b.String()
}

// partition is the calls of one lane, delivery or key under its model.
type partition interface {
	name() string
	size() int
	check(timeout time.Duration) Status
	explain(timeout time.Duration) *Explanation
	picture() (porcupine.Model, porcupine.LinearizationInfo)
}

// Check looks for an order that explains the history, property by property. It
// gives up on what is left when timeout has passed, 0 never; what it had found
// to be illegal by then stays so.
func Check(h *History, timeout time.Duration) Report {
	f := newFacts(h)
	w := newWatch(timeout)
	lanes, rows, keys := newLaneView(f), newRowView(f), newKeyView(f)
	ownership, illegal := w.judge(LaneOwnership, ownershipOf(lanes))
	charging := chargingOf(lanes)
	judged := slices.DeleteFunc(slices.Clone(charging), func(p partition) bool { return illegal[p.name()] })
	attempts, _ := w.judge(AttemptCharging, judged)
	attempts.Skipped = len(charging) - len(judged)
	life, _ := w.judge(AtLeastOnce, lifeOf(rows))
	once, _ := w.judge(EffectivelyOnce, onceOf(rows))
	order, _ := w.judge(KeyOrder, orderOf(keys))
	return Report{Operations: h.Len(), Results: []Result{ownership, life, once, order, attempts}}
}

// ownershipOf returns the lanes of a history.
func ownershipOf(v *laneView) []partition {
	var list []partition
	for _, l := range v.sorted() {
		parts := slices.DeleteFunc(slices.Clone(l.parts), func(p *part[laneCall]) bool { return !p.in.kind.ownership() })
		list = appendPartition(list, v.facts, l.title(), laneRules{v.family}, parts)
	}
	return list
}

// chargingOf returns the lanes with their deliveries.
func chargingOf(v *laneView) []partition {
	var list []partition
	for _, l := range v.sorted() {
		list = appendPartition(list, v.facts, l.title(), &chargeRules{laneRules{v.family}, v.facts}, l.parts)
	}
	return list
}

func (l *laneParts) title() string { return fmt.Sprintf("lane %d", l.id) }

func lifeOf(v *rowView) []partition {
	var list []partition
	for i, d := range v.deliveries {
		list = appendPartition(list, v.facts, "delivery "+d.Name.String(), lifeRules{v.family, d}, trim(v.parts[i]))
	}
	return list
}

func onceOf(v *rowView) []partition {
	var list []partition
	for i, d := range v.deliveries {
		parts := slices.DeleteFunc(slices.Clone(v.parts[i]), func(p *part[rowCall]) bool { return !p.in.kind.once() })
		list = appendPartition(list, v.facts, "delivery "+d.Name.String(), onceRules{v.family, d}, parts)
	}
	return list
}

func orderOf(v *keyView) []partition {
	var list []partition
	for _, name := range v.sorted() {
		list = appendPartition(list, v.facts, name.String(), keyRules{v.facts}, v.keys[name])
	}
	return list
}

// appendPartition adds a partition, with the crashes of the store, unless no
// answer speaks of it.
func appendPartition[S state, P fmt.Stringer](list []partition, f *facts, title string, r rules[S, P], parts []*part[P]) []partition {
	if !slices.ContainsFunc(parts, func(p *part[P]) bool { return p.role == settledRole }) {
		return list
	}
	if len(f.crashed) > 0 {
		parts = slices.Clone(parts)
		for _, o := range f.ops {
			if _, ok := o.Input.(Crash); ok {
				var none P
				parts = append(parts, crashPart(o, none))
			}
		}
	}
	return append(list, newMachine(title, r, parts))
}

// watch divides the time.
type watch struct{ deadline time.Time }

func newWatch(timeout time.Duration) watch {
	if timeout <= 0 {
		return watch{}
	}
	return watch{time.Now().Add(timeout)}
}

// left returns the time that is left, 0 for no limit, and whether any is.
func (w watch) left() (time.Duration, bool) {
	if w.deadline.IsZero() {
		return 0, true
	}
	left := time.Until(w.deadline)
	return left, left > 0
}

// mostExplained bounds how many illegal partitions are explained in search of
// the shortest explanation.
const mostExplained = 5

// judge checks the partitions of a property and names those that are illegal.
func (w watch) judge(p Property, list []partition) (Result, map[string]bool) {
	r := Result{Property: p, Partitions: len(list)}
	var bad []partition
	illegal := map[string]bool{}
	for _, q := range list {
		r.Operations += q.size()
		status := Unknown
		if left, ok := w.left(); ok {
			status = q.check(left)
		}
		switch {
		case status == Illegal:
			bad = append(bad, q)
			illegal[q.name()] = true
		case status == Unknown:
			r.Status = Unknown
		}
	}
	if len(bad) > 0 {
		r.Status = Illegal
		r.explain(bad)
	}
	return r, illegal
}

// explain keeps the shortest explanation of a few illegal partitions.
func (r *Result) explain(bad []partition) {
	slices.SortStableFunc(bad, func(a, b partition) int { return a.size() - b.size() })
	for _, q := range bad[:min(len(bad), mostExplained)] {
		e := q.explain(explainTime)
		e.Property = r.Property
		if r.Explanation == nil || e.Operations < r.Explanation.Operations {
			r.Explanation, r.failing = e, q
		}
	}
}

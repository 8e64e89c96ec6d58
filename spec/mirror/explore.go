package mirror

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// Model is a transition system, as a TLA+ module defines one.
//
// A state is a value: two states are the same exactly when == says so. A model
// therefore keeps its states canonical (sets as bit masks or in a fixed order,
// nothing left behind in a field that has no meaning), and small, because
// Explore holds every one of them. A model whose working form has slices or
// maps takes an exact encoding of it for S, a string.
type Model[S comparable] interface {
	// Init adds the initial states.
	Init(add func(S))
	// Next calls step for every state that an action leads to from s, always in
	// the same order. The same state may come several times.
	Next(s S, step func(action string, next S))
	// Invariants are the predicates that a configuration may name.
	Invariants() []Invariant[S]
}

// Describer is implemented by models whose states do not show what they hold:
// a line for each thing, its name and a colon before it.
type Describer[S comparable] interface{ Describe(S) string }

// Invariant is a predicate that has to hold in every reachable state.
type Invariant[S comparable] struct {
	Name  string
	Holds func(S) bool
}

// Result is what an exploration found, in TLC's terms.
type Result struct {
	// Generated counts the initial states and every call of step; Distinct the
	// different states among them.
	Generated, Distinct int
	// Depth is the number of states on the longest of the shortest paths, or
	// on the way to the violation.
	Depth int
	// Violated is the first invariant that does not hold, in the order in
	// which the configuration names them; empty when all hold.
	Violated string
	// Trace leads to the violation, from the initial state on.
	Trace []Step
	// Complete tells that every reachable state was seen. It is false after a
	// violation and when the limit was reached.
	Complete bool
	// Elapsed is for information; nothing else here depends on the machine.
	Elapsed time.Duration
}

// Step is a state on the way to a violation, and the action that led to it.
type Step struct{ Action, State string }

// Changed tells what a step changed: the lines of its state that the state
// before has not, and, after "without", the things that are gone. Of the
// first state, and of states that are one line, it is all.
func (s *Step) Changed(before *Step) (lines []string) {
	now := strings.Split(strings.TrimSpace(s.State), "\n")
	if before == nil || len(now) == 1 {
		return now
	}
	old := strings.Split(strings.TrimSpace(before.State), "\n")
	for _, line := range now {
		if !slices.Contains(old, line) {
			lines = append(lines, line)
		}
	}
	for _, line := range old {
		if !slices.ContainsFunc(now, func(l string) bool { return thing(l) == thing(line) }) {
			lines = append(lines, "without "+thing(line))
		}
	}
	return lines
}

// thing is what a line is about.
func thing(line string) string {
	name, _, _ := strings.Cut(line, ": ")
	return name
}

// PerSecond is the number of distinct states seen in a second.
func (r Result) PerSecond() int {
	return int(int64(r.Distinct) * int64(time.Second) / max(1, int64(r.Elapsed)))
}

// Explore visits the states of m breadth first, as TLC does with one worker,
// so that the first violation is one of the shallowest. It stops there, and,
// incomplete, before it keeps more than limit states. Invariants are given by
// name; one that the model does not know is an error.
//
// Every state is kept and compared in full: a hash only says where to look.
func Explore[S comparable](m Model[S], invariants []string, limit int) (Result, error) {
	checks, err := named(m, invariants)
	if err != nil {
		return Result{}, err
	}
	x := explorer[S]{model: m, checks: checks, limit: limit, seen: newTable[S]()}
	start := time.Now()
	x.run()
	x.result.Distinct = x.seen.len()
	x.result.Elapsed = time.Since(start)
	return x.result, nil
}

func named[S comparable](m Model[S], names []string) ([]Invariant[S], error) {
	known := m.Invariants()
	var checks []Invariant[S]
	for _, name := range names {
		found := len(checks)
		for _, inv := range known {
			if inv.Name == name {
				checks = append(checks, inv)
			}
		}
		if found == len(checks) {
			return nil, fmt.Errorf("the twin has no invariant %s", name)
		}
	}
	return checks, nil
}

type explorer[S comparable] struct {
	model  Model[S]
	checks []Invariant[S]
	limit  int
	seen   *table[S]
	result Result
	stop   bool
}

// run visits level by level: the states in [from, to) are those of one depth.
func (x *explorer[S]) run() {
	x.result.Depth = 1
	x.model.Init(func(s S) { x.visit(none, s) })
	from, to := 0, x.seen.len()
	parent := none
	step := func(_ string, next S) { x.visit(parent, next) }
	for from < to && !x.stop {
		x.result.Depth++
		for i := from; i < to && !x.stop; i++ {
			parent = i
			x.model.Next(x.seen.state(i), step)
		}
		from, to = to, x.seen.len()
	}
	if !x.stop {
		x.result.Complete = true
		x.result.Depth-- // the last level had no new state
	}
}

const none = -1

func (x *explorer[S]) visit(parent int, s S) {
	if x.stop {
		return
	}
	x.result.Generated++
	if x.seen.len() >= x.limit && !x.seen.has(s) {
		x.stop = true
		return
	}
	if !x.seen.add(s, parent) {
		return
	}
	for _, inv := range x.checks {
		if !inv.Holds(s) {
			x.stop = true
			x.result.Violated = inv.Name
			x.result.Trace = x.trace(x.seen.len() - 1)
			return
		}
	}
}

// trace tells the way to state i. Which action led from one state to the next
// is found by taking the step again.
func (x *explorer[S]) trace(i int) []Step {
	s, parent := x.seen.state(i), x.seen.parent(i)
	if parent == none {
		return []Step{{"Init", x.describe(s)}}
	}
	before := x.trace(parent)
	var by string
	x.model.Next(x.seen.state(parent), func(action string, next S) {
		if by == "" && next == s {
			by = action
		}
	})
	return append(before, Step{by, x.describe(s)})
}

func (x *explorer[S]) describe(s S) string {
	if d, ok := x.model.(Describer[S]); ok {
		return d.Describe(s)
	}
	return fmt.Sprintf("%+v", s)
}

// table is the set of states seen, numbered in the order in which they came.
// States and parents live in chunks, so that growing copies none of them. The
// index is filled to two thirds; an entry has half of the state's hash above
// the state's number plus one, and 0 is free.
type table[S comparable] struct {
	seed    maphash.Seed
	states  [][]S
	parents [][]int32
	count   int
	index   []uint64
}

const chunk = 1 << 14

func newTable[S comparable]() *table[S] {
	return &table[S]{seed: maphash.MakeSeed(), index: make([]uint64, 1024)}
}

func (t *table[S]) len() int         { return t.count }
func (t *table[S]) state(i int) S    { return *t.at(i) }
func (t *table[S]) parent(i int) int { return int(t.parents[i/chunk][i%chunk]) }

func (t *table[S]) has(s S) bool {
	slot, _ := t.find(s)
	return t.index[slot] != 0
}

// add reports whether s is new.
func (t *table[S]) add(s S, parent int) bool {
	slot, tag := t.find(s)
	if t.index[slot] != 0 {
		return false
	}
	if t.count%chunk == 0 {
		t.states = append(t.states, make([]S, 0, chunk))
		t.parents = append(t.parents, make([]int32, 0, chunk))
	}
	last := t.count / chunk
	t.states[last] = append(t.states[last], s)
	t.parents[last] = append(t.parents[last], int32(parent))
	t.count++
	t.index[slot] = uint64(tag)<<32 | uint64(t.count)
	if 3*t.count > 2*len(t.index) {
		t.grow()
	}
	return true
}

// find returns where s is in the index, or where it belongs, and its tag.
func (t *table[S]) find(s S) (slot, tag uint32) {
	tag = uint32(maphash.Comparable(t.seed, s) >> 32)
	mask := uint32(len(t.index) - 1)
	for slot = tag & mask; t.index[slot] != 0; slot = (slot + 1) & mask {
		if entry := t.index[slot]; uint32(entry>>32) == tag && *t.at(int(uint32(entry)) - 1) == s {
			break
		}
	}
	return slot, tag
}

func (t *table[S]) at(i int) *S { return &t.states[i/chunk][i%chunk] }

func (t *table[S]) grow() {
	old := t.index
	t.index = make([]uint64, 2*len(old))
	mask := uint32(len(t.index) - 1)
	for _, entry := range old {
		if entry == 0 {
			continue
		}
		slot := uint32(entry>>32) & mask
		for t.index[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.index[slot] = entry
	}
}

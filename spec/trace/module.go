package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// batchModule is the module that a batch of traces becomes; the one in
// spec/tla is an example of it.
const batchModule = "TraceBatch"

const about = `(* Traces of the simulator as constants, written by spec/trace: a line per  *)
(* action in the order of its trace's file, whose line number comes first.  *)
(* Sets that occur more than once have names. Hashes are the lane and the   *)
(* slot of each text. The batch in the tree is an example.                  *)
`

// generator writes the traces of a batch as a module of TLA+. Reading that
// module is most of what TLC has to do, so it is short: records are made by an
// operator each, and sets that come again have a name.
type generator struct {
	b      strings.Builder
	names  map[string]string // interned texts
	shared map[string]string // names of values by their text
	texts  map[string]bool   // all texts: event ids and keys are hashed
	ranks  *ranks            // of the trace under way
}

// generate returns the text of the module of a batch, and what puts the names
// that it gave to texts and holders back. The traces are of one group.
func generate(traces []*trace) (text string, names *strings.Replacer, err error) {
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(malformed)
			if !ok {
				panic(r)
			}
			err = bad.error
		}
	}()
	g := &generator{names: map[string]string{}, shared: map[string]string{}, texts: map[string]bool{}}
	fmt.Fprintf(&g.b, "---- MODULE %s ----\n%s", batchModule, about)
	fmt.Fprintf(&g.b, "BatchSemantics == %q\nBatchModulus == %d\n", traces[0].Semantics, traces[0].Lanes)
	g.operators()
	var numbers []string
	for i, t := range traces {
		g.trace(i+1, t)
		numbers = append(numbers, fmt.Sprint("T", i+1))
	}
	fmt.Fprintf(&g.b, "Traces == <<%s>>\n", strings.Join(numbers, ","))
	g.hashes(traces[0].Lanes)
	g.b.WriteString("====\n")
	return wrapped(g.b.String()), g.replacer(), nil
}

func (g *generator) replacer() *strings.Replacer {
	var pairs []string
	for text, name := range g.names {
		pairs = append(pairs, strconv.Quote(name), strconv.Quote(strings.TrimPrefix(text, holderMark)))
	}
	return strings.NewReplacer(pairs...)
}

// wrapped breaks long lines behind commas, which no text holds.
func wrapped(text string) string {
	const full = 72
	var b strings.Builder
	column := 0
	for _, c := range []byte(text) {
		b.WriteByte(c)
		column++
		switch {
		case c == '\n':
			column = 0
		case c == ',' && column >= full:
			b.WriteString("\n  ")
			column = 2
		}
	}
	return b.String()
}

// malformed is a trace that does not have the shape of one.
type malformed struct{ error }

// operators writes an operator for each record, which takes its fields in
// order.
func (g *generator) operators() {
	g.b.WriteString("OfLine(line, action, position, keep, args) ==\n" +
		"  [line |-> line, action |-> action, position |-> position, keep |-> keep, args |-> args]\n")
	made := map[string]bool{}
	var visit func(s shape)
	visit = func(s shape) {
		switch {
		case s.of != nil:
			visit(*s.of)
			return
		case len(s.fields) == 0 || made[s.name]:
			return
		}
		made[s.name] = true
		var names, pairs []string
		for _, f := range s.fields {
			visit(f.shape)
			name := tlaName(f.name)
			names = append(names, name)
			pairs = append(pairs, name+" |-> "+name)
		}
		fmt.Fprintf(&g.b, "Of%s(%s) ==\n  [%s]\n", s.name, strings.Join(names, ", "), strings.Join(pairs, ", "))
	}
	for _, action := range slices.Sorted(maps.Keys(shapes)) {
		visit(shapes[action])
	}
}

func (g *generator) trace(n int, t *trace) {
	g.ranks = rank(timesOf(t))
	var lines []string
	for _, e := range t.events {
		lines = append(lines, g.line(t, e))
	}
	fmt.Fprintf(&g.b, "T%d == <<\n%s>>\n", n, strings.Join(lines, ",\n"))
}

func (g *generator) line(t *trace, e *event) string {
	defer func() {
		if r := recover(); r != nil {
			if bad, ok := r.(malformed); ok {
				r = malformed{fmt.Errorf("%s:%d: %s: %w", t.file, e.line, e.action, bad.error)}
			}
			panic(r)
		}
	}()
	args := "<<>>"
	if s := shapes[e.action]; len(s.fields) > 0 {
		args = g.value(s, e.args, e.args)
	}
	return fmt.Sprintf("OfLine(%d,%q,%d,%s,%s)", e.line, e.action, e.position, truthOf(e.keep), args)
}

// value returns a value in its shape. args are the arguments of the action that
// it is a part of.
func (g *generator) value(s shape, v any, args map[string]any) string {
	switch s.kind {
	case number:
		return strconv.Itoa(int(small(v)))
	case text:
		return g.text(v)
	case truth:
		return truthOf(as[bool](v))
	case holder:
		return g.holder(v)
	case moment:
		return strconv.Itoa(g.ranks.of(timeOf(v)))
	case length:
		return g.length(timeOf(v), args)
	case list:
		return "<<" + g.elements(s.of, v, args) + ">>"
	case set:
		return g.share("{" + g.elements(s.of, v, args) + "}")
	}
	return g.record(s, as[map[string]any](v), args)
}

func (g *generator) record(s shape, v, args map[string]any) string {
	var values []string
	for _, f := range s.fields {
		value, ok := v[f.name]
		if !ok {
			panic(malformed{fmt.Errorf("has no %s", f.name)})
		}
		values = append(values, g.value(f.shape, value, args))
	}
	made := "Of" + s.name + "(" + strings.Join(values, ",") + ")"
	if s.repeats {
		return g.share(made)
	}
	return made
}

func (g *generator) elements(of *shape, v any, args map[string]any) string {
	var values []string
	for _, element := range as[[]any](v) {
		values = append(values, g.value(*of, element, args))
	}
	return strings.Join(values, ",")
}

// share returns the name of a value, which is written where it first occurs.
func (g *generator) share(value string) string {
	if len(value) < len("{1,2}") {
		return value
	}
	name, ok := g.shared[value]
	if !ok {
		name = fmt.Sprint("V", len(g.shared))
		g.shared[value] = name
		fmt.Fprintf(&g.b, "%s == %s\n", name, value)
	}
	return name
}

// length returns a duration as the sums that the rules ask for.
func (g *generator) length(d protocol.Time, args map[string]any) string {
	var values []string
	for _, s := range sums(args, d) {
		values = append(values, fmt.Sprintf("<<%d,%d>>", g.ranks.of(s.from), g.ranks.of(s.to)))
	}
	return "{" + strings.Join(values, ",") + "}"
}

func (g *generator) text(v any) string {
	s := as[string](v)
	g.texts[s] = true
	return strconv.Quote(g.name(s))
}

// holderMark keeps a holder apart from a text that is spelt like it.
const holderMark = "holder "

// holder numbers the holders of a batch; nobody is "".
func (g *generator) holder(v any) string {
	s := as[string](v)
	if strings.Trim(s, "0") == "" {
		return `""`
	}
	return strconv.Quote(g.number("~h", holderMark+s))
}

// plain are texts that TLA+ can write as they are; the others, and those that
// look like one of ours, are numbered.
var plain = regexp.MustCompile(`^[A-Za-z0-9 ._:/-]{0,40}$`)

func (g *generator) name(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return g.number("~", s)
}

func (g *generator) number(prefix, s string) string {
	name, ok := g.names[s]
	if !ok {
		name = fmt.Sprint(prefix, len(g.names))
		g.names[s] = name
	}
	return name
}

// hashes writes what LaneOf and SlotOf give for the texts of the batch.
func (g *generator) hashes(lanes int32) {
	var values []string
	for _, s := range slices.Sorted(maps.Keys(g.texts)) {
		values = append(values, fmt.Sprintf("<<%q,%d,%d>>", g.name(s), protocol.LaneOf(0, lanes, s, s), protocol.SlotOf(s)))
	}
	fmt.Fprintf(&g.b, "Hashes == {%s}\n", strings.Join(values, ",\n  "))
}

// timesOf lists every time that a trace mentions, and every sum.
func timesOf(t *trace) []protocol.Time {
	var times []protocol.Time
	var visit func(s shape, v any, args map[string]any)
	visit = func(s shape, v any, args map[string]any) {
		switch s.kind {
		case moment:
			times = append(times, timeOf(v))
		case length:
			for _, s := range sums(args, timeOf(v)) {
				times = append(times, s.from, s.to)
			}
		case list, set:
			elements, _ := v.([]any)
			for _, element := range elements {
				visit(*s.of, element, args)
			}
		case record:
			fields, _ := v.(map[string]any)
			for _, f := range s.fields {
				if value, ok := fields[f.name]; ok {
					visit(f.shape, value, args)
				}
			}
		}
	}
	for _, e := range t.events {
		visit(shapes[e.action], e.args, e.args)
	}
	return times
}

// tlaName writes a field's name with a small first letter; ID, IDs and TTL are
// words.
func tlaName(name string) string {
	if strings.ToUpper(name) == name || name == "IDs" {
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:1]) + name[1:]
}

func truthOf(b bool) string { return strings.ToUpper(fmt.Sprint(b)) }

func as[T any](v any) T {
	x, ok := v.(T)
	if !ok {
		panic(malformed{fmt.Errorf("%v is no %T", v, x)})
	}
	return x
}

// small is a number that TLC can count with.
func small(v any) int32 {
	n, err := as[json.Number](v).Int64()
	if err != nil || int64(int32(n)) != n {
		panic(malformed{fmt.Errorf("%v is no number of 32 bits, which is what TLC counts with", v)})
	}
	return int32(n)
}

func timeOf(v any) protocol.Time {
	n, ok := v.(json.Number)
	t, err := n.Int64()
	if !ok || err != nil {
		panic(malformed{errors.New("a time is no integer")})
	}
	return protocol.Time(t)
}

func timeIn(args map[string]any, name string) protocol.Time {
	if v, ok := args[name]; ok {
		return timeOf(v)
	}
	return 0
}

func plus(t, d protocol.Time) protocol.Time { return t.Add(time.Duration(d)) }

// text is the event as the specification is given it, with times as they are.
func (e *event) text() string {
	args, err := json.Marshal(e.args)
	if err != nil {
		panic(err) // it was read as JSON
	}
	return string(args)
}

package sim

import (
	"math/bits"
	"math/rand/v2"
)

// Coordinate names a choice by its meaning: the n-th time that this label was
// asked about this actor. Unlike a position in a stream it still names the
// same choice after the program has learnt to ask other questions in between.
type Coordinate struct {
	Label Label
	Actor int32
	N     uint32 // starts at 1
}

// Choice is a choice that was not the calm one.
type Choice struct {
	Coordinate
	Value int32
}

// driver answers the questions of a tape.
type driver interface {
	// draw returns a value in [0, n); n is at least 2.
	draw(n int, at Coordinate) int
}

// tape is where every choice of a run comes from. It names each choice,
// records those that are not calm, and mixes all into the fingerprint.
type tape struct {
	driver  driver
	counts  [][]uint32 // per label and actor: how often it was asked
	choices []Choice
	print   *fingerprint
}

func newTape(d driver, print *fingerprint) *tape {
	return &tape{driver: d, counts: make([][]uint32, len(labels)), print: print}
}

// Choose returns a value in [0, n). Value 0 is always the calm choice.
func (t *tape) Choose(n int, l Label, actor int) int {
	at := Coordinate{Label: l, Actor: int32(actor), N: t.next(l, actor)}
	if n < 2 {
		return 0
	}
	v := t.driver.draw(n, at)
	t.print.add(uint64(l)<<48 | uint64(uint32(actor))<<16 | uint64(uint16(v)))
	if v != 0 {
		t.choices = append(t.choices, Choice{at, int32(v)})
	}
	return v
}

// next counts the question and returns its number.
func (t *tape) next(l Label, actor int) uint32 {
	counts := t.counts[l]
	if actor >= len(counts) {
		grown := make([]uint32, max(actor+1, 2*len(counts), 16))
		copy(grown, counts)
		counts = grown
		t.counts[l] = counts
	}
	counts[actor]++
	return counts[actor]
}

// always is the odds of a label that is uniform over its values.
const always = 1 << 16

// seeded draws from one PCG per concern, with odds per label.
type seeded struct {
	streams [concerns]rand.PCG
	// odds say how often, in 65,536, the answer is not the calm one; always
	// makes all answers equally likely, the calm one among them.
	odds []uint32
}

func newSeeded(seed uint64, odds []uint32) *seeded {
	s := &seeded{odds: odds}
	for i := range s.streams {
		s.streams[i].Seed(seed, streamOf(uint64(i)))
	}
	return s
}

// streamOf spreads small numbers over the second seed word of a PCG.
func streamOf(i uint64) uint64 { return (i + 1) * 0x9e3779b97f4a7c15 }

func (s *seeded) draw(n int, at Coordinate) int {
	r := s.streams[labels[at.Label].concern].Uint64()
	odds := s.odds[at.Label]
	if odds == always {
		return below(r, n)
	}
	if uint32(r&0xffff) >= odds {
		return 0
	}
	return 1 + below(r, n-1)
}

// below maps r to [0, n) by its high bits; the low ones may have decided
// something else.
func below(r uint64, n int) int {
	high, _ := bits.Mul64(r, uint64(n))
	return int(high)
}

// replayed answers from a list of choices; everything else is calm.
type replayed struct {
	index map[Coordinate]int
	list  []Choice
	used  []bool
	asked []bool // per label: some choice names it
}

func newReplayed(choices []Choice) *replayed {
	r := &replayed{
		index: make(map[Coordinate]int, len(choices)),
		list:  choices,
		used:  make([]bool, len(choices)),
		asked: make([]bool, len(labels)),
	}
	for i, c := range choices {
		r.index[c.Coordinate] = i
		r.asked[c.Label] = true
	}
	return r
}

func (r *replayed) draw(n int, at Coordinate) int {
	if !r.asked[at.Label] {
		return 0
	}
	i, ok := r.index[at]
	if !ok || int(r.list[i].Value) >= n {
		return 0
	}
	r.used[i] = true
	return int(r.list[i].Value)
}

// skipped counts the choices that were never asked for.
func (r *replayed) skipped() int {
	n := 0
	for _, used := range r.used {
		if !used {
			n++
		}
	}
	return n
}

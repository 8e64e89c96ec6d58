package picks

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

const now = protocol.Time(time.Hour)

// trial is one claim from lanes drawn at random.
type trial struct {
	in    engine.ClaimInput
	lanes []*Lane
	rows  []*Candidate            // unkeyed, by due time
	heads []*Candidate            // of keys, by name
	tails map[string][]*Candidate // behind the head of a key
	given map[protocol.DeliveryID]*Candidate
}

func draw(seed uint64) *trial {
	r := rand.New(rand.NewPCG(seed, 0))
	t := &trial{tails: map[string][]*Candidate{}, given: map[protocol.DeliveryID]*Candidate{}}
	t.in = engine.ClaimInput{Room: r.IntN(10), Limit: r.IntN(20), SuspectRunning: r.IntN(3) == 0}
	for i := range 2 {
		t.in.Handlers = append(t.in.Handlers, engine.HandlerRoom{Name: fmt.Sprint("h", i), Room: r.IntN(8)})
	}
	for i := range 1 + r.IntN(2) {
		t.lanes = append(t.lanes, &Lane{ID: protocol.LaneID(i), Epoch: 1, Clock: now, Picks: true})
	}
	id := protocol.DeliveryID(0)
	row := func(lane, key, handler string, n int) *Candidate {
		id++
		c := &Candidate{}
		c.ID, c.Key, c.Handler, c.AvailableAt = id, key, handler, protocol.Time(id)
		fmt.Sscan(lane, &c.Lane)
		if r.IntN(3) == 0 && n == 0 {
			c.Takeovers = 1
		}
		t.given[id] = c
		return c
	}
	for _, l := range t.lanes {
		for range r.IntN(20) {
			t.rows = append(t.rows, row(fmt.Sprint(l.ID), "", fmt.Sprint("h", r.IntN(2)), 0))
		}
		for k := range r.IntN(4) {
			key, handler := fmt.Sprint("k", l.ID, k), fmt.Sprint("h", r.IntN(2))
			t.heads = append(t.heads, row(fmt.Sprint(l.ID), key, handler, 0))
			for range r.IntN(8) {
				t.tails[key] = append(t.tails[key], row(fmt.Sprint(l.ID), key, handler, 1))
			}
		}
	}
	return t
}

// claim plays a claim as a store does.
func (t *trial) claim(p *Picker, hints *Hints) (*Search, *Tails) {
	ids := make([]protocol.LaneID, len(t.lanes))
	for i, l := range t.lanes {
		l.Picked = nil
		ids[i] = l.ID
	}
	s := p.Search(ids, func(id protocol.LaneID) Hint { return hints.For(protocol.Holder{1}, id, now) })
	read := func(named []protocol.LaneID) {
		for _, id := range named {
			from := s.From(id)
			for _, c := range t.rows {
				if c.Lane == id && (c.AvailableAt > from.Due || c.AvailableAt == from.Due && c.ID > from.ID) && p.HasRoom(c.Handler) && !s.Take(c) {
					break
				}
			}
			for _, c := range t.heads {
				if c.Lane == id && (c.Key > from.Key || c.Key == from.Key && c.Handler > from.Handler) && !s.TakeHead(c) {
					break
				}
			}
		}
	}
	if s.PerLane > 0 {
		read(ids)
		read(s.Again(t.lanes))
	}
	tails := p.Tails(t.lanes, p.Choose(t.lanes, s))
	for i, h := range tails.Heads {
		for _, c := range t.tails[h.Key] {
			if tails.Most == 0 || !tails.Offer(i, c) {
				break
			}
		}
	}
	tails.Grant()
	for _, l := range t.lanes {
		hints.Note(protocol.Holder{1}, l, s, now)
	}
	return s, tails
}

// wrong says which rule the picks of a claim break, "" for none.
func (t *trial) wrong(tails *Tails) string {
	chains, all, suspects := 0, 0, 0
	room := map[string]int{}
	length := map[string]int{}
	for _, l := range t.lanes {
		for _, c := range l.Picked {
			all++
			if c.After == 0 {
				chains++
				room[c.Handler]++
			} else {
				length[c.Key]++
			}
			if c.Takeovers > 0 {
				suspects++
			}
		}
	}
	switch {
	case all > max(0, t.in.Limit), chains > max(0, t.in.Room):
		return fmt.Sprintf("%d deliveries in %d chains, want at most %d and %d", all, chains, t.in.Limit, t.in.Room)
	case suspects > 1, suspects > 0 && t.in.SuspectRunning:
		return fmt.Sprintf("%d suspects", suspects)
	}
	for _, h := range t.in.Handlers {
		if room[h.Name] > h.Room {
			return fmt.Sprintf("%d chains of %s, which has room for %d", room[h.Name], h.Name, h.Room)
		}
	}
	for _, a := range tails.Heads {
		for _, b := range tails.Heads {
			if length[a.Key] > length[b.Key]+1 && length[b.Key] < len(t.tails[b.Key]) {
				return fmt.Sprintf("%d followers of %s, %d of %s", length[a.Key], a.Key, length[b.Key], b.Key)
			}
		}
	}
	return ""
}

// hides says what a claim with room left should have granted, "" for nothing:
// while a suspect runs, what stands behind others like it.
func hides() string {
	t := &trial{tails: map[string][]*Candidate{}}
	t.in = engine.ClaimInput{Room: 4, Limit: 4, SuspectRunning: true, Handlers: []engine.HandlerRoom{{Name: "h", Room: 9}}}
	t.lanes = []*Lane{{ID: 0, Epoch: 1, Clock: now, Picks: true}}
	for i := range 30 {
		c := &Candidate{}
		c.ID, c.AvailableAt, c.Handler = protocol.DeliveryID(i+1), protocol.Time(i+1), "h"
		if i < 25 {
			c.Takeovers = 1
		}
		t.rows = append(t.rows, c)
	}
	t.claim(New(&t.in), &Hints{})
	if n := len(t.lanes[0].Picked); n != 4 {
		return fmt.Sprintf("granted %d of the 4 deliveries behind suspects", n)
	}
	return ""
}

// skips says which keys no claim came to, "" for none: while the first keys of a
// lane cannot be granted, and also when a claim without room comes in between.
func skips() string {
	t := &trial{tails: map[string][]*Candidate{}}
	t.in = engine.ClaimInput{Room: 4, Limit: 4, Handlers: []engine.HandlerRoom{{Name: "h", Room: 9}}}
	t.lanes = []*Lane{{ID: 0, Epoch: 1, Clock: now, Picks: true}}
	for i := range 30 {
		c := &Candidate{}
		c.ID, c.AvailableAt, c.Handler, c.Key = protocol.DeliveryID(i+1), protocol.Time(i+1), "h", fmt.Sprintf("k%02d", i)
		c.Early = i < 29
		t.heads = append(t.heads, c)
	}
	hints := &Hints{}
	full := t.in
	full.Room = 0
	for range 10 {
		t.claim(New(&t.in), hints)
		if len(t.lanes[0].Picked) > 0 {
			return ""
		}
		t.claim(New(&full), hints)
	}
	return "the last key of a lane was never granted"
}

// fault plays everything and returns what went wrong.
func fault(trials uint64) string {
	for seed := range trials {
		t := draw(seed)
		_, tails := t.claim(New(&t.in), &Hints{})
		if why := t.wrong(tails); why != "" {
			return fmt.Sprintf("seed %d: %s", seed, why)
		}
	}
	if why := hides(); why != "" {
		return why
	}
	return skips()
}

func TestPicks(t *testing.T) {
	if why := fault(3000); why != "" {
		t.Error(why)
	}
}

// TestNoWatermarkPassesASuspect: a suspect that waits is seen by the very next
// claim, however much was granted from behind it.
func TestNoWatermarkPassesASuspect(t *testing.T) {
	one := &trial{tails: map[string][]*Candidate{}}
	one.in = engine.ClaimInput{Room: 4, Limit: 4, Handlers: []engine.HandlerRoom{{Name: "h", Room: 9}}}
	one.lanes = []*Lane{{ID: 0, Epoch: 1, Clock: now, Picks: true}}
	for i := range 12 {
		c := &Candidate{}
		c.ID, c.AvailableAt, c.Handler, c.Takeovers = protocol.DeliveryID(i+1), protocol.Time(i+1), "h", int32(1-i%2)
		one.rows = append(one.rows, c)
	}
	hints := &Hints{}
	for want := protocol.DeliveryID(1); want <= 11; want += 2 {
		one.claim(New(&one.in), hints)
		if p := one.lanes[0].Picked; len(p) == 0 || p[0].ID != want {
			t.Fatalf("granted %v, want the suspect %d first", p, want)
		}
		var rest []*Candidate
		for _, c := range one.rows {
			if !c.chosen {
				rest = append(rest, c)
			}
		}
		one.rows = rest
	}
}

// Package probe counts named "this happened" points, so that a batch of
// simulated seeds can show which situations it reached. A probe that is not
// rare and stays at zero over a batch means that the harness no longer tests
// what it claims to test.
package probe

import (
	"sort"
	"sync/atomic"
)

// Probe is one named point. Declare it at package level and call Hit where
// the situation is certain.
type Probe struct {
	name string
	rare bool
	hits atomic.Int64
}

var catalogue []*Probe // filled by package initialisation only

// New declares a probe that at least one seed in 250 hits, so that every batch
// of 5,000 does.
func New(name string) *Probe { return declare(name, false) }

// NewRare declares a probe that a batch may miss.
func NewRare(name string) *Probe { return declare(name, true) }

func declare(name string, rare bool) *Probe {
	p := &Probe{name: name, rare: rare}
	catalogue = append(catalogue, p)
	return p
}

// Hit counts one occurrence. It never influences what happens next.
func (p *Probe) Hit() { p.hits.Add(1) }

// Count is a probe as reported.
type Count struct {
	Name string
	Rare bool
	Hits int64
}

// Counts returns every declared probe, sorted by name.
func Counts() []Count {
	counts := make([]Count, 0, len(catalogue))
	for _, p := range catalogue {
		counts = append(counts, Count{Name: p.name, Rare: p.rare, Hits: p.hits.Load()})
	}
	sort.Slice(counts, func(i, j int) bool { return counts[i].Name < counts[j].Name })
	return counts
}

// Reset sets every counter to zero.
func Reset() {
	for _, p := range catalogue {
		p.hits.Store(0)
	}
}

package faults

import "time"

var slowhandler = &Kind{
	Name:     "slowhandler",
	Says:     "a handler takes longer than its worker's lease, or than its timeout and grace",
	Target:   OnRun,
	Variants: 4,
	Rate:     300,
	Run: func(w World, variant int, b *Behaviour) {
		b.Work = [...]time.Duration{w.Lease() * 2 / 3, w.Lease() * 3 / 2, 3 * w.Lease(), 6 * w.Lease()}[variant-1]
	},
}

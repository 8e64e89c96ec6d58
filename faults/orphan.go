package faults

import "time"

var orphan = &Kind{
	Name:     "orphan",
	Says:     "a worker's host vanishes with a transaction open, which the store notices late",
	Target:   OnWorker,
	Variants: 4,
	Rate:     100,
	Strike: func(w World, worker, variant int) bool {
		down := [...]time.Duration{w.Lease() / 10, w.Lease() * 6 / 5}[(variant-1)/2]
		return w.Orphan(worker, down, variant%2 == 1)
	},
}

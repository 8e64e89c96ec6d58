package faults

import "time"

var partition = &Kind{
	Name:     "partition",
	Says:     "one worker does not reach the store, for less or more than a lease, and the others do",
	Target:   OnWorker,
	Variants: 4,
	Rate:     100,
	Strike: func(w World, worker, variant int) bool {
		d := [...]time.Duration{w.Lease() / 2, w.Lease() * 3 / 2}[(variant-1)/2]
		return w.Partition(worker, d, variant%2 == 0)
	},
}

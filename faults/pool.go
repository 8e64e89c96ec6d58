package faults

import "time"

var pool = &Kind{
	Name:     "pool",
	Says:     "a worker's other work has its connections: its calls and transactions wait, and may give up before they are sent",
	Target:   OnWorker,
	Variants: 3,
	Rate:     120,
	Strike: func(w World, worker, variant int) bool {
		return w.Exhaust(worker, [...]time.Duration{w.Lease() / 8, w.Lease() / 2, 2 * w.Lease()}[variant-1])
	},
}

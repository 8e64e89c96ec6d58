package faults

import "time"

var crash = &Kind{
	Name:     "crash",
	Says:     "a worker's process dies and stays away for less or more than a lease",
	Target:   OnWorker,
	Variants: 4,
	Rate:     150,
	Strike: func(w World, worker, variant int) bool {
		return w.Crash(worker, [...]time.Duration{
			w.Lease() / 20, w.Lease() / 2, w.Lease() * 6 / 5, w.Lease() * 3,
		}[variant-1])
	},
}

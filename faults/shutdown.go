package faults

import "time"

var shutdown = &Kind{
	Name:     "shutdown",
	Says:     "a worker is stopped in the middle of its work and started again later",
	Target:   OnWorker,
	Variants: 3,
	Rate:     100,
	Strike: func(w World, worker, variant int) bool {
		grace := [...]time.Duration{0, w.Lease() / 4, 2 * w.Lease()}[variant-1]
		return w.Shutdown(worker, grace, w.Lease()/10)
	},
}

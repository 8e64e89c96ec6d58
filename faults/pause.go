package faults

import "time"

var pause = &Kind{
	Name:     "pause",
	Says:     "a worker's process is frozen, or its machine suspended, and thaws",
	Target:   OnWorker,
	Variants: 8,
	Rate:     150,
	Strike: func(w World, worker, variant int) bool {
		d := [...]time.Duration{w.Lease() / 4, w.Lease() * 9 / 10, w.Lease() * 13 / 10, w.Lease() * 3}
		return w.Pause(worker, d[(variant-1)/2], variant%2 == 0)
	},
}

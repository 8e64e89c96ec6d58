package faults

import "time"

var skew = &Kind{
	Name:     "skew",
	Says:     "a worker's wall clock jumps, or runs fast or slow",
	Target:   OnWorker,
	Variants: 6,
	Rate:     80,
	Strike: func(w World, worker, variant int) bool {
		s := [...]struct {
			jump  time.Duration
			drift int
		}{
			{w.Lease() / 2, 0}, {3 * w.Lease(), 0}, {-w.Lease() / 2, 0}, {-3 * w.Lease(), 0}, {0, 125}, {0, -125},
		}[variant-1]
		return w.Skew(worker, s.jump, s.drift)
	},
}

package faults

import "time"

var storecrash = &Kind{
	Name:     "storecrash",
	Says:     "the store crashes and restarts; every commit it acknowledged survives",
	Target:   OnWorld,
	Variants: 3,
	Rate:     150,
	Strike: func(w World, _, variant int) bool {
		return w.CrashStore(0, [...]time.Duration{w.Lease() / 50, w.Lease() / 3, 2 * w.Lease()}[variant-1])
	},
}

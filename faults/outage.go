package faults

import "time"

var outage = &Kind{
	Name:     "outage",
	Says:     "no worker reaches the store, for less or more than a lease",
	Target:   OnWorld,
	Variants: 6,
	Rate:     120,
	Strike: func(w World, _, variant int) bool {
		d := [...]time.Duration{w.Lease() / 2, w.Lease() * 3 / 2, 3 * w.Lease()}[(variant-1)/2]
		return w.Outage(d, variant%2 == 0)
	},
}

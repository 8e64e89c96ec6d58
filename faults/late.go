package faults

import "time"

var late = &Kind{
	Name:     "late",
	Says:     "a request reaches the store after its client gave up and sent newer ones",
	Target:   OnMessage,
	Variants: 8,
	Rate:     200,
	Message: func(w World, variant int, f *Fate) {
		f.Request = [...]time.Duration{w.Lease() / 10, w.Lease() / 2, w.Lease() * 11 / 10, w.Lease() * 5 / 2}[(variant-1)/2]
		if variant%2 == 1 {
			f.GiveUp = w.Lease() / 100
		}
	},
}

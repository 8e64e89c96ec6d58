package faults

import "time"

var boundary = &Kind{
	Name:     "boundary",
	Says:     "the store's clock leaps, as a statement begins, to the very instant at which a lease ends, a delivery falls due, a call comes too late or a dead letter is old enough, or a tick beside it",
	Target:   OnWorld,
	Variants: 12,
	Rate:     800,
	Strike: func(w World, _, variant int) bool {
		w.Land(Edge((variant-1)/3), [...]time.Duration{0, 1, -1}[(variant-1)%3])
		return false // it counts when it strikes
	},
}

package faults

import "time"

var expire = &Kind{
	Name:     "expire",
	Says:     "the store's clock leaps to the end of a lane's lease, or just before or after it",
	Target:   OnLane,
	Variants: 8,
	Rate:     150,
	Strike: func(w World, lane, variant int) bool {
		if variant > 5 {
			w.LeapDuring(variant > 6)
			return false // it counts when it strikes
		}
		leapt := w.Leap(lane, [...]time.Duration{0, 1, -1, w.Lease() / 10, 1}[variant-1])
		if leapt && variant > 4 {
			w.Hint() // the others look at once, while the holder is at work
		}
		return leapt
	},
}

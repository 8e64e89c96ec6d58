package faults

import "time"

var expire = &Kind{
	Name:     "expire",
	Says:     "the store's clock leaps to the end of a lane's lease, or just before or after it",
	Action:   "Expire",
	Target:   OnLane,
	Variants: 6,
	Rate:     150,
	Strike: func(w World, lane, variant int) bool {
		leapt := w.Leap(lane, [...]time.Duration{0, 1, -1, w.Lease() / 10, 1, 1}[variant-1])
		if leapt && variant > 4 {
			w.Hint() // the others look at once, while the holder is at work
		}
		return leapt
	},
}

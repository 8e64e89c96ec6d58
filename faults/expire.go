package faults

import "time"

var expire = &Kind{
	Name:     "expire",
	Says:     "the store's clock leaps to the end of a lane's lease, or just before or after it",
	Action:   "Expire",
	Target:   OnLane,
	Variants: 4,
	Rate:     150,
	Strike: func(w World, lane, variant int) bool {
		return w.Leap(lane, [...]time.Duration{0, 1, -1, w.Lease() / 10}[variant-1])
	},
}

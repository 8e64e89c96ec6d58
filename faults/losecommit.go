package faults

import "time"

var losecommit = &Kind{
	Name:     "losecommit",
	Says:     "the store crashes and loses commits that it acknowledged before they were durable",
	Target:   OnWorld,
	Variants: 4,
	Rate:     250,
	Strike: func(w World, _, variant int) bool {
		lost := [...]int{1000, 500}[(variant-1)%2]
		down := [...]time.Duration{w.Lease() / 50, w.Lease() * 11 / 10}[(variant-1)/2]
		return w.CrashStore(lost, down)
	},
}

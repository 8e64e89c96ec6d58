package faults

var purge = &Kind{
	Name:     "purge",
	Says:     "an operator deletes old dead letters and events, in the middle of everything",
	Target:   OnWorld,
	Variants: 6,
	Rate:     250,
	Strike: func(w World, _, variant int) bool {
		if variant%2 == 0 {
			w.Requeue(3) // the operator changes their mind
		}
		return w.Purge([...]int{1, 4, 16}[(variant-1)/2])
	},
}

package faults

var unsubscribe = &Kind{
	Name:     "unsubscribe",
	Says:     "an operator removes a handler for good; what is pending is buried or deleted",
	Target:   OnWorld,
	Variants: 8,
	Rate:     60,
	Strike: func(w World, _, variant int) bool {
		return w.Unsubscribe((variant-1)/2, variant%2 == 0)
	},
}

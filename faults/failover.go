package faults

var failover = &Kind{
	Name:     "failover",
	Says:     "a replica that is behind becomes the store; ids and epochs are issued again",
	Action:   "FailOver",
	Target:   OnWorld,
	Variants: 6,
	Rate:     200,
	Strike: func(w World, _, variant int) bool {
		return w.FailOver([...]int{1, 2, 3, 5, 8, 20}[variant-1])
	},
}

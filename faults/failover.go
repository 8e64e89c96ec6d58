package faults

var failover = &Kind{
	Name:     "failover",
	Says:     "a replica that is behind becomes the store; ids and epochs are issued again",
	Action:   "FailOver",
	Target:   OnWorld,
	Variants: 10,
	Rate:     200,
	Strike: func(w World, _, variant int) bool {
		f := [...]struct {
			missing int
			after   Moment
		}{
			{1, AtOnce}, {2, AtOnce}, {3, AtOnce}, {5, AtOnce}, {8, AtOnce}, {20, AtOnce},
			{1, AfterCompletion}, {2, AfterCompletion}, {1, AfterFailure}, {1, AfterClaim},
		}[variant-1]
		return w.FailOver(f.missing, f.after)
	},
}

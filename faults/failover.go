package faults

var failover = &Kind{
	Name:     "failover",
	Says:     "a replica that is behind becomes the store; ids and epochs are issued again",
	Target:   OnWorld,
	Variants: 13,
	Rate:     200,
	Strike: func(w World, _, variant int) bool {
		f := [...]struct {
			missing int
			after   Moment
		}{
			{1, AtOnce}, {2, AtOnce}, {4, AtOnce}, {8, AtOnce}, {20, AtOnce},
			{1, AfterCompletion}, {1, AfterHead}, {1, AfterHead}, {1, AfterFailure}, {1, AfterClaim},
			{1, AfterFirstClaim}, {1, AfterFirstClaim}, {1, AfterFirstClaim},
		}[variant-1]
		if variant >= 12 {
			w.CrashAll(0)
			w.LeapAll() // so that there is something to take over at once
		}
		return w.FailOver(f.missing, f.after)
	},
}

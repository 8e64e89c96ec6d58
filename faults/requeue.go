package faults

var requeue = &Kind{
	Name:     "requeue",
	Says:     "an operator brings dead letters back",
	Target:   OnWorld,
	Variants: 3,
	Rate:     600,
	Strike:   func(w World, _, variant int) bool { return w.Requeue([...]int{1, 3, 100}[variant-1]) },
}

package faults

var handlerpanic = &Kind{
	Name:     "handlerpanic",
	Says:     "a handler panics",
	Target:   OnRun,
	Variants: 1,
	Rate:     400,
	Run:      func(_ World, _ int, b *Behaviour) { b.Panic = true },
}

package faults

var handlerhang = &Kind{
	Name:     "handlerhang",
	Says:     "a handler never returns and does not listen to its context",
	Target:   OnRun,
	Variants: 1,
	Rate:     100,
	Run:      func(_ World, _ int, b *Behaviour) { b.Hang = true },
}

package faults

var poison = &Kind{
	Name:     "poison",
	Says:     "a delivery kills its worker each time it runs",
	Target:   OnDelivery,
	Variants: 1,
	Rate:     150,
	Run:      func(_ World, _ int, b *Behaviour) { b.Poison = true },
}

package faults

var deploy = &Kind{
	Name:     "deploy",
	Says:     "a worker is replaced by one with another set of handlers",
	Target:   OnWorker,
	Variants: 15,
	Rate:     80,
	Strike:   func(w World, worker, variant int) bool { return w.Deploy(worker, variant) },
}

package faults

var reset = &Kind{
	Name:     "reset",
	Says:     "all connections of a worker are reset: calls on their way fail, open transactions roll back",
	Target:   OnWorker,
	Variants: 1,
	Rate:     200,
	Strike:   func(w World, worker, _ int) bool { return w.Reset(worker) },
}

package faults

var restart = &Kind{
	Name:     "restart",
	Says:     "a worker's process dies and is back at once under the same name",
	Action:   "Crash",
	Target:   OnWorker,
	Variants: 1,
	Rate:     100,
	Strike:   func(w World, worker, _ int) bool { return w.Crash(worker, 0) },
}

package faults

var restart = &Kind{
	Name:     "restart",
	Says:     "a worker's process dies and is back at once under the same name, or all of them",
	Target:   OnWorker,
	Variants: 3,
	Rate:     100,
	Strike: func(w World, worker, variant int) bool {
		if variant == 3 {
			return w.CrashAll(0)
		}
		return w.Crash(worker, 0)
	},
}

package faults

var rollback = &Kind{
	Name:     "rollback",
	Says:     "a publisher's transaction is rolled back, and the events are published by another",
	Target:   OnBatch,
	Variants: 1,
	Rate:     800,
	Batch:    func(_ int, p *Plan) { p.Rollback = true },
}

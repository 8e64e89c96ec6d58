package faults

var duplicate = &Kind{
	Name:     "duplicate",
	Says:     "a publisher publishes the same events again",
	Target:   OnBatch,
	Variants: 2,
	Rate:     1000,
	Batch:    func(variant int, p *Plan) { p.Again = variant },
}

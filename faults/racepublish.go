package faults

var racepublish = &Kind{
	Name:     "racepublish",
	Says:     "two transactions publish the same events at once",
	Target:   OnBatch,
	Variants: 1,
	Rate:     600,
	Batch:    func(_ int, p *Plan) { p.Race = true },
}

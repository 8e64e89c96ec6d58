package faults

import "time"

var unknowncommit = &Kind{
	Name:     "unknowncommit",
	Says:     "the answer to COMMIT is lost: it was committed, or rolled back, or is still open",
	Target:   OnCommit,
	Variants: 5,
	Rate:     500,
	Message: func(w World, variant int, f *Fate) {
		switch variant {
		case 1:
			f.LoseRequest = true
		case 2:
			f.LoseReply = true
		default:
			f.GiveUp = w.Lease() / 100
			f.Request = [...]time.Duration{w.Lease() / 20, w.Lease() / 3, w.Lease() * 11 / 10}[variant-3]
		}
	},
}

package faults

var losereply = &Kind{
	Name:     "losereply",
	Says:     "the store commits a call and the client sees an error or nothing",
	Action:   "LoseReply",
	Target:   OnMessage,
	Variants: 3,
	Rate:     200,
	Message: func(_ World, variant int, f *Fate) {
		f.LoseReply = variant != 3
		f.LoseRequest = variant == 3 // the client cannot tell the two apart
		f.Silent = variant == 2
	},
}

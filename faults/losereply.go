package faults

var losereply = &Kind{
	Name:     "losereply",
	Says:     "the store commits a call and the client sees an error or nothing",
	Target:   OnMessage,
	Variants: 4,
	Rate:     200,
	Message: func(w World, variant int, f *Fate) {
		switch variant {
		case 1:
			f.LoseReply = true
		case 2:
			f.LoseReply, f.Silent = true, true
		case 3:
			f.LoseRequest = true // the client cannot tell the two apart
		case 4:
			f.LoseReply, f.Mute = true, w.Lease()*3/2
		}
	},
}

package faults

import "errors"

var handlererror = &Kind{
	Name:     "handlererror",
	Says:     "a handler returns an error",
	Target:   OnRun,
	Variants: 1,
	Rate:     1000,
	Run:      func(_ World, _ int, b *Behaviour) { b.Err = errHandler },
}

var errHandler = errors.New("the handler failed")

package faults

import "errors"

var timeout = &Kind{
	Name:     "timeout",
	Says:     "the store cancels a statement that took too long, and with it the transaction",
	Target:   OnStatement,
	Variants: 1,
	Rate:     20,
	Statement: func(s Statement, _ int) error {
		if s.Step == "reply" || s.Step == "commit" {
			return nil // no statement
		}
		return errTimeout
	},
}

// errTimeout says nothing to the engine: it is none of the two marked kinds, so
// the outcome counts as unknown although nothing was applied.
var errTimeout = errors.New("canceling statement due to statement timeout")

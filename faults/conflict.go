package faults

import (
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
)

var conflict = &Kind{
	Name:     "conflict",
	Says:     "a statement fails with a serialization failure, a deadlock or a write conflict",
	Target:   OnStatement,
	Variants: 1,
	Rate:     30,
	Statement: func(s Statement, _ int) error {
		if s.Step == "reply" {
			return nil // the work is committed; what can fail now is the network
		}
		return errConflict
	},
}

// errConflict is one value, because the simulator raises it often.
var errConflict = fmt.Errorf("could not serialize access due to concurrent update: %w", engine.ErrRetryable)

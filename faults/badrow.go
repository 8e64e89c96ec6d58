package faults

import (
	"errors"

	"github.com/relaybus-go/relaybus/engine"
)

var badrow = &Kind{
	Name:     "badrow",
	Says:     "every write of one delivery's row fails for good, until the faults stop; in a store with row locks two writes may, and a late copy of the refused completion comes during the end that follows",
	Target:   OnRow,
	Variants: 2,
	Rate:     200,
	Statement: func(s Statement, variant int) error {
		if variant == healing && s.Refused >= 2 {
			return nil
		}
		return errBadRow
	},
}

// healing is the variant of badrow in which the row is well after the two tries
// of one call of CompleteMany.
const healing = 2

var errBadRow = engine.Definite(errors.New("a trigger refuses this row"))

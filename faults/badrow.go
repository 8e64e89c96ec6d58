package faults

import (
	"errors"

	"github.com/relaybus-go/relaybus/engine"
)

var badrow = &Kind{
	Name:     "badrow",
	Says:     "every write of one delivery's row fails for good, until the faults stop",
	Target:   OnRow,
	Variants: 1,
	Rate:     200,
	Statement: func(Statement, int) error {
		return errBadRow
	},
}

var errBadRow = engine.Definite(errors.New("a trigger refuses this row"))

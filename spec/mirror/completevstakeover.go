package mirror

import (
	"errors"
	"fmt"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

// completeVsTakeover is what the twins of CompleteVsTakeoverLocking.tla and
// CompleteVsTakeoverSnapshot.tla share: two workers, one lane, and handlers
// that either all own their transaction or none. Workers, deliveries and claim
// numbers count from 1; a set of deliveries has a bit for each.
type completeVsTakeover struct {
	rules
	maxDeliveries, maxNumber uint8
	transactional            bool
}

// readCompleteVsTakeover reads the constants that both have, after those that
// only one has, and refuses more than the arrays of its states allow.
func readCompleteVsTakeover(r *cfg.Reader, deliveries, numbers uint8, names ...string) (completeVsTakeover, error) {
	m := completeVsTakeover{
		rules:         rules{r.Strings("Without")},
		maxDeliveries: uint8(r.Int("MaxDeliveries")),
		maxNumber:     uint8(r.Int("MaxNumber")),
		transactional: r.Bool("Transactional"),
	}
	err := errors.Join(r.Err(), m.known(names...))
	if m.maxDeliveries > deliveries || m.maxNumber > numbers {
		err = errors.Join(err, fmt.Errorf("the twin allows %d deliveries and %d numbers", deliveries, numbers))
	}
	return m, err
}

// deliveries is the set of all.
func (m *completeVsTakeover) deliveries() uint8 { return 1<<(m.maxDeliveries+1) - 2 }

// wellFormed is TypeOK of what both have.
func (m *completeVsTakeover) wellFormed(epoch, holder, claim uint8, numbers [2]uint8, rows uint8) bool {
	return epoch <= 2*m.maxNumber && holder <= 2 &&
		max(claim, numbers[0], numbers[1]) <= m.maxNumber && rows&^m.deliveries() == 0
}

// nothingLost is NoLostDelivery: what is not there was completed.
func (m *completeVsTakeover) nothingLost(there uint8, completions []uint8) bool {
	for d := uint8(1); d <= m.maxDeliveries; d++ {
		if there&(1<<d) == 0 && completions[d-1] == 0 {
			return false
		}
	}
	return true
}

// atMostOnce is AtMostOneCompletion.
func (m *completeVsTakeover) atMostOnce(completions, effects []uint8) bool {
	for i, n := range completions {
		if n > 1 || m.transactional && effects[i] != n {
			return false
		}
	}
	return true
}

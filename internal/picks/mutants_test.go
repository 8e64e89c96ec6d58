//go:build relaybus_mutants

package picks

import (
	"testing"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// TestMutantsAreCaught: the bugs planted in the choice of a claim fail its own
// test. Those of keys and running deliveries are for the cases of storetest.
func TestMutantsAreCaught(t *testing.T) {
	for _, name := range []mutant.Name{"more-than-one-suspect", "suspects-hide-fresh", "cursor-stands-still", "handler-room-ignored", "picks-beyond-limit", "first-chain-takes-all"} {
		mutant.Select(name)
		if fault(3000) == "" {
			t.Errorf("%s: nothing fails", name)
		}
		mutant.Select("")
	}
}

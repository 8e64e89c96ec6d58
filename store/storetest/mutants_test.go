//go:build relaybus_mutants

package storetest

import (
	"testing"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// TestMutantsAreCaught: every bug planted in simstore is rejected by a case.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range simstore.Mutants {
		t.Run(string(m.Name), func(t *testing.T) {
			mutant.Select(m.Name)
			defer mutant.Select("")
			if by := caughtBy(t); by != "" {
				t.Logf("caught by %q", by)
				return
			}
			t.Errorf("no case fails although %s", m.Says)
		})
	}
}

// caughtBy returns the first case that fails in a semantics. One that hangs
// under a planted bug fails when its patience ends.
func caughtBy(t *testing.T) string {
	for _, c := range allCases() {
		for _, semantics := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
			if c.only != "" && c.only != semantics.String() {
				continue
			}
			if watchCase(t, simHarness(semantics, nil), c) != "" {
				return c.name
			}
		}
	}
	return ""
}

func watchCase(t *testing.T, h Harness[*simstore.Tx], c kase) string {
	failure, _ := watchSkipping(t, func(t testing.TB) { h.play(t, c) })
	return failure
}

//go:build relaybus_mutants

package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/internal/picks"
	"github.com/relaybus-go/relaybus/linearize"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// TestMutantsAreCaught: every bug planted in simstore is rejected by a case.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range slices.Concat(simstore.Mutants, picks.Mutants, picks.Unseen) {
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

// Histories of clients that call at once show each of the five promises broken,
// without a look at what the store holds.
func TestHistoriesCatchMutants(t *testing.T) {
	for name, property := range map[mutant.Name]linearize.Property{
		"takeover-keeps-epoch":     linearize.LaneOwnership,
		"unique-on-event-only":     linearize.AtLeastOnce,
		"picks-running-deliveries": linearize.EffectivelyOnce,
		"lane-from-event-id":       linearize.KeyOrder,
		"more-than-one-suspect":    linearize.AttemptCharging,
	} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Select(name)
			defer mutant.Select("")
			for try := range uint64(100) {
				h := simHarness(protocol.Semantics(try%2), nil)
				report := newStage(newBench(t, h.Semantics, adapt(h.Open(t)))).play(scriptsOf(try))
				if report.Result(property).Status == linearize.Illegal {
					return
				}
			}
			t.Errorf("%s was never found to be broken", property)
		})
	}
}

// scriptsOf draws what four clients do.
func scriptsOf(seed uint64) [][]byte {
	r := rand.New(rand.NewPCG(seed, 0))
	scripts := make([][]byte, 4)
	for i := range scripts {
		for range 100 {
			scripts[i] = append(scripts[i], byte(r.Uint32()))
		}
	}
	return scripts
}

//go:build relaybus_mutants

package simstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// caught is what a scenario's failure panics with.
type caught string

// jury is a test that a planted bug shall fail.
type jury struct{ testing.TB }

func (jury) Helper()                          {}
func (jury) Fatal(args ...any)                { panic(caught(fmt.Sprint(args...))) }
func (jury) Fatalf(format string, a ...any)   { panic(caught(fmt.Sprintf(format, a...))) }
func (j jury) Errorf(format string, a ...any) { j.Fatalf(format, a...) }

// convict plays the scenario under the planted bug and returns what failed.
func convict(t *testing.T, s scenario, mode protocol.Semantics) (why string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case caught:
			why = strings.SplitN(string(r), "\n", 2)[0]
		default:
			why = fmt.Sprint("panic: ", r)
		}
	}()
	s.play(jury{t}, mode)
	return ""
}

// TestMutantsAreCaught: every bug planted here fails a scenario.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range Mutants {
		t.Run(string(m.Name), func(t *testing.T) {
			mutant.Select(m.Name)
			defer mutant.Select("")
			for _, s := range scenarios() {
				for _, mode := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
					if why := convict(t, s, mode); why != "" {
						t.Logf("%s (%v): %s", s.name, mode, why)
						return
					}
				}
			}
			t.Errorf("no scenario fails although %s", m.Says)
		})
	}
}

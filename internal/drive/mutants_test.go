//go:build relaybus_mutants

package drive

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// within is how many rounds a planted bug of the driver may survive.
const within = 300

// announced is how a process with a planted bug says how far it has come: it
// may end in a panic of synctest, which no test survives.
const announced = "RELAYBUS_DRIVE_ANNOUNCED"

func announce(seed uint64) {
	if file := os.Getenv(announced); file != "" {
		_ = os.WriteFile(file, strconv.AppendUint(nil, seed-*first+1, 10), 0o600)
	}
}

// TestMutants plants every bug of the driver, each in a process of its own, and
// wants a round to fail.
func TestMutants(t *testing.T) {
	if os.Getenv(announced) != "" {
		t.Skip("this process has a bug planted")
	}
	for _, m := range mutant.Driver() {
		t.Run(string(m.Name), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "round")
			c := exec.Command(os.Args[0], "-test.run=^TestRounds$", "-test.timeout=60s",
				fmt.Sprintf("-drive.rounds=%d", within), fmt.Sprintf("-drive.seed=%d", *first))
			c.Env = append(os.Environ(), "RELAYBUS_MUTANT="+string(m.Name), announced+"="+file)
			said, err := c.CombinedOutput()
			if err == nil {
				t.Fatalf("%d rounds pass although %s", within, m.Says)
			}
			round, _ := os.ReadFile(file)
			t.Logf("round %s: %s", round, reason(said))
		})
	}
}

var reasons = regexp.MustCompile(`(?m)(round \d+: .*|panic: .*|fatal error: .*)$`)

func reason(said []byte) string {
	if line := reasons.Find(said); line != nil {
		return string(line)
	}
	return string(said[:min(len(said), 500)])
}

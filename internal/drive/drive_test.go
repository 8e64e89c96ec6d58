package drive

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
)

var (
	rounds = flag.Int("drive.rounds", 300, "how many rounds to play; -short plays a tenth")
	first  = flag.Uint64("drive.seed", 1, "the seed of the first round")
	loud   = flag.Bool("drive.v", false, "print how long hints took")
)

func trace(format string, args ...any) {
	if *loud {
		fmt.Printf(format+"\n", args...)
	}
}

// TestRounds runs whole buses over a store that fails, and judges what they
// commit.
func TestRounds(t *testing.T) {
	n := *rounds
	if testing.Short() {
		n = (n + 9) / 10
	}
	for i := range n {
		seed := *first + uint64(i)
		announce(seed)
		var err error
		synctest.Test(t, func(*testing.T) { err = play(seed) })
		if err != nil {
			t.Fatalf("round %d: %v\nrepeat it, within a few tries, with\n  go test ./internal/drive -run TestRounds -count 20 -drive.rounds 1 -drive.seed %d", seed, err, seed)
		}
	}
}

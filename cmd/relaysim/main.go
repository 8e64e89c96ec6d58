// Command relaysim runs the relaybus engine against a simulated store in
// virtual time, injects faults, and checks every promise of the delivery
// protocol. A seed at a commit reproduces bit for bit, on any machine.
//
//	relaysim -seed 1 -faults crash,expire
//	relaysim -seeds 20000
//	relaysim -seeds 2000 -histories -html picture.html
//	relaysim -replay sim/testdata/corpus
//	relaysim -explore
//	relaysim mutants
//
// What clients asked the store and were told is recorded for every 20th seed
// and judged by package linearize; -histories does so for every seed, and -html
// draws a history that no order of the calls explains.
//
// Exit codes: 0 clean, 1 a promise was broken, 2 usage, 3 the work did not
// drain, 4 a history is not linearizable, 5 the store did what the protocol
// does not allow, 6 two runs of one seed differed, 7 a batch of 5,000 seeds or
// more with every fault and no limits was clean, but missed a situation or a
// fault that it claims to test.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// The exit codes.
const (
	exitClean     = 0
	exitUnsafe    = 1
	exitUsage     = 2
	exitStalled   = 3
	exitIllegal   = 4
	exitRefused   = 5
	exitDiverging = 6
	exitUnreached = 7
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800) // a seed makes much garbage and keeps little
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "mutants" {
		return runMutants(args[1:], stdout, stderr)
	}
	s, code, ok := parse(args, stderr)
	if !ok {
		return code
	}
	s.args, s.stdout, s.stderr = args, stdout, stderr
	if len(s.replay) > 0 {
		return s.runReplay()
	}
	if s.explore {
		return s.runExplore()
	}
	return s.runSeeds()
}

// fail prints one sentence and returns the exit code of bad usage.
func fail(stderr io.Writer, format string, args ...any) int {
	fmt.Fprintf(stderr, "relaysim: "+format+"\n", args...)
	return exitUsage
}

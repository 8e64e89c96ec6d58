// Package drive is a test of the part of the engine that the simulator leaves
// out: goroutines, timers and channels. Each round runs whole buses, with
// Start, Run and Stop, over a live simstore whose calls go wrong at random, in
// the virtual time of testing/synctest. The lock-step model and the direct
// checkers of package sim judge every commit.
//
// A round is drawn from a seed, but the Go scheduler decides who runs first
// at an instant. So the same seed tells nearly the same story, not the same
// one bit for bit; a failure repeats within a few tries of the command that it
// prints.
package drive

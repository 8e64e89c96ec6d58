// Package faults holds the kinds of faults that the simulator injects. A kind
// says when it strikes and what it does, in terms of [World]; the simulator
// gives the World. Faults never make a promise of the protocol unreachable, so
// every violation and every stall under them is a bug.
//
// Each kind has a file of its own, named like the kind, and spec/tla/faults.txt
// maps it to an action of the specification's environment.
package faults

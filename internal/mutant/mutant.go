// Package mutant holds the named planted bugs that show whether the simulator
// would notice a real one. In an ordinary build [On] is a constant false and
// the compiler removes every planted line; built with -tags relaybus_mutants,
// one mutant can be switched on by name.
package mutant

// Name names a planted bug.
type Name string

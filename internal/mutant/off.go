//go:build !relaybus_mutants

package mutant

// Enabled reports whether this build can switch mutants on.
const Enabled = false

// On reports whether the named bug is planted: never, in this build.
func On(Name) bool { return false }

// Select is without effect in this build.
func Select(Name) {}

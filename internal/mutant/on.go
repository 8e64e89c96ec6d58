//go:build relaybus_mutants

package mutant

import "os"

// Enabled reports whether this build can switch mutants on.
const Enabled = true

var selected = Name(os.Getenv("RELAYBUS_MUTANT"))

// On reports whether the named bug is planted.
func On(n Name) bool { return n == selected }

// Select plants the named bug and no other; "" plants none. It must not be
// called while a simulation runs.
func Select(n Name) { selected = n }

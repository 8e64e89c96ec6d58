package mirror

import (
	"fmt"
	"slices"
)

// rules are what a configuration's Without leaves on, as in Guards.tla.
type rules struct{ without []string }

// rule reports whether the rule of that name is on.
func (r *rules) rule(name string) bool { return !slices.Contains(r.without, name) }

// guard reports whether the condition holds or its rule is off.
func (r *rules) guard(name string, holds bool) bool { return holds || !r.rule(name) }

// known reports a name in Without that no rule of the module has. In TLA+
// such a name is silently no rule at all.
func (r *rules) known(names ...string) error {
	for _, name := range r.without {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%q in Without is no rule of the twin", name)
		}
	}
	return nil
}

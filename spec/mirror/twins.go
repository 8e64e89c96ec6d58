package mirror

import (
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/spec/cfg"
)

// Twin explores the twin of a module with the constants and invariants of one
// of its configurations, and keeps at most limit states.
type Twin func(c cfg.Config, limit int) (Result, error)

// twins are the modules that have one. TestTwins and the command twin run what
// stands here.
var twins = map[string]Twin{
	"AsyncCommit":                twinOf(newAsyncCommit),
	"CompleteVsTakeoverLocking":  twinOf(newLocking),
	"CompleteVsTakeoverSnapshot": twinOf(newSnapshot),
	"Relaybus":                   twinOf(newRelaybus),
}

// Modules lists the modules that have a twin, sorted.
func Modules() []string {
	var names []string
	for name := range twins {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Of returns the twin of a module.
func Of(module string) (Twin, error) {
	t, ok := twins[module]
	if !ok {
		return nil, fmt.Errorf("module %s has no twin; these have: %q", module, Modules())
	}
	return t, nil
}

// twinOf makes a Twin of a function that builds the model from a
// configuration's constants.
func twinOf[S comparable](build func(cfg.Config) (Model[S], error)) Twin {
	return func(c cfg.Config, limit int) (Result, error) {
		switch {
		case c.Specification != "Spec":
			return Result{}, fmt.Errorf("SPECIFICATION is %q: a twin explores Spec, without fairness", c.Specification)
		case c.View != "":
			return Result{}, fmt.Errorf("VIEW %s: a twin tells states apart by all that they hold", c.View)
		case len(c.Properties) > 0:
			return Result{}, fmt.Errorf("PROPERTY %s: a twin checks invariants only", c.Properties[0])
		case c.CheckDeadlock:
			return Result{}, fmt.Errorf("a twin does not look for deadlocks: say CHECK_DEADLOCK FALSE")
		}
		m, err := build(c)
		if err != nil {
			return Result{}, err
		}
		return Explore(m, c.Invariants, limit)
	}
}

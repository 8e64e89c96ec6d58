package mutant

// Info describes one planted bug: packages that plant bugs list them in a
// variable of type []Info, so that a run over all of them finds each.
type Info struct {
	Name Name
	// Says is the rule that the bug breaks, in one line.
	Says string
}

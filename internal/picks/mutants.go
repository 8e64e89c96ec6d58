//go:build relaybus_mutants

package picks

import "github.com/relaybus-go/relaybus/internal/mutant"

func init() { mutant.Declare(Mutants...) }

// Mutants are the bugs planted in this package, each at the rule that it
// breaks.
var Mutants = []mutant.Info{
	{Name: "picks-running-deliveries", Says: "what the worker runs is granted to it again"},
	{Name: "key-order-ignores-running", Says: "a delivery starts while an earlier one of its key runs"},
	{Name: "requeued-overtakes", Says: "a requeued delivery starts while a later one of its key runs"},
	{Name: "chain-not-stopped-at-charged", Says: "a chain passes over a charged delivery instead of ending before it"},
	{Name: "more-than-one-suspect", Says: "several deliveries that were in flight when a worker died run at once"},
	{Name: "handler-room-ignored", Says: "a handler is granted more than it has room for"},
	{Name: "picks-beyond-limit", Says: "a claim grants more than its worker asked for"},
	{Name: "same-id-publish-drops-handler", Says: "publishing a known id adds no delivery for a handler it never had one for"},
}

// Unseen are planted bugs that the simulator notices too seldom: the first two
// after a median of 471 and 1,761 seeds, because its lanes hold few deliveries,
// and the last never, because no checker says how evenly the keys of a lane share
// what a claim may bring. They are not declared, so that a hunt does not run them
// for long. The tests of this package and the cases of store/storetest catch them.
var Unseen = []mutant.Info{
	{Name: "suspects-hide-fresh", Says: "suspects that cannot be granted fill the search of a lane, so that what stands behind them is not seen"},
	{Name: "cursor-stands-still", Says: "each search of a lane begins with the same keys, so that the last ones never get their turn"},
	{Name: "first-chain-takes-all", Says: "the first key brings followers up to the limit, and the others none"},
}

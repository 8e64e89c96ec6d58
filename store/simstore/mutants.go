//go:build relaybus_mutants

package simstore

import "github.com/relaybus-go/relaybus/internal/mutant"

func init() { mutant.Declare(Mutants...) }

// Mutants are the bugs planted in this package, each at the rule that it
// breaks.
var Mutants = []mutant.Info{
	{Name: "complete-without-epoch-check", Says: "an end is accepted under an older epoch or fence"},
	{Name: "complete-without-holder-check", Says: "an end is accepted whoever holds the lane: only lane and epoch are compared"},
	{Name: "complete-without-inflight-check", Says: "an end is accepted although the lane does not list the run"},
	{Name: "complete-without-claim-check", Says: "an end is accepted although the lane lists the delivery under another claim"},
	{Name: "epoch-alone-fences", Says: "lane and epoch alone make the token, and a lost takeover issues the epoch again"},
	{Name: "complete-gone-row-applied", Says: "a transactional completion of a row that is gone is Applied, so its effect commits twice"},
	{Name: "complete-what-was-written-meanwhile", Says: "a completion deletes a row that was written after its snapshot: the run was ended otherwise"},
	{Name: "follower-completed-before-predecessor", Says: "a follower is completed while the delivery before it is pending"},
	{Name: "follower-refused-for-nothing", Says: "a follower is refused although the delivery before it was Applied by the same call"},
	{Name: "partial-batch-reported-whole", Says: "all leases of a call are reported Applied although some were lost"},
	{Name: "no-lock-between-completion-and-takeover", Says: "a completion reads its lane without locking it"},
	{Name: "snapshot-completion-ignores-conflict", Says: "a completion from an old snapshot deletes a row that was written since"},
	{Name: "takeovers-reset-on-failure", Says: "a failed attempt makes a suspect look innocent again"},
	{Name: "dead-revived-by-reschedule", Says: "a retry of an old failure brings a dead letter back"},
	{Name: "claim-without-number-check", Says: "a late claim is applied after a newer one"},
	{Name: "claim-shows-uncommitted", Says: "a claim shows work although its commit failed"},
	{Name: "claim-adds-entries", Says: "a claim adds what the worker states to what the lane lists"},
	{Name: "not-after-ignored", Says: "a call is served long after its client gave up"},
	{Name: "due-one-tick-early", Says: "a delivery is granted a nanosecond before it is due"},
	{Name: "not-after-one-tick-late", Says: "a call is served a nanosecond after its not-after"},
	{Name: "dead-claimable", Says: "a dead letter is granted like a pending delivery"},
	{Name: "picks-before-lane-lock", Says: "what a taken lane gives is read before the lane is locked"},
	{Name: "takeover-of-own-lane", Says: "a worker takes over its own expired lane and charges what it still runs"},
	{Name: "takeover-of-another-group", Says: "a worker looks for lanes to take over in all groups, and takes an expired lane that it has no handlers for"},
	{Name: "takeover-by-plain-update", Says: "a takeover updates the lane without UPDATE strength, which a completion does not see"},
	{Name: "takeover-at-expiry", Says: "a lane is taken over at the very end of its lease instead of after it"},
	{Name: "takeover-keeps-epoch", Says: "a takeover leaves the epoch as it was"},
	{Name: "takeover-one-tick-early", Says: "a lane is taken over before its lease has run out"},
	{Name: "takeover-forgets-charge", Says: "what was in flight at a takeover is not charged"},
	{Name: "takeover-charges-twice", Says: "what was in flight at a takeover is charged twice"},
	{Name: "takeover-charges-followers", Says: "followers of a chain that never started are charged"},
	{Name: "lost-not-charged", Says: "a lane is claimed from before what it lost was charged"},
	{Name: "charge-only-first-lost", Says: "only the first lost row is written, so an old completion of another commits"},
	{Name: "renewal-by-former-owner", Says: "a lane is renewed by a worker that lost it"},
	{Name: "refused-renewal-reported", Says: "a renewal that was refused is reported as accepted; only its caller can see that"},
	{Name: "relinquish-without-epoch-or-order", Says: "a late Relinquish gives back a lane that was claimed again"},
	{Name: "relinquish-with-work-in-flight", Says: "a lane is given back while its holder runs deliveries of it"},
	{Name: "sequence-before-slot-lock", Says: "sequences are drawn before the slot is locked, so they are not in commit order"},
	{Name: "handlers-memory-dropped", Says: "only deliveries that are there count as had, so completed ones run again"},
	{Name: "unique-on-event-only", Says: "an event gets one delivery instead of one per handler"},
	{Name: "lane-from-event-id", Says: "a keyed delivery's lane is chosen by its event id"},
	{Name: "purge-ages-swapped", Says: "completions go by the age of dead letters, and dead letters by that of completions"},
	{Name: "filter-ignores-handler", Says: "a filter that names a handler selects the letters of all"},
	{Name: "filter-ignores-type", Says: "a filter that names a type selects events of every type"},
	{Name: "filter-until-inclusive", Says: "a filter selects what died at its upper bound"},
	{Name: "purge-at-the-age", Says: "a dead letter goes when it is as old as asked for instead of older"},
	{Name: "purge-trusts-first-look", Says: "purge deletes what met its condition when it looked, not when it deletes"},
}

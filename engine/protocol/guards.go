package protocol

import (
	"fmt"
	"slices"
)

// Rules are the guards and effects that [State.Without] can leave out, sorted,
// by the names they have in Publish.tla, Lease.tla, Finish.tla and Operate.tla.
// What is not among them only keeps an action well formed.
var Rules = []string{
	"ChargeLost.lost",
	"Claim.add",
	"Claim.chain",
	"Claim.charged",
	"Claim.drop",
	"Claim.due",
	"Claim.earlier",
	"Claim.fence",
	"Claim.handler",
	"Claim.holder",
	"Claim.key",
	"Claim.lost",
	"Claim.not-after",
	"Claim.number",
	"Claim.pending",
	"Claim.renew",
	"Claim.row lane",
	"Claim.running",
	"Claim.stuck",
	"Claim.suspect",
	"Complete.fence",
	"Complete.row",
	"CompleteMany.after",
	"CompleteMany.fence",
	"CompleteMany.pending",
	"End.after",
	"End.epoch",
	"End.holder",
	"End.in flight",
	"End.pending",
	"End.rest",
	"End.row lane",
	"ExtendLease.epoch",
	"ExtendLease.holder",
	"Publish.handlers",
	"Publish.lane",
	"Publish.remember",
	"Publish.result",
	"Publish.row",
	"Publish.sequence",
	"Purge.dead",
	"Purge.deliveries",
	"Purge.died",
	"Purge.published",
	"Release.epoch",
	"Release.holder",
	"Release.in flight",
	"Relinquish.claim",
	"Relinquish.epoch",
	"Relinquish.holder",
	"Relinquish.last",
	"Relinquish.lost",
	"Relinquish.number",
	"Relinquish.running",
	"Requeue.dead",
	"Requeue.reset",
	"Reschedule.charge",
	"Subscribe.group",
	"Subscribe.lanes",
	"Subscribe.revive",
	"TakeOver.charge",
	"TakeOver.epoch",
	"TakeOver.expiry",
	"TakeOver.group",
	"TakeOver.holder",
	"TakeOver.list",
	"TakeOver.lost",
	"TakeOver.not-after",
	"TakeOver.number",
	"TakeOver.started",
	"Unsubscribe.handler",
	"Unsubscribe.pending",
}

// Without leaves rules out of a State and of its clones, as a configuration of
// the specification does with its constant Without. It is for those who want to
// see what rests on a rule: a store that follows the protocol without it breaks
// a promise, and an invariant has to say so. Without names it puts them all
// back. A name that is not in [Rules] is an error.
//
// What an action does that such a rule alone would have refused is what the
// specification says; where that says nothing (a row in a lane that nobody
// made) the State may panic.
func (s *State) Without(rules ...string) error {
	for _, name := range rules {
		if _, ok := slices.BinarySearch(Rules, name); !ok {
			return fmt.Errorf("protocol: %q is no rule: see protocol.Rules", name)
		}
	}
	s.without = slices.Clone(rules)
	return nil
}

// guard is Guard of State.tla: the condition holds, or its rule is left out.
func (s *State) guard(name string, holds bool) bool { return holds || !s.rule(name) }

// rule is Rule of State.tla: whether an effect is left in.
func (s *State) rule(name string) bool { return !slices.Contains(s.without, name) }

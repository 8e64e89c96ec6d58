package linearize

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

// laneCall is what one call did, or may do, to one lane and its deliveries.
type laneCall struct {
	kind   laneKind
	holder engine.Holder
	number int64
	// lasts is the number when some later answer may depend on it, else 0:
	// then it makes no difference which of several open calls it was.
	lasts int64
	epoch int64 // 0: the call does not say
	// clock is the latest the store's clock may have read; 0: not known.
	clock engine.StoreTime
	// late: the call may have been refused because its not-after had passed.
	late bool

	// Of a claim.
	floor   engine.StoreTime
	ttl     time.Duration
	expires engine.StoreTime // as the reply tells; 0: it does not
	renews  bool
	epochs  *epochs // of what may take the lane over
	named   bool    // the call names the lane
	running []entry // what the caller states
	lost    []entry // what the reply calls lost
	picks   []entry
	// suspects is what is wrong with the picks that have takeovers, if so.
	suspects string

	// Of ends.
	leases   []engine.Lease
	verdicts []engine.Verdict
	rest     []engine.Lease
	name     string // the call's
	charge   bool
	dead     bool    // the delivery is a dead letter afterwards
	leaves   leaving // of an end without an answer

	// Of what concerns rows alone.
	rows       []rowSeen
	deliveries []*delivery
}

// rowSeen is a delivery row as somebody saw it.
type rowSeen struct {
	of  *delivery
	row engine.Delivery
}

type laneKind uint8

const (
	// What the answers say, all judged by lane ownership.
	laneHeld        laneKind = iota // Claim: the lane is held
	laneTaken                       // Claim: the lane was taken over and is held
	laneGivenBack                   // Claim: the lane was taken over and relinquished
	laneGone                        // Claim: the lane is not held, or a newer claim was applied
	laneExtended                    // ExtendLease, Applied
	laneNotExtended                 // ExtendLease, LeaseLost
	laneCompleted                   // a completion that needs the lane's list
	laneEnded                       // Reschedule, Snooze, Bury, Applied
	laneReleased                    // Release, with its verdicts
	laneRelinquished
	laneKept    // Relinquish did not give the lane back
	laneInDoubt // a claim or an end without an answer began: runs may leave

	// What open calls may do.
	mayClaim
	mayTakeOver
	mayExtend
	mayRelinquish

	// What concerns rows alone, for attempt charging.
	rowsCompleted // completions that need no lane
	rowsInDoubt   // completions without an answer, sweeps: rows may be gone
	rowsListed    // rows as a List saw them
	rowsRequeued  // dead letters that are pending again
	rowsRevivable // a Requeue without an answer began
	rowsPurged    // rows that may have been purged and published again
)

// ownership reports whether lane ownership looks at the kind.
func (k laneKind) ownership() bool { return k < rowsCompleted }

// String says what the call did to the lane.
func (c laneCall) String() string {
	holder := c.holder.Short()
	switch c.kind {
	case laneHeld, laneTaken:
		return c.claimText()
	case laneGivenBack:
		return fmt.Sprintf("Claim %d of %s took the lane over as epoch %d and gave it back", c.number, holder, c.epoch)
	case laneGone:
		return fmt.Sprintf("Claim %d of %s: the lane is gone", c.number, holder)
	case laneExtended:
		return fmt.Sprintf("ExtendLease of %s at epoch %d: Applied", holder, c.epoch)
	case laneNotExtended:
		return fmt.Sprintf("ExtendLease of %s at epoch %d: LeaseLost", holder, c.epoch)
	case laneCompleted, laneEnded, laneReleased, rowsCompleted:
		return c.endText()
	case laneRelinquished:
		return fmt.Sprintf("Relinquish %d of %s gave the lane back", c.number, holder)
	case laneKept:
		return fmt.Sprintf("Relinquish %d of %s did not give the lane back", c.number, holder)
	case mayClaim:
		return fmt.Sprintf("Claim %d of %s", c.number, holder)
	case mayTakeOver:
		return fmt.Sprintf("Claim %d of %s may take the lane over", c.number, holder)
	case mayExtend:
		return fmt.Sprintf("ExtendLease of %s at epoch %d", holder, c.epoch)
	case laneInDoubt:
		if c.leaves == 0 {
			return fmt.Sprintf("Claim %d of %s; no answer", c.number, holder)
		}
		return fmt.Sprintf("%s of %s; no answer", c.name, leaseList(c.leases))
	case mayRelinquish:
		return fmt.Sprintf("Relinquish %d of %s", c.number, holder)
	case rowsInDoubt:
		return fmt.Sprintf("%s of %s", c.name, nameList(c.deliveries))
	case rowsListed:
		return "List: " + rowList(c.rows)
	case rowsRequeued, rowsRevivable:
		return "Requeue of " + nameList(c.deliveries)
	case rowsPurged:
		return "Purge"
	}
	return "the store crashed"
}

func (c laneCall) claimText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Claim %d of %s", c.number, c.holder.Short())
	if len(c.running) > 0 {
		fmt.Fprintf(&b, ", still running %s", listOf(c.running))
	}
	if c.kind == laneTaken {
		fmt.Fprintf(&b, ": took the lane over as epoch %d", c.epoch)
	} else {
		fmt.Fprintf(&b, ": holds the lane at epoch %d", c.epoch)
	}
	if c.expires != 0 {
		fmt.Fprintf(&b, " until %d", c.expires)
	}
	fmt.Fprintf(&b, ", got %s", listOf(c.picks))
	for _, e := range c.picks {
		g := e.grant
		fmt.Fprintf(&b, " (#%d is %s, attempts %d, takeovers %d)", g.row.ID, g.of.Name, g.row.Attempts, g.row.Takeovers)
	}
	if len(c.lost) > 0 {
		fmt.Fprintf(&b, ", lost %s", listOf(c.lost))
	}
	return b.String()
}

func (c laneCall) endText() string {
	words := make([]string, len(c.leases))
	for i := range c.leases {
		words[i] = fmt.Sprintf("%s: %s", &c.leases[i], c.verdicts[i])
	}
	text := c.name + " of " + strings.Join(words, ", ")
	if len(c.rest) > 0 {
		text += ", leaving " + leaseList(c.rest)
	}
	return text
}

func leaseList(leases []engine.Lease) string {
	words := make([]string, len(leases))
	for i := range leases {
		words[i] = leases[i].String()
	}
	return strings.Join(words, ", ")
}

func nameList(list []*delivery) string {
	words := make([]string, len(list))
	for i, d := range list {
		words[i] = d.Name.String()
	}
	return strings.Join(words, ", ")
}

func rowList(rows []rowSeen) string {
	words := make([]string, len(rows))
	for i, r := range rows {
		words[i] = fmt.Sprintf("%s with attempts %d, takeovers %d", r.of.Name, r.row.Attempts, r.row.Takeovers)
	}
	return strings.Join(words, ", ")
}

// entriesOf returns what a worker states of a lane, sorted.
func (f *facts) entriesOf(running []engine.Running, holder engine.Holder, lane engine.LaneID) []entry {
	var list []entry
	for i := range running {
		if r := &running[i]; r.Lane == lane {
			list = append(list, f.entry(r.Delivery, holder, r.Claim))
		}
	}
	slices.SortFunc(list, byID)
	return list
}

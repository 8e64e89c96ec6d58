package linearize

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

// entry is what a lane lists of one run: the delivery and the number of the
// claim that granted it.
type entry struct {
	id      engine.DeliveryID
	claim   int64
	grant   *grant // nil when no reply granted it
	leaving leaving
}

// leaving says how a run may have left its lane, or may yet, through calls
// without an answer.
type leaving uint8

const (
	leavesFree     leaving = 1 << iota // released, snoozed, or stuck
	leavesUnstated                     // not stated by a claim
	leavesCharged                      // rescheduled
	leavesDead                         // buried without a charge
	leavesDeadPaid                     // buried with a charge
)

// is reports whether two entries are of the same run of one holder.
func (e entry) is(o entry) bool { return e.id == o.id && e.claim == o.claim }

func has(list []entry, e entry) bool { return slices.ContainsFunc(list, e.is) }

// entry returns what a lane lists of a run.
func (f *facts) entry(id engine.DeliveryID, holder engine.Holder, claim int64) entry {
	return entry{id: id, claim: claim, grant: f.grants[leaseName{id, holder, claim}]}
}

func (f *facts) entryOf(l *engine.Lease) entry { return f.entry(l.Delivery, l.Holder, l.Claim) }

func (e entry) String() string {
	if e.leaving != 0 {
		return fmt.Sprintf("perhaps #%d by claim %d", e.id, e.claim)
	}
	return fmt.Sprintf("#%d by claim %d", e.id, e.claim)
}

// laneState is a lane row as far as the answers tell it.
type laneState struct {
	epoch   int64
	holder  engine.Holder // zero: nobody
	last    engine.Holder // who relinquished it
	claim   int64
	expires engine.StoreTime // the lease lasts at least until then
	ttl     time.Duration    // the lease was asked for with
	listed  []entry          // by delivery
	// hidden: a claim without an answer may have listed others. doubt is the
	// highest number of those that may still change the list.
	hidden bool
	doubt  int64
	// lost and lostHidden are the same for what a takeover of a Snapshot store
	// has not charged yet.
	lost       []entry
	lostHidden bool

	// drifted: a takeover without an answer has happened that no later answer
	// names, and up to further more; all that is known is that nobody's end is
	// accepted any more.
	drifted bool
	further int32

	since  *op // the call that gave the lane its holder; no part of the key
	latest *op // the call that last changed anything else of it; neither
}

func (s laneState) free() bool { return s.holder.IsZero() }

// find returns the entry of a run, if the lane may list it.
func (s laneState) find(e entry) (entry, bool) {
	i := slices.IndexFunc(s.listed, e.is)
	if i < 0 {
		return e, false
	}
	return s.listed[i], true
}

func (s laneState) appendKey(b []byte) []byte {
	b = binary.AppendVarint(b, s.epoch)
	b = append(b, s.holder[:]...)
	b = append(b, s.last[:]...)
	b = binary.AppendVarint(binary.AppendVarint(b, s.claim), s.doubt)
	b = binary.AppendVarint(b, int64(s.expires))
	b = binary.AppendVarint(b, int64(s.ttl))
	b = appendBool(appendBool(appendBool(b, s.hidden), s.lostHidden), s.drifted)
	b = binary.AppendVarint(b, int64(s.further))
	return appendEntries(appendEntries(b, s.listed), s.lost)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendEntries(b []byte, list []entry) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, e := range list {
		b = binary.AppendVarint(b, int64(e.id))
		b = binary.AppendVarint(b, e.claim)
		b = append(b, byte(e.leaving))
		if e.grant != nil {
			b = binary.AppendUvarint(b, uint64(e.grant.of.index)+1)
		}
	}
	return b
}

// String says who holds the lane and what it lists.
func (s laneState) String() string {
	if s.drifted {
		return "taken over by a call without an answer"
	}
	var b strings.Builder
	if s.free() {
		fmt.Fprintf(&b, "free at epoch %d", s.epoch)
		if !s.last.IsZero() {
			fmt.Fprintf(&b, ", relinquished by %s with number %d", s.last.Short(), s.claim)
		}
	} else {
		fmt.Fprintf(&b, "held by %s at epoch %d, claim %d, until %d", s.holder.Short(), s.epoch, s.claim, s.expires)
	}
	fmt.Fprintf(&b, ", lists %s", listOf(s.listed))
	if s.hidden {
		b.WriteString(" and perhaps what a lost reply granted")
	}
	if len(s.lost) > 0 || s.lostHidden {
		fmt.Fprintf(&b, ", lost and not charged %s", listOf(s.lost))
	}
	return b.String()
}

// entries are put into words only when somebody asks.
type entries []entry

func (list entries) String() string { return listOf(list) }

func listOf[T fmt.Stringer](list []T) string {
	if len(list) == 0 {
		return "nothing"
	}
	words := make([]string, len(list))
	for i, e := range list {
		words[i] = e.String()
	}
	return strings.Join(words, ", ")
}

// who names the holder of the lane.
func (s laneState) who() string {
	if s.free() {
		return "nobody"
	}
	return s.holder.Short()
}

// byID orders entries.
func byID(a, b entry) int {
	if c := cmp.Compare(a.id, b.id); c != 0 {
		return c
	}
	return cmp.Compare(a.claim, b.claim)
}

func withEntry(list []entry, e entry) []entry {
	list = slices.DeleteFunc(slices.Clone(list), func(o entry) bool { return o.id == e.id })
	at, _ := slices.BinarySearchFunc(list, e, byID)
	return slices.Insert(list, at, e)
}

func without(list []entry, l *engine.Lease) []entry {
	e := entry{id: l.Delivery, claim: l.Claim}
	if !has(list, e) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), e.is)
}

// marked is the lane once the runs that pick tells may have left it.
func (s laneState) marked(pick func(e entry) leaving) laneState {
	listed := slices.Clone(s.listed)
	for i := range listed {
		listed[i].leaving |= pick(listed[i])
	}
	s.listed = listed
	return s
}

// The actions of the specification on one lane, each with its guards in the
// order of the specification. They return why a guard fails.

// grantedTo checks the epoch and holder of a token.
func (s laneState) grantedTo(holder engine.Holder, epoch int64) *misfit {
	switch {
	case s.epoch != epoch:
		return mismatch(s.since, "the lane is at epoch %d, not %d", s.epoch, epoch)
	case s.holder != holder:
		return mismatch(s.since, "the lane is held by %s, not by %s", s.who(), holder.Short())
	}
	return nil
}

// heldBy checks the holder and, where the call knows it, the epoch.
func (s laneState) heldBy(holder engine.Holder, epoch int64) *misfit {
	if s.holder != holder {
		return mismatch(s.since, "the lane is held by %s, not by %s", s.who(), holder.Short())
	}
	if epoch != 0 && s.epoch != epoch {
		return mismatch(s.since, "the lane is at epoch %d, not %d", s.epoch, epoch)
	}
	return nil
}

// newer checks the number of a call against the lane.
func (s laneState) newer(number int64) *misfit {
	if number <= s.claim {
		return mismatch(s.latest, "number %d is not above the lane's %d", number, s.claim)
	}
	return nil
}

// runs checks that the lane lists the run of a lease.
func (s laneState) runs(l *engine.Lease) *misfit {
	if m := s.grantedTo(l.Holder, l.Epoch); m != nil {
		return m
	}
	if !has(s.listed, entry{id: l.Delivery, claim: l.Claim}) {
		return mismatch(s.latest, "the lane lists %v, not #%d by claim %d", entries(s.listed), l.Delivery, l.Claim)
	}
	return nil
}

// mayTake checks the guards of TakeOver for a call with a number; clock is the
// latest that the store's clock may have read, 0: not known.
func (s laneState) mayTake(holder engine.Holder, number int64, clock engine.StoreTime) *misfit {
	if s.free() {
		if s.last == holder && number <= s.claim {
			return mismatch(s.since, "%s gave the lane back with number %d, and %d is not above it", holder.Short(), s.claim, number)
		}
		return nil
	}
	if s.holder == holder {
		return mismatch(s.since, "%s holds the lane itself and must not take it over", holder.Short())
	}
	if clock != 0 && s.expires > clock {
		return mismatch(s.since, "the lease of %s lasts until %d, and the store's clock was at most %d", s.who(), s.expires, clock)
	}
	return nil
}

// takenOver is the effect of TakeOver.
func (s laneState) takenOver(f Family, holder engine.Holder, number int64, by *op) laneState {
	next := laneState{epoch: s.epoch + 1, holder: holder, claim: number - 1, since: by, latest: by}
	if f == Snapshot {
		next.lost, next.lostHidden = s.lost, s.lostHidden || s.hidden
		for _, e := range s.listed {
			next.lost = withEntry(next.lost, e)
		}
	}
	return next
}

// uncharged reports whether takeovers have left something to charge.
func (s laneState) uncharged() bool { return len(s.lost) > 0 || s.lostHidden }

// charged is the effect of ChargeLost.
func (s laneState) charged() laneState {
	s.lost, s.lostHidden = nil, false
	return s
}

// claimed is the effect of Claim but for the expiry. Claims without an answer
// whose number it reaches can change the list no more.
func (s laneState) claimed(number int64, running, picks []entry, by *op) laneState {
	settled := number >= s.doubt
	var kept []entry
	for _, e := range s.listed {
		if !has(running, e) {
			continue
		}
		if settled {
			e.leaving &^= leavesUnstated
		}
		kept = append(kept, e)
	}
	s.listed, s.claim, s.latest = kept, number, by
	if settled {
		s.hidden, s.doubt = false, 0
	}
	for _, e := range picks {
		s.listed = withEntry(s.listed, e)
	}
	return s
}

// renewed is the effect of a renewal whose result was not told: the lease
// lasts as long as before, unless a shorter one was asked for, and as long as
// was asked for from when the call began.
func (s laneState) renewed(ttl time.Duration, floor engine.StoreTime) laneState {
	least := floor.Add(ttl)
	if ttl >= s.ttl {
		least = max(least, s.expires)
	}
	s.expires, s.ttl = least, ttl
	return s
}

// relinquished is the effect of Relinquish.
func (s laneState) relinquished(number int64, by *op) laneState {
	return laneState{
		epoch: s.epoch, last: s.holder, claim: number, since: by, latest: by,
		lost: s.lost, lostHidden: s.lostHidden,
	}
}

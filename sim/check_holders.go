package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// holders checks OneHolderPerLane: between two takeovers a lane accepts the
// calls of one holder only, and it is taken only from another holder, whose
// lease has run out by the store's clock.
//
// It lets the completions of a snapshot store pass: those of plain handlers
// are judged by the row's fence alone, the others by a snapshot that may be
// older than a takeover whose charge is still to come. FencedOut judges both.
type holders struct {
	unconcerned
	c *checks
}

func (*holders) name() string { return "OneHolderPerLane" }

func (k *holders) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.TakeOver:
		k.takenOver(&a)
	case protocol.Claim:
		k.judge(a.Lane, a.Holder, a.Name())
	case protocol.ExtendLease:
		if a.Verdict == protocol.Applied {
			k.judge(a.Lane, a.Holder, a.Name())
		}
	case protocol.Relinquish:
		if a.Verdict == protocol.Applied {
			k.judge(a.Lane, a.Holder, a.Name())
		}
	default:
		acceptedEnds(a, func(e end) {
			d := k.c.facts.delivery(e.lease.Delivery)
			if (e.plain || e.tx) && d != nil && (k.excused(d, e) || k.c.facts.byFence(e)) {
				return
			}
			if unlisted(a, e.lease) && k.c.facts.lane(e.lease.Lane).gaveBack == e.lease.Holder {
				return // judged before its holder gave the lane back
			}
			k.judge(e.lease.Lane, e.lease.Holder, e.action)
		})
	}
}

func (k *holders) takenOver(a *protocol.TakeOver) {
	l := k.c.facts.lane(a.Lane)
	switch {
	case l.holder.IsZero():
	case l.holder == a.Holder:
		k.c.fail(k.name(), k.name(), "%s took over lane %d, which it holds itself", a.Holder.Short(), a.Lane)
	case max(a.Now, a.Clock) < l.expires:
		k.c.fail(k.name(), k.name(), "%s took over lane %d, whose lease by %s ends in %v", a.Holder.Short(), a.Lane, l.holder.Short(), l.expires.Sub(a.Clock))
	}
}

// excused reports whether a completion may be accepted after a takeover: it is
// the repetition of one that counted, or of what awaits its charge.
func (k *holders) excused(d *deliveryFacts, e end) bool {
	return d.fate == completed && nameOf(d.ended) == nameOf(e.lease) || d.lost.Token == e.lease.Token
}

func (k *holders) judge(lane protocol.LaneID, holder protocol.Holder, action string) {
	if l := k.c.facts.lane(lane); l.holder != holder {
		k.c.fail(k.name(), k.name(), "lane %d, held by %s, accepted %s of %s", lane, l.holder.Short(), action, holder.Short())
	}
}

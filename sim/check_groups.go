package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// groups checks OneGroupPerHolder: a worker takes over, and claims from, lanes
// of the group that its bus was made for, and of no other. It knows groups by
// their names only. Of a lane, that of the bus whose Subscribe made it; of a
// worker, that of its configuration. So it does not believe the number that a
// call carries.
//
// It lets one thing pass. A failover may lose the Subscribe that gave a group
// its number, and another group gets it. A process from before the loss calls
// by the old number until it refreshes its subscriptions. It finds nothing that
// it can run in the lanes that were its group's, and gives them back.
type groups struct {
	unconcerned
	c      *checks
	lanes  []string   // the group of each lane, by id; "" where nobody made it
	before [][]string // the groups of each lane in histories that were lost
}

func (*groups) name() string { return "OneGroupPerHolder" }

func (k *groups) reset() {
	for id, group := range k.lanes {
		if group != "" && !slices.Contains(k.before[id], group) {
			k.before[id] = append(k.before[id], group)
		}
	}
	clear(k.lanes)
}

func (k *groups) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Subscribe:
		k.made(&a)
	case protocol.TakeOver:
		if !k.excused(a.Lane, a.Holder) {
			k.judge(a.Lane, a.Holder, "took over")
		}
	case protocol.Claim:
		k.judge(a.Lane, a.Holder, "claimed from")
	}
}

func (k *groups) made(a *protocol.Subscribe) {
	for _, id := range a.Lanes {
		for int(id) >= len(k.lanes) {
			k.lanes = append(k.lanes, "")
			k.before = append(k.before, nil)
		}
		k.lanes[id] = a.Group
	}
}

func (k *groups) judge(lane protocol.LaneID, holder protocol.Holder, did string) {
	if int(lane) >= len(k.lanes) {
		return // no such lane: the lock-step model judges it
	}
	if group, own := k.lanes[lane], k.c.w.groupOf(holder); group != own {
		k.c.fail(k.name(), k.name(), "%s of %q %s lane %d, which is of %q", holder.Short(), own, did, lane, group)
	}
}

// excused reports whether the lane was of the worker's group in a history that
// was lost after its process began.
func (k *groups) excused(lane protocol.LaneID, holder protocol.Holder) bool {
	if int(lane) >= len(k.before) || !slices.Contains(k.before[lane], k.c.w.groupOf(holder)) {
		return false
	}
	return slices.ContainsFunc(k.c.w.processes, func(p *process) bool {
		return p.holder == holder && p.losses < k.c.losses
	})
}

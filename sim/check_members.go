package sim

import (
	"hash/fnv"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// members checks LaneOfKey: a delivery's lane is that of its group and key, or
// of its event where there is no key; a claim picks from the lane it names
// alone; and a worker claims and takes over lanes of its own group alone.
//
// The order of keys and the charge of takeovers rest on it: both look at one
// lane at a time.
type members struct {
	unconcerned
	c      *checks
	lanes  []protocol.LaneID // by delivery, as committed
	groups []groupNumber     // by group of the workload
}

// groupNumber is the number that the store gave to a group.
type groupNumber struct {
	number int32
	known  bool
}

func (*members) name() string { return "LaneOfKey" }

func (k *members) fail(format string, args ...any) { k.c.fail(k.name(), k.name(), format, args...) }

func (k *members) reset() {
	k.lanes = k.lanes[:0]
	clear(k.groups)
}

func (k *members) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			for j := range a.Events[i].Deliveries {
				k.inserted(&a.Events[i].Deliveries[j])
			}
		}
	case protocol.TakeOver:
		k.ownGroup(a.Holder, a.Lane, a.Name())
	case protocol.Claim:
		k.ownGroup(a.Holder, a.Lane, a.Name())
		for i := range a.Picks {
			k.picked(&a, a.Picks[i].Delivery)
		}
	}
}

// inserted judges the lane of a new delivery.
func (k *members) inserted(row *protocol.Delivery) {
	for int(row.ID) >= len(k.lanes) {
		k.lanes = append(k.lanes, -1)
	}
	k.lanes[row.ID] = row.Lane
	h := k.c.w.handlerNamed(row.Handler)
	if h == nil {
		return
	}
	name := row.Key
	if name == "" {
		name = row.Event
	}
	sum := fnv.New32a()
	sum.Write([]byte(name))
	lanes := uint32(k.c.w.knobs.Lanes)
	if within := uint32(row.Lane) % lanes; within != sum.Sum32()%lanes {
		k.fail("#%d, %s of %s, key %q, has lane %d: within its group it should be %d", row.ID, row.Handler, row.Event, row.Key, row.Lane, sum.Sum32()%lanes)
		return
	}
	k.group(h.index%k.c.w.knobs.Groups, int32(row.Lane)/int32(lanes), row)
}

// group judges the group that a lane belongs to.
func (k *members) group(of int, number int32, row *protocol.Delivery) {
	for len(k.groups) < k.c.w.knobs.Groups {
		k.groups = append(k.groups, groupNumber{})
	}
	for i, g := range k.groups {
		if g.known && (i == of) != (g.number == number) {
			k.fail("#%d, %s of %s, of group %d has lane %d, and group %d has number %d", row.ID, row.Handler, row.Event, of, row.Lane, i, g.number)
			return
		}
	}
	k.groups[of] = groupNumber{number, true}
}

// picked judges where a claim found what it grants.
func (k *members) picked(a *protocol.Claim, id protocol.DeliveryID) {
	if id <= 0 || int(id) >= len(k.lanes) {
		return // NothingInvented judges it
	}
	if lane := k.lanes[id]; lane != a.Lane {
		k.fail("a claim of lane %d picks #%d of lane %d", a.Lane, id, lane)
	}
}

// ownGroup judges whose lane a worker asks for.
func (k *members) ownGroup(h protocol.Holder, lane protocol.LaneID, action string) {
	p := k.c.w.processOf(h)
	if p == nil || p.worker.group >= len(k.groups) || !k.groups[p.worker.group].known {
		return
	}
	lanes := int32(k.c.w.knobs.Lanes)
	if own := k.groups[p.worker.group].number; int32(lane)/lanes != own {
		k.fail("%s of lane %d by %s, whose group has number %d", action, lane, p.worker.name, own)
	}
}

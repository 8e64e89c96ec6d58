package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// due checks DueKept: what is put off is due exactly when its message says, by
// the store's clock, and no claim grants it sooner.
//
// A dead letter that an operator requeues is due at once; so is asked nothing
// of it any more.
type due struct {
	unconcerned
	c     *checks
	since []protocol.Time // by delivery: when it is due first; 0: nobody asks
}

func (*due) name() string { return "DueKept" }

func (k *due) reset() { k.since = k.since[:0] }

func (k *due) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			k.published(&a.Events[i], a.Now)
		}
	case protocol.Claim:
		for _, p := range a.Picks {
			if at := k.at(p.Delivery); at > a.Now {
				k.c.fail(k.name(), k.name(), "#%d is granted %v before it is due", p.Delivery, at.Sub(a.Now))
			}
		}
	case protocol.Requeue:
		for _, id := range a.Requeued {
			k.set(id, 0)
		}
	}
}

// published judges the deliveries of an event as they were inserted.
func (k *due) published(e *protocol.PublishEvent, now protocol.Time) {
	m, ok := k.c.w.plan.message(k.c.w.plan.indexOf(e.Event.ID))
	if !ok {
		return // NothingInvented judges it
	}
	want := dueOf(&m, now)
	for i := range e.Deliveries {
		d := &e.Deliveries[i]
		if d.AvailableAt != want {
			k.c.fail(k.name(), k.name(), "#%d, %s of %s, with a delay of %v and a time of %v, is due %v after it was published, want %v",
				d.ID, d.Handler, d.Event, m.Delay, m.At, d.AvailableAt.Sub(now), want.Sub(now))
		}
		k.set(d.ID, want)
		if want > now {
			probeDelayed.Hit()
		}
	}
}

// dueOf says when a message that is published now is due.
func dueOf(m *engine.Message, now protocol.Time) protocol.Time {
	if m.At.IsZero() {
		return now.Add(m.Delay)
	}
	return max(now, protocol.Time(m.At.UnixNano()))
}

func (k *due) at(id protocol.DeliveryID) protocol.Time {
	if int(id) >= len(k.since) {
		return 0
	}
	return k.since[id]
}

func (k *due) set(id protocol.DeliveryID, at protocol.Time) {
	if grow := int(id) + 1 - len(k.since); grow > 0 {
		k.since = append(k.since, slices.Repeat([]protocol.Time{0}, grow)...)
	}
	k.since[id] = at
}

package linearize

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
)

// What the calls of an operator say about deliveries. Their answers are counts,
// so which rows they wrote is often a guess.

// requeued is what a Requeue did: back are deliveries that were dead and are
// pending again, perhaps those of which it may be so, kept those that were not
// dead.
type requeued struct{ back, perhaps, kept []*delivery }

func (f *facts) requeued(o *op, in *engine.RequeueInput) (r requeued) {
	reply, settled := o.Output.(engine.RequeueReply)
	if len(in.IDs) == 0 {
		if !settled || reply.Requeued > 0 {
			r.perhaps = slices.DeleteFunc(slices.Clone(f.deliveries), func(d *delivery) bool { return !selects(&in.Filter, d) })
		}
		return r
	}
	ids := slices.Clone(in.IDs)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for _, id := range ids {
		meant := f.byID[id]
		switch {
		case !settled || len(meant) != 1 || reply.Requeued != 0 && reply.Requeued != len(ids):
			r.perhaps = append(r.perhaps, meant...)
		case reply.Requeued == 0:
			r.kept = append(r.kept, meant...)
		default:
			r.back = append(r.back, meant...)
		}
	}
	return r
}

// selects reports whether a filter may select a delivery.
func selects(f *engine.Filter, d *delivery) bool {
	return (f.Handler == "" || f.Handler == d.Handler) && (f.EventID == "" || f.EventID == d.Event) &&
		(f.Key == "" || f.Key == d.key)
}

// purged says what a Purge may have deleted.
type purged struct{ dead, events, swept bool }

func (o *op) purged() purged {
	reply, settled := o.Output.(engine.PurgeReply)
	if !settled {
		return purged{true, true, true}
	}
	return purged{reply.Dead > 0, reply.Events > 0, reply.Swept > 0}
}

// reborn returns the deliveries of which a Purge may have made room for a new
// row: the event was published more than once.
func (f *facts) reborn(o *op) []*delivery {
	if p := o.purged(); !p.dead && !p.events {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.deliveries), func(d *delivery) bool { return d.publishes < 2 })
}

// sweptBy returns the deliveries that an Unsubscribe or a Purge may have buried
// or deleted although they were pending.
func (f *facts) sweptBy(o *op) []*delivery {
	var swept func(d *delivery) bool
	switch in := o.Input.(type) {
	case engine.UnsubscribeInput:
		if reply, ok := o.Output.(engine.UnsubscribeReply); ok && reply.Swept == 0 {
			return nil
		}
		swept = func(d *delivery) bool { return d.Handler == in.Handler }
	case engine.PurgeInput:
		if !o.purged().swept {
			return nil
		}
		swept = func(d *delivery) bool { return f.removed[d.Handler] }
	}
	return slices.DeleteFunc(slices.Clone(f.deliveries), func(d *delivery) bool { return !swept(d) })
}

// hides says what it means that a List does not show a delivery: it is not
// pending, not dead, or neither.
func hides(in *engine.ListInput, reply *engine.ListReply, d *delivery) (pending, dead bool) {
	f := &in.Filter
	covered := in.After == 0 && reply.Next == 0 || d.id > in.After && (reply.Next == 0 || d.id <= reply.Next)
	if !covered || !selects(f, d) || f.EventType != "" || f.DiedSince != 0 || f.DiedUntil != 0 || f.Key != "" && !d.seen {
		return false, false
	}
	if f.Status != nil {
		wanted := engine.Delivery{Status: *f.Status}
		return !isDead(&wanted), isDead(&wanted)
	}
	return true, true
}

package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// keyOrder checks KeyOrder: of one (handler, key) no two runs are under way
// at once that the store would both accept, sequences follow the commits, and
// deliveries start and complete in the order in which they were committed. Deliveries
// that were dead and brought back have given their place up.
//
// It does not look at runs whose lease the store no longer accepts: a worker
// that is taken for dead may overlap with its successor.
type keyOrder struct {
	unconcerned
	c *checks
}

func (*keyOrder) name() string { return "KeyOrder" }

func (k *keyOrder) started(r *handlerRun) {
	mine := r.run.Picked
	if mine.Delivery.Key == "" || !k.c.facts.accepted(mine.Lease) {
		return
	}
	if r.p.losses == k.c.losses {
		k.inTurn(r)
	}
	for _, p := range k.c.w.processes {
		for _, o := range p.runs {
			if o != r && o.running && k.overlaps(mine.Delivery, o) {
				k.c.fail(k.name(), k.name(), "%s runs %v and %v of key %q at once", r.handler.name, o.run.Picked.Lease, mine.Lease, mine.Delivery.Key)
			}
		}
	}
}

// inTurn judges whether it is the delivery's turn: each earlier one of its key
// is over, or it is of a plain handler and its body has returned in the same
// process, so that its completion is on its way. While the store has lost
// nothing, that is.
func (k *keyOrder) inTurn(r *handlerRun) {
	d := k.c.facts.delivery(r.run.Picked.Delivery.ID)
	if d.requeued {
		return
	}
	for _, earlier := range d.queue.all {
		if earlier == d {
			return
		}
		if earlier.fate != pending || earlier.requeued {
			continue
		}
		if r.handler.transactional || earlier.granted.Holder != d.granted.Holder || !k.c.effects.success[nameOf(earlier.granted)] {
			k.c.fail(k.name(), k.name(), "%s runs %s of key %q while the earlier %s is pending", d.handler, d.event, d.key, earlier.event)
			return
		}
	}
}

func (k *keyOrder) overlaps(mine protocol.Delivery, o *handlerRun) bool {
	theirs := o.run.Picked
	return theirs.Delivery.Handler == mine.Handler && theirs.Delivery.Key == mine.Key &&
		k.c.facts.accepted(theirs.Lease)
}

func (k *keyOrder) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			for j := range a.Events[i].Deliveries {
				k.published(&a.Events[i].Deliveries[j])
			}
		}
	case protocol.CompleteMany:
		for i := range a.Leases {
			if a.Verdicts[i] == protocol.Applied {
				k.completes(a.Leases[i], a.Leases[:i], a.Verdicts)
			}
		}
	case protocol.Complete:
		if a.Verdict == protocol.Applied {
			k.completes(a.Lease, nil, nil)
		}
	}
}

// published judges the place of a new delivery.
func (k *keyOrder) published(row *protocol.Delivery) {
	q := k.c.facts.queues[queueName{row.Handler, row.Key}]
	if row.Key == "" || q == nil {
		return
	}
	if last := q.all[len(q.all)-1]; last.sequence >= row.Sequence {
		k.c.fail(k.name(), k.name(), "%s of %s, key %q, has sequence %d but was committed after %s with %d",
			row.Handler, row.Event, row.Key, row.Sequence, last.event, last.sequence)
	}
}

// completes judges a completion; before are the leases that stand before it
// in the same call.
func (k *keyOrder) completes(lease protocol.Lease, before []protocol.Lease, verdicts []protocol.Verdict) {
	d := k.c.facts.delivery(lease.Delivery)
	if d == nil || d.queue == nil || d.fate == completed || d.requeued {
		return
	}
	for _, earlier := range d.queue.all {
		if earlier == d {
			return
		}
		if earlier.fate == pending && !earlier.requeued && !appliedBefore(earlier.id, before, verdicts) {
			k.c.fail(k.name(), k.name(), "%s completed %s of key %q while the earlier %s is pending", d.handler, d.event, d.key, earlier.event)
			return
		}
	}
}

func appliedBefore(id protocol.DeliveryID, before []protocol.Lease, verdicts []protocol.Verdict) bool {
	for i := range before {
		if before[i].Delivery == id && verdicts[i] == protocol.Applied {
			return true
		}
	}
	return false
}

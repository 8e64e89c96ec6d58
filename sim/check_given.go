package sim

import (
	"bytes"
	"context"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// given checks GivenAsPublished: each run of a handler's body gets its event as
// it was published, whatever other runs did to their copies, and is told the
// truth about its delivery, lease and attempt.
//
// What comes from a row is judged only while the store has lost no commit that
// the process had heard of; the rest follows from the event's index alone.
type given struct {
	unconcerned
	c      *checks
	events map[string]protocol.Time // when each was published
	rows   []protocol.Time          // the same by delivery, which outlives its event
}

func (*given) name() string { return "GivenAsPublished" }

func (k *given) reset() {
	clear(k.events)
	k.rows = k.rows[:0]
}

func (k *given) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			k.published(&a.Events[i])
		}
	case protocol.Purge:
		for _, id := range a.Events {
			delete(k.events, id)
		}
	}
}

func (k *given) published(e *protocol.PublishEvent) {
	if e.Result == protocol.Mismatch {
		return
	}
	if k.events == nil {
		k.events = map[string]protocol.Time{}
	}
	at, known := k.events[e.Event.ID]
	if !known {
		at = e.Event.PublishedAt
		k.events[e.Event.ID] = at
	}
	for i := range e.Deliveries {
		id := int(e.Deliveries[i].ID)
		for id >= len(k.rows) {
			k.rows = append(k.rows, 0)
		}
		k.rows[id] = at
	}
}

// received judges what a body was called with.
func (k *given) received(ctx context.Context, r *handlerRun, e *engine.Event[[]byte]) {
	lease := &r.run.Picked.Lease
	d := k.c.facts.delivery(lease.Delivery)
	info, ok := engine.DeliveryFrom(ctx)
	switch {
	case r.p.losses != k.c.losses: // the id may be another event's by now
		return
	case d == nil:
		k.fail("%v runs and was never committed", *lease)
		return
	case !ok:
		k.fail("the context of %v does not know its delivery", *lease)
		return
	}
	k.event(d, e)
	k.info(d, lease, &info)
	k.attempt(d, r, e, &info)
}

func (k *given) fail(format string, args ...any) { k.c.fail(k.name(), k.name(), format, args...) }

// event judges the event that a body got.
func (k *given) event(d *deliveryFacts, e *engine.Event[[]byte]) {
	w := k.c.w
	i := w.plan.indexOf(d.event)
	m, ok := w.plan.message(i)
	if !ok {
		return // NothingInvented judges it
	}
	payload, headers := w.contents(i)
	switch {
	case e.ID != d.event || e.Type != m.Type || e.Key != m.Key:
		k.fail("%s of %s, type %s and key %q, got event %s, type %s and key %q", d.handler, d.event, m.Type, m.Key, e.ID, e.Type, e.Key)
	case !bytes.Equal(e.Payload, payload):
		k.fail("%s of %s got the payload %x, published was %x", d.handler, d.event, e.Payload, payload)
	case !slices.Equal(e.Headers, headers):
		k.fail("%s of %s got the headers %v, published were %v", d.handler, d.event, e.Headers, headers)
	case !e.PublishedAt.Equal(k.rows[d.id].Std()):
		k.fail("%s of %s is told that it was published at %v, not %v", d.handler, d.event, e.PublishedAt, k.rows[d.id].Std())
	}
}

// info judges what the context says. Its event must be the one that the body
// got.
func (k *given) info(d *deliveryFacts, lease *protocol.Lease, info *engine.DeliveryInfo) {
	switch {
	case info.Delivery != d.id || info.Event != d.event || info.Handler != d.handler || info.Key != d.key || info.Sequence != d.sequence:
		k.fail("the context of #%d, %s of %s, key %q, sequence %d, says #%d, %s of %s, key %q, sequence %d",
			d.id, d.handler, d.event, d.key, d.sequence, info.Delivery, info.Handler, info.Event, info.Key, info.Sequence)
	case info.Lane != lease.Lane || info.Token != lease.Token.String():
		k.fail("the context of %v says lane %d and token %s", *lease, info.Lane, info.Token)
	}
}

// attempt judges the count of attempts: what was charged since the last
// requeue, and one. While the delivery is no longer granted, or was requeued
// meanwhile, what the run was told is old; it must agree with itself.
func (k *given) attempt(d *deliveryFacts, r *handlerRun, e *engine.Event[[]byte], info *engine.DeliveryInfo) {
	limit := r.handler.maxAttempts
	if e.Attempt != info.Attempt || e.MaxAttempts != limit || info.MaxAttempts != limit {
		k.fail("%s of %s gets attempt %d of %d and its context says %d of %d; the limit is %d",
			d.handler, d.event, e.Attempt, e.MaxAttempts, info.Attempt, info.MaxAttempts, limit)
		return
	}
	if d.changed || d.granted.Token != r.run.Picked.Lease.Token {
		return
	}
	if e.Attempt != int(d.charges)+1 {
		k.fail("%s of %s is told that this is attempt %d, charged were %d", d.handler, d.event, e.Attempt, d.charges)
	}
}

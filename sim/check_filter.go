package sim

import (
	"context"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// The fields that an operator's filter may name; byIDs is no filter.
const (
	byIDs = iota
	byHandler
	byKey
	byType
	byEventID
	byDeath
	byHandlerAndKey
	byHandlerAndType
	filters
)

// filterOf makes a filter that selects the letter, and perhaps others.
func (w *world) filterOf(way int, d *protocol.Delivery) (f engine.Filter) {
	m, _ := w.plan.message(w.plan.indexOf(d.Event))
	switch way {
	case byHandler, byHandlerAndKey, byHandlerAndType:
		f.Handler = d.Handler
	case byType:
		f.EventType = m.Type
	case byEventID:
		f.EventID = d.Event
	case byDeath: // the bounds are exact: since is in, until is out
		f.DiedSince, f.DiedUntil = d.DiedAt, d.DiedAt+1
		if d.ID%2 == 0 {
			f.DiedSince, f.DiedUntil = d.DiedAt.Add(-4*w.knobs.Lease), d.DiedAt
		}
	}
	switch way {
	case byKey, byHandlerAndKey:
		f.Key = d.Key
	case byHandlerAndType:
		f.EventType = m.Type
	}
	if f == (engine.Filter{}) {
		f.EventID = d.Event // a letter without a key
	}
	return f
}

// selected reports whether the filter selects the letter, judged by what was
// published.
func (w *world) selected(f *engine.Filter, d *protocol.Delivery) bool {
	m, ok := w.plan.message(w.plan.indexOf(d.Event))
	return ok && d.Status == protocol.Dead &&
		(f.Handler == "" || f.Handler == d.Handler) &&
		(f.Key == "" || f.Key == m.Key) &&
		(f.EventType == "" || f.EventType == m.Type) &&
		(f.EventID == "" || f.EventID == m.ID) &&
		d.DiedAt >= f.DiedSince && (f.DiedUntil == 0 || d.DiedAt < f.DiedUntil)
}

// requeueing is a Requeue by filter at work.
type requeueing struct {
	filter  engine.Filter
	limit   int
	letters map[protocol.DeliveryID]protocol.Delivery // dead when it began, or since
}

// filtered checks FilterKept: a requeue by filter brings back letters that the
// filter selects and no others, and all of them that were dead before it began
// and are dead still when it returns.
type filtered struct {
	unconcerned
	c *checks
}

func (*filtered) name() string { return "FilterKept" }

func (k *filtered) action(_ int64, a protocol.Action) {
	requeue, ok := a.(protocol.Requeue)
	t := k.c.w.current
	if !ok || k.c.rewinding || t == nil || t.requeueing == nil {
		return
	}
	for _, id := range requeue.Requeued {
		d, ok := t.requeueing.letters[id]
		if !ok {
			continue // died since
		}
		if !k.c.w.selected(&t.requeueing.filter, &d) {
			k.c.fail(k.name(), k.name(), "a requeue by %+v brought back #%d, %s of %s", t.requeueing.filter, id, d.Handler, d.Event)
		}
	}
}

// requeueBy requeues by a filter that selects the letter.
func (w *world) requeueBy(way, limit int, letter protocol.DeliveryID) {
	first, ok := w.store.Delivery(letter)
	if !ok {
		return
	}
	r := &requeueing{filter: w.filterOf(way, &first), limit: limit, letters: map[protocol.DeliveryID]protocol.Delivery{}}
	before := w.store.Snapshot().Deliveries
	for _, d := range before {
		if d.Status == protocol.Dead {
			r.letters[d.ID] = d
		}
	}
	w.current.requeueing = r
	reply, err := operate(w, (*simstore.Store).Requeue, engine.RequeueInput{Filter: r.filter, Limit: limit})
	w.current.requeueing = nil
	if err == nil {
		w.checks.filtered.done(r, before, reply.Requeued)
	}
}

// done judges what a requeue that succeeded left behind.
func (k *filtered) done(r *requeueing, before []protocol.Delivery, n int) {
	probeFiltered.Hit()
	if r.limit > 0 {
		if n > r.limit {
			k.c.fail(k.name(), k.name(), "a requeue of at most %d brought back %d", r.limit, n)
		}
		return
	}
	for i := range before {
		d := &before[i]
		now, ok := k.c.w.store.Delivery(d.ID)
		if ok && now.Status == protocol.Dead && now.DiedAt == d.DiedAt && k.c.w.selected(&r.filter, d) {
			k.c.fail(k.name(), k.name(), "a requeue by %+v left #%d, %s of %s, dead", r.filter, d.ID, d.Handler, d.Event)
		}
	}
}

// look lets an operator read: nothing may come of it but an answer that is
// true.
func (w *world) look() {
	if w.down {
		return
	}
	t := w.spawn(operatorRole, operatorClient, func() {
		ctx := context.Background()
		if s, err := w.store.Statistics(ctx); err == nil {
			w.checks.looks.statistics(&s)
		}
		in := engine.ListInput{Limit: 3}
		for page := 0; page < 100; page++ {
			reply, err := w.store.List(ctx, in)
			if err != nil {
				break
			}
			w.checks.looks.page(&in, &reply)
			if in.After = reply.Next; in.After == 0 {
				break
			}
		}
		if reply, err := w.store.Verify(ctx); err == nil {
			for _, f := range reply.Findings {
				if f.Check == "stuck" {
					continue // it says so of rows that the store refuses
				}
				w.checks.looks.fail("Verify found: %s: %s", f.Check, f.Detail)
			}
		}
	})
	t.start()
}

// looks checks OperatorSees: what an operator is told of a store is possible,
// and Verify finds nothing wrong with it but rows that the store refuses.
type looks struct {
	unconcerned
	c *checks
}

func (*looks) name() string { return "OperatorSees" }

func (k *looks) fail(format string, args ...any) { k.c.fail(k.name(), k.name(), format, args...) }

func (k *looks) statistics(s *engine.Statistics) {
	probeLooked.Hit()
	pending, dead := 0, 0
	for i := range s.Handlers {
		pending += s.Handlers[i].Pending
		dead += s.Handlers[i].Dead
	}
	switch {
	case s.Due > s.Pending || s.Due+s.Running+s.Waiting > s.Pending:
		k.fail("%d due, %d running and %d waiting of %d pending", s.Due, s.Running, s.Waiting, s.Pending)
	case pending != s.Pending || dead != s.Dead:
		k.fail("the handlers have %d pending and %d dead, all together %d and %d", pending, dead, s.Pending, s.Dead)
	case (s.OldestDue != 0) != (s.Due > 0) || s.OldestDue > s.Now:
		k.fail("%d are due, the oldest since %v, now is %v", s.Due, s.OldestDue, s.Now)
	case s.Held+s.Expired > k.c.w.lanesInAll():
		k.fail("%d lanes held and %d expired of %d", s.Held, s.Expired, k.c.w.lanesInAll())
	}
}

func (k *looks) page(in *engine.ListInput, reply *engine.ListReply) {
	last := in.After
	for i := range reply.Deliveries {
		d := &reply.Deliveries[i]
		switch {
		case d.Delivery.ID <= last:
			k.fail("a page of List has #%d after #%d", d.Delivery.ID, last)
		case d.Event == nil || d.Event.ID != d.Delivery.Event:
			k.fail("List has #%d without its event", d.Delivery.ID)
		}
		last = d.Delivery.ID
	}
	if len(reply.Deliveries) > in.Limit || reply.Next != 0 && reply.Next != last {
		k.fail("a page of List has %d rows of at most %d, the next is after #%d", len(reply.Deliveries), in.Limit, reply.Next)
	}
}

package sim

import (
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// purging is one Purge at work, with the ages that were meant: those that the
// store was given may have been mixed up on their way.
type purging struct {
	ages  engine.Retention
	begun protocol.Time // by the store's clock
	ended protocol.Time // 0: it is at work, or was killed
}

// ages checks AgesKept: a purge deletes what is older than the age of its own
// kind, to the nanosecond by the store's clock: dead letters since their death,
// events since they were published, completions since they were committed.
//
// What it leaves behind is not judged: rows that others have locked are passed
// over.
type ages struct {
	unconcerned
	c         *checks
	died      map[protocol.DeliveryID]protocol.Time
	published map[string]protocol.Time
	purges    []*purging // all there were
}

func (*ages) name() string { return "AgesKept" }

func (k *ages) reset() { clear(k.died); clear(k.published) }

func (k *ages) action(_ int64, a protocol.Action) {
	switch a := a.(type) {
	case protocol.Publish:
		for i := range a.Events {
			if _, known := k.published[a.Events[i].Event.ID]; !known {
				k.published[a.Events[i].Event.ID] = a.Now
			}
		}
	case protocol.Bury:
		if a.Verdict == protocol.Applied && !a.Refused {
			k.died[a.Lease.Delivery] = a.Now
		}
	case protocol.Unsubscribe:
		for _, id := range a.Swept {
			k.died[id] = a.Now
		}
	case protocol.Purge:
		k.purged(&a)
	}
}

func (k *ages) purged(a *protocol.Purge) {
	t := k.c.w.current
	if !k.c.rewinding && t != nil && t.purging != nil {
		p := t.purging
		for _, id := range a.Dead {
			k.judge(p, "a dead letter", p.ages.DeadAfter, k.died[id], a.DiedTo)
		}
		for _, id := range a.Events {
			k.judge(p, "an event", p.ages.EventsAfter, k.published[id], a.EventsTo)
		}
	}
	for _, id := range a.Events {
		delete(k.published, id)
	}
}

// judge judges one row that went: since is when its age began, to is the bound
// that the store used, which must be the age before some moment of the call.
func (k *ages) judge(p *purging, what string, age time.Duration, since, to protocol.Time) {
	now := k.c.w.storeClock()
	switch at := to.Add(age); {
	case age == 0:
		k.c.fail(k.name(), k.name(), "a purge that keeps such for ever deleted %s", what)
	case since >= to:
		k.c.fail(k.name(), k.name(), "a purge deleted %s that is %v younger than its bound", what, since.Sub(to))
	case at < p.begun || at > now:
		k.c.fail(k.name(), k.name(), "a purge deleted %s by a bound %v ago, its age is %v", what, now.Sub(to), age)
	}
}

// purge calls Purge in the current task. The ages are those that were meant.
func (w *world) purge(s *simstore.Store, meant engine.Retention, call func() (engine.PurgeReply, error)) (engine.PurgeReply, error) {
	t := w.current
	t.purging = &purging{ages: meant, begun: w.storeClock()}
	w.checks.ages.purges = append(w.checks.ages.purges, t.purging)
	before := w.completions(s)
	done, err := call()
	w.checks.ages.history(t.purging, before, w.completions(s))
	t.purging.ended = w.storeClock()
	t.purging = nil
	if done.History > 0 {
		probeHistoryPurged.Hit()
	}
	return done, err
}

// completions returns the history of completions, if there is one.
func (w *world) completions(s *simstore.Store) []simstore.Completion {
	if !w.knobs.History || w.checks.deaf {
		return nil
	}
	return s.Snapshot().Completions
}

// history judges the completions that went during a purge. Others may be at
// work beside it, so what counts is the youngest age that anybody asked for.
func (k *ages) history(p *purging, before, after []simstore.Completion) {
	least := p.ages.HistoryAfter
	for _, o := range k.purges {
		age := o.ages.HistoryAfter
		if age != 0 && (o.ended == 0 || o.ended >= p.begun) && (least == 0 || age < least) {
			least = age
		}
	}
	type name struct {
		id protocol.DeliveryID
		at protocol.Time
	}
	left := make(map[name]bool, len(after))
	for i := range after {
		left[name{after[i].Delivery.ID, after[i].At}] = true
	}
	now := k.c.w.storeClock()
	for i := range before {
		row := &before[i]
		if left[name{row.Delivery.ID, row.At}] {
			continue
		}
		if age := now.Sub(row.At); least == 0 || age <= least {
			k.c.fail(k.name(), k.name(), "a purge deleted a completion %v after it, its age is %v", age, least)
		}
	}
}

package simstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// publication is one Publish at work.
type publication struct {
	t       *Tx
	batch   *picks.Batch
	entries []*entry // one per distinct id, in input order
}

// entry is one event to publish.
type entry struct {
	protocol.PublishEvent
	lanes []protocol.LaneID // per subscribed handler
	added []int             // indexes into Subscribed of the handlers to add
	due   protocol.Due
}

// Publish writes the events and a delivery per subscribed handler inside tx.
// An id that is known already gets deliveries for the handlers it never had
// one for; with another type or key it adds nothing and the result says
// Mismatch. The results are in the order of the events.
//
// Publish.tla, action Publish. Locks: slots in slot order, then events in id
// order, as PostgreSQL does; each keyed delivery's sequence is drawn while its
// slot is locked. A Snapshot store writes the slots of those that add something.
func (s *Store) Publish(ctx context.Context, tx *Tx, events []protocol.Event) ([]engine.PublishResult, error) {
	if err := s.mine(tx); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, nil
	}
	var results []engine.PublishResult
	err := tx.run(func() error {
		p, err := newPublication(tx, events)
		if err != nil {
			return err
		}
		if err := p.readSubscriptions(ctx); err != nil {
			return err
		}
		if err := p.write(ctx); err != nil {
			return err
		}
		results = p.conclude()
		return nil
	})
	return results, err
}

// mine refuses a transaction of another store.
func (s *Store) mine(tx *Tx) error {
	if tx == nil || tx.store != s {
		return fmt.Errorf("simstore: %w: the transaction is not one of this store", engine.ErrInvalid)
	}
	return nil
}

// newPublication takes the events over, each id once.
func newPublication(t *Tx, events []protocol.Event) (*publication, error) {
	batch, err := picks.NewBatch(events)
	if err != nil {
		return nil, fmt.Errorf("simstore: %w", err)
	}
	p := &publication{t: t, batch: batch}
	for _, given := range batch.Events {
		e := &entry{}
		e.Event = *given
		e.Event.Payload = bytes.Clone(given.Payload)
		e.Event.Headers = slices.Clone(given.Headers)
		e.due, e.Event.Due = given.Due, protocol.Due{}
		e.Event.Handlers = nil
		p.entries = append(p.entries, e)
	}
	return p, nil
}

// readSubscriptions finds who wants the events, in a statement of its own: a
// publisher needs no code of the handlers.
func (p *publication) readSubscriptions(ctx context.Context) error {
	st, err := p.t.statement(ctx, "read subscriptions")
	if err != nil {
		return err
	}
	for _, e := range p.entries {
		for _, r := range p.t.db.subscribers(e.Event.Type) {
			v := r.seen(p.t, st.snap)
			if v == nil || v.value.Removed {
				continue
			}
			group := read(&st, p.t.db.groups, v.value.Group)
			if group == nil {
				continue
			}
			e.Subscribed = append(e.Subscribed, v.value.Handler)
			e.lanes = append(e.lanes, p.t.store.laneOf(*group, &e.Event))
		}
	}
	return nil
}

// subscribers returns the subscriptions of an event type, sorted by handler.
func (db *database) subscribers(event string) []*subscriptionRow {
	if list := db.subs.byEvent[event]; list != nil {
		return list.items
	}
	return nil
}

func (s *Store) laneOf(group int32, e *protocol.Event) protocol.LaneID {
	key := e.Key
	if mutant.On("lane-from-event-id") {
		key = ""
	}
	return protocol.LaneOf(group, s.options.Lanes, key, e.ID)
}

// write inserts events and deliveries. A locking store locks the slots in a
// statement before, so that whoever waits for a slot has no event locked that
// the holder of the slot may want.
func (p *publication) write(ctx context.Context) error {
	t := p.t
	slotsFirst := t.db.semantics == protocol.Locking && !mutant.On("sequence-before-slot-lock")
	if slotsFirst && len(p.batch.Slots) > 0 {
		st, err := t.statement(ctx, "lock slots")
		if err == nil {
			err = p.lockSlots(&st, p.batch.Slots)
		}
		if err != nil {
			return err
		}
	}
	st, err := t.statement(ctx, "insert events")
	if err != nil {
		return err
	}
	for _, e := range p.inIDOrder() {
		if err := p.insertEvent(&st, e); err != nil {
			return err
		}
	}
	if mutant.On("sequence-before-slot-lock") && t.db.semantics == protocol.Locking {
		p.drawAll(&st)
	}
	if slots := p.slotsToWrite(); !slotsFirst && len(slots) > 0 {
		st.step = "lock slots"
		if err := st.pause("lock slots"); err != nil {
			return err
		}
		if err := p.lockSlots(&st, slots); err != nil {
			return err
		}
	}
	p.drawAll(&st)
	for _, e := range p.entries {
		for i := range e.Deliveries {
			d := e.Deliveries[i]
			insert(t, t.db.deliveries, d.ID, &d)
		}
	}
	return nil
}

func (p *publication) inIDOrder() []*entry {
	list := slices.Clone(p.entries)
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.Event.ID, b.Event.ID) })
	return list
}

// insertEvent inserts the event, or adds handlers to the one that is there.
// The handlers to add are computed from the locked row: computed from the
// statement's snapshot, or not at all as by DO NOTHING, they would miss one
// that another publisher of the same id left out. The row is written even when
// nothing is added, so that a Purge of the event waits or conflicts.
func (p *publication) insertEvent(st *stmt, e *entry) error {
	t := p.t
	e.Event.PublishedAt = t.now
	unseen := read(st, t.db.events, e.Event.ID) == nil
	_, err := upsert(st, t.db.events, e.Event.ID, func(known *protocol.Event) *protocol.Event {
		if known != nil && unseen {
			sameID.Hit()
		}
		e.compare(t, known)
		var event protocol.Event
		if known == nil {
			event = e.Event
		} else {
			event = *known
		}
		event.Handlers = e.remembered(event.Handlers)
		return &event
	})
	return err
}

// compare decides the result of the event, and which handlers it adds.
func (e *entry) compare(t *Tx, known *protocol.Event) {
	e.added = e.added[:0]
	e.Result = protocol.Added
	if known == nil {
		for i := range e.Subscribed {
			e.added = append(e.added, i)
		}
		if mutant.On("unique-on-event-only") && len(e.added) > 1 {
			e.added = e.added[:1]
		}
		return
	}
	had := known.Handlers
	if mutant.On("handlers-memory-dropped") {
		had = t.db.handlersWithRows(e.Event.ID)
	}
	missing := picks.Missing(e.Subscribed, had)
	e.Result = picks.Compare(known, &e.Event, len(missing) > 0)
	switch e.Result {
	case protocol.Added:
		e.added = append(e.added, missing...)
		handlersAdded.Hit()
	case protocol.Known:
		knownEvents.Hit()
	}
}

// handlersWithRows returns the handlers that have a delivery row for the
// event now. Only a planted bug asks: completed ones have none.
func (db *database) handlersWithRows(event string) []string {
	var handlers []string
	for _, r := range db.index.byEvent[event] {
		if d := r.committed(); d != nil {
			handlers = append(handlers, d.Handler)
		}
	}
	return handlers
}

// remembered returns the event's handlers with the added ones, sorted.
func (e *entry) remembered(had []string) []string {
	all := slices.Clone(had)
	for _, i := range e.added {
		if !slices.Contains(all, e.Subscribed[i]) {
			all = append(all, e.Subscribed[i])
		}
	}
	slices.Sort(all)
	return all
}

// slotsToWrite returns the slots of the keys that get a delivery, ascending.
func (p *publication) slotsToWrite() []int32 {
	var slots []int32
	for _, e := range p.entries {
		if e.Event.Key != "" && len(e.added) > 0 {
			slots = append(slots, protocol.SlotOf(e.Event.Key))
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// lockSlots locks slots in the order given.
func (p *publication) lockSlots(st *stmt, slots []int32) error {
	t, db := p.t, p.t.db
	for _, slot := range slots {
		r := db.slots.rows[slot]
		if r == nil {
			r = db.slots.seed(slot, new(int64))
		}
		if db.semantics == protocol.Snapshot {
			if err := own(t, r); err != nil {
				return err
			}
			continue
		}
		if !r.free(t, forNoKeyUpdate) {
			slotWaits.Hit()
		}
		if err := t.acquire(st.ctx, &r.rowLock, forNoKeyUpdate, wait, st.at(nil)); err != nil {
			return err
		}
	}
	if db.semantics == protocol.Locking && t.store.options.PublishIdle > 0 {
		t.allowIdle(t.store.options.PublishIdle)
	}
	return nil
}

// drawAll makes the deliveries with their ids and sequences: per key in input
// order. What was drawn already stays.
func (p *publication) drawAll(st *stmt) {
	for _, e := range p.entries {
		for _, i := range e.added[len(e.Deliveries):] {
			e.Deliveries = append(e.Deliveries, p.draw(st, e, i))
		}
	}
}

// draw makes the delivery of one handler.
func (p *publication) draw(st *stmt, e *entry, i int) protocol.Delivery {
	t, db := p.t, p.t.db
	d := protocol.Delivery{
		Event: e.Event.ID, Handler: e.Subscribed[i], Lane: e.lanes[i], Key: e.Event.Key,
		AvailableAt: e.due.From(t.now),
	}
	if db.semantics == protocol.Locking {
		d.ID = db.sequence.draw()
		d.Sequence = int64(d.ID)
		return d
	}
	d.ID = db.sequence.drawFrom(int(t.id & 1))
	if d.Key != "" {
		slot := protocol.SlotOf(d.Key)
		n := *read(st, db.slots, slot) + 1
		update(t, db.slots, slot, &n)
		d.Sequence = n
	}
	return d
}

// conclude records the action and returns the results in input order.
func (p *publication) conclude() []engine.PublishResult {
	action := protocol.Publish{Now: p.t.now, Events: make([]protocol.PublishEvent, len(p.entries))}
	for i, e := range p.entries {
		action.Events[i] = e.PublishEvent
		p.batch.Say(i, e.Result)
	}
	p.t.note(action, p.t.db.pos)
	return p.batch.Results()
}

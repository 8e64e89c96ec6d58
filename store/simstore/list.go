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
)

// List returns deliveries by id, a page at a time.
func (s *Store) List(ctx context.Context, in engine.ListInput) (engine.ListReply, error) {
	if in.Limit < 0 || in.Limit > engine.MaxList {
		return engine.ListReply{}, fmt.Errorf("simstore: list: %w: limit %d, at most %d", engine.ErrInvalid, in.Limit, engine.MaxList)
	}
	if in.Limit == 0 {
		in.Limit = engine.DefaultList
	}
	var reply engine.ListReply
	err := s.serve(ctx, "List", func(c *call) error {
		return c.look("list", func(st *stmt) error {
			reply = c.list(st, &in)
			return nil
		})
	})
	if err != nil {
		return engine.ListReply{}, err
	}
	return reply, nil
}

func (c *call) list(st *stmt, in *engine.ListInput) engine.ListReply {
	reply := engine.ListReply{Now: st.tx.now}
	var rows []*protocol.Delivery
	eachRow(st, c.db.deliveries, func(id protocol.DeliveryID, d *protocol.Delivery) {
		if id > in.After && selects(&in.Filter, d, read(st, c.db.events, d.Event)) {
			rows = append(rows, d)
		}
	})
	slices.SortFunc(rows, func(a, b *protocol.Delivery) int { return cmp.Compare(a.ID, b.ID) })
	if len(rows) > in.Limit {
		rows = rows[:in.Limit]
		reply.Next = rows[in.Limit-1].ID
	}
	flying := inFlight(st)
	for _, d := range rows {
		listed := engine.Listed{Delivery: *d, Event: copied(read(st, c.db.events, d.Event))}
		if l := flying[d.ID]; l != nil && isLive(l, reply.Now) {
			listed.Running, listed.Owner = true, l.Owner
		}
		reply.Deliveries = append(reply.Deliveries, listed)
	}
	return reply
}

// copied returns an event that its reader may change.
func copied(e *protocol.Event) *protocol.Event {
	if e == nil {
		return nil
	}
	c := *e
	c.Payload, c.Headers, c.Handlers = bytes.Clone(e.Payload), slices.Clone(e.Headers), slices.Clone(e.Handlers)
	return &c
}

// selects reports whether a filter selects a delivery; e is its event, nil
// when the row is missing.
func selects(f *engine.Filter, d *protocol.Delivery, e *protocol.Event) bool {
	switch {
	case f.Handler != "" && f.Handler != d.Handler && !mutant.On("filter-ignores-handler"),
		f.Key != "" && f.Key != d.Key,
		f.EventID != "" && f.EventID != d.Event,
		f.EventType != "" && (e == nil || f.EventType != e.Type) && !mutant.On("filter-ignores-type"),
		f.Status != nil && *f.Status != d.Status:
		return false
	}
	return diedWithin(f, d)
}

// diedWithin reports whether a delivery died within the bounds of a filter.
// What is not dead has no time of death, and lies in no bounds.
func diedWithin(f *engine.Filter, d *protocol.Delivery) bool {
	if f.DiedSince == 0 && f.DiedUntil == 0 {
		return true
	}
	if mutant.On("filter-until-inclusive") {
		return isDead(d) && d.DiedAt >= f.DiedSince && d.DiedAt <= f.DiedUntil
	}
	return isDead(d) && d.DiedAt >= f.DiedSince && (f.DiedUntil == 0 || d.DiedAt < f.DiedUntil)
}

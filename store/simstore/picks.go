package simstore

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// handlersWithRoom names the handlers that a claim may pick for.
func handlersWithRoom(in *engine.ClaimInput) []string { return picks.New(in).WithRoom() }

// pick grants what package picks chooses among the lanes. It reads everything
// at the snapshot of one statement.
func (k *claiming) pick(st *stmt, lanes []*work) {
	shared := make([]*picks.Lane, len(lanes))
	ids := make([]protocol.LaneID, len(lanes))
	for i, w := range lanes {
		shared[i] = &picks.Lane{ID: w.id, Epoch: w.lane.Epoch, Clock: st.tx.now, Stuck: w.stuck, Picks: w.picksFrom}
		ids[i] = w.id
	}
	hints := k.s.hintsOf(k.in.Holder)
	s := k.picker.Search(ids, func(id protocol.LaneID) picks.Hint {
		return hints.For(k.in.Holder, id, st.clock())
	})
	if s.PerLane == 0 {
		return
	}
	k.read(st, s, lanes, ids)
	k.read(st, s, lanes, s.Again(shared))
	tails := k.picker.Tails(shared, k.picker.Choose(shared, s))
	for i := range tails.Heads {
		k.readFollowers(st, tails, i)
	}
	tails.Grant()
	for i, w := range lanes {
		w.lacking = shared[i].Lacking
		for _, c := range shared[i].Picked {
			w.grant(&c.Delivery, c.After)
		}
		if w.picksFrom {
			hints.Note(k.in.Holder, shared[i], s, st.clock())
		}
	}
}

// hintsOf returns what a worker remembers of its searches. It lives in the
// worker's process, and a new process has another holder.
func (s *Store) hintsOf(holder protocol.Holder) *picks.Hints {
	h := s.hints[holder]
	if h == nil {
		if s.hints == nil {
			s.hints = map[protocol.Holder]*picks.Hints{}
		}
		h = &picks.Hints{}
		s.hints[holder] = h
	}
	return h
}

// forgetHints drops the hints of lanes: after a failed claim nobody knows what
// was granted.
func (s *Store) forgetHints(holder protocol.Holder, lanes []protocol.LaneEpoch) {
	for _, l := range lanes {
		s.hintsOf(holder).Forget(l.Lane)
	}
}

// read hands to a search what the statement sees of the named lanes.
func (k *claiming) read(st *stmt, s *picks.Search, lanes []*work, named []protocol.LaneID) {
	for _, w := range lanes {
		index := k.db.index.lanes[w.id]
		if index == nil || !w.picksFrom || !slices.Contains(named, w.id) {
			continue
		}
		from := s.From(w.id)
		k.readUnkeyed(st, s, w, index, from)
		k.readHeads(st, s, index, from)
	}
}

// readUnkeyed reads in the order of due times, behind the watermark.
func (k *claiming) readUnkeyed(st *stmt, s *picks.Search, w *work, index *laneIndex, from picks.Hint) {
	for _, r := range index.unkeyed.items {
		if r.place.due > dueBy(st) {
			return
		}
		d := k.due(st, r)
		if d == nil || d.AvailableAt < from.Due || d.AvailableAt == from.Due && d.ID <= from.ID {
			continue
		}
		c := &picks.Candidate{Delivery: *d}
		c.Lacked = k.lacked(st, d)
		if !c.Lacked && !k.picker.HasRoom(d.Handler) || k.picker.Runs(d.ID) || slices.Contains(w.stuck, d.ID) {
			continue
		}
		if !s.Take(c) {
			return
		}
	}
}

// dueBy is the instant that due times are compared with.
func dueBy(st *stmt) protocol.Time {
	if mutant.On("due-one-tick-early") {
		return st.tx.now + 1
	}
	return st.tx.now
}

// due returns the row as the statement sees it, if it is pending and due.
func (k *claiming) due(st *stmt, r *deliveryRow) *protocol.Delivery {
	v := r.seen(st.tx, st.snap)
	if v == nil || v.value.AvailableAt > dueBy(st) {
		return nil
	}
	if v.value.Status != protocol.Pending && !mutant.On("dead-claimable") {
		return nil
	}
	return v.value
}

// readHeads reads the first pending row of each (handler, key) behind the
// cursor.
func (k *claiming) readHeads(st *stmt, s *picks.Search, index *laneIndex, from picks.Hint) {
	chains := &index.chains
	for _, ch := range chains.items[chains.search(&chain{chainName: chainName{from.Key, from.Handler}}):] {
		if ch.chainName == (chainName{from.Key, from.Handler}) {
			continue
		}
		c := k.headOf(st, ch)
		if c != nil && !s.TakeHead(c) {
			return
		}
	}
}

func (k *claiming) headOf(st *stmt, ch *chain) *picks.Candidate {
	for _, r := range ch.rows.items {
		if v := r.seen(st.tx, st.snap); v != nil && v.value.Status == protocol.Pending {
			c := &picks.Candidate{Delivery: *v.value}
			c.Early, c.Lacked = c.AvailableAt > dueBy(st), k.lacked(st, v.value)
			return c
		}
	}
	return nil
}

// servedWithin is how recently a subscription must have been seen for its
// handler to count as lacked: one that nobody serves any more must not keep
// lanes draining.
const servedWithin = 3 * time.Minute

// lacked reports whether others serve the handler of a delivery and the worker
// does not.
func (k *claiming) lacked(st *stmt, d *protocol.Delivery) bool {
	if !k.picker.Lacks(d.Handler) {
		return false
	}
	e := read(st, k.db.events, d.Event)
	if e == nil {
		return false
	}
	sub := read(st, k.db.subscriptions, protocol.EventHandler{Event: e.Type, Handler: d.Handler})
	switch {
	case sub == nil || sub.Removed:
		return false
	case sub.SeenAt.Add(servedWithin) < st.tx.now:
		unserved.Hit()
		return false
	}
	lacking.Hit()
	return true
}

// readFollowers reads the pending rows behind a head, in sequence.
func (k *claiming) readFollowers(st *stmt, t *picks.Tails, i int) {
	if t.Most == 0 {
		return
	}
	h := t.Heads[i]
	rows := &k.db.index.lanes[h.Lane].byName[chainName{h.Key, h.Handler}].rows
	n := 0
	for _, r := range rows.items[rows.search(k.db.deliveries.rows[h.ID])+1:] {
		v := r.seen(st.tx, st.snap)
		if v == nil || v.value.Status != protocol.Pending {
			if v != nil {
				chainsPastDead.Hit()
			}
			continue
		}
		c := &picks.Candidate{Delivery: *v.value}
		c.Early = c.AvailableAt > dueBy(st)
		if n++; !t.Offer(i, c) || n == t.Most {
			return
		}
	}
}

// hasPick reports whether the worker could pick something of a lane.
func (k *claiming) hasPick(st *stmt, lane *protocol.Lane) bool {
	index := k.db.index.lanes[lane.ID]
	if index == nil || k.picker.Full() {
		return false
	}
	for _, r := range index.unkeyed.items {
		if r.place.due > dueBy(st) {
			break
		}
		if d := k.due(st, r); d != nil && k.picker.Grantable(lane.Stuck, &picks.Candidate{Delivery: *d}) {
			return true
		}
	}
	for _, ch := range index.chains.items {
		if c := k.headOf(st, ch); c != nil && k.picker.Grantable(lane.Stuck, c) {
			return true
		}
	}
	return false
}

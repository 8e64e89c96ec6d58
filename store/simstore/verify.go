package simstore

import (
	"context"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Verify reads one snapshot and reports what no interleaving can excuse. What
// it does not report because a busy store shows it too: entries of gone rows,
// expired lanes with entries, two entries of one key (a chain), uncharged
// entries of a takeover, a pending row before one in flight (a requeued one).
func (s *Store) Verify(ctx context.Context) (engine.VerifyReply, error) {
	var v *verification
	err := s.serve(ctx, "Verify", func(c *call) error {
		return c.look("verify", func(st *stmt) error {
			v = &verification{call: c, st: st, rows: map[eventHandler]protocol.DeliveryID{}}
			v.reply.Now = st.tx.now
			v.deliveries()
			v.lanes()
			return nil
		})
	})
	if err != nil {
		return engine.VerifyReply{}, err
	}
	return v.reply, nil
}

// eventHandler is what has one delivery.
type eventHandler struct{ event, handler string }

// verification is one Verify call at work.
type verification struct {
	*call
	st    *stmt
	rows  map[eventHandler]protocol.DeliveryID
	reply engine.VerifyReply
}

func (v *verification) found(check string, id protocol.DeliveryID, lane protocol.LaneID, format string, args ...any) {
	v.reply.Findings = append(v.reply.Findings, engine.Finding{
		Check: check, Delivery: id, Lane: lane, Detail: fmt.Sprintf(format, args...),
	})
}

func (v *verification) deliveries() {
	eachRow(v.st, v.db.deliveries, func(_ protocol.DeliveryID, d *protocol.Delivery) {
		v.reply.Deliveries++
		v.row(d)
		v.event(d)
	})
}

// row checks what a row says of itself.
func (v *verification) row(d *protocol.Delivery) {
	if d.Status > protocol.Dead {
		v.found("impossible status", d.ID, d.Lane, "status %d", d.Status)
	}
	name := eventHandler{d.Event, d.Handler}
	if other, twice := v.rows[name]; twice {
		v.found("duplicate delivery", d.ID, d.Lane, "#%d is also %s of event %q", other, d.Handler, d.Event)
	}
	v.rows[name] = d.ID
	n := v.s.options.Lanes
	if want := protocol.LaneOf(0, n, d.Key, d.Event); d.Key != "" && protocol.LaneID(int32(d.Lane)%n) != want {
		v.found("wrong lane", d.ID, d.Lane, "lane %d of the group, key %q belongs to %d", int32(d.Lane)%n, d.Key, want)
	}
}

// event checks that the event is there and that somebody once wanted it. A
// removed subscription still has its row.
func (v *verification) event(d *protocol.Delivery) {
	e := read(v.st, v.db.events, d.Event)
	if e == nil {
		v.found("event missing", d.ID, d.Lane, "no event %q", d.Event)
		return
	}
	if read(v.st, v.db.subscriptions, protocol.EventHandler{Event: e.Type, Handler: d.Handler}) == nil {
		v.found("handler without subscription", d.ID, d.Lane, "%q never subscribed to %q", d.Handler, e.Type)
	}
}

func (v *verification) lanes() {
	n := protocol.LaneID(v.s.options.Lanes)
	eachRow(v.st, v.db.groups, func(name string, group *int32) {
		for id := protocol.LaneID(*group) * n; id < protocol.LaneID(*group+1)*n; id++ {
			if read(v.st, v.db.lanes, id) == nil {
				v.found("lane missing", 0, id, "group %q has no row of lane %d", name, id)
			}
		}
	})
	known := v.s.verified.from(v.st.snap, v.crashes)
	eachRow(v.st, v.db.lanes, func(_ protocol.LaneID, l *protocol.Lane) {
		v.reply.Lanes++
		v.lane(l)
		v.went(known, l)
	})
}

func (v *verification) lane(l *protocol.Lane) {
	for _, f := range l.InFlight {
		if d := read(v.st, v.db.deliveries, f.Delivery); d != nil && isDead(d) && !v.swept(d) {
			v.found("dead in flight", d.ID, l.ID, "dead, but in flight by claim %d", f.Claim)
		}
	}
	for _, id := range l.Stuck {
		v.found("stuck", id, l.ID, "the store refused to write its end or its charge")
	}
}

// swept reports whether a dead delivery may still be listed: an Unsubscribe
// writes no lane, so that what it buried stays until the holder's next claim.
func (v *verification) swept(d *protocol.Delivery) bool {
	return d.LastError == unsubscribed
}

// verified is what the last Verify saw of the lanes.
type verified struct {
	snap    int64 // the position it read at
	crashes int64
	lanes   map[protocol.LaneID]mark
}

type mark struct {
	epoch, claim int64
	holder       protocol.Holder
}

// from returns what to compare a snapshot with: nothing when the store crashed
// in between, which may take epochs back, or when the snapshot is older than
// the last one.
func (m *verified) from(snap, crashes int64) *verified {
	if m.lanes == nil || m.crashes != crashes {
		*m = verified{snap: snap, crashes: crashes, lanes: map[protocol.LaneID]mark{}}
	}
	if snap < m.snap {
		return nil
	}
	m.snap = snap
	return m
}

// went checks that a lane went forward since the last Verify.
func (v *verification) went(since *verified, l *protocol.Lane) {
	if since == nil {
		return
	}
	now := mark{l.Epoch, l.Claim, l.Holder}
	then, ok := since.lanes[l.ID]
	since.lanes[l.ID] = now
	switch {
	case !ok:
	case now.epoch < then.epoch:
		v.found("epoch went back", 0, l.ID, "from %d to %d", then.epoch, now.epoch)
	case now.epoch == then.epoch && now.holder == then.holder && now.claim < then.claim:
		v.found("claim went back", 0, l.ID, "from %d to %d under epoch %d", then.claim, now.claim, now.epoch)
	}
}

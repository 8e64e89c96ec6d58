package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Verify reads one snapshot and reports what no interleaving can excuse. What
// it does not report because a busy store shows it too: entries of gone rows,
// expired lanes with entries, two entries of one key (a chain), a pending row
// before one in flight (a requeued one). That a lane went back is told from
// the lanes as this Store's last Verify saw them.
func (s *Store) Verify(ctx context.Context) (engine.VerifyReply, error) {
	v := &verification{lanes: map[protocol.LaneID]mark{}}
	err := s.look(ctx, "verify", func(tx pgx.Tx, _ protocol.Time) error { return v.read(ctx, s, tx) })
	if err != nil {
		return engine.VerifyReply{}, err
	}
	v.compare(s)
	return v.reply, nil
}

// verification is one Verify call at work.
type verification struct {
	reply engine.VerifyReply
	lanes map[protocol.LaneID]mark
	since string // when the server started
}

func (v *verification) found(check string, id protocol.DeliveryID, lane protocol.LaneID, format string, args ...any) {
	v.reply.Findings = append(v.reply.Findings, engine.Finding{
		Check: check, Delivery: id, Lane: lane, Detail: fmt.Sprintf(format, args...),
	})
}

func (v *verification) read(ctx context.Context, s *Store, tx pgx.Tx) error {
	count := fmt.Sprintf("select now(), pg_postmaster_start_time()::text, (select count(*) from %s.deliveries)", quoted(s.options.Schema))
	if err := tx.QueryRow(ctx, count).Scan(scanTime{&v.reply.Now}, &v.since, &v.reply.Deliveries); err != nil {
		return err
	}
	err := s.each(ctx, tx, "verify_deliveries", func(rows pgx.Rows) error {
		var f engine.Finding
		err := rows.Scan(&f.Check, &f.Delivery, &f.Lane, &f.Detail)
		v.reply.Findings = append(v.reply.Findings, f)
		return err
	}, unsubscribed)
	if err != nil {
		return err
	}
	if err := s.each(ctx, tx, "verify_keys", v.key); err != nil {
		return err
	}
	return s.each(ctx, tx, "verify_lanes", func(rows pgx.Rows) error {
		var id protocol.LaneID
		var m mark
		var holder *[16]byte
		if err := rows.Scan(&id, &m.epoch, &m.claim, &holder); err != nil {
			return err
		}
		if holder != nil {
			m.holder = *holder
		}
		v.lanes[id] = m
		v.reply.Lanes++
		return nil
	})
}

// key checks that a keyed row is in the lane of its key.
func (v *verification) key(rows pgx.Rows) error {
	var id protocol.DeliveryID
	var lane protocol.LaneID
	var key string
	if err := rows.Scan(&id, &lane, &key); err != nil {
		return err
	}
	if want := protocol.LaneOf(0, protocol.DefaultLanes, key, ""); lane%protocol.DefaultLanes != want {
		v.found("wrong lane", id, lane, "lane %d of the group, key %q belongs to %d", lane%protocol.DefaultLanes, key, want)
	}
	return nil
}

// mark is what a Verify saw of a lane.
type mark struct {
	epoch, claim int64
	holder       protocol.Holder
}

// marks are the lanes as the last Verify saw them. A server that started anew
// may have lost commits, and with them epochs.
type marks struct {
	now   protocol.Time
	since string
	lanes map[protocol.LaneID]mark
}

// compare checks that lanes went forward since the last Verify.
func (v *verification) compare(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	then := s.seen
	if then != nil && then.since == v.since && v.reply.Now < then.now {
		return // this snapshot is the older one
	}
	s.seen = &marks{v.reply.Now, v.since, v.lanes}
	if then == nil || then.since != v.since {
		return
	}
	for id, now := range v.lanes {
		was, known := then.lanes[id]
		switch {
		case !known:
		case now.epoch < was.epoch:
			v.found("epoch went back", 0, id, "from %d to %d", was.epoch, now.epoch)
		case now.epoch == was.epoch && now.holder == was.holder && now.claim < was.claim:
			v.found("claim went back", 0, id, "from %d to %d under epoch %d", was.claim, now.claim, now.epoch)
		}
	}
}

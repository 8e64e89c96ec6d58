package postgres

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// lane is a lane row that this transaction has locked.
type lane struct {
	id       protocol.LaneID
	epoch    int64
	claim    int64
	expires  protocol.Time
	inFlight []protocol.InFlight
	stuck    []protocol.DeliveryID
	now      protocol.Time // the transaction's start
	clock    protocol.Time // above the lock

	takenOver bool
	renew     bool
	picksFrom bool
	lacking   bool
	kept      []protocol.InFlight // of inFlight, what the worker still runs
	picked    []*picks.Candidate
	unstuck   []protocol.DeliveryID
}

// scanLanes reads rows of lock_lanes.sql or take_over.sql.
func scanLanes(lanes *[]*lane) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			l := &lane{renew: true, picksFrom: true}
			var ids, claims, stuck []int64
			var expires, now, clock time.Time
			if err := rows.Scan(&l.id, &l.epoch, &l.claim, &expires, &ids, &claims, &stuck, &now, &clock); err != nil {
				return err
			}
			if len(ids) != len(claims) {
				return fmt.Errorf("lane %d is damaged: %d entries in flight, %d claim numbers", l.id, len(ids), len(claims))
			}
			l.expires, l.now, l.clock = stored(expires), stored(now), stored(clock)
			for i := range ids {
				l.inFlight = append(l.inFlight, protocol.InFlight{Delivery: protocol.DeliveryID(ids[i]), Claim: claims[i]})
			}
			for _, id := range stuck {
				l.stuck = append(l.stuck, protocol.DeliveryID(id))
			}
			*lanes = append(*lanes, l)
		}
		return rows.Err()
	}
}

// stored converts a time of the server.
func stored(t time.Time) protocol.Time {
	if t.IsZero() {
		return 0
	}
	return protocol.Time(t.UnixNano())
}

// interval is a duration as the server takes it, to the microsecond.
func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// lists reports whether the lane lists the run of a lease.
func (l *lane) lists(lease *engine.Lease) bool {
	return l.epoch == lease.Epoch && slices.Contains(l.inFlight, lease.Entry())
}

// latest returns the latest clock reading of the lanes, 0 when there are none.
func latest(lanes []*lane) protocol.Time {
	var t protocol.Time
	for _, l := range lanes {
		t = max(t, l.clock)
	}
	return t
}

func tooLate(clock, notAfter protocol.Time) bool { return notAfter != 0 && clock > notAfter }

// ids returns the ids of lanes as the server takes them.
func ids(lanes []*lane) []int32 {
	list := make([]int32, len(lanes))
	for i, l := range lanes {
		list[i] = int32(l.id)
	}
	return list
}

// entries are the elements of lists, one array per column.
type entries struct {
	lanes  []int32
	ids    []int64
	claims []int64
}

func (e *entries) add(id protocol.LaneID, f protocol.InFlight) {
	e.lanes = append(e.lanes, int32(id))
	e.ids = append(e.ids, int64(f.Delivery))
	e.claims = append(e.claims, f.Claim)
}

// uuid is a holder as the server takes it.
func uuid(h protocol.Holder) pgtype.UUID { return pgtype.UUID{Bytes: h, Valid: true} }

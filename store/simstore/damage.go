package simstore

import (
	"context"
	"fmt"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// ExpireLane lets the lease of a lane run out now. It is for tests of a live
// store, whose clock cannot be set; no action of the protocol does it, and an
// Observer is not told.
func (s *Store) ExpireLane(ctx context.Context, id protocol.LaneID) error {
	return rewrite(ctx, s, "expire lane", s.db.lanes, id, func(l *protocol.Lane, now protocol.Time) {
		l.ExpiresAt = min(l.ExpiresAt, now.Add(-time.Microsecond))
	})
}

// MakeDue makes a pending delivery due now, as [Store.ExpireLane] does a lane.
func (s *Store) MakeDue(ctx context.Context, id protocol.DeliveryID) error {
	return rewrite(ctx, s, "make due", s.db.deliveries, id, func(d *protocol.Delivery, now protocol.Time) {
		d.AvailableAt = min(d.AvailableAt, now)
	})
}

// rewrite changes one row behind the protocol's back. A locking store takes no
// more than NO KEY UPDATE, as an UPDATE would: it does not wait for a
// completion that has locked the lane FOR KEY SHARE.
func rewrite[K comparable, V any](ctx context.Context, s *Store, step string, tab *table[K, V], key K, change func(*V, protocol.Time)) error {
	return s.serve(ctx, "Rewrite", func(c *call) error {
		found := false
		changed := func(t *Tx, old *V) *V {
			if old == nil {
				return nil
			}
			found = true
			next := *old
			change(&next, t.now)
			return &next
		}
		var err error
		if c.db.semantics == protocol.Snapshot {
			err = alone(c, step, tab, key, changed)
		} else {
			err = c.rewrite(step, func(st *stmt) error {
				old, err := lockTarget(st, tab, key, forNoKeyUpdate, wait, nil)
				if next := changed(st.tx, old); err == nil && next != nil {
					update(st.tx, tab, key, next)
				}
				return err
			})
		}
		if err == nil && !found {
			err = fmt.Errorf("simstore: %w: no row %v", engine.ErrInvalid, key)
		}
		return err
	})
}

// rewrite runs one statement in a transaction.
func (c *call) rewrite(step string, body func(st *stmt) error) error {
	return c.transact(false, 0, func(t *Tx) error {
		st, err := t.statement(c.ctx, step)
		if err != nil {
			return err
		}
		return body(&st)
	})
}

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

// rewrite changes one row behind the protocol's back.
func rewrite[K comparable, V any](ctx context.Context, s *Store, step string, tab *table[K, V], key K, change func(*V, protocol.Time)) error {
	return s.serve(ctx, "Rewrite", func(c *call) error {
		found := false
		err := alone(c, step, tab, key, func(t *Tx, old *V) *V {
			if old == nil {
				return nil
			}
			found = true
			next := *old
			change(&next, t.now)
			return &next
		})
		if err == nil && !found {
			err = fmt.Errorf("simstore: %w: no row %v", engine.ErrInvalid, key)
		}
		return err
	})
}

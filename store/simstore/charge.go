package simstore

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// charging is what a takeover does to the deliveries that it found in flight.
type charging struct {
	rows    []*protocol.Delivery // those of the lane that are still there, by id
	refused []protocol.DeliveryID
	charged []protocol.DeliveryID // attempts rose, by id
}

// lockListed locks the rows that the lane lists, ascending: dead ones too, so
// that nobody brings one back before the takeover has committed.
func lockListed(st *stmt, lane protocol.LaneID, list []protocol.InFlight) (*charging, error) {
	c := &charging{}
	for _, f := range list {
		d, err := lockTarget(st, st.tx.db.deliveries, f.Delivery, forNoKeyUpdate, wait, nil)
		if err != nil {
			return nil, err
		}
		if d != nil && d.Lane == lane && d.Status == protocol.Pending {
			c.rows = append(c.rows, d)
		}
	}
	return c, nil
}

// charge writes the rows: a takeover each, and an attempt where the delivery
// was the first listed of its (handler, key); the followers of a chain never
// started. One bad row stops nothing: its id goes to refused.
func (c *charging) charge(st *stmt) error {
	t := st.tx
	for _, d := range c.rows {
		if slices.Contains(c.refused, d.ID) {
			continue
		}
		next := *d
		next.Takeovers++
		first := c.firstListed(d)
		if first {
			next.Attempts++
		}
		t.bump(&next)
		err := behindSavepoint(t, func() error {
			if err := st.pauseAt("charge", d.Lane, d.ID); err != nil {
				return err
			}
			update(t, t.db.deliveries, d.ID, &next)
			return nil
		})
		switch {
		case engine.IsDefinite(err):
			chargesRefused.Hit()
			c.refused = append(c.refused, d.ID)
		case err != nil:
			return err
		case first:
			c.charged = append(c.charged, d.ID)
		}
	}
	return nil
}

// firstListed reports whether no listed pending delivery of the same
// (handler, key) has a smaller sequence.
func (c *charging) firstListed(d *protocol.Delivery) bool {
	if d.Key == "" || mutant.On("takeover-charges-followers") {
		return true
	}
	for _, o := range c.rows {
		if o.Key == d.Key && o.Handler == d.Handler && o.Sequence < d.Sequence {
			followersSpared.Hit()
			return false
		}
	}
	return true
}

// bump marks a write of a delivery row. A Snapshot store's plain completions
// compare the fence instead of the lane, so it is never reset.
func (t *Tx) bump(d *protocol.Delivery) {
	if t.db.semantics == protocol.Snapshot {
		d.Fence++
	}
}

// behindSavepoint runs one part of a transaction; a definite error undoes that
// part alone.
func behindSavepoint(t *Tx, part func() error) error {
	s := t.savepoint()
	err := part()
	if engine.IsDefinite(err) && t.db.semantics == protocol.Locking {
		badRows.Hit()
		t.rollbackTo(s)
	}
	return err
}

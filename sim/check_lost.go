package sim

import "github.com/relaybus-go/relaybus/engine/protocol"

// lostDeliveries checks NoLostDelivery: every handler that a publisher's
// statement found subscribed has a delivery, and each committed delivery is
// still there as the surviving commits left it: pending, dead, or completed
// and gone.
//
// It does not check whether the statement should have found more
// subscriptions: one that commits while a publisher's transaction is open may
// be missed.
type lostDeliveries struct {
	unconcerned
	c *checks
}

func (*lostDeliveries) name() string { return "NoLostDelivery" }

func (k *lostDeliveries) action(_ int64, a protocol.Action) {
	publish, ok := a.(protocol.Publish)
	if !ok {
		return
	}
	for i := range publish.Events {
		if e := &publish.Events[i]; e.Result != protocol.Mismatch {
			k.published(e)
		}
	}
}

func (k *lostDeliveries) published(e *protocol.PublishEvent) {
	for _, handler := range e.Subscribed {
		if k.c.facts.pairs[pairName{e.Event.ID, handler}] == nil && !inserts(e, handler) {
			k.c.fail(k.name(), k.name(), "%s was published and %s, which is subscribed to %s, has no delivery of it", e.Event.ID, handler, e.Event.Type)
		}
	}
}

func inserts(e *protocol.PublishEvent, handler string) bool {
	for i := range e.Deliveries {
		if e.Deliveries[i].Handler == handler {
			return true
		}
	}
	return false
}

// finish compares the store's rows with what the commits say.
func (k *lostDeliveries) finish(bool) {
	rows := map[protocol.DeliveryID]protocol.Status{}
	for _, row := range k.c.w.store.Snapshot().Deliveries {
		rows[row.ID] = row.Status
		if k.c.facts.delivery(row.ID) == nil {
			k.c.fail(k.name(), "NothingInvented", "delivery #%d of %s is in the store and was never committed", row.ID, row.Event)
		}
	}
	for _, d := range k.c.facts.deliveries {
		if d == nil {
			continue
		}
		status, there := rows[d.id]
		want := d.fate == pending || d.fate == deadLetter
		if there != want || there && (status == protocol.Dead) != (d.fate == deadLetter) {
			k.c.fail(k.name(), k.name(), "#%d, %s of %s, should be %v; the store has a row: %v, %v", d.id, d.handler, d.event, d.fate, there, status)
		}
	}
}

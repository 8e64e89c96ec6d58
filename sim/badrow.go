package sim

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/faults"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// badRow is what was drawn of one delivery's row.
type badRow struct {
	asked   bool
	variant int      // of the fault; 0: the row is well
	refused int      // writes that failed
	late    *request // a copy of the completion that failed first
}

// rowFault returns the error that a write of a delivery's row raises. Whether
// it does is drawn at the first write and stays so.
func (w *world) rowFault(t *task, p simstore.Point) error {
	for _, i := range w.rowFaults {
		row := w.badRow(p.Delivery)
		if !row.asked {
			row.asked, row.variant = true, w.draw(i, int(p.Delivery))
			if row.variant != 0 && w.knobs.Semantics == protocol.Snapshot {
				row.variant = 1 // a late completion goes by the row there: nothing to show
			}
		}
		if row.variant == 0 {
			continue
		}
		err := faults.All()[i].Statement(faults.Statement{Call: p.Call, Step: p.Step, Refused: row.refused}, row.variant)
		if err == nil {
			w.meetEnd(row, p)
			continue
		}
		w.faultFired(i)
		w.faultWorked(i)
		if row.refused++; row.refused == 1 && t.message != nil {
			row.late = t.message.again()
		}
		return err
	}
	return nil
}

// badRow returns what is known of a delivery's row.
func (w *world) badRow(id protocol.DeliveryID) *badRow {
	for int(id) >= len(w.badRows) {
		w.badRows = append(w.badRows, badRow{})
	}
	return &w.badRows[id]
}

// meetEnd lets the late copy of a completion arrive while an end of its run
// that keeps the row is about to write it: both have found the lease good, and
// only one of them may have its way. The two tries that were refused are one
// that was refused and a first one that was given up and is late.
func (w *world) meetEnd(row *badRow, p simstore.Point) {
	if row.late != nil && slices.Contains([]string{"Reschedule", "Snooze", "Bury"}, p.Call) {
		w.in(0, row.late, arriveStage)
		row.late = nil
	}
}

// again returns a copy of a CompleteMany whose answer nobody awaits, nil of
// other requests.
func (r *request) again() *request {
	x, ok := r.body.(*completeMany)
	if !ok {
		return nil
	}
	twice := *x
	return &request{w: r.w, call: r.call, from: r.from, body: &twice, told: r.w.history.begin(r.from.id, x.in)}
}

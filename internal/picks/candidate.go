package picks

import (
	"cmp"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Candidate is a pending row that a claim may grant.
type Candidate struct {
	protocol.Delivery
	Seq    int64 // the store's number of its event, if it has one
	Early  bool  // not due yet
	Lacked bool  // others serve its handler, this worker does not

	After  protocol.DeliveryID // the delivery that brings it; 0: none
	chosen bool
}

func (c *Candidate) suspect() bool { return c.Takeovers > 0 }

func (c *Candidate) charged() bool { return c.Attempts > 0 || c.Takeovers > 0 }

// ByDue compares candidates in the order in which they are chosen.
func ByDue(a, b *Candidate) int {
	return cmp.Or(cmp.Compare(a.AvailableAt, b.AvailableAt), cmp.Compare(a.ID, b.ID))
}

// Lane is a lane that the worker holds, within one claim.
type Lane struct {
	ID    protocol.LaneID
	Epoch int64
	Clock protocol.Time // the store's, above the lock of the lane
	Stuck []protocol.DeliveryID
	Picks bool // something may be picked from it

	Lacking bool         // it holds due work that others serve and this worker does not
	Picked  []*Candidate // what the claim grants, each behind the one that brings it
}

func laneOf(lanes []*Lane, id protocol.LaneID) *Lane {
	for _, l := range lanes {
		if l.ID == id {
			return l
		}
	}
	return nil
}

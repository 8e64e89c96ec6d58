package sim

import (
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// A refusal names the commits that wrote what the guard read: who looks for
// the bug begins there.
func TestLastWriters(t *testing.T) {
	me := protocol.Holder{1}
	lease := protocol.Lease{Delivery: 7, Token: protocol.Token{Lane: 3, Epoch: 1, Holder: me, Claim: 2}}
	log := [][]protocol.Action{
		{protocol.Publish{Events: []protocol.PublishEvent{{Deliveries: []protocol.Delivery{{ID: 7}, {ID: 8}}}}}},
		{protocol.TakeOver{Lane: 3, Holder: me, Number: 1}, protocol.Claim{Lane: 3, Holder: me, Number: 2, Picks: []protocol.Picked{{Delivery: 7}}}},
		{protocol.ExtendLease{Lane: 3, Holder: me, Verdict: protocol.Applied}},
		{protocol.Claim{Lane: 4, Holder: me, Number: 4}},
		{protocol.Unsubscribe{Swept: []protocol.DeliveryID{7}}},
		{protocol.Reschedule{Lease: protocol.Lease{Delivery: 8, Token: protocol.Token{Lane: 3}}}},
		{protocol.Purge{Dead: []protocol.DeliveryID{8}}},
	}
	m := &model{c: &checks{}}
	for i, actions := range log {
		m.c.log = append(m.c.log, simstore.Committed{Position: int64(i + 1), Actions: actions})
	}
	for _, c := range []struct {
		guard string
		want  string
	}{
		{"epoch", "2: TakeOver"},
		{"holder", "2: TakeOver"},
		{"number", "2: TakeOver, 2: Claim"},
		{"expiry", "3: ExtendLease, 2: TakeOver, 2: Claim"},
		{"in flight", "6: Reschedule, 2: TakeOver, 2: Claim"},
		{"row", "5: Unsubscribe, 2: TakeOver, 1: Publish"},
		{"", "6: Reschedule, 5: Unsubscribe, 3: ExtendLease, 2: TakeOver"},
	} {
		var got []string
		for line := range strings.Lines(m.lastWriters(protocol.Complete{Lease: lease}, c.guard)) {
			if at, ok := strings.CutPrefix(strings.TrimSpace(line), "written at "); ok {
				got = append(got, strings.Join(strings.Fields(at)[:2], " "))
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("guard %q: %s, want %s", c.guard, text, c.want)
		}
	}
}

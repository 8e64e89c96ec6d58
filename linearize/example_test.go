package linearize_test

import (
	"fmt"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/linearize"
)

// Two workers say that they took the same lane over as the same epoch.
func ExampleCheck() {
	h := linearize.NewHistory(linearize.Locking)
	for i, holder := range []engine.Holder{{0xa1}, {0xb2}} {
		at := int64(10 * i)
		in := engine.ClaimInput{Holder: holder, Number: 2, TTL: time.Second, MaxLanes: 1}
		call := h.Begin(i+1, at, in)
		var reply engine.ClaimReply
		reply.Now = engine.StoreTime(at) + engine.StoreTime(time.Minute)
		lane := engine.ClaimedLane{ExpiresAt: reply.Now.Add(time.Second), TakenOver: true}
		lane.Epoch = 1
		reply.Lanes = append(reply.Lanes, lane)
		call.Return(at+5, reply)
	}
	report := linearize.Check(h, time.Minute)
	fmt.Println(report.OK())
	fmt.Println(report.Result(linearize.LaneOwnership).Explanation)
	// Output:
	// false
	// lane ownership is broken in lane 0: no order of its first 2 operations explains all answers.
	//   does not fit: operation 2 from 10 to 15, client 2: Claim 2 of b2000000: took the lane over as epoch 1 until 61000000010, got nothing
	//     the lease of a1000000 lasts until 61000000000, and the store's clock was at most 60000000010
	//     since operation 1 from 0 to 5, client 1: Claim 2 of a1000000: took the lane over as epoch 1 until 61000000000, got nothing
	//   before it: held by a1000000 at epoch 1, claim 2, until 61000000000, lists nothing
}

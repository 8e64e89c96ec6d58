package linearize

import (
	"strings"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

// book writes histories by hand. One tick of its clock is one nanosecond of
// the store's; a call takes two ticks unless the test says when it was.
type book struct {
	*History
	now  int64
	span *[2]int64 // of the next call
}

// The cast of the stories. A lease of theirs lasts a hundred ticks.
var alice, bob, carol = engine.Holder{0xa1}, engine.Holder{0xb0}, engine.Holder{0xca}

const leaseTTL = 100 * time.Nanosecond

func newBook(f Family) *book { return &book{History: NewHistory(f)} }

// wait lets time pass.
func (b *book) wait(ticks int64) *book {
	b.now += ticks
	return b
}

// during says when the next call was made and returned; the clock stays.
func (b *book) during(call, ret int64) *book {
	b.span = &[2]int64{call, ret}
	return b
}

func (b *book) interval() (call, ret int64) {
	if b.span != nil {
		call, ret = b.span[0], b.span[1]
		b.span = nil
		return call, ret
	}
	b.now += 2
	return b.now - 1, b.now
}

// call records a call that returned.
func (b *book) call(in, out any) { b.calls(in, out, Returned) }

// calls records a call with any outcome.
func (b *book) calls(in, out any, outcome Outcome) {
	call, ret := b.interval()
	if outcome != Returned {
		out = nil
	}
	b.Record(Operation{Client: clientOf(in), Call: call, Return: ret, Input: in, Output: out, Outcome: outcome})
}

// open records a call that nobody got an answer to.
func (b *book) open(in any) { b.calls(in, nil, Open) }

func clientOf(in any) int {
	switch in := in.(type) {
	case engine.ClaimInput:
		return int(in.Holder[0])
	case engine.ExtendLeaseInput:
		return int(in.Holder[0])
	case engine.RelinquishInput:
		return int(in.Holder[0])
	}
	return 0
}

func (b *book) storeTime() engine.StoreTime { return engine.StoreTime(b.now + 2) }

// groups records that so many groups, of one lane each, subscribed.
func (b *book) groups(n int32) {
	for g := range n {
		b.call(engine.SubscribeInput{Group: string('a' + rune(g))}, engine.SubscribeReply{Now: b.storeTime(), Group: g, Lanes: 1})
	}
}

// msg is an event of type t that is to be published.
func msg(event, key string, handlers ...string) Published {
	return Published{Event: event, Type: "t", Key: key, Result: engine.Added, Handlers: handlers}
}

func (p Published) as(r engine.PublishResult) Published {
	p.Result = r
	return p
}

func (b *book) publish(list ...Published) { b.call(Transaction{Published: list}, nil) }

// row is delivery number id: "event/handler", with the id as its sequence.
func row(id engine.DeliveryID, name, key string) engine.Delivery {
	event, handler, _ := strings.Cut(name, "/")
	return engine.Delivery{ID: id, Event: event, Handler: handler, Key: key, Sequence: int64(id)}
}

func charged(d engine.Delivery, attempts, takeovers int32) engine.Delivery {
	d.Attempts, d.Takeovers = attempts, takeovers
	return d
}

func dead(d engine.Delivery) engine.Delivery {
	d.Status = 1
	return d
}

// lease is what a claim grants; all stories are of lane 0 unless they say so.
func lease(id engine.DeliveryID, h engine.Holder, epoch, claim int64) engine.Lease {
	return engine.Lease{Delivery: id, Token: engine.Token{Epoch: epoch, Holder: h, Claim: claim}}
}

// stated is what a worker says it runs.
func stated(leases ...engine.Lease) []engine.Running {
	var list []engine.Running
	for _, l := range leases {
		r := engine.Running{Lane: l.Lane}
		r.Delivery, r.Claim = l.Delivery, l.Claim
		list = append(list, r)
	}
	return list
}

// claim is a Claim of lane 0 by the rules of the tests: the caller names the
// lane when it knows an epoch of it.
type claim struct {
	by      engine.Holder
	group   int32
	n       int64
	held    int64 // the epoch at which the caller believes to hold the lane
	running []engine.Running
	suspect bool
	until   engine.StoreTime // not-after
	noTake  bool

	took    int64 // the reply: taken over as this epoch
	holds   int64 // or held at this one
	passed  int64 // or taken over and given back
	gone    bool
	lost    []engine.Running
	grants  []engine.Delivery
	chain   bool // the grants follow one another
	expires engine.StoreTime
}

func (c claim) input() engine.ClaimInput {
	in := engine.ClaimInput{
		Holder: c.by, Group: c.group, Number: c.n, TTL: leaseTTL, NotAfter: c.until, Running: c.running, SuspectRunning: c.suspect, MaxLanes: 1,
	}
	if c.noTake {
		in.MaxLanes = 0
	}
	if c.held != 0 {
		in.Held = []engine.LaneEpoch{{Epoch: c.held}}
	}
	return in
}

func (c claim) reply(now engine.StoreTime) engine.ClaimReply {
	r := engine.ClaimReply{Now: now, LeaseLost: c.lost}
	lane := engine.ClaimedLane{ExpiresAt: c.expires}
	if lane.ExpiresAt == 0 {
		lane.ExpiresAt = now.Add(leaseTTL)
	}
	switch {
	case c.took != 0:
		lane.Epoch, lane.TakenOver = c.took, true
	case c.holds != 0:
		lane.Epoch = c.holds
	}
	if lane.Epoch != 0 {
		r.Lanes = []engine.ClaimedLane{lane}
	}
	if c.passed != 0 {
		r.GivenBack = []engine.LaneEpoch{{Epoch: c.passed}}
	}
	if c.gone {
		r.Gone = []engine.LaneID{0}
	}
	for i, d := range c.grants {
		l := lease(d.ID, c.by, lane.Epoch, c.n)
		l.Lane, l.Fence = d.Lane, d.Fence
		if c.chain && i > 0 {
			l.After = c.grants[i-1].ID
		}
		r.Picks = append(r.Picks, engine.Picked{Lease: l, Delivery: d})
	}
	return r
}

// claim records a claim and returns the leases it granted.
func (b *book) claim(c claim) []engine.Lease {
	reply := c.reply(b.storeTime())
	b.call(c.input(), reply)
	var leases []engine.Lease
	for _, p := range reply.Picks {
		leases = append(leases, p.Lease)
	}
	return leases
}

func (b *book) extend(h engine.Holder, epoch int64, v engine.Verdict) {
	b.call(engine.ExtendLeaseInput{Holder: h, TTL: leaseTTL, Lanes: []engine.LaneEpoch{{Epoch: epoch}}},
		engine.ExtendLeaseReply{Now: b.storeTime(), Verdicts: []engine.Verdict{v}})
}

func (b *book) complete(l engine.Lease, v engine.Verdict) { b.completeMany([]engine.Lease{l}, v) }

func (b *book) completeMany(leases []engine.Lease, verdicts ...engine.Verdict) {
	reply := engine.CompleteManyReply{Now: b.storeTime()}
	for _, v := range verdicts {
		reply.Ended = append(reply.Ended, engine.Ended{Verdict: v})
	}
	b.call(engine.CompleteManyInput{Leases: leases}, reply)
}

// inTx is the transaction of a handler that writes one effect.
func inTx(l engine.Lease, v engine.Verdict, effect Name) Transaction {
	return Transaction{Completed: []Completed{{l, v}}, Effects: []Name{effect}}
}

func (b *book) ended(v engine.Verdict) engine.EndReply {
	return engine.EndReply{Now: b.storeTime(), Verdict: v}
}

func (b *book) reschedule(l engine.Lease, v engine.Verdict, rest ...engine.Lease) {
	b.call(engine.RescheduleInput{Lease: l, Rest: rest}, b.ended(v))
}

func (b *book) snooze(l engine.Lease, v engine.Verdict) {
	b.call(engine.SnoozeInput{Lease: l}, b.ended(v))
}

func (b *book) bury(l engine.Lease, v engine.Verdict, rest ...engine.Lease) {
	b.call(engine.BuryInput{Lease: l, Rest: rest, Charge: true}, b.ended(v))
}

func (b *book) release(l engine.Lease, v engine.Verdict) {
	b.call(engine.ReleaseInput{Leases: []engine.Lease{l}},
		engine.ReleaseReply{Now: b.storeTime(), Verdicts: []engine.Verdict{v}})
}

func (b *book) relinquish(h engine.Holder, n, epoch int64, given bool, running ...engine.Running) {
	reply := engine.RelinquishReply{Now: b.storeTime()}
	if given {
		reply.Lanes = []engine.LaneID{0}
	}
	b.call(engine.RelinquishInput{Holder: h, Number: n, Lanes: []engine.LaneEpoch{{Epoch: epoch}}, Running: running}, reply)
}

func (b *book) requeue(n int, ids ...engine.DeliveryID) {
	b.call(engine.RequeueInput{IDs: ids}, engine.RequeueReply{Requeued: n})
}

func (b *book) purge(dead, events int) {
	b.call(engine.PurgeInput{}, engine.PurgeReply{Dead: dead, Events: events})
}

// list shows all rows that there are.
func (b *book) list(rows ...engine.Delivery) {
	reply := engine.ListReply{Now: b.storeTime()}
	for _, d := range rows {
		reply.Deliveries = append(reply.Deliveries, engine.Listed{Delivery: d})
	}
	b.call(engine.ListInput{}, reply)
}

func (b *book) count(name Name, n int) { b.call(CountEffects{name}, n) }

func (b *book) crash(failover bool) { b.call(Crash{failover}, nil) }

// either returns good, or bad in the bad telling of a story.
func either[T any](isBad bool, good, bad T) T {
	if isBad {
		return bad
	}
	return good
}

// statuses checks a history and returns what is not OK, in words.
func statuses(t *testing.T, h *History) (Report, map[Property]Status) {
	t.Helper()
	r := Check(h, time.Minute)
	found := map[Property]Status{}
	for _, p := range r.Results {
		if p.Status != OK {
			found[p.Property] = p.Status
		}
	}
	return r, found
}

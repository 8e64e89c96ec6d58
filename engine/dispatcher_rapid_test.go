package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// TestDispatcherKeepsItsRules drives the Dispatcher with a store that answers
// anything plausible in any order, and asserts what every surrounding may rely
// on: its caps, one end per lease, chains in order, what a claim states as
// running, and that a stop comes to an end.
func TestDispatcherKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newDispatcherWorld(t)
		w.step(Start{})
		t.Repeat(map[string]func(*rapid.T){
			"time passes": w.timePasses,
			"answer":      w.answerOne,
			"run returns": w.runReturns,
			"wake":        func(*rapid.T) { w.step(Wake{}) },
		})
		w.drain(t)
	})
}

type dispatcherWorld struct {
	t       *rapid.T
	d       *Dispatcher
	at      time.Duration
	calls   []Call
	runs    []*Run
	epoch   int64
	nextID  DeliveryID
	granted map[DeliveryID]grant // leases in force as the worker knows them
	ends    map[Lease]string     // the kind of end that was sent
	unsure  map[Lease]bool       // some try of it has an unknown outcome
	done    map[DeliveryID]bool  // whose run succeeded or committed
	stopped bool
}

type grant struct {
	lease Lease
	after DeliveryID
	tx    bool
}

func newDispatcherWorld(t *rapid.T) *dispatcherWorld {
	cfg := dispatcherConfig{
		Holder: Holder{1}, Group: "default", Lease: 20 * time.Second, Poll: time.Second,
		Window: 100 * time.Millisecond, CallTimeout: 5 * time.Second,
		Concurrency: 4, ClaimLimit: 6, LanesPerClaim: 2, CompletionBatch: 3,
		Jitter: func(n int64) int64 { return rapid.Int64Range(0, max(n-1, 0)).Draw(t, "jitter") },
	}
	for _, name := range []string{"ledger", "mail"} {
		cfg.Handlers = append(cfg.Handlers, dispatchHandler{
			Name: name, Concurrency: 3, MaxAttempts: 2, Transactional: name == "ledger",
			Timeout: 30 * time.Second, Grace: 5 * time.Second, Retry: secondPerAttempt{},
		})
	}
	return &dispatcherWorld{
		t: t, d: newDispatcher(cfg), granted: map[DeliveryID]grant{},
		ends: map[Lease]string{}, unsure: map[Lease]bool{}, done: map[DeliveryID]bool{},
	}
}

func (w *dispatcherWorld) step(in Input) {
	effects := slices.Clone(w.d.Step(Instant{Wall: int64(w.at), Mono: w.at}, in))
	for _, e := range effects {
		w.perform(e)
	}
	w.checkCaps()
}

func (w *dispatcherWorld) perform(e Effect) {
	if w.stopped {
		w.t.Fatalf("%T after Stopped", e)
	}
	switch e := e.(type) {
	case Call:
		w.calls = append(w.calls, e)
		w.checkCall(e.Input)
	case *Run:
		w.checkRun(e)
		w.runs = append(w.runs, e)
	case Stopped:
		w.stopped = true
	case Retire:
		i := slices.IndexFunc(w.runs, func(r *Run) bool { return r.ID == e.ID })
		if i < 0 {
			w.t.Fatalf("retire of run %d, which is not running", e.ID)
		}
		done := rapid.Bool().Draw(w.t, "retired in time")
		if done {
			w.runs = slices.Delete(w.runs, i, i+1)
		}
		w.step(RunRetired{ID: e.ID, Done: done})
	}
}

func (w *dispatcherWorld) checkCaps() {
	lane, completions, extends := 0, 0, 0
	busy := map[DeliveryID]bool{}
	for _, c := range w.calls {
		switch in := c.Input.(type) {
		case ClaimInput, RelinquishInput:
			lane++
		case ExtendLeaseInput:
			extends++
		case CompleteManyInput:
			completions++
		default:
			_ = in
		}
		for _, l := range leasesOf(c.Input) {
			if busy[l.Delivery] {
				w.t.Fatalf("delivery %d is in two outstanding ending calls", l.Delivery)
			}
			busy[l.Delivery] = true
		}
	}
	if lane > 1 || extends > 1 || completions > maxCompletionCalls {
		w.t.Fatalf("%d Claim or Relinquish, %d ExtendLease, %d CompleteMany outstanding", lane, extends, completions)
	}
}

// leasesOf returns the leases an ending call is about.
func leasesOf(input any) []Lease {
	switch in := input.(type) {
	case CompleteManyInput:
		return in.Leases
	case ReleaseInput:
		return in.Leases
	case RescheduleInput:
		return []Lease{in.Lease}
	case SnoozeInput:
		return []Lease{in.Lease}
	case BuryInput:
		return []Lease{in.Lease}
	}
	return nil
}

func (w *dispatcherWorld) checkCall(input any) {
	if w.d.storeAway() && len(leasesOf(input)) > 0 {
		w.checkAlone(input)
	}
	switch in := input.(type) {
	case ClaimInput:
		for _, r := range w.runs {
			if !slices.ContainsFunc(in.Running, func(s Running) bool { return s.InFlight == r.Picked.Lease.Entry() }) {
				w.t.Fatalf("a claim does not state run %d of delivery %d", r.ID, r.Picked.Lease.Delivery)
			}
		}
		if !slices.IsSortedFunc(in.Running, func(a, b Running) int { return int(a.Delivery - b.Delivery) }) {
			w.t.Fatal("Running is not sorted")
		}
	case CompleteManyInput:
		w.checkChainOrder(in.Leases)
	}
	for _, l := range leasesOf(input) {
		kind := fmt.Sprintf("%T", input)
		before, sent := w.ends[l]
		if sent && before != kind {
			w.t.Fatalf("%v was ended by %s and now by %s", l, before, kind)
		}
		w.ends[l] = kind
	}
}

// checkAlone: while the store is away one ending call at a time asks whether
// it is back. The call itself is the last of those outstanding.
func (w *dispatcherWorld) checkAlone(input any) {
	for _, c := range w.calls[:len(w.calls)-1] {
		if len(leasesOf(c.Input)) > 0 {
			w.t.Fatalf("%T was sent beside a %T while the store is away", input, c.Input)
		}
	}
}

// checkChainOrder: a follower stands behind its predecessor or the predecessor
// was acknowledged and is no longer granted.
func (w *dispatcherWorld) checkChainOrder(leases []Lease) {
	seen := map[DeliveryID]bool{}
	for _, l := range leases {
		// A retry goes on alone when its predecessor ended otherwise: its kind
		// of end cannot change any more, and the store's guard refuses it.
		_, retried := w.ends[l]
		if _, pending := w.granted[l.After]; l.After != 0 && pending && !seen[l.After] && !retried {
			w.t.Fatalf("delivery %d is completed before its predecessor %d", l.Delivery, l.After)
		}
		seen[l.Delivery] = true
	}
}

func (w *dispatcherWorld) checkRun(run *Run) {
	l := run.Picked.Lease
	g, ok := w.granted[l.Delivery]
	switch {
	case !ok || g.lease != l:
		w.t.Fatalf("run of %v, which is not granted", l)
	case slices.ContainsFunc(w.runs, func(r *Run) bool { return r.Picked.Lease == l }):
		w.t.Fatalf("%v runs twice at once", l)
	case l.After != 0 && !w.done[l.After]:
		w.t.Fatalf("follower %d started before %d was done", l.Delivery, l.After)
	}
	if _, pending := w.granted[l.After]; l.After != 0 && g.tx && pending {
		w.t.Fatalf("transactional follower %d started before the completion of %d was acknowledged", l.Delivery, l.After)
	}
}

func (w *dispatcherWorld) timePasses(t *rapid.T) {
	w.at += time.Duration(rapid.IntRange(1, 4000).Draw(t, "milliseconds")) * time.Millisecond
	w.step(Tick{})
}

func (w *dispatcherWorld) runReturns(t *rapid.T) {
	if len(w.runs) == 0 {
		t.Skip("nothing runs")
	}
	i := rapid.IntRange(0, len(w.runs)-1).Draw(t, "run")
	run := w.runs[i]
	w.runs = slices.Delete(w.runs, i, i+1)
	outcomes := []Outcome{Succeeded, Succeeded, Failed, Snoozed, Cancelled}
	if run.Handler == "ledger" {
		outcomes = []Outcome{Committed, Committed, Failed, Fenced, CommitUnknown, NotBegun}
	}
	o := rapid.SampledFrom(outcomes).Draw(t, "outcome")
	id := run.Picked.Lease.Delivery
	w.done[id] = o == Succeeded || o == Committed
	if o == Committed || o == Fenced {
		delete(w.granted, id)
	}
	w.step(RunReturned{ID: run.ID, Result: RunResult{Outcome: o, Err: errors.New("x"), Delay: -1}})
}

func (w *dispatcherWorld) answerOne(t *rapid.T) {
	if len(w.calls) == 0 {
		t.Skip("nothing is outstanding")
	}
	i := rapid.IntRange(0, len(w.calls)-1).Draw(t, "call")
	c := w.calls[i]
	w.calls = slices.Delete(w.calls, i, i+1)
	switch rapid.SampledFrom([]string{"ok", "ok", "ok", "ok", "unknown", "retryable", "definite"}).Draw(t, "answer") {
	case "unknown":
		for _, l := range leasesOf(c.Input) {
			w.unsure[l] = true
		}
		w.step(CallReturned{ID: c.ID, Err: failures["unknown"]})
	case "retryable":
		for _, l := range leasesOf(c.Input) {
			if !w.unsure[l] {
				delete(w.ends, l) // nothing was applied, ever
			}
		}
		w.step(CallReturned{ID: c.ID, Err: failures["retryable"]})
	case "definite":
		if leases := leasesOf(c.Input); len(leases) > 0 {
			for _, l := range leases {
				delete(w.ends, l)
			}
			w.step(CallReturned{ID: c.ID, Err: failures["definite"]})
			return
		}
		fallthrough
	default:
		w.step(CallReturned{ID: c.ID, Reply: w.reply(t, c.Input)})
	}
}

func (w *dispatcherWorld) reply(t *rapid.T, input any) any {
	now := protocol.Time(w.at)
	switch in := input.(type) {
	case SubscribeInput:
		return &SubscribeReply{Now: now, Group: 1, Lanes: 8}
	case ClaimInput:
		return w.claimReply(t, in)
	case ExtendLeaseInput:
		r := &ExtendLeaseReply{Now: now}
		for range in.Lanes {
			r.Verdicts = append(r.Verdicts, w.verdict(t))
		}
		return r
	case RelinquishInput:
		return &RelinquishReply{Now: now}
	case CompleteManyInput:
		return w.completions(t, in)
	case ReleaseInput:
		r := &ReleaseReply{Now: now}
		for _, l := range in.Leases {
			delete(w.granted, l.Delivery)
			r.Verdicts = append(r.Verdicts, w.verdict(t))
		}
		return r
	default:
		delete(w.granted, leasesOf(input)[0].Delivery)
		return &EndReply{Now: now, Verdict: w.verdict(t)}
	}
}

func (w *dispatcherWorld) verdict(t *rapid.T) Verdict {
	if rapid.IntRange(0, 3).Draw(t, "verdict") == 0 {
		return LeaseLost
	}
	return Applied
}

// completions keeps the store's promise that a follower is never Applied when
// its predecessor in the same call was not.
func (w *dispatcherWorld) completions(t *rapid.T, in CompleteManyInput) any {
	r := &CompleteManyReply{Now: protocol.Time(w.at)}
	applied := map[DeliveryID]bool{}
	for _, l := range in.Leases {
		e := Ended{Verdict: w.verdict(t)}
		if in := slices.ContainsFunc(in.Leases, func(o Lease) bool { return o.Delivery == l.After }); in && !applied[l.After] {
			e.Verdict = LeaseLost
		}
		if rapid.IntRange(0, 7).Draw(t, "refused") == 0 {
			e = Ended{Err: failures["definite"]}
		}
		applied[l.Delivery] = e.Err == nil && e.Verdict == Applied
		if applied[l.Delivery] || l.After == 0 && e.Err == nil {
			delete(w.granted, l.Delivery)
		}
		if !applied[l.Delivery] {
			delete(w.ends, l)
		}
		r.Ended = append(r.Ended, e)
	}
	return r
}

func (w *dispatcherWorld) claimReply(t *rapid.T, in ClaimInput) any {
	r := &ClaimReply{Now: protocol.Time(w.at)}
	for _, held := range in.Held {
		if rapid.IntRange(0, 5).Draw(t, "lane gone") == 0 {
			r.Gone = append(r.Gone, held.Lane)
			continue
		}
		r.Lanes = append(r.Lanes, ClaimedLane{LaneEpoch: held, ExpiresAt: r.Now.Add(in.TTL), Lacking: rapid.IntRange(0, 9).Draw(t, "lacking") == 0})
	}
	for range rapid.IntRange(0, in.MaxLanes).Draw(t, "new lanes") {
		w.epoch++
		id := LaneID(rapid.IntRange(0, 7).Draw(t, "lane"))
		taken := func(l ClaimedLane) bool { return l.Lane == id }
		if !slices.ContainsFunc(r.Lanes, taken) && !slices.ContainsFunc(in.Held, func(l LaneEpoch) bool { return l.Lane == id }) {
			r.Lanes = append(r.Lanes, ClaimedLane{LaneEpoch: LaneEpoch{Lane: id, Epoch: w.epoch}, ExpiresAt: r.Now.Add(in.TTL), TakenOver: true})
		}
	}
	for _, running := range in.Running {
		if rapid.IntRange(0, 9).Draw(t, "lease lost") == 0 {
			r.LeaseLost = append(r.LeaseLost, running)
		}
	}
	w.pick(t, in, r)
	return r
}

func (w *dispatcherWorld) pick(t *rapid.T, in ClaimInput, r *ClaimReply) {
	for _, h := range in.Handlers {
		for range min(h.Room, in.Room-len(r.Picks), in.Limit-len(r.Picks)) {
			if len(r.Lanes) == 0 || rapid.Bool().Draw(t, "no more picks") {
				break
			}
			w.grantChain(t, in, r, h.Name)
		}
	}
}

func (w *dispatcherWorld) grantChain(t *rapid.T, in ClaimInput, r *ClaimReply, handler string) {
	lane := r.Lanes[rapid.IntRange(0, len(r.Lanes)-1).Draw(t, "pick lane")]
	after := DeliveryID(0)
	for range rapid.IntRange(1, 3).Draw(t, "chain") {
		w.nextID++
		p := Picked{Event: &protocol.Event{ID: "e", Type: "e"}}
		p.Lease = Lease{Delivery: w.nextID, After: after, Token: Token{Lane: lane.Lane, Epoch: lane.Epoch, Holder: in.Holder, Claim: in.Number}}
		p.Delivery = Delivery{ID: w.nextID, Handler: handler, Lane: lane.Lane, Key: "k"}
		if after == 0 && rapid.IntRange(0, 5).Draw(t, "charged") == 0 {
			p.Delivery.Attempts = int32(rapid.IntRange(1, 2).Draw(t, "attempts"))
		}
		w.granted[p.Lease.Delivery] = grant{lease: p.Lease, after: after, tx: handler == "ledger"}
		r.Picks = append(r.Picks, p)
		after = w.nextID
	}
}

// drain stops the worker with a store that answers again, and expects an end
// with nothing left.
func (w *dispatcherWorld) drain(t *rapid.T) {
	w.step(Stop{Grace: 2 * time.Second})
	for range 1000 {
		if w.stopped {
			w.checkDrained(t)
			return
		}
		switch {
		case len(w.calls) > 0:
			c := w.calls[0]
			w.calls = w.calls[1:]
			w.step(CallReturned{ID: c.ID, Reply: w.reply(t, c.Input)})
		case len(w.runs) > 0:
			w.runReturns(t)
		default:
			w.at += 500 * time.Millisecond
			w.step(Tick{})
		}
	}
	t.Fatal("the stop did not come to an end")
}

func (w *dispatcherWorld) checkDrained(t *rapid.T) {
	for _, c := range w.d.chains {
		if len(c.members) > 0 {
			t.Fatalf("stopped with delivery %d unsettled", c.members[0].lease.Delivery)
		}
	}
}

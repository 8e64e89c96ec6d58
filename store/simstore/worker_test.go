package simstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// worker calls the store as one bus instance would.
type worker struct {
	*bench
	holder   protocol.Holder
	number   int64
	held     []protocol.LaneEpoch
	running  []protocol.Running
	picks    []engine.Picked
	handlers []string
}

func (b *bench) worker(name string, handlers ...string) *worker {
	w := &worker{bench: b, handlers: handlers}
	copy(w.holder[:], name)
	return w
}

func (w *worker) input() engine.ClaimInput {
	w.number += 2
	in := engine.ClaimInput{
		Holder: w.holder, Owner: string(w.holder[:1]), Number: w.number, TTL: ttl,
		Held: w.held, Running: w.running, Room: 10, Limit: 10, MaxLanes: 8,
	}
	for _, r := range w.running {
		in.SuspectRunning = in.SuspectRunning || w.suspect(r.InFlight)
	}
	for _, h := range w.handlers {
		in.Handlers = append(in.Handlers, engine.HandlerRoom{Name: h, Room: 10})
	}
	return in
}

// suspect reports whether the worker was granted a run of a suspect.
func (w *worker) suspect(f protocol.InFlight) bool {
	for _, p := range w.picks {
		if p.Lease.Entry() == f && p.Delivery.Takeovers > 0 {
			return true
		}
	}
	return false
}

// claim claims and adopts what the reply says.
func (w *worker) claim(change ...func(*engine.ClaimInput)) engine.ClaimReply {
	w.Helper()
	in := w.input()
	for _, f := range change {
		f(&in)
	}
	reply := must(w.Claim(ctx, in))(w)
	w.adopt(reply)
	return reply
}

func (w *worker) adopt(reply engine.ClaimReply) {
	for _, id := range reply.Gone {
		w.held = slices.DeleteFunc(w.held, func(l protocol.LaneEpoch) bool { return l.Lane == id })
	}
	for _, l := range reply.Lanes {
		w.held = slices.DeleteFunc(w.held, func(h protocol.LaneEpoch) bool { return h.Lane == l.Lane })
		w.held = append(w.held, l.LaneEpoch)
	}
	for _, p := range reply.Picks {
		w.picks = append(w.picks, p)
		w.running = append(w.running, protocol.Running{
			InFlight: p.Lease.Entry(), Lane: p.Lease.Lane, Handler: p.Delivery.Handler, Key: p.Delivery.Key,
		})
	}
	slices.SortFunc(w.running, func(a, b protocol.Running) int { return cmp.Compare(a.Delivery, b.Delivery) })
}

// forget drops deliveries from what the worker says it runs.
func (w *worker) forget(ids ...protocol.DeliveryID) {
	w.running = slices.DeleteFunc(slices.Clone(w.running), func(r protocol.Running) bool { return slices.Contains(ids, r.Delivery) })
}

// lease returns the newest lease of a delivery.
func (w *worker) lease(id protocol.DeliveryID) engine.Lease {
	w.Helper()
	for i := len(w.picks) - 1; i >= 0; i-- {
		if w.picks[i].Delivery.ID == id {
			return w.picks[i].Lease
		}
	}
	w.Fatalf("no lease of #%d", id)
	return engine.Lease{}
}

// complete completes plain runs and returns the verdicts.
func (w *worker) complete(ids ...protocol.DeliveryID) []engine.Ended {
	w.Helper()
	var in engine.CompleteManyInput
	for _, id := range ids {
		in.Leases = append(in.Leases, w.lease(id))
	}
	return must(w.CompleteMany(ctx, in))(w).Ended
}

// completeTx completes a run in a transaction with an effect.
func (w *worker) completeTx(id protocol.DeliveryID) (engine.Verdict, error) {
	w.Helper()
	tx := must(w.Begin(ctx))(w)
	if err := tx.Put(ctx, "effects", fmt.Sprint(id), []byte("done")); err != nil {
		return 0, err
	}
	v, err := w.Complete(ctx, tx, engine.CompleteInput{Lease: w.lease(id), TTL: ttl})
	if err != nil || v == engine.LeaseLost {
		tx.Rollback()
		return v, err
	}
	return v, tx.Commit(ctx)
}

func (w *worker) reschedule(id protocol.DeliveryID, rest ...protocol.DeliveryID) engine.Verdict {
	w.Helper()
	in := engine.RescheduleInput{Lease: w.lease(id), Delay: time.Second, Error: "failed"}
	for _, r := range rest {
		in.Rest = append(in.Rest, w.lease(r))
	}
	return must(w.Reschedule(ctx, in))(w).Verdict
}

func (w *worker) bury(id protocol.DeliveryID) engine.Verdict {
	w.Helper()
	return must(w.Bury(ctx, engine.BuryInput{Lease: w.lease(id), Error: "no more", Charge: true}))(w).Verdict
}

// ids lists the deliveries of a reply.
func ids(reply engine.ClaimReply) []protocol.DeliveryID {
	var list []protocol.DeliveryID
	for _, p := range reply.Picks {
		list = append(list, p.Delivery.ID)
	}
	return list
}

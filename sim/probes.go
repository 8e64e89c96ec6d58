package sim

import (
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/probe"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// What only the whole world can see.
var (
	// Late and out of order: an abandoned request is executed after newer ones.
	probeLate = probe.New("sim: a request was served after its client gave up")
	// Its outcome is unknown to the client.
	probeGaveUp = probe.New("sim: a client gave up on a call")
	// All connections of its worker were in use.
	probeQueued = probe.New("sim: a call waited for a connection")
	// And none came free before the call's time was over.
	probeUnsent = probe.New("sim: a call was not sent for want of a connection")
	// It was in flight with others, which its next owner cannot tell from it.
	probePoison = probe.New("sim: a poison delivery killed its worker")
	// Another delivery killed the worker; that may happen once for each that does.
	probeInnocent = probe.New("sim: an innocent delivery was charged for its neighbour")
	// The verdict stands for the position it was read at, and the model judges it there.
	probeEarlier = probe.New("sim: picks or a verdict were read at an earlier commit than they were written")
	// What somebody was told has not happened; promises are about what is left.
	probeLostWord = probe.New("sim: the store lost a commit that it had acknowledged")
	// The store's answer changes there, so a comparison that is off by a tick shows.
	probeAtExpiry = probe.New("sim: a claim came at the very end of another worker's lease, or a tick beside it")
	// A delivery that is granted a tick too early, or missed at its instant, shows there.
	probeAtDue = probe.New("sim: a claim came as a delivery fell due, or a tick beside it")
	// Its client counts on it that nothing happens from the next tick on.
	probeAtNotAfter = probe.New("sim: a claim came at its not-after, or a tick beside it")
	// What is exactly as old as asked for stays.
	probeAtOldEnough = probe.New("sim: a purge came as a dead letter was old enough, or a tick beside it")
	// Old and new holder may run at once, under tokens that differ in the holder alone.
	probeLostTakeover = probe.New("sim: the commit of a takeover was lost")
	// An old worker may hold a lease on the id, which is another delivery now.
	probeReissued = probe.New("sim: a delivery id was issued again to another event")
	// Beside what others write to the same rows.
	probeFiltered = probe.New("sim: an operator requeued by a filter")
	// A page after another, in the middle of everything.
	probeLooked = probe.New("sim: an operator looked at the store")
	// By Config.Retention, without an operator.
	probeRetained = probe.New("sim: a worker deleted what was old enough")
	// Completions have an age of their own.
	probeHistoryPurged = probe.New("sim: a purge deleted a completion from the history")
	// Its handlers get it no sooner than its message says.
	probeDelayed = probe.New("sim: an event was put off")
	// Everything is published before anybody claims.
	probeBacklog = probe.New("sim: a backlog built up while no worker was up")
	// A worker that lost its lease learns of it late; tokens keep its run from counting.
	probeOverlap = probe.New("sim: two runs of one delivery overlapped")
)

// noteIssued remembers which event each delivery id was given to.
func (w *world) noteIssued(x *simstore.Committed) {
	for _, a := range x.Actions {
		publish, ok := a.(protocol.Publish)
		if !ok {
			continue
		}
		for i := range publish.Events {
			for j := range publish.Events[i].Deliveries {
				w.noteID(&publish.Events[i].Deliveries[j])
			}
		}
	}
}

func (w *world) noteID(d *protocol.Delivery) {
	for int(d.ID) >= len(w.issued) {
		w.issued = append(w.issued, "")
	}
	if before := w.issued[d.ID]; before != "" && before != d.Event {
		probeReissued.Hit()
	}
	w.issued[d.ID] = d.Event
}

// noteLost looks at commits that the store lost.
func noteLost(lost []simstore.Committed) {
	for i := range lost {
		for _, a := range lost[i].Actions {
			if _, ok := a.(protocol.TakeOver); ok {
				probeLostTakeover.Hit()
			}
		}
	}
}

// noteOverlap looks for another run of the delivery that is about to start.
func (w *world) noteOverlap(r *handlerRun) {
	for _, k := range w.workers {
		if k.process == nil {
			continue
		}
		for _, o := range k.process.runs {
			if o != r && o.running && o.event == r.event && o.handler == r.handler {
				probeOverlap.Hit()
			}
		}
	}
}

package engine

import (
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/internal/mutant"
)

// What the Dispatcher knows of work that a claim left in the store, and when it
// asks for it. It is judged by the simulator's WorkConserving: nothing that is
// due, and for which there is room, waits beside an idle worker for longer than
// a poll, and for longer than lingerFor once the worker has reason to ask.

// claimDue waits for the poll interval, unless there is reason to believe that
// something is due. Work that a claim left behind waits until half the slots
// that it needs are free, or for lingerFor: one claim for many deliveries is
// what keeps the number of statements down.
func (d *Dispatcher) claimDue(at Instant, room int) bool {
	if d.claim.retry.due(at) {
		return true
	}
	if d.claim.retry.tries > 0 || room == 0 { // without room only an abandoned claim is asked after, with each poll
		return false
	}
	if d.claim.woken || d.claim.goesOn || d.suspectsDue() {
		return true
	}
	some, enough := d.workLeft(room)
	if !some || enough {
		return some
	}
	d.claim.lingers.within(at, d.lingerFor())
	if d.claim.lingers.reached(at) {
		return true
	}
	d.claim.lingers.wake(at, &d.wake)
	return false
}

// lingerFor is how long a free slot waits for others beside known work.
func (d *Dispatcher) lingerFor() time.Duration { return d.cfg.Poll / dueTicks }

// workLeft reports whether there is room for work that a claim may have left
// behind, and whether it is enough for a claim now.
func (d *Dispatcher) workLeft(room int) (some, enough bool) {
	some = d.claim.more
	idle := d.idleHandlers()
	for i := range d.cfg.Handlers {
		h := &d.cfg.Handlers[i]
		if left := d.roomFor(h, idle); h.short && left > 0 && !mutant.On("freed-room-wakes-nobody") {
			some = true
			enough = enough || h.Concurrency < d.cfg.Concurrency && 2*left >= h.Concurrency
		}
	}
	return some, enough || 2*room >= d.cfg.Concurrency
}

// suspectsDue reports whether the suspect is over that kept others waiting.
// They run one at a time, so waiting for a fuller claim gains nothing.
func (d *Dispatcher) suspectsDue() bool {
	return d.claim.suspects && d.suspects == 0 && d.claim.doubt == 0 && !mutant.On("suspects-end-wakes-nobody")
}

// beginRound starts asking the held lanes from the first on, unless a claim only
// goes on with those that are left. A round that began without room for a
// handler says nothing of it.
func (d *Dispatcher) beginRound(at Instant) {
	some, _ := d.workLeft(d.room())
	if !d.claim.goesOn || some || d.claim.woken || d.suspectsDue() || d.claim.retry.due(at) {
		d.claim.unasked = len(d.lanes)
	}
	if d.claim.woken || d.claim.retry.due(at) {
		d.claim.gaveBack = nil
	}
	d.claim.woken, d.claim.more, d.claim.goesOn, d.claim.lingers = false, false, false, alarm{}
	for _, c := range d.chains {
		c.passed = true
	}
}

// noteLeft notes of which handlers a claim may have left work behind: it had no
// room for them, granted some, or did not look everywhere.
func (d *Dispatcher) noteLeft(input *ClaimInput, reply *ClaimReply) {
	d.claim.unasked = min(d.claim.unasked-len(input.Held), len(d.lanes)) // some may be gone by now
	granted := len(reply.Picks)
	d.claim.goesOn = granted == 0 && d.claim.unasked > 0 && !mutant.On("round-ends-early")
	cut := granted >= min(input.Limit, input.Room) || granted > 0 && d.claim.unasked > 0 || d.searchWasCut(input, reply)
	for i := range d.cfg.Handlers {
		d.cfg.Handlers[i].short = cut || input.Handlers[i].Room == 0
	}
	d.claim.suspects = input.SuspectRunning
	for i := range reply.Picks {
		row := &reply.Picks[i].Delivery
		if h := d.handler(row.Handler); h != nil {
			h.short = true
		}
		d.claim.suspects = d.claim.suspects || row.Takeovers > 0
	}
}

// searchWasCut reports whether a claim took as many lanes as it might, or might
// take none although this worker may hold more: others may have work too. A lane
// that gave nothing and went back counts once until the next pause: after a
// crash there are many that have merely expired, but one that is a candidate
// each time must not be taken again and again.
func (d *Dispatcher) searchWasCut(input *ClaimInput, reply *ClaimReply) bool {
	taken := 0
	for i := range reply.Lanes {
		if reply.Lanes[i].TakenOver {
			taken++
		}
	}
	for _, l := range reply.GivenBack {
		if !slices.Contains(d.claim.gaveBack, l.Lane) || mutant.On("given-back-taken-again") {
			d.claim.gaveBack = append(d.claim.gaveBack, l.Lane)
			taken++
		}
	}
	return taken >= input.MaxLanes && !d.holdsEnough()
}

// holdsEnough reports whether this worker holds so many lanes that it takes no
// further ones.
func (d *Dispatcher) holdsEnough() bool {
	return len(d.lanes) >= lanesHeldPerClaim*d.cfg.LanesPerClaim
}

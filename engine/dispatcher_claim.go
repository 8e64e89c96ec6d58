package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// claimPlan is what the Dispatcher remembers between claims.
type claimPlan struct {
	retry     retryState // after a failure, or the poll interval
	woken     bool       // a hint says that something is due
	more      bool       // a key has ended of which a claim may have left something behind
	suspects  bool       // one suspect may have kept others from being granted
	lingers   alarm      // until when known work waits for a fuller claim
	unasked   int        // held lanes that this round did not ask yet
	goesOn    bool       // the round goes on with them: what was asked gave nothing
	gaveBack  []LaneID   // taken over for nothing since the last pause
	abandoned bool       // an earlier Claim or Relinquish has an unknown outcome
	// doubt is the store time up to which an abandoned Claim or Relinquish
	// may still be applied: its not-after.
	doubt     protocol.Time
	cursor    LaneID // the rotation over held lanes continues behind it
	behind    LaneID // the search for other lanes continues behind it
	allMineAt Instant
	timersSet bool
}

// lanesHeldPerClaim bounds the lanes a worker holds, in claims' worth: enough
// to keep the rotation busy, few enough to leave lanes to other workers.
const lanesHeldPerClaim = 4

// claimOrRelinquish sends the one call that may change which lanes are ours.
func (d *Dispatcher) claimOrRelinquish(at Instant) {
	if d.phase != phaseRunning || d.laneCallOutstanding() {
		return
	}
	d.startClaimTimers(at)
	d.expireAvoided(at)
	d.rotateLanes(at)
	if d.relinquishIdle(at) {
		return
	}
	room := d.room()
	if room == 0 && !d.claim.abandoned {
		return
	}
	if !d.claimDue(at, room) {
		d.wake.at(at, d.claim.retry.next)
		return
	}
	d.sendClaim(at, room)
}

func (d *Dispatcher) laneCallOutstanding() bool {
	return outstanding[ClaimInput](d) > 0 || outstanding[RelinquishInput](d) > 0
}

func (d *Dispatcher) startClaimTimers(at Instant) {
	if d.claim.timersSet {
		return
	}
	d.claim.timersSet = true
	d.claim.allMineAt = at.plus(d.cfg.Lease)
}

// room is how many chains can be started now. What is granted but not settled
// is bounded too, so that a store that is away does not fill memory.
func (d *Dispatcher) room() int {
	if mutant.On("concurrency-plus-one") {
		return max(0, d.cfg.Concurrency+1-d.active)
	}
	if d.jobs >= 2*d.cfg.Concurrency+d.cfg.ClaimLimit {
		return 0
	}
	return max(0, d.cfg.Concurrency-d.active)
}

func (d *Dispatcher) handlerRooms() []HandlerRoom {
	rooms := make([]HandlerRoom, len(d.cfg.Handlers))
	idle := d.idleHandlers()
	for i := range d.cfg.Handlers {
		h := &d.cfg.Handlers[i]
		rooms[i] = HandlerRoom{Name: h.Name, Room: d.roomFor(h, idle)}
	}
	return rooms
}

// idleHandlers counts the handlers of which nothing takes a slot.
func (d *Dispatcher) idleHandlers() (idle int) {
	for i := range d.cfg.Handlers {
		if d.cfg.Handlers[i].active == 0 {
			idle++
		}
	}
	return idle
}

// roomFor is how many more chains of a handler can be started: what its own limit
// and the free slots leave, less a slot for each other handler that has none now.
// So one that hangs takes most of the slots and never all, whatever else is due.
// What is kept free is at most a quarter of the slots, so nothing with fewer
// than four.
func (d *Dispatcher) roomFor(h *dispatchHandler, idle int) int {
	if h.active == 0 {
		idle--
	}
	kept := min(idle, d.cfg.Concurrency/4)
	if mutant.On("slots-not-shared") {
		kept = 0
	}
	limit := h.Concurrency
	if mutant.On("handler-limit-ignored") {
		limit = d.cfg.Concurrency
	}
	return max(0, min(limit-h.active, d.cfg.Concurrency-d.active-kept))
}

func (d *Dispatcher) sendClaim(at Instant, room int) {
	d.number += 2
	d.beginRound(at)
	in := ClaimInput{
		Holder: d.cfg.Holder, Owner: d.cfg.Owner, Group: d.group,
		Number: d.number, TTL: d.cfg.Lease, NotAfter: d.notAfter(at),
		AllMine:  d.claim.abandoned || at.reached(d.claim.allMineAt),
		Running:  d.running(),
		Handlers: d.handlerRooms(),
		Room:     room, Limit: d.cfg.ClaimLimit, Behind: d.claim.behind,
	}
	if d.claim.abandoned {
		probeAllMine.Hit()
	}
	if mutant.On("abandoned-claim-forgotten") {
		in.AllMine = false
	}
	// An abandoned claim may still be granted a suspect.
	in.SuspectRunning = d.suspectRunning() || d.claim.doubt > 0
	d.chooseLanes(at, &in)
	for _, a := range d.avoid {
		in.Avoid = append(in.Avoid, a.LaneEpoch)
	}
	// Once per lease all lanes are asked for, so that each of them has its
	// stuck rows tried again.
	in.RetryStuck = at.reached(d.claim.allMineAt)
	if room == 0 {
		in.Limit, in.MaxLanes = 0, 0
	}
	d.send(at, in, nil)
}

// chooseLanes names the held lanes of this claim in rotation, and asks for new
// ones as far as those that had more to give do not fill the claim.
func (d *Dispatcher) chooseLanes(at Instant, in *ClaimInput) {
	fruitful := 0
	expire := d.letsExpire(at)
	start, _ := d.laneIndex(d.claim.cursor + 1)
	if mutant.On("lane-cursor-stands-still") {
		start = 0
	}
	for i := range d.lanes {
		l := d.lanes[(start+i)%len(d.lanes)]
		if slices.Contains(expire, l.LaneEpoch) {
			in.LetExpire = append(in.LetExpire, l.Lane)
		} else if l.draining {
			in.Draining = append(in.Draining, l.Lane)
		}
		if len(in.Held) == d.cfg.LanesPerClaim {
			continue
		}
		in.Held = append(in.Held, l.LaneEpoch)
		d.claim.cursor = l.Lane
		if l.fruitful && !l.draining {
			fruitful++
		}
	}
	slices.SortFunc(in.Held, func(a, b LaneEpoch) int { return cmp.Compare(a.Lane, b.Lane) })
	slices.Sort(in.LetExpire)
	slices.Sort(in.Draining)
	if !d.holdsEnough() {
		in.MaxLanes = max(0, d.cfg.LanesPerClaim-fruitful)
	}
}

// running states everything this instance has started, plans to start or has
// not settled. The store drops whatever else its lanes list.
func (d *Dispatcher) running() []Running {
	list := make([]Running, 0, d.jobs)
	for _, c := range d.chains {
		for _, j := range c.members {
			list = append(list, Running{
				InFlight: j.lease.Entry(), Lane: j.lease.Lane, Handler: j.granted.Picked.Delivery.Handler, Key: j.granted.Picked.Delivery.Key,
			})
		}
	}
	slices.SortFunc(list, func(a, b Running) int { return cmp.Compare(a.Delivery, b.Delivery) })
	return list
}

func (d *Dispatcher) suspectRunning() bool {
	return d.suspects > 0 && !mutant.On("suspects-not-counted")
}

func (d *Dispatcher) claimReturned(at Instant, c *call, input ClaimInput, in CallReturned) {
	if in.Err != nil {
		d.abandonClaim(at, input.NotAfter, in.Err)
		return
	}
	reply := in.Reply.(*ClaimReply)
	d.heard(at, reply.Now)
	d.trustClaims(c.heard)
	if input.AllMine {
		d.claim.allMineAt = at.plus(d.cfg.Lease)
		d.loseUnlisted(at, reply.Lanes)
	}
	d.laneRefusals(at, input, reply)
	for _, r := range reply.LeaseLost {
		d.leaseLost(at, r)
	}
	d.adoptLanes(at, c.sent, &input, reply)
	d.adoptPicks(at, c.sent, reply.Picks, input.Limit)
	d.planNextClaim(at)
	d.noteLeft(&input, reply)
	if mutant.On("wake-forgotten-by-claim") {
		d.claim.woken = false
	}
}

// abandonClaim notes a Claim or Relinquish that may have been applied, and may
// still be. A store may have applied some lanes before it failed, so even a
// retryable error counts as unknown; but then nothing more is to come. One that
// was not sent was applied nowhere.
func (d *Dispatcher) abandonClaim(at Instant, notAfter protocol.Time, err error) {
	if isUnsent(err) {
		d.claim.retry.failed(d, at)
		return
	}
	d.claim.abandoned = true
	d.claim.behind = 0 // the next search begins elsewhere: this one may have met a lane that fails
	d.claim.retry.failed(d, at)
	if !isRetryable(err) && !IsDefinite(err) && !mutant.On("late-claim-forgotten") {
		probeAbandoned.Hit()
		d.claim.doubt = max(d.claim.doubt, notAfter)
	}
}

// trustClaims ends the doubt after a claim that succeeded, and that was sent when
// the store had been heard to say a time past the not-after of every abandoned
// call. One that was sent before proves nothing: the abandoned one may be
// applied behind it and grant lanes that this worker never hears of. Our own
// clock does not count: it may run fast.
func (d *Dispatcher) trustClaims(heard protocol.Time) {
	if heard <= d.claim.doubt {
		probeStillDoubt.Hit()
	} else {
		if d.claim.doubt > 0 {
			probeTrusted.Hit()
		}
		d.claim.abandoned, d.claim.doubt = false, 0
	}
}

func (d *Dispatcher) laneRefusals(at Instant, input ClaimInput, reply *ClaimReply) {
	for _, id := range input.Held {
		if slices.Contains(reply.Gone, id.Lane) {
			d.loseLane(at, id)
		}
	}
}

// loseUnlisted forgets lanes that the store did not list although it was asked
// for all of ours.
func (d *Dispatcher) loseUnlisted(at Instant, listed []ClaimedLane) {
	for _, l := range slices.Clone(d.lanes) {
		if !slices.ContainsFunc(listed, func(c ClaimedLane) bool { return c.Lane == l.Lane }) {
			probeUnlisted.Hit()
			d.loseLane(at, l.LaneEpoch)
		}
	}
}

// adoptLanes takes what a claim says of its lanes. Those that gave work may have
// more only when the claim ended at its limit: of a thin stream each lane gives
// one delivery, and asking it again would keep the worker from those where the
// next ones are.
func (d *Dispatcher) adoptLanes(at, sent Instant, input *ClaimInput, reply *ClaimReply) {
	cut := len(reply.Picks) >= min(input.Limit, input.Room)
	for _, lane := range reply.Lanes {
		if old := d.lane(lane.Lane); old != nil && old.Epoch != lane.Epoch {
			d.loseLane(at, old.LaneEpoch)
		}
		l := d.hold(at, sent, reply.Now, lane)
		l.fruitful = false
		if lane.Lacking {
			probeDraining.Hit()
			l.draining, l.avoid = true, true
		}
	}
	d.claim.behind = lastTaken(reply, input.Behind)
	for i := range reply.Picks {
		if l := d.lane(reply.Picks[i].Lease.Lane); l != nil {
			l.fruitful, l.yielded = cut, at
		}
	}
}

// lastTaken returns the lane that a search behind a lane came to last: it goes
// up, and on from the lowest. What gave nothing and went back counts, or the
// next search would find it first again.
func lastTaken(reply *ClaimReply, behind LaneID) LaneID {
	last, round := behind, false
	came := func(id LaneID) {
		if again := id <= behind; again && !round || again == round && id > last {
			last, round = id, again
		}
	}
	for i := range reply.Lanes {
		if reply.Lanes[i].TakenOver {
			came(reply.Lanes[i].Lane)
		}
	}
	for _, l := range reply.GivenBack {
		came(l.Lane)
	}
	return last
}

// planNextClaim sets the poll interval, with jitter so that workers started
// together spread out.
func (d *Dispatcher) planNextClaim(at Instant) {
	half := d.cfg.Poll / 2
	d.claim.retry.after(at, half+time.Duration(d.cfg.Jitter(int64(half)+1)))
}

func (d *Dispatcher) avoidLane(at Instant, id LaneEpoch) {
	d.avoid = append(d.avoid, avoidedLane{LaneEpoch: id, until: at.plus(d.cfg.Lease / 10)})
}

func (d *Dispatcher) expireAvoided(at Instant) {
	if mutant.On("lanes-avoided-for-ever") {
		return
	}
	d.avoid = slices.DeleteFunc(d.avoid, func(a avoidedLane) bool { return at.reached(a.until) })
}

// rotateLanes drains the lane held longest when no further lane may be taken,
// so that no free lane waits for ever behind busy ones.
func (d *Dispatcher) rotateLanes(at Instant) {
	if !d.holdsEnough() {
		return
	}
	var oldest *heldLane
	for _, l := range d.lanes {
		if l.draining {
			return
		}
		if oldest == nil || l.since.Mono < oldest.since.Mono {
			oldest = l
		}
	}
	if at.Mono-oldest.since.Mono >= d.cfg.Lease/2 {
		oldest.draining, oldest.avoid = true, true
	}
}

// relinquishIdle gives back lanes that drained (one at a time) or stayed
// without work.
func (d *Dispatcher) relinquishIdle(at Instant) bool {
	if mutant.On("idle-lanes-never-given-back") || d.claim.abandoned {
		return false
	}
	var idle []LaneEpoch
	drained := false
	// No further lane may be taken and this one gave nothing when it was last
	// asked: others may hold what is due.
	full := d.holdsEnough()
	for _, l := range d.lanes {
		wait := d.idleAfter() - (at.Mono - l.yielded.Mono)
		if full && mutant.On("full-lanes-kept") {
			continue
		}
		if full && !l.fruitful {
			wait = 0
		}
		if wait > 0 && (!l.draining || drained) {
			d.wake.in(wait)
			continue
		}
		if !d.laneBusy(l.LaneEpoch) || mutant.On("relinquish-with-work-in-flight") {
			drained = drained || l.draining
			idle = append(idle, l.LaneEpoch)
		}
	}
	if len(idle) == 0 {
		return false
	}
	probeIdle.Hit()
	d.relinquish(at, idle)
	return true
}

// relinquish gives lanes back; nil means every lane of this holder.
func (d *Dispatcher) relinquish(at Instant, lanes []LaneEpoch) {
	d.number++
	d.send(at, RelinquishInput{
		Holder: d.cfg.Holder, Group: d.group, Number: d.number, Lanes: lanes,
		Running: d.running(), Keep: d.unsettledLanes(), NotAfter: d.notAfter(at),
	}, nil)
}

func (d *Dispatcher) laneBusy(id LaneEpoch) bool {
	return slices.ContainsFunc(d.chains, func(c *chain) bool { return c.lane.Lane == id.Lane })
}

// unsettledLanes are lanes with an end whose outcome is unknown.
func (d *Dispatcher) unsettledLanes() []LaneID {
	var keep []LaneID
	for _, c := range d.chains {
		if c.unsettled() {
			keep = append(keep, c.lane.Lane)
		}
	}
	slices.Sort(keep)
	return slices.Compact(keep)
}

// allRelinquished notes the answer to a Relinquish of every lane of this holder:
// those that were not given back, and on which the call stated nothing, are not
// ours.
func (d *Dispatcher) allRelinquished(input *RelinquishInput, back []LaneID) {
	d.lanes = slices.DeleteFunc(d.lanes, func(l *heldLane) bool {
		stated := slices.ContainsFunc(input.Running, func(r Running) bool { return r.Lane == l.Lane })
		return slices.Contains(back, l.Lane) || !stated || mutant.On("window-lost-at-shutdown")
	})
}

// trustRelinquish ends the doubt as trustClaims does, or says when to ask again:
// as soon as the store must refuse what was abandoned.
func (d *Dispatcher) trustRelinquish(at Instant, heard, now protocol.Time) {
	if d.trustClaims(heard); d.claim.abandoned {
		d.claim.retry.tries = max(d.claim.retry.tries, 1)
		d.claim.retry.next, d.claim.retry.armed = at.plus(max(d.claim.doubt.Sub(now)+1, 0)), true
		return
	}
	d.claim.retry = retryState{}
}

func (d *Dispatcher) relinquishReturned(at Instant, c *call, input RelinquishInput, in CallReturned) {
	if in.Err != nil {
		d.abandonClaim(at, input.NotAfter, in.Err)
		return
	}
	reply := in.Reply.(*RelinquishReply)
	d.heard(at, reply.Now)
	if len(input.Lanes) == 0 {
		d.allRelinquished(&input, reply.Lanes)
		d.trustRelinquish(at, c.heard, reply.Now)
	}
	for _, id := range input.Lanes {
		// Whether it was given back now or was not ours any more: it is gone.
		if l := d.lane(id.Lane); l != nil && l.Epoch == id.Epoch {
			if l.avoid {
				d.avoidLane(at, id)
			}
			d.forgetLane(id)
		}
	}
}

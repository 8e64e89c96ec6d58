package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// heldLane is a lane this instance believes it holds. The store alone knows.
type heldLane struct {
	LaneEpoch
	since    Instant // when it was taken over
	renewed  Instant // its lease ends a whole lease after this, by our own clock
	yielded  Instant // when a claim last granted something of it
	fruitful bool    // its last claim granted something, or it was not asked yet
	lapsed   bool    // our own clock says that its lease ran out
	draining bool    // no new picks; given back when nothing of it is left
	avoid    bool    // once given back, leave it to others for a while
}

// avoidedLane is a lane given back because of work this worker cannot run.
type avoidedLane struct {
	LaneEpoch
	until Instant
}

func (d *Dispatcher) laneIndex(id LaneID) (int, bool) {
	return slices.BinarySearchFunc(d.lanes, id, func(l *heldLane, id LaneID) int {
		return cmp.Compare(l.Lane, id)
	})
}

func (d *Dispatcher) lane(id LaneID) *heldLane {
	if i, ok := d.laneIndex(id); ok {
		return d.lanes[i]
	}
	return nil
}

// hold records that the store said at now, in answer to a call sent at sent, that
// the lane is ours. What is left of the lease counts from the sending, because
// the store cannot have answered earlier; and it is less than a lease for a
// lane that the call did not renew.
func (d *Dispatcher) hold(at, sent Instant, now protocol.Time, lane ClaimedLane) *heldLane {
	i, ok := d.laneIndex(lane.Lane)
	if !ok {
		d.lanes = slices.Insert(d.lanes, i, &heldLane{})
	}
	l := d.lanes[i]
	if !ok || l.Epoch != lane.Epoch {
		*l = heldLane{LaneEpoch: lane.LaneEpoch, since: at, yielded: at, fruitful: true, renewed: sent.plus(-d.cfg.Lease)}
	}
	left := min(lane.ExpiresAt.Sub(now), d.cfg.Lease)
	if mutant.On("fencing-from-the-reply") {
		sent = at
	}
	l.renewed = later(l.renewed, sent.plus(left-d.cfg.Lease))
	l.lapsed = l.lapsed && at.since(l.renewed) >= d.cfg.Lease
	return l
}

// loseLane forgets a lane that the store says is not ours. A refusal speaks
// only of the epoch it was asked about.
func (d *Dispatcher) loseLane(at Instant, id LaneEpoch) {
	i, ok := d.laneIndex(id.Lane)
	if !ok || d.lanes[i].Epoch != id.Epoch {
		return
	}
	if mutant.On("gone-lane-kept") {
		return
	}
	probeLaneLost.Hit()
	d.emit(Observed{Event: ObservedLaneLost, Lane: id.Lane})
	d.lanes = slices.Delete(d.lanes, i, i+1)
	for _, c := range d.chains {
		if c.lane == id {
			d.loseFrom(at, c, 0)
		}
	}
}

// forgetLane drops a lane that was given back.
func (d *Dispatcher) forgetLane(id LaneEpoch) {
	d.lanes = slices.DeleteFunc(d.lanes, func(l *heldLane) bool { return l.LaneEpoch == id })
}

// fenceExpired stops trusting lanes whose lease ran out by our own clock,
// measured from before the request was sent. It is best effort: what is safe
// rests on tokens alone.
func (d *Dispatcher) fenceExpired(at Instant) {
	for _, l := range d.lanes {
		if l.lapsed {
			continue
		}
		if left := d.cfg.Lease - at.since(l.renewed); left > 0 {
			d.wake.in(left)
			continue
		}
		l.lapsed = true
		probeFencedSelf.Hit()
		d.emit(Observed{Event: ObservedLeaseExpired, Lane: l.Lane})
		for _, c := range d.chains {
			if c.lane == l.LaneEpoch {
				d.abandonChain(at, c, ErrLeaseLost)
			}
		}
	}
}

// letsExpire returns the lanes with an end that stayed unknown for a whole
// lease: renewing one would keep everybody else from finding out.
func (d *Dispatcher) letsExpire(at Instant) (lanes []LaneEpoch) {
	if mutant.On("expiring-lane-renewed") {
		return nil
	}
	for _, c := range d.chains {
		if c.unknownFor(at) >= d.cfg.Lease {
			lanes = append(lanes, c.lane)
		}
	}
	return lanes
}

// extendLeases renews the lanes that no claim renewed for a third of the
// lease.
func (d *Dispatcher) extendLeases(at Instant) {
	if d.phase == phaseStarting || outstanding[ExtendLeaseInput](d) > 0 ||
		d.room() == 0 && mutant.On("renewal-skipped-while-busy") {
		return
	}
	if !d.extend.due(at) {
		d.wake.at(at, d.extend.next)
		return
	}
	var stale []LaneEpoch
	expire := d.letsExpire(at)
	for _, l := range d.lanes {
		if wait := d.cfg.Lease/3 - (at.Mono - l.renewed.Mono); wait > 0 {
			d.wake.in(wait)
			continue
		}
		if slices.Contains(expire, l.LaneEpoch) {
			probeLetExpire.Hit()
			continue
		}
		if d.givingBack(l.LaneEpoch) {
			continue
		}
		stale = append(stale, l.LaneEpoch)
	}
	if len(stale) == 0 {
		return
	}
	d.send(at, ExtendLeaseInput{
		Holder: d.cfg.Holder, Lanes: stale, TTL: d.cfg.Lease, NotAfter: d.notAfter(at),
	}, nil)
}

// givingBack reports whether a Relinquish of the lane is under way. Renewing it
// beside that would report a lane as lost that this worker gave back itself.
func (d *Dispatcher) givingBack(id LaneEpoch) bool {
	for _, c := range d.calls {
		if in, ok := c.input.(RelinquishInput); ok {
			return slices.Contains(in.Lanes, id) || len(in.Lanes) == 0 && !d.laneBusy(id)
		}
	}
	return false
}

func (d *Dispatcher) extendReturned(at Instant, c *call, input ExtendLeaseInput, in CallReturned) {
	if in.Err != nil {
		d.extend.failed(d, at)
		return
	}
	d.extend = retryState{}
	reply := in.Reply.(*ExtendLeaseReply)
	d.heard(at, reply.Now)
	for i, id := range input.Lanes {
		if reply.Verdicts[i] == LeaseLost {
			if d.givingBack(id) { // and its Relinquish overtook this call
				d.forgetLane(id)
			} else {
				d.loseLane(at, id)
			}
			continue
		}
		if l := d.lane(id.Lane); l != nil && l.Epoch == id.Epoch {
			sent := c.sent
			if mutant.On("fencing-from-the-reply") {
				sent = at
			}
			l.renewed, l.lapsed = later(l.renewed, sent), false
		}
	}
}

func later(a, b Instant) Instant {
	if b.Mono > a.Mono {
		return b
	}
	return a
}

// idleAfter is how long a lane may stay without work before it is given back.
func (d *Dispatcher) idleAfter() time.Duration { return d.cfg.Lease / 4 }

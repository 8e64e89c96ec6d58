package engine

import "github.com/relaybus-go/relaybus/internal/mutant"

// beginStop starts the shutdown: no new claims, and what waits is given back.
// Running handlers have the grace to finish; then their contexts are
// cancelled. A further Stop can only hasten it.
func (d *Dispatcher) beginStop(at Instant, stop Stop) {
	switch d.phase {
	case phaseStopped:
	case phaseStopping:
		if sooner := at.plus(stop.Grace); sooner.Mono < d.stopAt.plus(d.stop.Grace).Mono {
			d.stopAt, d.stop = at, stop
		}
	default:
		d.phase, d.stopAt, d.stop = phaseStopping, at, stop
	}
}

// drainForStop releases what was not started and cancels what overstays.
func (d *Dispatcher) drainForStop(at Instant) {
	if d.phase != phaseStopping {
		return
	}
	overtime := at.reached(d.stopAt.plus(d.stop.Grace))
	if !overtime {
		d.wake.at(at, d.stopAt.plus(d.stop.Grace))
	}
	for _, c := range d.chains {
		for _, j := range c.members {
			switch {
			case j.state == jobWaiting:
				probeStopReleases.Hit()
				d.set(j, jobReleasing)
			case j.state == jobRunning && overtime && !j.cancelled:
				probeStopCancels.Hit()
				d.cancel(at, j, ErrShutdown)
			}
		}
	}
}

// finishStop gives all lanes back once nothing is left to end. When the store
// does not answer for a whole lease after the grace, nothing is left to save:
// the lanes have expired.
func (d *Dispatcher) finishStop(at Instant) {
	if d.phase != phaseStopping {
		return
	}
	giveUp := d.stopAt.plus(d.stop.Grace).plus(d.cfg.Lease)
	if at.reached(giveUp) || d.group == 0 && d.storeTime == 0 {
		if at.reached(giveUp) {
			probeStopGivesUp.Hit()
		}
		d.stopped()
		return
	}
	d.wake.at(at, giveUp)
	if d.laneCallOutstanding() {
		return
	}
	if d.claim.abandoned && !mutant.On("unknown-lanes-wait-for-handlers") {
		d.relinquishUnknown(at)
		return
	}
	if d.unfinished() {
		d.relinquishDone(at)
		return
	}
	if len(d.lanes) == 0 && !d.claim.abandoned {
		d.stopped()
		return
	}
	d.relinquishUnknown(at)
}

// relinquishUnknown gives back every lane of this holder on which nothing is left
// to end. After an abandoned call that happens at once, handlers or not: a lane
// that it took is one that this worker never heard of and does not renew, and
// when its lease runs out, what it granted is charged without having run.
func (d *Dispatcher) relinquishUnknown(at Instant) {
	if d.claim.retry.tries > 0 && !d.claim.retry.due(at) {
		d.wake.at(at, d.claim.retry.next)
		return
	}
	if d.unfinished() {
		probeStopUnknown.Hit()
	}
	d.relinquish(at, nil)
}

// relinquishDone gives lanes back on which nothing is left to end: one handler
// that takes its time must not keep the others' lanes from the next worker.
func (d *Dispatcher) relinquishDone(at Instant) {
	if d.claim.abandoned {
		return // the last Relinquish names every lane
	}
	var done []LaneEpoch
	for _, l := range d.lanes {
		if !d.laneBusy(l.LaneEpoch) {
			done = append(done, l.LaneEpoch)
		}
	}
	if len(done) > 0 {
		probeStopLanesFirst.Hit()
		d.relinquish(at, done)
	}
}

// unfinished reports whether an end must still be sent or learnt.
func (d *Dispatcher) unfinished() bool {
	if mutant.On("window-lost-at-shutdown") {
		return false
	}
	return d.jobs > 0
}

func (d *Dispatcher) stopped() {
	d.phase = phaseStopped
	d.emit(Stopped{Err: d.refused})
}

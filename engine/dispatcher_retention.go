package engine

// purge calls Operator.Purge now and then. The first time is anywhere within
// the interval, later ones are half of it either way, so that a fleet that
// starts together does not purge together.
func (d *Dispatcher) purge(at Instant) {
	every := d.cfg.Retention.Every
	if !d.cfg.Retention.on() || d.phase != phaseRunning || outstanding[PurgeInput](d) > 0 || d.storeAway() {
		return
	}
	if !d.retention.armed {
		d.retention.next, d.retention.armed = at.plus(d.jitter(every)), true
	}
	if !d.retention.due(at) {
		d.wake.at(at, d.retention.next)
		return
	}
	d.send(at, d.cfg.Retention.input(), nil)
}

// purgeReturned plans the next purge. One that was cut off goes on soon, with
// growing pauses; one that the store refuses would be refused again.
func (d *Dispatcher) purgeReturned(at Instant, in CallReturned) {
	every := d.cfg.Retention.Every
	if in.Err == nil {
		d.retention.after(at, every/2+d.jitter(every))
		return
	}
	d.retention.failed(d, at)
	if d.retention.tries == 1 {
		d.emit(Observed{Event: ObservedPurgeFailed, Err: in.Err})
	}
	if IsDefinite(in.Err) {
		d.retention.next = at.plus(every/2 + d.jitter(every))
	}
}

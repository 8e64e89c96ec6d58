package engine

// Hash returns a canonical FNV-1a hash (64 bits) of everything the Dispatcher
// decides from, so that two runs of the same inputs can be compared.
func (d *Dispatcher) Hash() uint64 {
	h := hasher(fnvOffset)
	h.int(int64(d.phase), int64(d.group), d.number, int64(d.lastID), int64(d.lastRun), int64(d.storeTime))
	for _, l := range d.lanes {
		h.int(int64(l.Lane), l.Epoch, int64(l.renewed.Mono), int64(l.yielded.Mono))
		h.bool(l.fruitful, l.lapsed, l.draining, l.avoid)
	}
	for _, a := range d.avoid {
		h.int(int64(a.Lane), a.Epoch, int64(a.until.Mono))
	}
	for _, c := range d.calls {
		h.int(int64(c.id), int64(c.sent.Mono))
	}
	for _, c := range d.chains {
		for _, j := range c.members {
			h.job(j)
		}
	}
	for _, u := range d.unknown {
		h.int(int64(u.delivery), int64(u.count))
	}
	for _, tick := range d.due.ticks {
		h.int(int64(tick))
	}
	h.int(int64(d.away), int64(d.probe.tries), int64(d.probe.next.Mono))
	h.int(int64(d.claim.cursor), int64(d.claim.behind), int64(d.claim.retry.tries), int64(d.claim.retry.next.Mono), int64(d.claim.unasked), int64(len(d.claim.gaveBack)))
	for i := range d.cfg.Handlers {
		h.bool(d.cfg.Handlers[i].short)
	}
	if d.retention.armed {
		h.int(int64(d.retention.tries), int64(d.retention.next.Mono))
	}
	h.bool(d.leasesFailed, d.claim.abandoned, d.claim.woken, d.claim.more, d.claim.suspects, d.claim.goesOn, d.flush.armed)
	return uint64(h)
}

type hasher uint64

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (h *hasher) int(values ...int64) {
	for _, v := range values {
		for range 8 {
			*h = (*h ^ hasher(v&0xff)) * fnvPrime
			v >>= 8
		}
	}
}

func (h *hasher) bool(values ...bool) {
	for _, v := range values {
		bit := int64(0)
		if v {
			bit = 1
		}
		h.int(bit)
	}
}

func (h *hasher) job(j *job) {
	h.int(int64(j.lease.Delivery), int64(j.lease.Lane), j.lease.Epoch, j.lease.Claim)
	h.int(int64(j.state), int64(j.run), int64(j.call), int64(j.end.kind), int64(j.retry.tries), int64(j.begin.tries))
	h.bool(j.cancelled, j.timedOut, j.retiring, j.asked, j.unsure)
}

package engine

import (
	"fmt"
	"strings"
)

// Describe says in one line what the machine does and waits for at this time:
// what is started and granted, the lanes it holds and those it leaves to others,
// the calls under way, and why it does not claim now. It is for reports of
// people; its form may change in any release.
func (m *Machine) Describe(at Instant) string { return m.dispatcher.describe(at) }

func (d *Dispatcher) describe(at Instant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d of %d slots taken, %d granted and not settled", d.phase, d.active, d.cfg.Concurrency, d.jobs)
	for i := range d.cfg.Handlers {
		h := &d.cfg.Handlers[i]
		fmt.Fprintf(&b, ", %s %d/%d", h.Name, h.active, h.Concurrency)
		if h.short {
			b.WriteString(" (more may wait)")
		}
	}
	if d.suspects > 0 {
		fmt.Fprintf(&b, ", %d in flight when a worker died", d.suspects)
	}
	d.describeLanes(&b, at)
	for _, c := range d.calls {
		fmt.Fprintf(&b, "; %s under way for %v", callName(c.input), at.Mono-c.sent.Mono)
	}
	fmt.Fprintf(&b, "; %s", d.whyNoClaim(at))
	if d.storeAway() {
		fmt.Fprintf(&b, "; the store is away: %d calls failed in a row", d.away)
	}
	return b.String()
}

func (d *Dispatcher) describeLanes(b *strings.Builder, at Instant) {
	b.WriteString("; lanes")
	if len(d.lanes) == 0 {
		b.WriteString(" none")
	}
	for _, l := range d.lanes {
		fmt.Fprintf(b, " %d:%d", l.Lane, l.Epoch)
		switch {
		case l.lapsed:
			b.WriteString(" (its lease ran out)")
		case l.draining:
			b.WriteString(" (drains)")
		}
	}
	for _, a := range d.avoid {
		fmt.Fprintf(b, "; leaves lane %d to others for %v", a.Lane, a.until.Mono-at.Mono)
	}
}

// whyNoClaim says why no claim is sent now.
func (d *Dispatcher) whyNoClaim(at Instant) string {
	next := max(d.claim.retry.next.Mono-at.Mono, 0)
	switch {
	case d.phase != phaseRunning:
		return "claims nothing"
	case d.laneCallOutstanding():
		return "waits for its claim"
	case d.room() == 0 && !d.claim.abandoned:
		return "has no room for a claim"
	case d.claim.retry.tries > 0:
		return fmt.Sprintf("claims again in %v after %d that failed", next, d.claim.retry.tries)
	case d.claim.abandoned:
		return fmt.Sprintf("claims in %v, and asks for all its lanes: an earlier call may still be applied", next)
	}
	return fmt.Sprintf("claims in %v", next)
}

// String names the phase.
func (p phase) String() string {
	return [...]string{"new", "starting", "running", "stopping", "stopped"}[p]
}

package mirror

import (
	"fmt"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Describe implements Describer: a line for each thing that a state holds, as
// people would name it, and at the end which promise is broken and why.
func (m *relaybus) Describe(s relayState) string {
	w := m.world(s)
	var b strings.Builder
	fmt.Fprintln(&b, "clock:", w.clock)
	for e := range w.state.Events() {
		fmt.Fprintf(&b, "event %s: key=%q handlers=%v\n", e.ID, e.Key, e.Handlers)
	}
	for d := range w.state.Deliveries() {
		fmt.Fprintf(&b, "delivery #%d of %s/%s: lane=%d %v attempts=%d takeovers=%d fence=%d available=%d\n",
			d.ID, d.Event, d.Handler, d.Lane, d.Status, d.Attempts, d.Takeovers, d.Fence, d.AvailableAt)
	}
	for l := range w.state.AllLanes() {
		fmt.Fprintf(&b, "lane %d: epoch=%d holder=%s claim=%d expires=%d in flight=%s stuck=%v lost=%s\n",
			l.ID, l.Epoch, relayName(l.Holder), l.Claim, l.ExpiresAt, relayEntries(l.InFlight), l.Stuck, relayEntries(l.Lost))
	}
	for sub := range w.state.Subscriptions() {
		fmt.Fprintf(&b, "subscription of %s to %s: group=%s removed=%v\n", sub.Handler, sub.Event, sub.Group, sub.Removed)
	}
	for _, name := range m.names {
		w.describeWorker(&b, name)
	}
	for i := range w.calls {
		fmt.Fprintln(&b, w.calls[i].describe())
	}
	for i := range w.pairs {
		w.pairs[i].describe(&b, i+1)
	}
	if violation := protocol.Check(w.state, w.history); violation != nil {
		fmt.Fprintln(&b, violation)
	}
	return b.String()
}

func (w *relayWorld) describeWorker(b *strings.Builder, name string) {
	worker := w.workers[name]
	fmt.Fprintf(b, "worker %s: life=%d up=%v number=%d doubt=%d\n", name, worker.life, worker.up, worker.number, worker.doubt)
	for i := range worker.leases {
		x := &worker.leases[i]
		fmt.Fprintf(b, "lease %s at %s: %s, suspect=%v\n", relayLeaseName(&x.Lease), name, x.phase, x.suspect)
	}
}

func (c *relayCall) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "call %s", c.kind)
	if c.laneCall() {
		fmt.Fprintf(&b, " %d of %s: late=%v", c.number, relayName(c.holder), c.late)
		var running, granted []string
		for _, r := range c.running {
			running = append(running, fmt.Sprintf("#%d:%d", r.Delivery, r.Claim))
		}
		for i := range c.granted {
			granted = append(granted, relayLeaseName(&c.granted[i].Lease))
		}
		if c.kind == "Relinquish" {
			fmt.Fprintf(&b, " lane=%d", c.lane)
		}
		fmt.Fprintf(&b, " running=%v not after=%d reached=%v granted=%v lost=%s",
			running, c.notAfter, c.reached, granted, relayEntries(c.lost))
		return b.String()
	}
	for i := range c.leases {
		b.WriteString(" of " + relayLeaseName(&c.leases[i]))
	}
	for i := range c.rest {
		b.WriteString(" with " + relayLeaseName(&c.rest[i]))
	}
	fmt.Fprintf(&b, " by %s: late=%v", c.worker, c.late)
	return b.String()
}

func (p *relayPair) describe(b *strings.Builder, id int) {
	run := "none"
	if p.run.phase != relayNone {
		run = fmt.Sprintf("%s by claim %d of %s", [...]string{"none", "open", "taken over"}[p.run.phase], p.run.claim, relayName(p.run.holder))
	}
	fate := [...]string{"there", "completed", "purged", "unsubscribed"}[p.fate]
	fmt.Fprintf(b, "history of #%d: %s, run %s, charged %d times, taken over %d times, requeued %d times\n",
		id, fate, run, p.charges, p.takeovers, p.lives)
}

// relayName is the name that [relaybus.holder] wrote into a holder.
func relayName(h protocol.Holder) string {
	if h.IsZero() {
		return "nobody"
	}
	return strings.TrimRight(string(h[:]), "\x00")
}

func relayEntries(list []protocol.InFlight) string {
	entries := make([]string, len(list))
	for i, f := range list {
		entries[i] = fmt.Sprintf("#%d:%d", f.Delivery, f.Claim)
	}
	slices.Sort(entries)
	return fmt.Sprint(entries)
}

// relayLeaseName is a delivery and a token: lane, epoch, claim and holder.
func relayLeaseName(l *protocol.Lease) string {
	return fmt.Sprintf("#%d@%d:%d:%d@%s", l.Delivery, l.Lane, l.Epoch, l.Claim, relayName(l.Holder))
}

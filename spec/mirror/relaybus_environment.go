package mirror

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Environment.tla, and what of Calls.tla befalls a COMMIT.

func (t *relayTurn) strikes() {
	t.expire()
	t.repeat()
	t.rollBack()
	for _, name := range t.m.names {
		worker := t.w.workers[name]
		if worker.up {
			t.crash(name)
			t.kill(name)
		} else if worker.life < t.m.maxLives {
			c := t.w.clone()
			c.workers[name] = relayWorker{life: worker.life + 1, up: true}
			t.lead("Restart", c)
		}
		t.abandon(name)
		t.giveUpComplete(name)
	}
}

func (w *relayWorld) lateCalls() (n int) {
	for i := range w.calls {
		if w.calls[i].late {
			n++
		}
	}
	return n
}

// vain: a call that can no longer do anything is as good as gone.
func (m *relaybus) vain(c *relayCall, at protocol.Time) bool {
	return c.laneCall() && !m.guard("Claim.not-after", at <= c.notAfter) && !m.guard("TakeOver.not-after", at <= c.notAfter)
}

func (t *relayTurn) expire() {
	if int(t.w.clock) >= t.m.maxClock {
		return
	}
	c := t.w.clone()
	c.clock++
	c.calls = slices.DeleteFunc(c.calls, func(x relayCall) bool { return x.late && t.m.vain(&x, c.clock) })
	t.lead("Expire", c)
}

// keptCalls are the ways in which the calls of a worker that dies live on.
func (t *relayTurn) keptCalls(name string) [][]relayCall {
	ways := [][]relayCall{nil}
	if call := t.w.laneCallOf(name); call != nil && t.w.lateCalls() < t.m.maxLate {
		ways = append(ways, []relayCall{call.forgotten()})
	}
	return ways
}

func (c *relayCall) forgotten() relayCall {
	f := *c
	f.late, f.granted, f.lost = true, nil, nil
	return f
}

func (t *relayTurn) dies(action, name string, from *relayWorld) {
	for _, kept := range t.keptCalls(name) {
		c := from.clone()
		c.calls = slices.DeleteFunc(c.calls, func(x relayCall) bool { return x.worker == name && !x.late })
		for _, call := range kept {
			c.add(call)
		}
		c.workers[name] = relayWorker{life: c.workers[name].life}
		t.lead(action, c)
	}
}

func (t *relayTurn) crash(name string) {
	if t.m.done("Crash") {
		t.dies("Crash", name, t.w)
	}
}

func (t *relayTurn) kill(name string) {
	for _, x := range t.w.workers[name].leases {
		if !slices.Contains(t.m.poison, int(x.Delivery)) || !t.w.started(name, &x) {
			continue
		}
		c := t.w.clone()
		c.place = 0
		c.history = c.history.Clone()
		c.history.Killed(t.m.holder(t.w, name), x.Delivery)
		c.kills[t.m.holder(t.w, name)] = relayKill{x.Delivery, c.pair(x.Delivery).lives}
		t.dies("Kill", name, c)
	}
}

func (t *relayTurn) abandon(name string) {
	call := t.w.laneCallOf(name)
	if call == nil || !t.m.vain(call, t.w.clock) && t.w.lateCalls() >= t.m.maxLate {
		return
	}
	c := t.w.clone()
	c.remove(call)
	if !t.m.vain(call, t.w.clock) {
		c.add(call.forgotten())
	}
	worker := c.workers[name]
	worker.doubt, worker.past = max(worker.doubt, call.notAfter), false
	c.workers[name] = worker
	t.lead("Abandon", c)
}

// repeat makes the copy of an ending call that is still to come when another
// was heard.
func (t *relayTurn) repeat() {
	if t.w.lateCalls() >= t.m.maxLate {
		return
	}
	for _, call := range t.w.calls {
		if call.late || call.laneCall() {
			continue
		}
		c := t.w.clone()
		call.late = true
		c.add(call)
		t.lead("Repeat", c)
	}
}

func (t *relayTurn) rollBack() {
	for i := range t.w.calls {
		if call := &t.w.calls[i]; call.kind == "Complete" && call.late {
			c := t.w.clone()
			c.remove(call)
			t.lead("RollBack", c)
		}
	}
}

func (t *relayTurn) giveUpComplete(name string) {
	if t.w.lateCalls() >= t.m.maxLate {
		return
	}
	for i := range t.w.calls {
		call := &t.w.calls[i]
		if call.worker != name || call.late || call.kind != "Complete" {
			continue
		}
		c := t.w.clone()
		c.remove(call)
		c.add(call.forgotten())
		worker := c.workers[name]
		worker.leases = slices.Clone(worker.leases)
		for j := range worker.leases {
			if worker.leases[j].Lease == call.leases[0] {
				worker.leases[j].phase = "unknown"
			}
		}
		c.workers[name] = worker
		t.lead("GiveUpComplete", c)
	}
}

package mirror

import (
	"cmp"
	"slices"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// What Ledger.tla keeps, which is less than protocol.Ledger does: it decides
// which histories are one state. Whether a promise was broken is
// protocol.Ledger's to say.

type relayFate uint8

const (
	relayAlive relayFate = iota
	relayCompleted
	relayPurged
	relayUnsubscribed
)

type relayPhase uint8

const (
	relayNone relayPhase = iota
	relayOpen
	relayLost
)

type relayKill struct {
	by   protocol.DeliveryID
	life int
}

type relayFence struct {
	holder protocol.Holder
	claim  int64
}

type relayRun struct {
	phase  relayPhase
	epoch  int64
	holder protocol.Holder
	claim  int64
	death  relayKill
}

// relayPair is ledger.pairs[id]. Its slices are replaced, never changed.
type relayPair struct {
	event, handler, key string
	lane                protocol.LaneID
	fate                relayFate
	forgotten, dead     bool
	lives               int
	excepted, bad       bool
	charges, takeovers  int32
	blamed              []relayKill
	run                 relayRun
	fenced              []relayFence
}

func (p *relayPair) alive() bool { return p.fate == relayAlive && !p.dead }

func (p *relayPair) over(fate relayFate) {
	p.fate, p.dead, p.lives, p.bad = fate, false, 0, false
	p.charges, p.takeovers, p.blamed, p.fenced = 0, 0, nil, nil
}

func (p *relayPair) sameKey(q *relayPair) bool {
	return p.key != "" && p.key == q.key && p.handler == q.handler
}

func (w *relayWorld) pair(id protocol.DeliveryID) *relayPair { return &w.pairs[id-1] }

func (p *relayPair) isRun(l *protocol.Lease) bool {
	return p.run.epoch == l.Epoch && p.run.holder == l.Holder && p.run.claim == l.Claim
}

// inPhase lists the deliveries of a lane with a run in a phase.
func (w *relayWorld) inPhase(lane protocol.LaneID, phase relayPhase) (ids []protocol.DeliveryID) {
	for i := range w.pairs {
		if w.pairs[i].lane == lane && w.pairs[i].run.phase == phase {
			ids = append(ids, protocol.DeliveryID(i+1))
		}
	}
	return ids
}

func (w *relayWorld) recordPublish(a *protocol.Publish) {
	for _, d := range a.Events[0].Deliveries {
		w.pairs = append(w.pairs, relayPair{event: d.Event, handler: d.Handler, key: d.Key, lane: d.Lane})
	}
}

func (w *relayWorld) recordClaim(a *protocol.Claim, epoch int64) {
	for _, id := range w.inPhase(a.Lane, relayOpen) {
		p := w.pair(id)
		if !states(a.Running, protocol.InFlight{Delivery: id, Claim: p.run.claim}) {
			p.run = relayRun{}
		}
	}
	for _, pick := range a.Picks {
		w.pair(pick.Delivery).run = relayRun{phase: relayOpen, epoch: epoch, holder: a.Holder, claim: a.Number}
	}
	for _, id := range a.Unstuck {
		if p := w.pair(id); p.alive() {
			p.charges++
			p.takeovers++
		}
	}
}

func states(running []protocol.Running, f protocol.InFlight) bool {
	return slices.ContainsFunc(running, func(r protocol.Running) bool { return r.InFlight == f })
}

func (w *relayWorld) recordTakeOver(semantics protocol.Semantics, a *protocol.TakeOver) {
	death := w.kills[w.terms[a.Lane]]
	w.terms[a.Lane] = a.Holder
	open := w.inPhase(a.Lane, relayOpen)
	for _, id := range open {
		w.pair(id).run.phase, w.pair(id).run.death = relayLost, death
	}
	if semantics == protocol.Locking {
		w.charge(semantics, open, a.Refused)
	}
}

// charge charges what was in flight: all of it a takeover, and an attempt where
// nothing before it in its key was.
func (w *relayWorld) charge(semantics protocol.Semantics, list, refused []protocol.DeliveryID) {
	started := map[protocol.DeliveryID]bool{}
	for _, id := range list {
		started[id] = !slices.ContainsFunc(list, func(x protocol.DeliveryID) bool {
			return x < id && w.pair(x).sameKey(w.pair(id)) && w.pair(x).alive()
		})
	}
	for _, id := range list {
		p := w.pair(id)
		if p.alive() && !slices.Contains(refused, id) {
			p.takeovers++
			if started[id] {
				p.charges++
				p.blame(id)
			}
			if semantics == protocol.Snapshot {
				p.fenced = withFence(p.fenced, relayFence{p.run.holder, p.run.claim})
			}
		}
		p.run = relayRun{}
	}
}

func (p *relayPair) blame(id protocol.DeliveryID) {
	death := p.run.death
	if death == (relayKill{}) || death.by == id || slices.Contains(p.blamed, death) {
		return
	}
	p.blamed = append(slices.Clone(p.blamed), death)
	slices.SortFunc(p.blamed, func(a, b relayKill) int {
		return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.life, b.life))
	})
}

func withFence(list []relayFence, f relayFence) []relayFence {
	if slices.Contains(list, f) {
		return list
	}
	list = append(slices.Clone(list), f)
	slices.SortFunc(list, func(a, b relayFence) int {
		return cmp.Or(slices.Compare(a.holder[:], b.holder[:]), cmp.Compare(a.claim, b.claim))
	})
	return list
}

func (w *relayWorld) recordRelinquish(a *protocol.Relinquish) {
	for _, id := range w.inPhase(a.Lane, relayOpen) {
		w.pair(id).run = relayRun{}
	}
	w.terms[a.Lane] = protocol.Holder{}
}

// recordDone records a completion that deleted its row.
func (w *relayWorld) recordDone(id protocol.DeliveryID) {
	p := w.pair(id)
	p.over(relayCompleted)
	p.run = relayRun{}
}

// endRun closes exactly the run of a lease, if it is open.
func (w *relayWorld) endRun(l *protocol.Lease) {
	if p := w.pair(l.Delivery); p.run.phase == relayOpen && p.isRun(l) {
		p.run = relayRun{}
	}
}

// recordFinish records an end that keeps the row; it may cost an attempt.
func (w *relayWorld) recordFinish(l *protocol.Lease, rest []protocol.Lease, refused, pay bool) {
	w.endRun(l)
	for i := range rest {
		w.endRun(&rest[i])
	}
	p := w.pair(l.Delivery)
	p.bad = p.bad || refused || pay
	if pay && !refused {
		p.charges++
	}
}

func (w *relayWorld) recordRequeue(id protocol.DeliveryID) {
	p := w.pair(id)
	p.dead, p.excepted, p.charges, p.takeovers, p.blamed = false, true, 0, 0, nil
	p.lives++
}

func (w *relayWorld) recordUnsubscribe(id protocol.DeliveryID, bury bool) {
	p := w.pair(id)
	if bury {
		p.dead, p.excepted = true, true
		return
	}
	p.over(relayUnsubscribed)
}

func (w *relayWorld) recordPurge(dead []protocol.DeliveryID, events []string) {
	for _, id := range dead {
		w.pair(id).over(relayPurged)
	}
	for i := range w.pairs {
		w.pairs[i].forgotten = w.pairs[i].forgotten || slices.Contains(events, w.pairs[i].event)
	}
}

package linearize

import (
	"slices"

	"github.com/relaybus-go/relaybus/engine"
)

// open notes what a call without an answer, or one that failed half-way, may
// have done to the lanes that answers speak of.
func (v *laneView) open(o *op) {
	switch in := o.Input.(type) {
	case engine.ClaimInput:
		v.openClaim(o, &in)
	case engine.ExtendLeaseInput:
		for _, l := range in.Lanes {
			if in.TTL >= v.longestTTL {
				break // it can only make leases last longer, which nobody counts on
			}
			v.addOpen(o, l.Lane, laneCall{kind: mayExtend, holder: in.Holder, epoch: l.Epoch, ttl: in.TTL, floor: o.floor})
		}
	case engine.CompleteManyInput:
		v.doubt(o, "CompleteMany", v.leased(in.Leases))
	case Transaction:
		for _, c := range in.Completed {
			v.doubt(o, "Complete", v.leased([]engine.Lease{c.Lease}))
		}
	case engine.RescheduleInput, engine.SnoozeInput, engine.BuryInput:
		v.openEnd(o, endOf(in))
	case engine.ReleaseInput:
		for _, l := range in.Leases {
			v.openEnd(o, laneCall{name: "Release", leases: []engine.Lease{l}})
		}
	case engine.RelinquishInput:
		v.openRelinquish(o, &in)
	default:
		v.operated(o)
	}
}

func (v *laneView) openRows(o *op, kind laneKind, list []*delivery) {
	for lane, c := range rowCalls(kind, list) {
		if l := v.lanes[lane]; l != nil {
			p := openPart(o, c)
			p.sticky = kind == rowsPurged
			l.parts = append(l.parts, p)
		}
	}
}

// leased returns the deliveries that leases were granted for.
func (f *facts) leased(leases []engine.Lease) []*delivery {
	var list []*delivery
	for i := range leases {
		if g := f.grants[nameOf(&leases[i])]; g != nil {
			list = append(list, g.of)
		}
	}
	return list
}

// openEnd notes the end of a run, once however often it was sent.
func (v *laneView) openEnd(o *op, c laneCall) {
	c.kind, c.holder, c.epoch, c.leaves = laneInDoubt, c.leases[0].Holder, c.leases[0].Epoch, leavesBy(&c)
	if v.refusals && mayStick(o.Input) {
		c.leaves |= leavesFree // as stuck
	}
	l := v.lanes[c.leases[0].Lane]
	name := endName{nameOf(&c.leases[0]), c.name, len(c.rest)}
	if l == nil || l.ends[name]&c.leaves == c.leaves {
		return
	}
	l.ends[name] |= c.leaves
	l.parts = append(l.parts, doubtPart(o, c))
}

// leavesBy says how an end takes its run out of the lane.
func leavesBy(c *laneCall) leaving {
	switch {
	case c.dead && c.charge:
		return leavesDeadPaid
	case c.dead:
		return leavesDead
	case c.charge:
		return leavesCharged
	}
	return leavesFree
}

// doubtPart is the moment from which on a call may take effect, where a model
// need not try when.
func doubtPart(o *op, c laneCall) *part[laneCall] {
	p := settledPart(o, c)
	p.ret = p.call
	return p
}

// openClaim notes the actions that a claim may perform.
func (v *laneView) openClaim(o *op, in *engine.ClaimInput) {
	for _, l := range v.sorted() {
		c := v.claimCall(o, in, l.id)
		c.lasts = l.lasting(in.Holder, in.Number, o.Call)
		switch {
		case !c.named || !l.holders[in.Holder]:
		case c.lasts == 0:
			c.kind = laneInDoubt
			l.parts = append(l.parts, doubtPart(o, c))
		default:
			c.kind = mayClaim
			l.parts = append(l.parts, openClaimPart(o, c, o.until))
		}
		if in.MaxLanes == 0 || !v.inGroup(l.id, in.Group) {
			continue
		}
		if l.epochs == nil {
			l.epochs = l.findEpochs(v.lastCrash)
		}
		until, may := l.epochs.during(o)
		if !may {
			continue
		}
		if l.epochs.after.overlap(o) != -forever {
			l.epochs.afterwards[in.Holder]++
		}
		l.holders[in.Holder] = true
		c.clock, c.epochs = in.NotAfter, l.epochs
		l.addTakeOver(o, c, until)
	}
}

// addTakeOver notes that a claim may have taken the lane over. Claims of one
// holder whose times overlap count as the same call made several times: which
// of them it was makes no difference to anybody, and each that is told apart
// makes the search longer.
func (l *laneParts) addTakeOver(o *op, c laneCall, until int64) {
	c.kind = mayTakeOver
	p := openClaimPart(o, c, until)
	l.parts = append(l.parts, p)
	first := l.hidden[c.holder]
	if c.lasts != 0 || first == nil || o.Call > first.until {
		l.hidden[c.holder] = p
		return
	}
	p.like = first
	first.until = max(first.until, until)
	in := &first.in
	in.number, in.ttl = max(in.number, c.number), min(in.ttl, c.ttl)
	if in.clock == 0 || c.clock == 0 {
		in.clock = 0 // no not-after
	} else {
		in.clock = max(in.clock, c.clock)
	}
}

func openClaimPart(o *op, c laneCall, until int64) *part[laneCall] {
	p := openPart(o, c)
	p.until = until
	p.farFetched = c.kind == mayTakeOver
	return p
}

// lasting returns the number of an open call if an answer to the same holder,
// with a number that is not above it, may come after it; else 0.
func (l *laneParts) lasting(holder engine.Holder, number, call int64) int64 {
	depends := func(p *part[laneCall]) bool {
		return p.role == settledRole && p.in.holder == holder && p.in.number != 0 && p.in.number <= number && p.ret >= call
	}
	if slices.ContainsFunc(l.parts, depends) {
		return number
	}
	return 0
}

func (v *laneView) openRelinquish(o *op, in *engine.RelinquishInput) {
	for _, l := range v.sorted() {
		epoch := epochIn(in.Lanes, l.id)
		if slices.Contains(in.Keep, l.id) || epoch == 0 && (len(in.Lanes) > 0 || !l.holders[in.Holder]) {
			continue
		}
		c := laneCall{
			kind: mayRelinquish, holder: in.Holder, number: in.Number, epoch: epoch,
			running: v.entriesOf(in.Running, in.Holder, l.id), lasts: l.lasting(in.Holder, in.Number, o.Call),
		}
		p := openPart(o, c)
		p.sticky = c.lasts == 0
		l.parts = append(l.parts, p)
	}
}

// epochs says which epochs of a lane began with a takeover that no answer
// tells of, and when. Every takeover raises the epoch, so while no commit is
// lost one is hidden only where the answers skip an epoch, or after the last
// one that names an epoch. This keeps claims without an answer out of the
// hundreds of lanes that they never touched.
type epochs struct {
	lastCrash int64         // until then commits were lost, and epochs say nothing
	most      int64         // the highest epoch that an answer names
	last      int64         // the same since the last crash
	gaps      map[int64]gap // per skipped epoch: when it began
	after     gap           // the time after the last epoch that an answer names
	// afterwards counts the claims that may have taken the lane over then.
	afterwards map[engine.Holder]int32
}

// further returns how many takeovers nobody names may follow the first: each
// takes the lane from another holder.
func (e *epochs) further() int32 {
	if len(e.afterwards) < 2 {
		return 0
	}
	n := int32(-1)
	for _, claims := range e.afterwards {
		n += claims
	}
	return n
}

// gap is a time in which a hidden takeover may have happened.
type gap struct{ from, to int64 }

// epochKind is what the answers tell of an epoch.
type epochKind uint8

const (
	epochTold       epochKind = iota // an answer tells of its takeover
	epochSkipped                     // or of later epochs, but not of it
	epochNeverNamed                  // nor of any later one
)

// hidden returns what the answers tell of an epoch that a call may have begun.
func (e *epochs) hidden(epoch int64, o *op) epochKind {
	_, skipped := e.gaps[epoch]
	switch {
	case o.Call <= e.lastCrash || skipped:
		return epochSkipped
	case epoch > e.last:
		return epochNeverNamed
	}
	return epochTold
}

// during returns until when a call may have taken the lane over, and whether
// it may.
func (e *epochs) during(o *op) (until int64, may bool) {
	if o.Call <= e.lastCrash {
		return o.until, true
	}
	until = -forever
	for _, g := range e.gaps {
		until = max(until, g.overlap(o))
	}
	until = max(until, e.after.overlap(o))
	return until, until != -forever
}

// overlap returns the end of the time that a gap and an open call have in
// common, −forever for none.
func (g gap) overlap(o *op) int64 {
	if o.Call > g.to || o.until < g.from {
		return -forever
	}
	return min(g.to, o.until)
}

func (l *laneParts) findEpochs(lastCrash int64) *epochs {
	e := &epochs{lastCrash: lastCrash, gaps: map[int64]gap{}, after: gap{from: -forever, to: -forever}, afterwards: map[engine.Holder]int32{}}
	named := map[int64]gap{} // per epoch: when answers that name it began and ended
	taken := map[int64]bool{}
	for _, p := range l.parts {
		epoch := p.in.proves()
		e.most = max(e.most, epoch)
		if epoch == 0 || p.role != settledRole || lastCrash != 0 && p.call <= lastCrash {
			continue
		}
		taken[epoch] = taken[epoch] || p.in.kind == laneTaken || p.in.kind == laneGivenBack
		g, ok := named[epoch]
		if !ok {
			g = gap{p.call, p.ret}
		}
		named[epoch] = gap{max(g.from, p.call), min(g.to, p.ret)}
		e.last = max(e.last, epoch)
	}
	for epoch := int64(1); epoch <= e.last; epoch++ {
		if !taken[epoch] {
			e.gaps[epoch] = beginning(named, epoch)
		}
	}
	if g, ok := named[e.last]; ok {
		e.after.from = g.from
	}
	for _, p := range l.parts {
		if p.role == settledRole && p.in.proves() == 0 {
			e.after.to = max(e.after.to, p.ret) // an answer that a hidden takeover may explain
		}
	}
	return e
}

// beginning returns the time in which an epoch began: after every answer that
// named a lower one began, before any that names it or a higher one returned.
func beginning(named map[int64]gap, epoch int64) gap {
	g := gap{from: -forever, to: forever}
	for e, n := range named {
		if e < epoch {
			g.from = max(g.from, n.from)
		} else {
			g.to = min(g.to, n.to)
		}
	}
	return g
}

// proves returns the epoch at which the lane was when the call took effect, 0
// when the answer does not tell.
func (c *laneCall) proves() int64 {
	switch c.kind {
	case laneHeld, laneTaken, laneGivenBack, laneExtended, laneRelinquished:
		return c.epoch
	case laneCompleted, laneEnded:
		return c.leases[0].Epoch
	case laneReleased:
		for i, v := range c.verdicts {
			if v == engine.Applied {
				return c.leases[i].Epoch
			}
		}
	}
	return 0
}

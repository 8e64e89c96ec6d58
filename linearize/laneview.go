package linearize

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
)

// laneView cuts a history into what each lane saw of it.
type laneView struct {
	*facts
	lanes map[engine.LaneID]*laneParts
}

// laneParts are the calls that touched one lane.
type laneParts struct {
	id      engine.LaneID
	parts   []*part[laneCall]
	holders map[engine.Holder]bool
	epochs  *epochs             // once found
	ends    map[endName]leaving // the open ends of runs
	// hidden are the last that may have taken the lane over, by holder.
	hidden map[engine.Holder]*part[laneCall]
}

// endName tells the open ends of runs apart.
type endName struct {
	lease leaseName
	name  string
	rest  int // how many it takes along
}

func newLaneView(f *facts) *laneView {
	v := &laneView{facts: f, lanes: map[engine.LaneID]*laneParts{}}
	for _, o := range f.ops {
		if f.fate(o) == settled {
			v.settled(o)
		}
	}
	// What open calls may have done is of interest only to lanes that some
	// answer speaks of, and these are known by now.
	for _, o := range f.ops {
		if f.fate(o) == open {
			v.open(o)
		}
	}
	return v
}

// sorted returns the lanes by id.
func (v *laneView) sorted() []*laneParts {
	var list []*laneParts
	for _, id := range slices.Sorted(maps.Keys(v.lanes)) {
		list = append(list, v.lanes[id])
	}
	return list
}

func (v *laneView) lane(id engine.LaneID) *laneParts {
	l := v.lanes[id]
	if l == nil {
		l = &laneParts{id: id, holders: map[engine.Holder]bool{}, ends: map[endName]leaving{}, hidden: map[engine.Holder]*part[laneCall]{}}
		v.lanes[id] = l
	}
	return l
}

// add notes what an answer says of a lane.
func (v *laneView) add(o *op, lane engine.LaneID, c laneCall) *part[laneCall] {
	p := settledPart(o, c)
	p.flushes = v.commits(&c)
	l := v.lane(lane)
	l.parts = append(l.parts, p)
	if !c.holder.IsZero() {
		l.holders[c.holder] = true
	}
	return p
}

// commits reports whether a call has committed for certain, and not a claim or
// a renewal, which may be acknowledged before it is durable. A completion that
// was tried before may have found its row gone.
func (v *laneView) commits(c *laneCall) bool {
	switch c.kind {
	case laneEnded, laneRelinquished, rowsRequeued:
		return true
	case laneCompleted, rowsCompleted:
		return v.completions[nameOf(&c.leases[0])] == 1
	case laneReleased:
		return slices.Contains(c.verdicts, engine.Applied)
	}
	return false
}

// addOpen notes what an open call may do to a lane that answers speak of.
func (v *laneView) addOpen(o *op, lane engine.LaneID, c laneCall) {
	if l := v.lanes[lane]; l != nil {
		l.parts = append(l.parts, openPart(o, c))
		if !c.holder.IsZero() {
			l.holders[c.holder] = true
		}
	}
}

// expired reports whether a call took effect although the store's clock had
// passed its not-after.
func (o *op) expired(notAfter engine.StoreTime) string {
	if notAfter != 0 && o.floor > notAfter {
		return "it took effect after its not-after"
	}
	return ""
}

// mayBeLate reports whether a refusal may be due to the not-after.
func (o *op) mayBeLate(notAfter engine.StoreTime) bool {
	return notAfter != 0 && (o.ceil == 0 || o.ceil > notAfter)
}

func (v *laneView) settled(o *op) {
	switch in := o.Input.(type) {
	case engine.ClaimInput:
		reply := o.Output.(engine.ClaimReply)
		v.claim(o, &in, &reply)
	case engine.ExtendLeaseInput:
		v.extend(o, &in, o.Output.(engine.ExtendLeaseReply).Verdicts)
	case engine.CompleteManyInput:
		v.completeMany(o, in.Leases, o.Output.(engine.CompleteManyReply).Ended)
	case Transaction:
		v.complete(o, in.Completed)
	case engine.RescheduleInput, engine.SnoozeInput, engine.BuryInput:
		if o.Output.(engine.EndReply).Verdict == engine.Applied {
			v.add(o, endOf(in).leases[0].Lane, endOf(in))
		}
	case engine.ReleaseInput:
		v.release(o, in.Leases, o.Output.(engine.ReleaseReply).Verdicts)
	case engine.RelinquishInput:
		v.relinquish(o, &in, o.Output.(engine.RelinquishReply).Lanes)
	case engine.ListInput:
		v.list(o, o.Output.(engine.ListReply).Deliveries)
	default:
		v.operated(o)
	}
}

// operated notes the calls of an operator, whose answers are counts: they are
// guesses whether one came or not.
func (v *laneView) operated(o *op) {
	switch in := o.Input.(type) {
	case engine.RequeueInput:
		v.requeue(o, &in)
	case engine.UnsubscribeInput:
		v.doubt(o, "Unsubscribe", v.sweptBy(o))
	case engine.PurgeInput:
		v.doubt(o, "Purge", v.sweptBy(o))
		v.openRows(o, rowsPurged, v.reborn(o))
	}
}

func (v *laneView) claim(o *op, in *engine.ClaimInput, reply *engine.ClaimReply) {
	for _, l := range reply.Lanes {
		c := v.claimCall(o, in, l.Lane)
		c.kind, c.epoch, c.expires = laneHeld, l.Epoch, l.ExpiresAt
		if l.TakenOver {
			c.kind, c.renews = laneTaken, true
		}
		for _, r := range reply.LeaseLost {
			if r.Lane == l.Lane {
				c.lost = append(c.lost, v.entry(r.Delivery, in.Holder, r.Claim))
			}
		}
		for i := range reply.Picks {
			if p := &reply.Picks[i]; p.Lease.Lane == l.Lane {
				c.picks = append(c.picks, v.entryOf(&p.Lease))
			}
		}
		if len(c.picks) > 0 {
			c.suspects = wrongSuspects(in, reply)
		}
		p := v.add(o, l.Lane, c)
		p.wrong = cmp.Or(o.expired(in.NotAfter), v.wrongGroup(in, &c, l.Lane), v.wrongExpiry(o, &c),
			wrongPicks(in, reply, &c, l.LaneEpoch))
	}
	for _, l := range reply.GivenBack {
		c := v.claimCall(o, in, l.Lane)
		c.kind, c.epoch = laneGivenBack, l.Epoch
		p := v.add(o, l.Lane, c)
		p.wrong = cmp.Or(o.expired(in.NotAfter), v.wrongGroup(in, &c, l.Lane))
	}
	for _, lane := range reply.Gone {
		if c := v.claimCall(o, in, lane); c.named {
			c.kind = laneGone
			v.add(o, lane, c)
		}
	}
}

// claimCall is what a claim asks of a lane.
func (v *laneView) claimCall(o *op, in *engine.ClaimInput, lane engine.LaneID) laneCall {
	letExpire := slices.Contains(in.LetExpire, lane)
	return laneCall{
		holder: in.Holder, number: in.Number, clock: o.ceil, late: o.mayBeLate(in.NotAfter),
		floor: o.floor, ttl: in.TTL, renews: !letExpire,
		named:   in.AllMine || letExpire || holdsLane(in.Held, lane) || slices.Contains(in.Draining, lane),
		running: v.entriesOf(in.Running, in.Holder, lane),
	}
}

func holdsLane(list []engine.LaneEpoch, lane engine.LaneID) bool {
	return slices.ContainsFunc(list, func(l engine.LaneEpoch) bool { return l.Lane == lane })
}

// wrongGroup checks that a lane which was taken over is one of the caller's
// group.
func (v *laneView) wrongGroup(in *engine.ClaimInput, c *laneCall, lane engine.LaneID) string {
	if c.kind == laneHeld || v.inGroup(lane, in.Group) {
		return ""
	}
	return fmt.Sprintf("it took over a lane that is not of its group %d", in.Group)
}

// wrongExpiry checks the expiry of a renewed lane against the clock.
func (v *laneView) wrongExpiry(o *op, c *laneCall) string {
	if c.expires == 0 || !c.renews {
		return ""
	}
	if o.ceil != 0 && c.expires > o.ceil.Add(c.ttl) {
		return "the lease lasts longer by the store's clock than was asked for"
	}
	// A Snapshot store shows a lane that it could not claim from as it is.
	certain := v.family == Locking || c.kind == laneTaken || len(c.picks) > 0
	if certain && c.expires < o.floor.Add(c.ttl) {
		return "the lease is shorter by the store's clock than was asked for"
	}
	return ""
}

// wrongPicks checks what can be seen of a reply's picks in the reply alone.
func wrongPicks(in *engine.ClaimInput, reply *engine.ClaimReply, c *laneCall, lane engine.LaneEpoch) string {
	if len(c.picks) == 0 {
		return ""
	}
	if c.kind == laneHeld && (slices.Contains(in.LetExpire, lane.Lane) || slices.Contains(in.Draining, lane.Lane)) {
		return "it picked from a lane that was not to be picked from"
	}
	for i := range reply.Picks {
		p := &reply.Picks[i]
		l := &p.Lease
		switch {
		case l.Lane != lane.Lane:
		case l.Epoch != lane.Epoch || l.Holder != in.Holder || l.Claim != in.Number:
			return "the token of " + l.String() + " is not that of the lane and the claim"
		case slices.ContainsFunc(in.Running, func(r engine.Running) bool { return r.Delivery == l.Delivery }):
			return "it picked " + l.String() + ", whose delivery the worker runs"
		}
	}
	return ""
}

// wrongSuspects checks the picks that were in flight when a worker died: they
// run one at a time.
func wrongSuspects(in *engine.ClaimInput, reply *engine.ClaimReply) string {
	suspects := 0
	for i := range reply.Picks {
		if reply.Picks[i].Delivery.Takeovers > 0 {
			suspects++
		}
	}
	switch {
	case suspects > 0 && in.SuspectRunning:
		return "it picked a delivery with takeovers while one runs"
	case suspects > 1:
		return "it picked more than one delivery with takeovers"
	}
	return ""
}

func (v *laneView) extend(o *op, in *engine.ExtendLeaseInput, verdicts []engine.Verdict) {
	for i, l := range in.Lanes {
		c := laneCall{
			kind: laneNotExtended, holder: in.Holder, epoch: l.Epoch, ttl: in.TTL, floor: o.floor,
			late: o.mayBeLate(in.NotAfter),
		}
		if verdicts[i] == engine.Applied {
			c.kind = laneExtended
		}
		p := v.add(o, l.Lane, c)
		if c.kind == laneExtended {
			p.wrong = o.expired(in.NotAfter)
		}
	}
}

// completeMany notes the completions that were accepted. In a Snapshot store
// the row alone decides them.
func (v *laneView) completeMany(o *op, leases []engine.Lease, ended []engine.Ended) {
	kind := laneCompleted
	if v.family == Snapshot {
		kind = rowsCompleted
	}
	byLane := map[engine.LaneID]*laneCall{}
	for i, l := range leases {
		if ended[i].Err == nil && ended[i].Verdict == engine.Applied {
			join(byLane, l.Lane, laneCall{kind: kind, name: "CompleteMany"}, l, engine.Applied)
		}
	}
	v.addAll(o, byLane)
}

func (v *laneView) complete(o *op, completed []Completed) {
	byLane := map[engine.LaneID]*laneCall{}
	for _, c := range completed {
		if c.Verdict == engine.Applied {
			join(byLane, c.Lease.Lane, laneCall{kind: laneCompleted, name: "Complete"}, c.Lease, c.Verdict)
		}
	}
	v.addAll(o, byLane)
}

func (v *laneView) release(o *op, leases []engine.Lease, verdicts []engine.Verdict) {
	byLane := map[engine.LaneID]*laneCall{}
	for i, l := range leases {
		join(byLane, l.Lane, laneCall{kind: laneReleased, name: "Release"}, l, verdicts[i])
	}
	v.addAll(o, byLane)
}

// join adds a lease to the call on its lane, which begins as c.
func join(byLane map[engine.LaneID]*laneCall, lane engine.LaneID, c laneCall, l engine.Lease, verdict engine.Verdict) {
	if byLane[lane] == nil {
		byLane[lane] = &c
	}
	byLane[lane].leases = append(byLane[lane].leases, l)
	byLane[lane].verdicts = append(byLane[lane].verdicts, verdict)
}

func (v *laneView) addAll(o *op, byLane map[engine.LaneID]*laneCall) {
	for _, lane := range slices.Sorted(maps.Keys(byLane)) {
		v.add(o, lane, *byLane[lane])
	}
}

// endOf is the end of one run that keeps its row.
func endOf(input any) laneCall {
	c := laneCall{kind: laneEnded, verdicts: []engine.Verdict{engine.Applied}}
	switch in := input.(type) {
	case engine.RescheduleInput:
		c.name, c.leases, c.rest, c.charge = "Reschedule", []engine.Lease{in.Lease}, in.Rest, true
	case engine.SnoozeInput:
		c.name, c.leases, c.rest = "Snooze", []engine.Lease{in.Lease}, in.Rest
	case engine.BuryInput:
		c.name, c.leases, c.rest, c.charge, c.dead = "Bury", []engine.Lease{in.Lease}, in.Rest, in.Charge, true
	}
	return c
}

func (v *laneView) relinquish(o *op, in *engine.RelinquishInput, given []engine.LaneID) {
	call := func(kind laneKind, lane engine.LaneID) laneCall {
		return laneCall{
			kind: kind, holder: in.Holder, number: in.Number, epoch: epochIn(in.Lanes, lane),
			running: v.entriesOf(in.Running, in.Holder, lane), late: o.mayBeLate(in.NotAfter),
		}
	}
	for _, lane := range given {
		p := v.add(o, lane, call(laneRelinquished, lane))
		p.wrong = o.expired(in.NotAfter)
		if slices.Contains(in.Keep, lane) {
			p.wrong = "it gave back a lane with an unsettled end"
		}
	}
	for _, lane := range in.Lanes {
		if !slices.Contains(given, lane.Lane) && !slices.Contains(in.Keep, lane.Lane) {
			v.add(o, lane.Lane, call(laneKept, lane.Lane))
		}
	}
}

func epochIn(list []engine.LaneEpoch, lane engine.LaneID) int64 {
	for _, l := range list {
		if l.Lane == lane {
			return l.Epoch
		}
	}
	return 0
}

func (v *laneView) list(o *op, rows []engine.Listed) {
	byLane := map[engine.LaneID][]rowSeen{}
	for i := range rows {
		row := rows[i].Delivery
		byLane[row.Lane] = append(byLane[row.Lane], rowSeen{v.names[Name{row.Event, row.Handler}], row})
	}
	for _, lane := range slices.Sorted(maps.Keys(byLane)) {
		v.add(o, lane, laneCall{kind: rowsListed, rows: byLane[lane]})
	}
}

func (v *laneView) requeue(o *op, in *engine.RequeueInput) {
	r := v.requeued(o, in)
	v.rows(o, rowsRequeued, r.back)
	for lane, c := range rowCalls(rowsRevivable, r.perhaps) {
		p := v.add(o, lane, c)
		p.ret = p.call
	}
}

// rows notes what an operator did to rows, lane by lane.
func (v *laneView) rows(o *op, kind laneKind, list []*delivery) {
	for lane, c := range rowCalls(kind, list) {
		v.add(o, lane, c)
	}
}

// rowCalls yields what concerns the rows of each lane, by lane.
func rowCalls(kind laneKind, list []*delivery) iter.Seq2[engine.LaneID, laneCall] {
	byLane := map[engine.LaneID][]*delivery{}
	for _, d := range list {
		if d.seen {
			byLane[d.lane] = append(byLane[d.lane], d)
		}
	}
	return func(yield func(engine.LaneID, laneCall) bool) {
		for _, lane := range slices.Sorted(maps.Keys(byLane)) {
			if !yield(lane, laneCall{kind: kind, deliveries: byLane[lane]}) {
				return
			}
		}
	}
}

// doubt notes that rows may be gone or dead from the beginning of a call on.
// When exactly is of no interest to anybody, so it is noted at once.
func (v *laneView) doubt(o *op, name string, list []*delivery) {
	for lane, c := range rowCalls(rowsInDoubt, list) {
		c.name = name
		p := v.add(o, lane, c)
		p.ret = p.call
	}
}

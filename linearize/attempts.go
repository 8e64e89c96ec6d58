package linearize

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine"
)

// Attempt charging, a model per lane.
//
// Verified: the attempts and takeovers of a delivery, as claims and listings
// show them, are those of its accepted ends and of the takeovers of its lane.
// A Reschedule and a charging Bury add an attempt, once per run however often
// they are sent; a takeover that finds the delivery in flight and pending adds
// a takeover, and an attempt unless an earlier pending delivery of its handler
// and key is listed too; a Requeue makes both zero; nothing else changes
// either, least of all a claim, a release, a snooze or a Relinquish. A claim
// grants at most one delivery with takeovers, and none while one runs.
//
// Not verified: that a limit of attempts buries. Where answers are missing the
// model knows less: a claim without an answer may have put any pending
// delivery of the lane in flight, so a takeover after it may have charged any;
// where the store refused rows for good, a charge may come late or be counted
// as a takeover. A lane whose ownership is impossible already is not judged.
type chargeRules struct {
	lanes laneRules
	facts *facts
}

// charges are the counters of a delivery.
type charges struct{ attempts, takeovers int32 }

func (c charges) String() string {
	return fmt.Sprintf("attempts %d, takeovers %d", c.attempts, c.takeovers)
}

// latelyFrom reports whether charges that the store refused at first may lead
// from b to c: a stuck row that takes a write is charged an attempt and a
// takeover.
func (c charges) latelyFrom(b charges) bool {
	late := c.attempts - b.attempts
	return late > 0 && late == c.takeovers-b.takeovers
}

// reachedFrom reports whether so many takeovers alone may lead from b to c.
func (c charges) reachedFrom(b charges, takeovers int32, follows bool) bool {
	attempts, more := c.attempts-b.attempts, c.takeovers-b.takeovers
	return more >= 0 && more <= takeovers && (attempts == more || follows && attempts >= 0 && attempts < more)
}

func compareCharges(a, b charges) int {
	if a.attempts != b.attempts {
		return int(a.attempts - b.attempts)
	}
	return int(a.takeovers - b.takeovers)
}

// rowState is what is known of one delivery row.
type rowState struct {
	of      *delivery
	options []charges // sorted; what the counters may be
	over    bool      // dead or gone: takeovers charge it no more
	gone    bool      // over because it was completed
	doubt   bool      // it may be
	// revivable: a Requeue without an answer may bring it back once it is dead.
	revivable bool
	since     *op // what last changed it; no part of the key
}

// chargeState is a lane with the counters of its deliveries. The rows are
// those that differ from a fresh one.
type chargeState struct {
	lane laneState
	rows []rowState // by delivery
	// unseen counts takeovers that may have charged deliveries nobody knew to
	// be in flight.
	unseen int32
}

func (s chargeState) appendKey(b []byte) []byte {
	b = s.lane.appendKey(b)
	b = binary.AppendVarint(b, int64(s.unseen))
	for _, r := range s.rows {
		b = binary.AppendUvarint(b, uint64(r.of.index))
		b = appendBool(appendBool(appendBool(appendBool(b, r.over), r.gone), r.doubt), r.revivable)
		b = binary.AppendUvarint(b, uint64(len(r.options)))
		for _, o := range r.options {
			b = binary.AppendVarint(b, int64(o.attempts))
			b = binary.AppendVarint(b, int64(o.takeovers))
		}
	}
	return b
}

// String says who holds the lane and what was charged.
func (s chargeState) String() string {
	var b strings.Builder
	b.WriteString(s.lane.String())
	for _, r := range s.rows {
		fmt.Fprintf(&b, "; %s: %v", r.of.Name, choice(r.options))
	}
	return b.String()
}

// choice is put into words only when somebody asks.
type choice []charges

func (list choice) String() string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = c.String()
	}
	return strings.Join(words, ", or ")
}

func (r *chargeRules) start() chargeState { return chargeState{lane: r.lanes.start()} }

// row returns what is known of a delivery.
func (s *chargeState) row(d *delivery) rowState {
	if i, ok := s.find(d); ok {
		return s.rows[i]
	}
	r := rowState{of: d}
	for t := int32(0); t <= s.unseen; t++ {
		for a := int32(0); a <= t; a++ {
			if a == t || d.mayFollow {
				r.options = append(r.options, charges{a, t})
			}
		}
	}
	slices.SortFunc(r.options, compareCharges)
	return r
}

func (s *chargeState) find(d *delivery) (int, bool) {
	return slices.BinarySearchFunc(s.rows, d.index, func(r rowState, index int) int { return r.of.index - index })
}

// put stores what is known of a delivery, in a copy of the rows.
func (s *chargeState) put(r rowState) {
	i, ok := s.find(r.of)
	rows := make([]rowState, 0, len(s.rows)+1)
	rows = append(append(rows, s.rows[:i]...), r)
	if ok {
		i++
	}
	s.rows = append(rows, s.rows[i:]...)
}

func (r *chargeRules) settled(s chargeState, p *part[laneCall]) ([]chargeState, *misfit) {
	if p.in.suspects != "" {
		return nil, mismatch(nil, "%s", p.in.suspects)
	}
	moves, m := r.lanes.moves(s.lane, p)
	var next []chargeState
	for _, to := range moves {
		after, why := r.after(s, to, p)
		if why != nil {
			m = why
			continue
		}
		next = append(next, after)
	}
	return next, m
}

// after is the state once the lane has moved and the call has done to the rows
// what its answer says.
func (r *chargeRules) after(s chargeState, to move, p *part[laneCall]) (chargeState, *misfit) {
	c := &p.in
	next := r.moved(s, to, c, p.op)
	switch c.kind {
	case laneHeld, laneTaken:
		if m := r.granted(&next, p); m != nil {
			return next, m
		}
	case laneEnded:
		r.ended(&next, c, p.op)
	case laneCompleted, rowsCompleted:
		for i := range c.leases {
			if g := r.facts.grants[nameOf(&c.leases[i])]; g != nil {
				next.finish(g.of, p.op)
			}
		}
	case rowsInDoubt:
		for _, d := range c.deliveries {
			next.doubt(d, p.op)
		}
	case rowsListed:
		for _, seen := range c.rows {
			if m := next.mayBe(seen.of, isDead(&seen.row)); m != nil {
				return next, m
			}
			if m := r.see(&next, seen.of, charges{seen.row.Attempts, seen.row.Takeovers}, isDead(&seen.row), p.op); m != nil {
				return next, m
			}
		}
	case rowsRequeued:
		for _, d := range c.deliveries {
			next.requeue(d, p.op)
		}
	case rowsRevivable:
		for _, d := range c.deliveries {
			row := next.row(d)
			row.revivable = true
			next.put(row.revived())
		}
	}
	next.forget()
	return next, nil
}

// moved is the state once the lane has moved: what a takeover found in flight
// is charged, by the takeover itself or when its losses are, and what calls
// without an answer did to runs that are listed no more is settled.
func (r *chargeRules) moved(s chargeState, to move, c *laneCall, by *op) chargeState {
	next := s
	next.lane = to.to
	list, hidden := s.lane.lost, s.lane.lostHidden
	if to.tookOver {
		hidden = hidden || s.lane.hidden
		for _, e := range s.lane.listed {
			list = withEntry(list, e)
		}
	} else {
		next.settleLeft(s.lane.listed, c, by)
	}
	if to.to.uncharged() || len(list) == 0 && !hidden {
		return next
	}
	before := next
	r.charge(&next, list, hidden, by)
	if hidden {
		next.chargeUnknown(list, by)
	}
	if to.to.drifted && r.facts.family == Snapshot {
		return r.join(before, next) // who took it over may never have come to charging
	}
	return next
}

// settleLeft settles the entries that the lane does not list any more and that
// calls without an answer may have ended: for certain where a claim calls them
// lost, else perhaps.
func (s *chargeState) settleLeft(before []entry, c *laneCall, by *op) {
	for _, e := range before {
		if e.leaving == 0 || e.grant == nil || has(s.lane.listed, e) || c.ends(e) {
			continue
		}
		row := s.row(e.grant.of)
		left := row.left(e.leaving)
		if !has(c.lost, e) {
			left = append(left, row.options...)
		}
		row.options, row.since = sortedOptions(left), by
		if has(c.lost, e) && e.leaving&^leavesBuried == 0 {
			row.over = true
			row = row.revived()
		} else {
			row.doubt = row.doubt || e.leaving&leavesBuried != 0
		}
		s.put(row)
	}
}

// ends reports whether the call is the accepted end of an entry's run.
func (c *laneCall) ends(e entry) bool {
	return (c.kind == laneEnded || c.kind == laneReleased) && slices.ContainsFunc(c.leases, func(l engine.Lease) bool {
		return e.id == l.Delivery && e.claim == l.Claim
	})
}

// left is what the counters are after a run left its lane in one of the ways.
func (r *rowState) left(how leaving) []charges {
	var options []charges
	for _, o := range r.options {
		if how&(leavesFree|leavesUnstated|leavesDead) != 0 {
			options = append(options, o)
		}
		if how&(leavesCharged|leavesDeadPaid) != 0 {
			options = append(options, charges{o.attempts + 1, o.takeovers})
		}
	}
	if r.revivable && how&leavesBuried != 0 {
		options = append(options, charges{})
	}
	return options
}

// charge charges what was in flight. Hidden says that a claim without an answer
// may have granted what had left before.
func (r *chargeRules) charge(s *chargeState, list []entry, hidden bool, by *op) {
	before := *s
	for _, e := range list {
		if e.grant == nil {
			continue
		}
		row := before.row(e.grant.of)
		if row.over {
			continue
		}
		first, follows := before.place(row.of, list)
		options := row.left(e.leaving)
		if hidden {
			options = append(options, perhapsCharged(options, row.of)...)
		}
		for _, o := range row.options {
			if first {
				options = append(options, charges{o.attempts + 1, o.takeovers + 1})
			}
			if follows {
				options = append(options, charges{o.attempts, o.takeovers + 1})
			}
			if row.doubt {
				options = append(options, o, charges{o.attempts + 1, o.takeovers + 1})
			}
			if r.facts.refusals {
				options = append(options, o) // the charge may come late
			}
		}
		row.options, row.since = sortedOptions(options), by
		row.doubt = row.doubt || e.leaving&leavesBuried != 0
		s.put(row)
	}
}

func sortedOptions(options []charges) []charges {
	slices.SortFunc(options, compareCharges)
	return slices.Compact(options)
}

// place says whether d may be the first pending delivery of its handler and
// key in the list, and whether it may follow another.
func (s *chargeState) place(d *delivery, list []entry) (first, follows bool) {
	first = true
	for _, e := range list {
		if e.grant == nil || e.grant.of == d {
			continue
		}
		earlier, known := e.grant.of.before(d)
		row := s.row(e.grant.of)
		if row.over || known && !earlier {
			continue
		}
		follows = true
		if known && !row.doubt && e.leaving == 0 {
			first = false
		}
	}
	return first, follows
}

// chargeUnknown charges what a claim without an answer may have granted: any
// delivery of the lane that was not known to be in flight.
func (s *chargeState) chargeUnknown(list []entry, by *op) {
	rows := slices.Clone(s.rows)
	for i := range rows {
		row := &rows[i]
		if row.over || namesRow(list, row.of) {
			continue
		}
		options := append(slices.Clone(row.options), perhapsCharged(row.options, row.of)...)
		row.options, row.since = sortedOptions(options), by
	}
	s.rows = rows
	s.unseen++
}

// perhapsCharged is what a takeover makes of the counters of a delivery that
// may have been in flight unknown to anybody.
func perhapsCharged(options []charges, d *delivery) []charges {
	var list []charges
	for _, o := range options {
		list = append(list, charges{o.attempts + 1, o.takeovers + 1})
		if d.mayFollow {
			list = append(list, charges{o.attempts, o.takeovers + 1})
		}
	}
	return list
}

// namesRow reports whether a list has a run of a delivery.
func namesRow(list []entry, d *delivery) bool {
	return slices.ContainsFunc(list, func(e entry) bool { return e.grant != nil && e.grant.of == d })
}

// granted compares a claim's picks with what was charged.
func (r *chargeRules) granted(s *chargeState, p *part[laneCall]) *misfit {
	for _, e := range p.in.picks {
		g := e.grant
		if m := s.mayBe(g.of, false); m != nil {
			return m
		}
		if m := r.see(s, g.of, charges{g.row.Attempts, g.row.Takeovers}, false, p.op); m != nil {
			return m
		}
		if row := s.row(g.of); row.over || row.doubt {
			// It was pending, but what put it in doubt may go on.
			row.over, row.gone, row.doubt = false, false, row.doubt && !r.facts.settles(g.of)
			s.put(row)
		}
	}
	return nil
}

// settles reports whether a grant shows that nothing that began before it can
// still end the delivery: no sweep for a removed handler, and no completion
// that goes by the row's fence alone.
func (f *facts) settles(d *delivery) bool { return f.family == Locking && !f.removed[d.Handler] }

// see compares a row that somebody saw with what it may be.
func (r *chargeRules) see(s *chargeState, d *delivery, saw charges, dead bool, by *op) *misfit {
	row := s.row(d)
	stayed, left := s.mayShow(row, dead)
	match := func(o charges) bool { return o == saw || r.facts.refusals && saw.latelyFrom(o) }
	if s.lane.drifted {
		match = func(o charges) bool { return saw.reachedFrom(o, s.lane.further, d.mayFollow) }
	}
	if !slices.ContainsFunc(stayed, match) && !slices.ContainsFunc(left, match) {
		all := sortedOptions(append(slices.Clone(stayed), left...))
		return mismatch(row.since, "%s shows %s and must have %v", d.Name, saw, choice(all))
	}
	if !slices.ContainsFunc(stayed, match) {
		s.hasLeft(d) // only that explains what was seen
		row.doubt = dead
	}
	if len(row.options) > 1 || row.options[0] != saw || dead {
		row.options, row.since = []charges{saw}, by
		s.put(row.revived())
	}
	return nil
}

// mayBe compares whether a row is dead with what is known of burials.
func (s *chargeState) mayBe(d *delivery, dead bool) *misfit {
	row := s.row(d)
	switch {
	case !dead && row.over && !row.gone:
		return mismatch(row.since, "%s is taken for pending and was buried", d.Name)
	case dead && !row.over && !row.doubt && !s.mayBeBuried(d):
		return mismatch(row.since, "%s is taken for dead and was not buried", d.Name)
	}
	return nil
}

const leavesBuried = leavesDead | leavesDeadPaid

// mayShow is what the counters of a row may be if its run did not leave the
// lane through a call without an answer, and if it did. A dead letter was
// buried, if that is known of no other.
func (s *chargeState) mayShow(row rowState, dead bool) (stayed, left []charges) {
	stayed = row.options
	for _, e := range s.lane.listed {
		if e.leaving == 0 || e.grant == nil || e.grant.of != row.of {
			continue
		}
		how := e.leaving &^ leavesBuried
		if dead {
			how = e.leaving & leavesBuried
		}
		left = append(left, row.left(how)...)
		switch buried := e.leaving&leavesBuried != 0; {
		case buried && dead && !row.over && !row.doubt:
			stayed = nil
		case buried && !dead && row.revivable:
			left = append(left, charges{})
		}
	}
	return stayed, left
}

// hasLeft takes the run of a delivery out of the lane.
func (s *chargeState) hasLeft(d *delivery) {
	s.lane.listed = slices.DeleteFunc(slices.Clone(s.lane.listed), func(e entry) bool {
		return e.leaving != 0 && e.grant != nil && e.grant.of == d
	})
}

// ended charges an accepted Reschedule or Bury.
func (r *chargeRules) ended(s *chargeState, c *laneCall, by *op) {
	g := r.facts.grants[nameOf(&c.leases[0])]
	if g == nil {
		return
	}
	row := s.row(g.of)
	if c.charge {
		row.options, row.since = row.left(leavesCharged), by
	}
	// A sweep for a removed handler goes on.
	row.over, row.doubt = c.dead, row.doubt && r.facts.removed[g.of.Handler]
	s.put(row.revived())
}

// revived is a row that a Requeue without an answer may have brought back, if
// it is dead or may be.
func (r rowState) revived() rowState {
	if r.revivable && (r.over && !r.gone || r.doubt) {
		r.options = sortedOptions(append(slices.Clone(r.options), charges{}))
		r.over, r.doubt = false, true
	}
	return r
}

// requeue notes that a row was dead and is pending again. A Bury without an
// answer may have been what killed it: then its run left the lane before.
func (s *chargeState) requeue(d *delivery, by *op) {
	row := s.row(d)
	s.put(rowState{of: d, options: []charges{{}}, doubt: row.doubt, revivable: row.revivable, since: by})
	switch {
	case !s.mayBeBuried(d):
	case !row.over && !row.doubt:
		s.hasLeft(d) // nothing else can have killed it
	default:
		s.lane = s.lane.marked(func(e entry) leaving {
			if e.grant != nil && e.grant.of == d {
				return leavesFree
			}
			return 0
		})
	}
}

// mayBeBuried reports whether a Bury without an answer may have ended the run
// of a delivery that the lane may still list.
func (s *chargeState) mayBeBuried(d *delivery) bool {
	return slices.ContainsFunc(s.lane.listed, func(e entry) bool {
		return e.leaving&leavesBuried != 0 && e.grant != nil && e.grant.of == d
	})
}

// finish notes that a row is gone.
func (s *chargeState) finish(d *delivery, by *op) {
	row := s.row(d)
	row.over, row.gone, row.since = true, true, by
	s.put(row)
}

// doubt notes that a row may be gone or dead.
func (s *chargeState) doubt(d *delivery, by *op) {
	row := s.row(d)
	row.doubt = true
	s.put(row)
}

// purge notes that dead rows may be gone, and new ones of the same name begin
// with nothing charged.
func (s *chargeState) purge(list []*delivery, by *op) (changed bool) {
	for _, d := range list {
		i, known := s.find(d)
		if !known || !s.rows[i].over && (!s.rows[i].doubt || slices.Contains(s.rows[i].options, charges{})) {
			continue
		}
		row := s.rows[i]
		row.options, row.since = sortedOptions(append(slices.Clone(row.options), charges{})), by
		row.over, row.gone, row.doubt = false, false, true
		s.put(row)
		changed = true
	}
	return changed
}

// forget drops rows about which there is nothing to know, and completed ones
// that no list names any more.
func (s *chargeState) forget() {
	if slices.ContainsFunc(s.rows, s.forgettable) {
		s.rows = slices.DeleteFunc(slices.Clone(s.rows), s.forgettable)
	}
}

func (s *chargeState) forgettable(r rowState) bool {
	if r.gone {
		return !namesRow(s.lane.listed, r.of) && !namesRow(s.lane.lost, r.of)
	}
	return !r.over && !r.doubt && !r.revivable && s.unseen == 0 && len(r.options) == 1 && r.options[0] == charges{}
}

func (r *chargeRules) effects(s chargeState, p, at *part[laneCall]) []chargeState {
	c := &p.in
	if c.kind == rowsPurged {
		if next := s; next.purge(c.deliveries, p.op) {
			return []chargeState{next}
		}
		return nil
	}
	var list []chargeState
	for _, to := range r.lanes.openMoves(s.lane, p, at) {
		next := r.moved(s, to, c, p.op)
		next.forget()
		list = append(list, next)
	}
	return list
}

func (r *chargeRules) silent(s chargeState) []chargeState {
	var list []chargeState
	for _, to := range r.lanes.silent(s.lane) {
		next := r.moved(s, move{to: to}, &laneCall{}, s.lane.since)
		next.forget()
		list = append(list, next)
	}
	return list
}

func (r *chargeRules) spent(s chargeState, p *part[laneCall]) bool { return r.lanes.spent(s.lane, p) }

func (r *chargeRules) appendJoinKey(s chargeState, b []byte) []byte { return s.lane.appendKey(b) }

// join takes the counters of each delivery for what they are in either state.
func (r *chargeRules) join(a, b chargeState) chargeState {
	joined := chargeState{lane: a.lane, unseen: max(a.unseen, b.unseen)}
	for i, j := 0, 0; i < len(a.rows) || j < len(b.rows); {
		var of *delivery
		switch {
		case j == len(b.rows) || i < len(a.rows) && a.rows[i].of.index <= b.rows[j].of.index:
			of = a.rows[i].of
		default:
			of = b.rows[j].of
		}
		joined.rows = append(joined.rows, joinRows(a.row(of), b.row(of)))
		if i < len(a.rows) && a.rows[i].of == of {
			i++
		}
		if j < len(b.rows) && b.rows[j].of == of {
			j++
		}
	}
	return joined
}

func joinRows(a, b rowState) rowState {
	a.options = sortedOptions(append(slices.Clone(a.options), b.options...))
	a.doubt = a.doubt || b.doubt || a.over != b.over
	a.over, a.gone = a.over && b.over, a.gone && b.gone
	a.revivable = a.revivable || b.revivable
	return a
}

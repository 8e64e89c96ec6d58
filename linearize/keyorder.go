package linearize

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine"
)

// Order per key, a model per handler and key.
//
// Verified: a claim grants the first pending delivery in the order in which
// the publishing transactions committed, and nothing while the worker runs
// another of the key; a chain goes on with the next pending ones, each named
// after the one before, none of them charged. Of runs that were granted at
// different times only the last may be completed or ended, so runs that count
// never overlap. Completions follow the commit order; within a call a follower
// is Applied only if its predecessor is, and never while that is pending.
// Sequences rise in commit order, and a delivery is granted in the lane it is
// in. Dead letters stand aside, and once requeued they may complete late and
// be overtaken, but are granted in their old place.
//
// Not verified: handlers of two workers may overlap in time, the former of
// which has lost its lease; only what the store accepts counts. Deliveries
// without a key have no order. What nobody can have granted to anybody (a
// publish or a claim without an answer and without a trace) is not missed.
type keyRules struct{ facts *facts }

// keyItem is a delivery that is not done.
type keyItem struct {
	of       *delivery
	dead     bool
	requeued bool // it was dead: it has given its place up
	doubt    bool // it may be gone or dead
	// loose: whether or where a publish put it is not known.
	loose bool
	// revivable: a Requeue without an answer may bring it back once it is dead.
	revivable bool
}

// died is the item once it is dead.
func (i keyItem) died() keyItem {
	i.dead = true
	return i.revived()
}

// revived is an item that a Requeue without an answer may have brought back, if
// it is dead.
func (i keyItem) revived() keyItem {
	if i.dead && i.revivable {
		i.dead, i.requeued, i.doubt = false, true, true
	}
	return i
}

func (i keyItem) blocks() bool { return !i.dead && !i.doubt }

// keyState is the queue of one key.
type keyState struct {
	items []keyItem // in commit order
	live  []*grant  // the runs that count
	last  int64     // the sequence of the last one committed, as far as known
	// done are deliveries that were completed, where the event was published
	// more than once.
	done []*delivery

	since *op // what last changed the runs; no part of the key
}

func (s keyState) appendKey(b []byte) []byte {
	b = binary.AppendVarint(b, s.last)
	b = binary.AppendUvarint(b, uint64(len(s.items)))
	for _, i := range s.items {
		b = binary.AppendUvarint(b, uint64(i.of.index))
		b = appendBool(appendBool(appendBool(appendBool(appendBool(b, i.dead), i.requeued), i.doubt), i.revivable), i.loose)
	}
	b = binary.AppendUvarint(b, uint64(len(s.live)))
	for _, g := range s.live {
		b = binary.AppendUvarint(b, uint64(g.of.index))
		b = binary.AppendUvarint(b, uint64(g.run))
	}
	for _, d := range s.done {
		b = binary.AppendUvarint(b, uint64(d.index))
	}
	return b
}

// String says what waits and which runs count.
func (s keyState) String() string {
	const most = 5
	var waiting []string
	for _, i := range s.items {
		word := i.of.Name.Event
		if i.dead {
			word += " (dead)"
		}
		waiting = append(waiting, word)
	}
	if len(waiting) > most {
		waiting = append(waiting[:most], fmt.Sprintf("%d more", len(waiting)-most))
	}
	text := "waiting: " + strings.Join(waiting, ", ")
	if len(waiting) == 0 {
		text = "nothing waits"
	}
	if len(s.live) > 0 {
		text += "; may be completed: " + grantList(s.live)
	}
	return text
}

func (keyRules) start() keyState { return keyState{} }

func (s *keyState) find(d *delivery) int {
	return slices.IndexFunc(s.items, func(i keyItem) bool { return i.of == d })
}

func (r keyRules) settled(s keyState, p *part[keyCall]) ([]keyState, *misfit) {
	c := &p.in
	switch {
	case p.wrong != "":
		return nil, mismatch(nil, "%s", p.wrong)
	case c.kind == keyPublished:
		return r.published(s, p)
	case c.kind == keyGranted:
		return r.granted(s, p)
	case c.kind == keyCompleted:
		return r.completed(s, p)
	case c.kind == keyEnded:
		if m := r.counts(s, c.picks[0], nil); m != nil {
			return nil, m
		}
		return one(r.ended(s, p)), nil
	case c.kind == keyReleased:
		s.leave(c.picks)
	case c.kind == keyRequeued || c.kind == keyInDoubt || c.kind == keyRevivable:
		s.mark(c)
	}
	return one(s), nil
}

func (r keyRules) published(s keyState, p *part[keyCall]) ([]keyState, *misfit) {
	for _, d := range p.in.of {
		// A row after a purge has another sequence, and then neither is known.
		known, at := slices.Contains(s.done, d), s.find(d)
		again := r.facts.purges && d.sequence == 0
		if known && !again || at >= 0 && !(s.items[at].dead && again) {
			continue
		}
		if at >= 0 { // purged, or still the dead letter
			s.items = slices.Delete(slices.Clone(s.items), at, at+1)
		}
		perhaps := known || at >= 0 || slices.Contains(p.in.uncertain, d)
		if d.sequence != 0 && d.sequence <= s.last {
			return nil, mismatch(nil, "%s has sequence %d and was committed after %d", d.Name, d.sequence, s.last)
		}
		if !perhaps {
			s.last = max(s.last, d.sequence)
		}
		// A sweep for a removed handler may take it at any time.
		s.insert(keyItem{of: d, doubt: perhaps || r.facts.removed[d.Handler], requeued: at >= 0, loose: perhaps && d.sequence == 0})
	}
	return one(s), nil
}

// insert puts an item where its sequence says, or at the end.
func (s *keyState) insert(i keyItem) {
	at := len(s.items)
	for at > 0 && i.of.sequence != 0 && s.items[at-1].of.sequence > i.of.sequence {
		at--
	}
	s.items = slices.Insert(slices.Clone(s.items), at, i)
}

func (r keyRules) granted(s keyState, p *part[keyCall]) ([]keyState, *misfit) {
	picks := p.in.picks
	if m := s.mayHead(picks[0]); m != nil {
		return nil, m
	}
	for i := 1; i < len(picks); i++ {
		if m := s.mayFollow(picks, i); m != nil {
			return nil, m
		}
	}
	s.live, s.since = picks, p.op
	s.items = slices.Clone(s.items)
	for i, g := range picks {
		at := s.find(g.of)
		if s.items[at].loose {
			at = s.place(at, picks[:i])
		}
		if !r.facts.removed[g.of.Handler] {
			s.items[at].doubt = false // it was there
		}
	}
	return one(s), nil
}

// place gives a loose item that was granted the place that the grant tells:
// behind the pick before it, else before all that is pending.
func (s *keyState) place(at int, before []*grant) int {
	item := s.items[at]
	item.loose = false
	s.items = slices.Delete(s.items, at, at+1)
	if len(before) > 0 {
		at = s.find(before[len(before)-1].of) + 1
	} else if first := slices.IndexFunc(s.items, keyItem.blocks); first >= 0 {
		at = min(at, first)
	}
	s.items = slices.Insert(s.items, at, item)
	return at
}

// mayHead checks that a delivery is the first that is pending.
func (s *keyState) mayHead(g *grant) *misfit {
	at := s.find(g.of)
	switch {
	case at < 0 || s.items[at].dead:
		return mismatch(s.since, "%s is not pending", g.of.Name)
	case g.lease.After != 0:
		return mismatch(s.since, "%s stands first and names #%d before it", g.of.Name, g.lease.After)
	case s.items[at].loose:
		return nil
	}
	for _, i := range s.items[:at] {
		if i.blocks() {
			return mismatch(s.since, "the earlier %s is pending", i.of.Name)
		}
	}
	return nil
}

// mayFollow checks that pick i is the next pending delivery after the pick
// before it.
func (s *keyState) mayFollow(picks []*grant, i int) *misfit {
	g, before := picks[i], picks[i-1]
	at, from := s.find(g.of), s.find(before.of)
	switch {
	case g.lease.After != before.lease.Delivery:
		return mismatch(nil, "%s does not name %s as the one before it", g.of.Name, before.of.Name)
	case g.row.Attempts > 0 || g.row.Takeovers > 0:
		return mismatch(nil, "%s was charged and follows in a chain", g.of.Name)
	case picks[0].row.Attempts > 0 || picks[0].row.Takeovers > 0:
		return mismatch(nil, "%s was charged and brings followers", picks[0].of.Name)
	case at < 0 || s.items[at].dead:
		return mismatch(s.since, "%s is not pending", g.of.Name)
	case s.items[at].loose:
		return nil
	case at < from:
		return mismatch(s.since, "%s stands before %s", g.of.Name, before.of.Name)
	}
	for _, skipped := range s.items[from+1 : at] {
		if skipped.blocks() {
			return mismatch(s.since, "the chain skips %s", skipped.of.Name)
		}
	}
	return nil
}

// counts checks that the store may still accept the end of a run. A Snapshot
// store judges a completion by the fence of the row, which nothing has written
// since if a later grant of it has the same.
func (r keyRules) counts(s keyState, g *grant, completion *engine.Lease) *misfit {
	for _, l := range s.live {
		if l == g || completion != nil && r.facts.family == Snapshot && l.of == g.of && l.lease.Fence == g.lease.Fence {
			return nil
		}
	}
	if len(s.live) == 0 {
		return mismatch(s.since, "the run %s had ended", &g.lease)
	}
	return mismatch(s.since, "%s was granted since, after the run %s", grantList(s.live), &g.lease)
}

func (r keyRules) completed(s keyState, p *part[keyCall]) ([]keyState, *misfit) {
	for i := range p.in.ends {
		e := &p.in.ends[i]
		if !e.applied {
			continue
		}
		if m := refusedBefore(p.in.ends, i); m != nil {
			return nil, m
		}
		if at := s.find(e.grant.of); at < 0 || s.items[at].dead {
			continue // a retry, which effectively-once judges
		}
		if m := r.mayComplete(s, e); m != nil {
			return nil, m
		}
		s.complete(e.grant, p.op)
	}
	return one(s), nil
}

// refusedBefore checks that the predecessor of end i was not refused in the
// same call.
func refusedBefore(ends []keyEnd, i int) *misfit {
	for j := range ends[:i] {
		if ends[j].lease.Delivery == ends[i].lease.After && !ends[j].applied {
			return mismatch(nil, "its predecessor %s was refused in the same call", ends[j].grant.of.Name)
		}
	}
	return nil
}

// mayComplete checks that a run counts and that its turn has come.
func (r keyRules) mayComplete(s keyState, e *keyEnd) *misfit {
	if m := r.counts(s, e.grant, &e.lease); m != nil {
		return m
	}
	at := s.find(e.grant.of)
	for j, i := range s.items {
		named := e.lease.After != 0 && i.of == r.predecessor(e)
		earlier := j < at && !i.requeued && !s.items[at].requeued
		if i.blocks() && (named || earlier) {
			return mismatch(s.since, "%s is pending and comes before %s", i.of.Name, e.grant.of.Name)
		}
	}
	return nil
}

// predecessor returns the delivery that a follower's lease names.
func (r keyRules) predecessor(e *keyEnd) *delivery {
	g := r.facts.grants[leaseName{e.lease.After, e.lease.Holder, e.lease.Claim}]
	if g == nil {
		return nil
	}
	return g.of
}

func (s *keyState) complete(g *grant, by *op) {
	at := s.find(g.of)
	s.items = slices.Delete(slices.Clone(s.items), at, at+1)
	if g.of.publishes > 1 {
		s.done = append(slices.Clip(s.done), g.of)
	}
	s.live = slices.DeleteFunc(slices.Clone(s.live), func(l *grant) bool { return l.of == g.of })
	s.since = by
}

func (r keyRules) ended(s keyState, p *part[keyCall]) keyState {
	g := p.in.picks[0]
	s.leave(append(slices.Clip(p.in.rest), g))
	s.since = p.op
	if at := s.find(g.of); at >= 0 && p.in.dead {
		s.items = slices.Clone(s.items)
		s.items[at] = s.items[at].died()
	}
	return s
}

// leave takes runs out of those that count.
func (s *keyState) leave(runs []*grant) {
	s.live = slices.DeleteFunc(slices.Clone(s.live), func(g *grant) bool { return slices.Contains(runs, g) })
}

// mark brings dead letters back, or puts deliveries in doubt.
func (s *keyState) mark(c *keyCall) {
	s.items = slices.Clone(s.items)
	for _, d := range c.of {
		at := s.find(d)
		switch {
		case at < 0:
		case c.kind == keyInDoubt:
			s.items[at].doubt = true
		case c.kind == keyRevivable:
			s.items[at].revivable = true
			s.items[at] = s.items[at].revived()
		case s.items[at].dead || s.items[at].doubt:
			s.items[at].dead, s.items[at].requeued = false, true
		}
	}
}

func (r keyRules) effects(s keyState, p, _ *part[keyCall]) []keyState {
	c := &p.in
	switch c.kind {
	case keyCompleted:
		e := &c.ends[0]
		if s.find(e.grant.of) >= 0 && r.mayComplete(s, e) == nil {
			s.complete(e.grant, p.op)
			return one(s)
		}
	case keyEnded:
		if r.counts(s, c.picks[0], nil) == nil && c.dead {
			return one(r.ended(s, p))
		}
	}
	return nil
}

func (keyRules) silent(keyState) []keyState { return nil }

// spent: an end of runs that count no more.
func (r keyRules) spent(s keyState, p *part[keyCall]) bool {
	switch c := &p.in; c.kind {
	case keyCompleted:
		return r.counts(s, c.ends[0].grant, &c.ends[0].lease) != nil
	case keyEnded:
		return !c.dead || r.counts(s, c.picks[0], nil) != nil
	}
	return false
}

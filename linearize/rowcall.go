package linearize

import (
	"fmt"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
)

// rowCall is what one call did, or may do, to one delivery.
type rowCall struct {
	kind rowKind
	run  int // the grant that it is about, from 1; 0: none that a reply granted

	// Of a publish.
	result   engine.PublishResult
	identity int  // which type and key the event was published with, from 1
	may      bool // the handler may get a delivery
	certain  bool // it does
	sole     bool // nobody else can have made the result Added

	// Of what shows the row.
	id         engine.DeliveryID
	dead       bool
	key        string
	identities []identity // of the event
	// Of what does not show it: what it is not.
	notPending, notDead bool

	// Of ends.
	lease engine.Lease
	name  string

	effects int // of a transaction, or as counted
}

type rowKind uint8

const (
	rowCrash rowKind = iota
	rowPublished
	rowGranted
	rowCompleted // by CompleteMany
	rowCommitted // by Complete, and the transaction committed
	rowUndone    // a transaction committed although its Complete said LeaseLost
	rowEffect    // an effect committed without a completion
	rowEnded     // Reschedule or Snooze
	rowBuried
	rowReleased
	rowRequeued
	rowNotRequeued
	rowListed
	rowAbsent // a List that would have shown the row does not
	rowCounted
	rowPurged
	rowSwept // Unsubscribe
)

// once reports whether effectively-once looks at the kind.
func (k rowKind) once() bool { return k != rowAbsent && k != rowNotRequeued && k != rowPublished }

// String says what the call did to the delivery.
func (c rowCall) String() string {
	switch c.kind {
	case rowPublished:
		return fmt.Sprintf("Publish: %s", c.result)
	case rowGranted:
		return fmt.Sprintf("Claim granted %s", &c.lease)
	case rowCompleted, rowEnded, rowBuried, rowReleased:
		return fmt.Sprintf("%s of %s: Applied", c.name, &c.lease)
	case rowCommitted:
		return fmt.Sprintf("a transaction with Complete of %s and %d effects committed", &c.lease, c.effects)
	case rowUndone:
		return fmt.Sprintf("a transaction committed although its Complete of %s said LeaseLost", &c.lease)
	case rowEffect:
		return fmt.Sprintf("a transaction with %d effects and no completion committed", c.effects)
	case rowRequeued:
		return "Requeue brought it back"
	case rowNotRequeued:
		return "Requeue did not bring it back"
	case rowListed:
		if c.dead {
			return fmt.Sprintf("List showed #%d, dead", c.id)
		}
		return fmt.Sprintf("List showed #%d, pending", c.id)
	case rowAbsent:
		return "List did not show it"
	case rowCounted:
		return fmt.Sprintf("%d effects were counted", c.effects)
	case rowPurged:
		return "Purge"
	case rowSwept:
		return "Unsubscribe"
	}
	return "the store crashed"
}

// rowView cuts a history into what happened to each delivery.
type rowView struct {
	*facts
	parts [][]*part[rowCall] // by delivery
	// identities number the types and keys of an event.
	identities map[string][]identity
	ends       map[endName]*part[rowCall] // the open ends of runs
}

type identity struct{ kind, key string }

func newRowView(f *facts) *rowView {
	v := &rowView{facts: f, identities: map[string][]identity{}, ends: map[endName]*part[rowCall]{}}
	v.parts = make([][]*part[rowCall], len(f.deliveries))
	for _, o := range f.ops {
		if tx, ok := o.Input.(Transaction); ok && f.fate(o) != absent {
			for _, p := range tx.Published {
				v.identity(&p)
			}
		}
	}
	for _, o := range f.ops {
		if f.fate(o) != absent {
			v.cut(o)
		}
	}
	return v
}

// identity returns the number of a published event's type and key, from 1.
func (v *rowView) identity(p *Published) int {
	is := identity{p.Type, p.Key}
	i := slices.Index(v.identities[p.Event], is)
	if i < 0 {
		i = len(v.identities[p.Event])
		v.identities[p.Event] = append(v.identities[p.Event], is)
	}
	return i + 1
}

// add notes what a call did to a delivery, or may do when it is open.
func (v *rowView) add(o *op, d *delivery, c rowCall) *part[rowCall] {
	p := settledPart(o, c)
	p.flushes = v.commits(&c)
	if v.fate(o) == open {
		p = openPart(o, c)
	}
	v.parts[d.index] = append(v.parts[d.index], p)
	return p
}

// commits reports whether a call has committed for certain.
func (v *rowView) commits(c *rowCall) bool {
	switch c.kind {
	case rowPublished:
		return c.result == engine.Added
	case rowCompleted:
		return v.completions[nameOf(&c.lease)] == 1
	case rowCommitted, rowEnded, rowBuried, rowReleased, rowRequeued:
		return true
	}
	return false
}

// addEnd is add for the end of a run; a lease that no reply granted is
// looked up by its id.
func (v *rowView) addEnd(o *op, l engine.Lease, c rowCall) {
	c.lease = l
	if g := v.grants[nameOf(&l)]; g != nil {
		if g.lease.Token == l.Token {
			c.run = g.run
		}
		// Of the same open end sent again and again the first is enough.
		name := endName{lease: nameOf(&l), name: c.name}
		first := v.ends[name]
		switch {
		case v.fate(o) != open || c.kind == rowCommitted:
			v.add(o, g.of, c)
		case first != nil:
			first.until = max(first.until, o.until)
		default:
			v.ends[name] = v.add(o, g.of, c)
		}
		return
	}
	for _, d := range v.byID[l.Delivery] {
		v.add(o, d, c)
	}
}

func (v *rowView) cut(o *op) {
	known := v.fate(o) == settled
	switch in := o.Input.(type) {
	case Transaction:
		v.transaction(o, &in)
	case engine.ClaimInput:
		if reply, ok := o.Output.(engine.ClaimReply); ok {
			v.granted(o, &reply)
		}
	case engine.CompleteManyInput:
		for i, l := range in.Leases {
			if known {
				e := o.Output.(engine.CompleteManyReply).Ended[i]
				if e.Err != nil || e.Verdict != engine.Applied {
					continue
				}
			}
			v.addEnd(o, l, rowCall{kind: rowCompleted, name: "CompleteMany"})
		}
	case engine.RescheduleInput:
		v.end(o, in.Lease, in.Rest, rowCall{kind: rowEnded, name: "Reschedule"})
	case engine.SnoozeInput:
		v.end(o, in.Lease, in.Rest, rowCall{kind: rowEnded, name: "Snooze"})
	case engine.BuryInput:
		v.end(o, in.Lease, in.Rest, rowCall{kind: rowBuried, name: "Bury"})
	case engine.ReleaseInput:
		for i, l := range in.Leases {
			if known && o.Output.(engine.ReleaseReply).Verdicts[i] == engine.Applied {
				v.addEnd(o, l, rowCall{kind: rowReleased, name: "Release"})
			}
		}
	case engine.RequeueInput:
		v.requeue(o, &in)
	case engine.ListInput:
		if known {
			reply := o.Output.(engine.ListReply)
			v.list(o, &in, &reply)
		}
	case CountEffects:
		if d := v.names[in.Name]; d != nil && known {
			v.add(o, d, rowCall{kind: rowCounted, effects: o.Output.(int)})
		}
	case engine.PurgeInput:
		v.swept(o)
		purged := o.purged()
		for _, d := range v.deliveries {
			if purged.dead && (d.mayDie || v.removed[d.Handler]) || purged.events && d.publishes > 1 {
				v.addSweep(o, d, rowPurged)
			}
		}
	case engine.UnsubscribeInput:
		v.swept(o)
	}
}

func (v *rowView) transaction(o *op, tx *Transaction) {
	done := map[*delivery]bool{}
	for i := range tx.Published {
		p := &tx.Published[i]
		again := slices.ContainsFunc(tx.Published[:i], func(q Published) bool { return q.Event == p.Event })
		if !again {
			v.published(o, p)
		}
	}
	for _, c := range tx.Completed {
		call := rowCall{kind: rowCommitted}
		if c.Verdict != engine.Applied {
			call.kind = rowUndone
		}
		if g := v.grants[nameOf(&c.Lease)]; g != nil {
			done[g.of] = true
			call.effects = countNames(tx.Effects, g.of.Name)
		}
		v.addEnd(o, c.Lease, call)
	}
	for i, n := range tx.Effects {
		d := v.names[n]
		if !done[d] && !slices.Contains(tx.Effects[:i], n) {
			v.add(o, d, rowCall{kind: rowEffect, effects: countNames(tx.Effects, n)})
		}
	}
}

func countNames(list []Name, n Name) int {
	count := 0
	for _, o := range list {
		if o == n {
			count++
		}
	}
	return count
}

func (v *rowView) published(o *op, p *Published) {
	audience := v.audience(o, p)
	c := rowCall{
		kind: rowPublished, result: p.Result, identity: v.identity(p),
		sole: len(audience) == 1,
	}
	for _, d := range v.byEvent[p.Event] {
		c.certain, c.may = hears(audience, d)
		v.add(o, d, c)
	}
}

func (v *rowView) granted(o *op, reply *engine.ClaimReply) {
	for i := range reply.Picks {
		p := &reply.Picks[i]
		if g := v.grants[nameOf(&p.Lease)]; g != nil {
			q := settledPart(o, rowCall{
				kind: rowGranted, run: g.run, lease: p.Lease,
				id: p.Delivery.ID, key: p.Delivery.Key, identities: v.identities[p.Delivery.Event],
			})
			q.wrong = wrongPick(o, p)
			v.parts[g.of.index] = append(v.parts[g.of.index], q)
		}
	}
}

// wrongPick checks what can be seen of a pick in the reply alone.
func wrongPick(o *op, p *engine.Picked) string {
	switch {
	case isDead(&p.Delivery):
		return "the row that the claim granted is dead"
	case o.ceil != 0 && p.Delivery.AvailableAt > o.ceil:
		return "the claim granted it before it was due"
	}
	return ""
}

// isDead reports whether a row is a dead letter.
func isDead(d *engine.Delivery) bool { return d.Status.String() == "dead" }

// end is the end of one run that keeps its row; the rest of its chain is
// released by the same write.
func (v *rowView) end(o *op, l engine.Lease, rest []engine.Lease, c rowCall) {
	known := v.fate(o) == settled
	if known && o.Output.(engine.EndReply).Verdict != engine.Applied {
		return
	}
	v.addEnd(o, l, c)
	for _, l := range rest {
		if known {
			v.addEnd(o, l, rowCall{kind: rowReleased, name: c.name + ", with the rest of its chain,"})
		}
	}
}

func (v *rowView) swept(o *op) {
	for _, d := range v.sweptBy(o) {
		v.addSweep(o, d, rowSwept)
	}
}

// addSweep notes that a call may take a row, once or again and again, whatever
// its answer: that counts rows and does not name them.
func (v *rowView) addSweep(o *op, d *delivery, kind rowKind) {
	p := openPart(o, rowCall{kind: kind})
	p.sticky = true
	v.parts[d.index] = append(v.parts[d.index], p)
}

func (v *rowView) requeue(o *op, in *engine.RequeueInput) {
	r := v.requeued(o, in)
	for _, d := range r.back {
		v.add(o, d, rowCall{kind: rowRequeued})
	}
	for _, d := range r.kept {
		v.add(o, d, rowCall{kind: rowNotRequeued})
	}
	for _, d := range r.perhaps {
		v.parts[d.index] = append(v.parts[d.index], openPart(o, rowCall{kind: rowRequeued}))
	}
}

// list notes the rows that a List shows, and what it means for others that it
// does not show them.
func (v *rowView) list(o *op, in *engine.ListInput, reply *engine.ListReply) {
	shown := map[*delivery]bool{}
	for i := range reply.Deliveries {
		row := &reply.Deliveries[i].Delivery
		d := v.names[Name{row.Event, row.Handler}]
		shown[d] = true
		v.add(o, d, rowCall{
			kind: rowListed, id: row.ID, dead: isDead(row), key: row.Key, identities: v.identities[row.Event],
		})
	}
	for _, d := range v.listable(in) {
		if pending, dead := hides(in, reply, d); (pending || dead) && !shown[d] {
			v.add(o, d, rowCall{kind: rowAbsent, notPending: pending, notDead: dead})
		}
	}
}

// trim drops what needs no order to be explained: a delivery that is not shown
// before anything happened to it, or again after it was completed.
func trim(parts []*part[rowCall]) []*part[rowCall] {
	first, last, done := int64(forever), int64(-1), int64(forever)
	for _, p := range parts {
		if p.in.kind == rowAbsent {
			continue
		}
		first, last = min(first, p.call), max(last, p.ret)
		if k := p.in.kind; p.role == settledRole && (k == rowCompleted || k == rowCommitted) {
			done = min(done, p.ret)
		}
	}
	quiet := max(last, done)
	kept := false
	return slices.DeleteFunc(slices.Clone(parts), func(p *part[rowCall]) bool {
		if p.in.kind != rowAbsent {
			return false
		}
		if p.ret < first {
			return true
		}
		again := p.call > quiet && kept
		kept = kept || p.call > quiet
		return again
	})
}

// listable returns the deliveries that a List may read.
func (v *rowView) listable(in *engine.ListInput) []*delivery {
	if in.Filter.EventID != "" {
		return v.byEvent[in.Filter.EventID]
	}
	return v.deliveries
}

package linearize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine"
)

// keyName names an order: the deliveries of one handler and one key.
type keyName struct{ handler, key string }

func (n keyName) String() string { return fmt.Sprintf("handler %s, key %q", n.handler, n.key) }

// keyCall is what one call did, or may do, to the deliveries of one key.
type keyCall struct {
	kind keyKind
	name string
	of   []*delivery // published, requeued or swept
	// uncertain are those of the published that may or may not be there: the
	// transaction may not have committed, or the handler gets no delivery.
	uncertain []*delivery
	picks     []*grant
	ends      []keyEnd
	rest      []*grant // released with the end
	dead      bool
}

// keyEnd is a completion within a call.
type keyEnd struct {
	grant   *grant
	lease   engine.Lease
	applied bool
}

type keyKind uint8

const (
	keyCrash keyKind = iota
	keyPublished
	keyGranted
	keyCompleted
	keyEnded
	keyReleased
	keyRequeued
	keyRevivable // a Requeue without an answer began
	keyInDoubt   // rows may be gone or dead
)

// String says what the call did to the key.
func (c keyCall) String() string {
	switch c.kind {
	case keyPublished:
		return "Publish of " + nameList(c.of)
	case keyGranted:
		return "Claim granted " + grantList(c.picks)
	case keyCompleted:
		words := make([]string, len(c.ends))
		for i, e := range c.ends {
			verdict := engine.LeaseLost
			if e.applied {
				verdict = engine.Applied
			}
			words[i] = fmt.Sprintf("%s (%s): %s", e.grant.of.Name, &c.ends[i].lease, verdict)
		}
		return c.name + " of " + strings.Join(words, ", ")
	case keyEnded:
		text := c.name + " of " + grantList(c.picks)
		if len(c.rest) > 0 {
			text += ", leaving " + grantList(c.rest)
		}
		return text
	case keyReleased:
		return "Release of " + grantList(c.picks)
	case keyRequeued, keyRevivable:
		return "Requeue of " + nameList(c.of)
	case keyInDoubt:
		return c.name + " of " + nameList(c.of)
	}
	return "the store crashed"
}

func grantList(list []*grant) string {
	words := make([]string, len(list))
	for i, g := range list {
		words[i] = fmt.Sprintf("%s (%s)", g.of.Name, &g.lease)
		if g.lease.After != 0 {
			words[i] += fmt.Sprintf(" after #%d", g.lease.After)
		}
	}
	return strings.Join(words, ", ")
}

// keyView cuts a history into what happened to each key.
type keyView struct {
	*facts
	keys map[keyName][]*part[keyCall]
	ends map[endName]*part[keyCall] // the open ends of runs
}

func newKeyView(f *facts) *keyView {
	v := &keyView{facts: f, keys: map[keyName][]*part[keyCall]{}, ends: map[endName]*part[keyCall]{}}
	for _, o := range f.ops {
		if f.fate(o) != absent {
			v.cut(o)
		}
	}
	return v
}

func (v *keyView) sorted() []keyName {
	return slices.SortedFunc(maps.Keys(v.keys), func(a, b keyName) int {
		return cmp.Or(cmp.Compare(a.handler, b.handler), cmp.Compare(a.key, b.key))
	})
}

func (d *delivery) order() keyName { return keyName{d.Handler, d.key} }

// add notes what a call did to the key of a delivery.
func (v *keyView) add(o *op, d *delivery, c keyCall) *part[keyCall] {
	if !d.keyed() {
		return nil
	}
	p := settledPart(o, c)
	p.flushes = c.kind == keyEnded || c.kind == keyReleased || c.kind == keyRequeued
	if v.fate(o) == open {
		p = openPart(o, c)
	}
	v.keys[d.order()] = append(v.keys[d.order()], p)
	return p
}

func (v *keyView) cut(o *op) {
	known := v.fate(o) == settled
	switch in := o.Input.(type) {
	case Transaction:
		v.published(o, in.Published)
		for _, c := range in.Completed {
			if c.Verdict == engine.Applied {
				v.completed(o, "Complete", []engine.Lease{c.Lease}, nil)
			}
		}
	case engine.ClaimInput:
		if reply, ok := o.Output.(engine.ClaimReply); ok {
			v.granted(o, &in, reply.Picks)
		}
	case engine.CompleteManyInput:
		if known {
			v.completed(o, "CompleteMany", in.Leases, o.Output.(engine.CompleteManyReply).Ended)
		} else {
			v.completed(o, "CompleteMany", in.Leases, nil)
		}
	case engine.RescheduleInput, engine.SnoozeInput, engine.BuryInput:
		if !known || o.Output.(engine.EndReply).Verdict == engine.Applied {
			v.ended(o, endOf(in))
		}
	case engine.ReleaseInput:
		if known {
			v.released(o, in.Leases, o.Output.(engine.ReleaseReply).Verdicts)
		}
	case engine.RequeueInput:
		r := v.requeued(o, &in)
		for _, d := range r.back {
			v.add(o, d, keyCall{kind: keyRequeued, of: []*delivery{d}})
		}
		for _, d := range r.perhaps {
			if p := v.add(o, d, keyCall{kind: keyRevivable, of: []*delivery{d}}); p != nil {
				p.role, p.ret = settledRole, p.call
			}
		}
	case engine.UnsubscribeInput:
		v.doubt(o, "Unsubscribe", v.sweptBy(o))
	case engine.PurgeInput:
		v.doubt(o, "Purge", v.sweptBy(o))
	}
}

// doubt notes that rows may be gone or dead from the beginning of a call on.
// When exactly is of no interest to anybody, so it is noted at once.
func (v *keyView) doubt(o *op, name string, list []*delivery) {
	for _, d := range list {
		if p := v.add(o, d, keyCall{kind: keyInDoubt, name: name, of: []*delivery{d}}); p != nil {
			p.role, p.ret = settledRole, p.call
		}
	}
}

// published notes publishes in input order: that is their order within the
// transaction. A delivery that nobody ever saw counts only if it is certain.
func (v *keyView) published(o *op, list []Published) {
	calls := map[keyName]*keyCall{}
	for i := range list {
		p := &list[i]
		if p.Result != engine.Added {
			continue
		}
		audience := v.audience(o, p)
		for _, d := range v.byEvent[p.Event] {
			certain, may := hears(audience, d)
			if !may || !d.keyed() || p.Key != d.key || !d.seen && !(certain && v.fate(o) == settled) {
				continue
			}
			c := called(calls, d, keyCall{kind: keyPublished})
			if slices.Contains(c.of, d) {
				continue
			}
			c.of = append(c.of, d)
			if !certain || v.fate(o) == open {
				c.uncertain = append(c.uncertain, d)
			}
		}
	}
	v.addAll(o, calls)
}

// called returns the call on the key of a delivery, which begins as c.
func called(calls map[keyName]*keyCall, d *delivery, c keyCall) *keyCall {
	name := d.order()
	if calls[name] == nil {
		calls[name] = &c
	}
	return calls[name]
}

// addAll adds one part per key; each key has a list of its own, so the order
// of the map does not matter.
func (v *keyView) addAll(o *op, calls map[keyName]*keyCall) {
	for name, c := range calls {
		p := settledPart(o, *c)
		p.flushes = c.kind == keyPublished || v.completions[nameOf(&c.ends[0].lease)] == 1
		if v.fate(o) == open {
			p.ret = p.call // it may be there from now on
		}
		v.keys[name] = append(v.keys[name], p)
	}
}

func (v *keyView) granted(o *op, in *engine.ClaimInput, picks []engine.Picked) {
	calls := map[keyName]*keyCall{}
	for i := range picks {
		if g := v.grants[nameOf(&picks[i].Lease)]; g != nil && g.of.keyed() {
			c := called(calls, g.of, keyCall{kind: keyGranted})
			c.picks = append(c.picks, g)
		}
	}
	for name, c := range calls {
		p := settledPart(o, *c)
		p.wrong = cmp.Or(wrongLane(c.picks), wrongBusy(in, name))
		v.keys[name] = append(v.keys[name], p)
	}
}

// wrongLane checks that all deliveries of a key share a lane.
func wrongLane(picks []*grant) string {
	for _, g := range picks {
		if g.lease.Lane != g.of.lane || g.row.Lane != g.of.lane {
			return fmt.Sprintf("%s is in lane %d and was granted in lane %d", g.of.Name, g.of.lane, g.lease.Lane)
		}
	}
	return ""
}

// wrongBusy checks that nothing of a key is granted while the worker runs a
// delivery of it.
func wrongBusy(in *engine.ClaimInput, name keyName) string {
	for i := range in.Running {
		if r := &in.Running[i]; r.Handler == name.handler && r.Key == name.key {
			return fmt.Sprintf("the worker runs #%d of the key", r.Delivery)
		}
	}
	return ""
}

// openEnd notes the open end of a run. Of the same one sent again and again the
// first is enough.
func (v *keyView) openEnd(o *op, g *grant, c keyCall) {
	name := endName{lease: nameOf(&g.lease), name: c.name}
	if first := v.ends[name]; first != nil {
		first.until = max(first.until, o.until)
		return
	}
	if p := v.add(o, g.of, c); p != nil {
		v.ends[name] = p
	}
}

// completed notes completions; ended is nil when they count as Applied.
func (v *keyView) completed(o *op, name string, leases []engine.Lease, ended []engine.Ended) {
	calls := map[keyName]*keyCall{}
	for i, l := range leases {
		g := v.grants[nameOf(&l)]
		if g == nil || !g.of.keyed() {
			continue
		}
		if v.fate(o) == open {
			v.openEnd(o, g, keyCall{kind: keyCompleted, name: name, ends: []keyEnd{{g, l, true}}})
			continue
		}
		c := called(calls, g.of, keyCall{kind: keyCompleted, name: name})
		applied := ended == nil || ended[i].Err == nil && ended[i].Verdict == engine.Applied
		c.ends = append(c.ends, keyEnd{g, l, applied})
	}
	v.addAll(o, calls)
}

func (v *keyView) ended(o *op, c laneCall) {
	g := v.grants[nameOf(&c.leases[0])]
	if g == nil {
		return
	}
	call := keyCall{kind: keyEnded, name: c.name, picks: []*grant{g}, rest: v.grantsOf(c.rest), dead: c.dead}
	if v.fate(o) == open {
		v.openEnd(o, g, call)
		return
	}
	v.add(o, g.of, call)
}

func (v *keyView) grantsOf(leases []engine.Lease) []*grant {
	var list []*grant
	for i := range leases {
		if g := v.grants[nameOf(&leases[i])]; g != nil {
			list = append(list, g)
		}
	}
	return list
}

func (v *keyView) released(o *op, leases []engine.Lease, verdicts []engine.Verdict) {
	for i := range leases {
		if g := v.grants[nameOf(&leases[i])]; g != nil && verdicts[i] == engine.Applied {
			v.add(o, g.of, keyCall{kind: keyReleased, picks: []*grant{g}})
		}
	}
}

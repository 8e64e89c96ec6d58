package linearize

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

const forever = math.MaxInt64

// op is a recorded call with what the rest of the history says about it.
type op struct {
	Operation
	number int // position in the history, from 1
	// floor and ceil bound what the store's clock read while the call was
	// served; 0: no bound is known.
	floor, ceil engine.StoreTime
	// until is the time after which a call that is open takes effect no more.
	until int64
}

// fate is how a call enters the models.
type fate uint8

const (
	absent  fate = iota // it had no effect, or none that survived
	open                // it may take effect until op.until, or never
	settled             // its answer is known
)

// grant is a run of a delivery as a claim's reply granted it.
type grant struct {
	run   int // counts the delivery's grants, from 1
	lease engine.Lease
	row   engine.Delivery
	of    *delivery
}

// leaseName names a lease as no store issues it twice, whatever it forgets.
type leaseName struct {
	id     engine.DeliveryID
	holder engine.Holder
	claim  int64
}

func nameOf(l *engine.Lease) leaseName { return leaseName{l.Delivery, l.Holder, l.Claim} }

// delivery is what the whole history says of one delivery.
type delivery struct {
	Name
	index         int
	key           string
	lane          engine.LaneID
	id            engine.DeliveryID // 0: not known, −1: not the same everywhere
	sequence      int64             // 0: not known, or not the same everywhere
	grants        []*grant
	publishes     int  // transactions that may have published the event
	transactional bool // its handler completes in a transaction of its own
	seen          bool // a row of it was granted or listed
	lostOnly      bool // … in calls that the store lost
	mayDie        bool // somebody may have made it a dead letter
	mayFollow     bool // another of its key may stand before it
}

// keyed reports whether the delivery has a place in an order.
func (d *delivery) keyed() bool { return d.key != "" }

// before reports whether d stands before e in the order of their key, and
// whether that is known.
func (d *delivery) before(e *delivery) (yes, known bool) {
	if d.Handler != e.Handler || d.key != e.key || !d.keyed() {
		return false, true
	}
	return d.sequence < e.sequence, d.sequence != 0 && e.sequence != 0
}

// facts is what a history says before any model looks at it.
type facts struct {
	family     Family
	ops        []*op // those that survived, by call
	crashed    []gap // when the store may have lost commits
	lastCrash  int64 // when the last one was over
	purges     bool
	refusals   bool // the store refused rows for good: charges may come late
	longestTTL time.Duration

	grants map[leaseName]*grant
	// completions counts the calls that may have completed a run.
	completions map[leaseName]int
	names       map[Name]*delivery
	deliveries  []*delivery
	byEvent     map[string][]*delivery
	byID        map[engine.DeliveryID][]*delivery
	interests   map[string][]*interest
	removed     map[string]bool // handlers that somebody unsubscribed
	groups      map[int32]int32 // the number of lanes of a group
	clock       clock
}

// interest is a subscription of a handler to a type of event.
type interest struct {
	handler string
	written []gap // the calls that are known to have committed it
	// possible is when it may first have been committed, removed when somebody
	// may first have removed it.
	possible, removed int64
}

// certain reports whether the subscription was committed before a call began
// and had not been removed or lost by its end.
func (i *interest) certain(o *op, crashed int64) bool {
	return i.removed > o.Return && slices.ContainsFunc(i.written, func(g gap) bool { return g.from > crashed && g.to < o.Call })
}

func newFacts(h *History) *facts {
	f := &facts{
		family: h.Family(),
		grants: map[leaseName]*grant{}, completions: map[leaseName]int{}, names: map[Name]*delivery{}, byEvent: map[string][]*delivery{},
		byID: map[engine.DeliveryID][]*delivery{}, interests: map[string][]*interest{}, groups: map[int32]int32{},
		removed: map[string]bool{},
	}
	recorded := h.Operations()
	all := make([]*op, len(recorded))
	for i := range recorded {
		all[i] = &op{Operation: recorded[i], number: i + 1}
		if all[i].Outcome == Open {
			all[i].Return = forever
		}
	}
	slices.SortStableFunc(all, func(a, b *op) int { return cmp.Compare(a.Call, b.Call) })
	f.clock.read(all)
	for _, o := range all {
		f.gather(o)
	}
	f.settleSequences()
	for _, o := range f.ops {
		f.bound(o)
	}
	f.findFollowers()
	return f
}

// findFollowers notes which deliveries may stand behind another of their key.
func (f *facts) findFollowers() {
	first := map[keyName]*delivery{} // the one with the lowest sequence
	several := map[keyName]bool{}
	for _, d := range f.deliveries {
		e := first[d.order()]
		if several[d.order()] = e != nil; e == nil || d.sequence < e.sequence {
			first[d.order()] = d
		}
	}
	for _, d := range f.deliveries {
		e := first[d.order()]
		d.mayFollow = d.keyed() && several[d.order()] && (d != e || e.sequence == 0)
	}
}

// gather notes what a call says about deliveries, subscriptions and groups.
func (f *facts) gather(o *op) {
	if o.Outcome != Lost {
		f.ops = append(f.ops, o)
	}
	f.refusals = f.refusals || o.Outcome == Definite
	switch in := o.Input.(type) {
	case engine.SubscribeInput:
		f.gatherSubscribe(o, &in)
	case engine.UnsubscribeInput:
		i := f.interest(in.Event, in.Handler)
		i.removed = min(i.removed, o.Call)
		f.removed[in.Handler] = true
	case engine.CompleteManyInput:
		for i := range in.Leases {
			f.completions[nameOf(&in.Leases[i])]++
		}
		if reply, ok := o.Output.(engine.CompleteManyReply); ok {
			f.refusals = f.refusals || slices.ContainsFunc(reply.Ended, func(e engine.Ended) bool { return e.Err != nil })
		}
	case engine.ClaimInput:
		f.longestTTL = max(f.longestTTL, in.TTL)
		f.gatherClaim(o)
	case engine.BuryInput:
		if g := f.grants[nameOf(&in.Lease)]; g != nil {
			g.of.mayDie = true
		}
	case Transaction:
		for _, c := range in.Completed {
			f.completions[nameOf(&c.Lease)]++
			if g := f.grants[nameOf(&c.Lease)]; g != nil {
				g.of.transactional = true
			}
		}
	case engine.ListInput:
		if out, ok := o.Output.(engine.ListReply); ok {
			for i := range out.Deliveries {
				row := &out.Deliveries[i].Delivery
				d := f.row(row, o)
				d.mayDie = d.mayDie || isDead(row)
			}
		}
	case engine.PurgeInput:
		f.purges = true
	case CountEffects:
		f.delivery(in.Name, "")
	case Crash:
		f.crashed, f.lastCrash = append(f.crashed, gap{o.Call, o.Return}), max(f.lastCrash, o.Return)
	}
}

func (f *facts) gatherSubscribe(o *op, in *engine.SubscribeInput) {
	reply, returned := o.Output.(engine.SubscribeReply)
	if returned && reply.Lanes > 0 {
		f.groups[reply.Group] = reply.Lanes
	}
	for _, h := range in.Handlers {
		i := f.interest(h.Event, h.Handler)
		i.possible = min(i.possible, o.Call)
		if returned && o.Outcome == Returned && !slices.Contains(reply.Removed, h) {
			i.written = append(i.written, gap{o.Call, o.Return})
		}
	}
}

func (f *facts) interest(event, handler string) *interest {
	for _, i := range f.interests[event] {
		if i.handler == handler {
			return i
		}
	}
	i := &interest{handler: handler, possible: forever, removed: forever}
	f.interests[event] = append(f.interests[event], i)
	return i
}

func (f *facts) gatherClaim(o *op) {
	reply, ok := o.Output.(engine.ClaimReply)
	if !ok {
		return
	}
	f.refusals = f.refusals || reply.Stuck > 0
	for i := range reply.Picks {
		p := &reply.Picks[i]
		d := f.row(&p.Delivery, o)
		name := nameOf(&p.Lease)
		if f.grants[name] == nil {
			g := &grant{run: len(d.grants) + 1, lease: p.Lease, row: p.Delivery, of: d}
			d.grants = append(d.grants, g)
			f.grants[name] = g
		}
	}
}

// row registers a delivery row that a call saw.
func (f *facts) row(row *engine.Delivery, o *op) *delivery {
	d := f.delivery(Name{row.Event, row.Handler}, row.Key)
	if lost := o.Outcome == Lost; !d.seen || d.lostOnly && !lost {
		d.seen, d.lostOnly, d.id, d.key, d.lane, d.sequence = true, lost, row.ID, row.Key, row.Lane, row.Sequence
	}
	if d.sequence != row.Sequence && (d.lostOnly || o.Outcome != Lost) {
		d.sequence = -1
	}
	if d.id != row.ID {
		d.id = -1
	}
	if !slices.Contains(f.byID[row.ID], d) {
		f.byID[row.ID] = append(f.byID[row.ID], d)
	}
	return d
}

// settleSequences forgets sequences that were not the same everywhere: a lost
// commit, or a purged event that was published again.
func (f *facts) settleSequences() {
	for _, d := range f.deliveries {
		d.sequence = max(d.sequence, 0)
	}
}

// delivery returns the facts of a name, new with the given key.
func (f *facts) delivery(n Name, key string) *delivery {
	d := f.names[n]
	if d == nil {
		d = &delivery{Name: n, index: len(f.deliveries), key: key}
		f.names[n] = d
		f.deliveries = append(f.deliveries, d)
		f.byEvent[n.Event] = append(f.byEvent[n.Event], d)
	}
	return d
}

// bound notes how the clock bounds a call, and registers what it published:
// by now the deliveries that were seen are known.
func (f *facts) bound(o *op) {
	o.floor, o.ceil = f.clock.floor(o.Call), f.clock.ceil(o.Return)
	o.until = o.Return
	if o.Outcome == Open {
		o.until = f.lastEffect(o)
	}
	tx, ok := o.Input.(Transaction)
	if !ok || f.fate(o) == absent {
		return
	}
	for i := range tx.Published {
		p := &tx.Published[i]
		for _, h := range f.audience(o, p) {
			d := f.delivery(Name{p.Event, h.handler}, p.Key)
			if !d.seen && o.Outcome == Returned && p.Result == engine.Added {
				d.key = p.Key // others with the id may have had another key, and did not commit
			}
		}
		for _, d := range f.byEvent[p.Event] {
			d.publishes++
		}
	}
	for _, n := range tx.Effects {
		f.delivery(n, "").transactional = true
	}
}

// lastEffect returns the time after which an open call takes effect no more. A
// store changes nothing for a call once its clock has passed the call's
// not-after, and a statement ends within a lease.
func (f *facts) lastEffect(o *op) int64 {
	switch in := o.Input.(type) {
	case engine.ClaimInput:
		return f.clock.after(in.NotAfter, in.TTL)
	case engine.ExtendLeaseInput:
		return f.clock.after(in.NotAfter, in.TTL)
	case engine.RelinquishInput:
		return f.clock.after(in.NotAfter, f.longestTTL)
	}
	return forever
}

// listener is a handler that gets a delivery of an event.
type listener struct {
	handler string
	certain bool
}

// hears says what a publish means for a delivery: it is made, may be made, or
// is none of the audience's.
func hears(audience []listener, d *delivery) (certain, may bool) {
	for _, l := range audience {
		if l.handler == d.Handler {
			return l.certain, true
		}
	}
	return false, false
}

// audience returns the handlers that get a delivery of a published event.
func (f *facts) audience(o *op, p *Published) []listener {
	var list []listener
	if p.Handlers != nil {
		for _, h := range p.Handlers {
			list = append(list, listener{h, true})
		}
		return list
	}
	crashed := int64(-forever)
	for _, c := range f.crashed {
		if c.from <= o.Return {
			crashed = max(crashed, c.to)
		}
	}
	for _, i := range f.interests[p.Type] {
		if i.possible <= o.Return {
			list = append(list, listener{i.handler, i.certain(o, crashed)})
		}
	}
	for _, d := range f.byEvent[p.Event] {
		known := slices.ContainsFunc(list, func(l listener) bool { return l.handler == d.Handler })
		if d.seen && !known {
			list = append(list, listener{d.Handler, false})
		}
	}
	return list
}

// fate says how a call enters the models.
func (f *facts) fate(o *op) fate {
	switch o.Outcome {
	case Returned:
		return settled
	case Open:
		return open
	case Retryable, Definite:
		if inBatches(o.Input) || f.family == Snapshot && severalWrites(o.Input) || o.Outcome == Definite && mayStick(o.Input) {
			return open
		}
	}
	return absent
}

// severalWrites reports whether a Snapshot store performs a call as more than
// one write, of which an error may have stopped the rest.
func severalWrites(input any) bool {
	switch input.(type) {
	case engine.ClaimInput, engine.ExtendLeaseInput, engine.CompleteManyInput, engine.ReleaseInput, engine.RelinquishInput:
		return true
	}
	return false
}

// inBatches reports whether any store performs a call as several transactions,
// of which an error may have stopped the rest.
func inBatches(input any) bool {
	switch input.(type) {
	case engine.RequeueInput, engine.PurgeInput, engine.UnsubscribeInput:
		return true
	}
	return false
}

// mayStick reports whether a definite error of the call may have taken its
// delivery out of the lane, as stuck.
func mayStick(input any) bool {
	switch input.(type) {
	case engine.RescheduleInput, engine.BuryInput:
		return true
	}
	return false
}

// inGroup reports whether a lane may belong to a group.
func (f *facts) inGroup(lane engine.LaneID, group int32) bool {
	n := f.groups[group]
	return n == 0 || int32(lane)/n == group
}

// clock is the store's clock as the answers tell it.
type clock struct {
	byReturn []reading // ascending; now is the greatest so far
	byCall   []reading // ascending; now is the smallest from here on
}

type reading struct {
	at  int64
	now engine.StoreTime
}

func (c *clock) read(ops []*op) {
	for _, o := range ops {
		if now := o.storeNow(); now != 0 {
			c.byReturn = append(c.byReturn, reading{o.Return, now})
			c.byCall = append(c.byCall, reading{o.Call, now})
		}
	}
	slices.SortFunc(c.byReturn, func(a, b reading) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(c.byReturn); i++ {
		c.byReturn[i].now = max(c.byReturn[i].now, c.byReturn[i-1].now)
	}
	for i := len(c.byCall) - 2; i >= 0; i-- {
		c.byCall[i].now = min(c.byCall[i].now, c.byCall[i+1].now)
	}
}

// floor returns what the clock had reached when a call began.
func (c *clock) floor(call int64) engine.StoreTime {
	i, _ := slices.BinarySearchFunc(c.byReturn, call, func(r reading, at int64) int { return cmp.Compare(r.at, at) })
	if i == 0 {
		return 0
	}
	return c.byReturn[i-1].now
}

// ceil returns what the clock had not passed when a call returned.
func (c *clock) ceil(ret int64) engine.StoreTime {
	i, _ := slices.BinarySearchFunc(c.byCall, ret, func(r reading, at int64) int {
		if r.at <= at {
			return -1
		}
		return 1
	})
	if i == len(c.byCall) {
		return 0
	}
	return c.byCall[i].now
}

// after returns a time by which the clock had passed t+d; t 0 is never.
func (c *clock) after(t engine.StoreTime, d time.Duration) int64 {
	if t == 0 {
		return forever
	}
	limit := t.Add(d)
	i, _ := slices.BinarySearchFunc(c.byReturn, limit, func(r reading, limit engine.StoreTime) int {
		if r.now <= limit {
			return -1
		}
		return 1
	})
	if i == len(c.byReturn) {
		return forever
	}
	return c.byReturn[i].at
}

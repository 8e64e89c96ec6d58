package linearize

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

// reference is a store small enough to be read at once: one lane, one handler,
// one statement at a time. It generates legal histories, and a search through
// all orders of a short one (see possible) decides what is legal. It is written
// from the specification for this test and shares nothing with the models.
//
// Its clock stands still but for ticks, of which each is longer than a lease.
type reference struct {
	clock   int
	lane    refLane
	rows    map[engine.DeliveryID]refRow
	events  map[string]string // id to key
	done    map[string]bool   // events whose delivery was completed
	effects map[string]int
	nextID  engine.DeliveryID
	commits int // counts rows in commit order
	// ids are those that a history shows, when one is judged: a store may skip
	// ids, but within a key they rise with the commits.
	ids map[string]engine.DeliveryID
}

type refLane struct {
	epoch, claim int64
	holder, last engine.Holder
	expires      int
	list         map[engine.DeliveryID]int64 // to the claim that granted it
}

type refRow struct {
	event, key          string
	order               float64 // its place in its key
	attempts, takeovers int32
	dead                bool
}

const (
	refTTL  = 10
	refTick = 20
)

func newReference() *reference {
	return &reference{
		lane: refLane{list: map[engine.DeliveryID]int64{}}, rows: map[engine.DeliveryID]refRow{},
		events: map[string]string{}, done: map[string]bool{}, effects: map[string]int{}, nextID: 1, clock: refTick,
	}
}

func (s *reference) now() engine.StoreTime { return engine.StoreTime(s.clock) }

func (s *reference) clone() *reference {
	c := *s
	c.lane.list, c.rows, c.events = maps.Clone(s.lane.list), maps.Clone(s.rows), maps.Clone(s.events)
	c.done, c.effects = maps.Clone(s.done), maps.Clone(s.effects)
	return &c
}

// tick is an operation that no history contains: time passes.
type tick struct{}

// perform carries an operation out and returns its answer. want, if not nil,
// is an answer to imitate where the specification leaves the store a choice;
// ok is false when it cannot be.
func (s *reference) perform(in, want any, choose func(n int) int) (out any, ok bool) {
	switch in := in.(type) {
	case tick:
		s.clock += refTick
		return nil, true
	case Transaction:
		return nil, s.transaction(&in, want != nil, true)
	case engine.ClaimInput:
		return s.claim(&in, want, choose)
	case engine.ExtendLeaseInput:
		v := leaseLost
		if s.lane.holder == in.Holder && s.lane.epoch == in.Lanes[0].Epoch {
			v, s.lane.expires = applied, s.clock+refTTL
		}
		return engine.ExtendLeaseReply{Now: s.now(), Verdicts: []engine.Verdict{v}}, true
	case engine.CompleteManyInput:
		return engine.CompleteManyReply{Now: s.now(), Ended: s.completeMany(in.Leases)}, true
	case engine.RescheduleInput:
		return s.end(in.Lease, in.Rest, func(r *refRow) { r.attempts++ })
	case engine.SnoozeInput:
		return s.end(in.Lease, in.Rest, func(*refRow) {})
	case engine.BuryInput:
		return s.end(in.Lease, in.Rest, func(r *refRow) { r.dead, r.attempts = true, r.attempts+1 })
	case engine.ReleaseInput:
		v := leaseLost
		if s.lists(in.Leases[0]) {
			v = applied
			delete(s.lane.list, in.Leases[0].Delivery)
		}
		return engine.ReleaseReply{Now: s.now(), Verdicts: []engine.Verdict{v}}, true
	case engine.RelinquishInput:
		return s.relinquish(&in), true
	case engine.RequeueInput:
		n := 0
		for _, id := range in.IDs {
			if r, ok := s.rows[id]; ok && r.dead {
				s.rows[id] = refRow{event: r.event, key: r.key, order: r.order}
				n++
			}
		}
		return engine.RequeueReply{Requeued: n}, true
	case engine.ListInput:
		reply := engine.ListReply{Now: s.now()}
		for _, id := range slices.Sorted(maps.Keys(s.rows)) {
			reply.Deliveries = append(reply.Deliveries, engine.Listed{Delivery: s.row(id)})
		}
		return reply, true
	case CountEffects:
		return s.effects[in.Name.Event], true
	}
	panic("unknown operation")
}

func (s *reference) row(id engine.DeliveryID) engine.Delivery {
	r := s.rows[id]
	d := engine.Delivery{
		ID: id, Event: r.event, Handler: "h", Key: r.key, Sequence: int64(id), Attempts: r.attempts, Takeovers: r.takeovers,
	}
	if r.dead {
		d.Status = 1
	}
	return d
}

// transaction publishes and completes. What it is told beforehand, if it is
// told, must come true.
// It is certain when its commit is known and not only possible.
func (s *reference) transaction(tx *Transaction, told, certain bool) bool {
	for i := range tx.Published {
		p := &tx.Published[i]
		result := engine.Known
		key, known := s.events[p.Event]
		switch {
		case !known:
			result = engine.Added
			id, place, ok := s.newID(p.Event, p.Key, certain)
			if !ok {
				return false
			}
			s.events[p.Event] = p.Key
			s.rows[id] = refRow{event: p.Event, key: p.Key, order: place}
		case key != p.Key:
			result = engine.Mismatch
		}
		if told && p.Result != result {
			return false
		}
		p.Result = result
	}
	for i := range tx.Completed {
		c := &tx.Completed[i]
		v := leaseLost
		if r, ok := s.rows[c.Lease.Delivery]; ok && s.mayEnd(c.Lease) && !r.dead {
			v = applied
			delete(s.rows, c.Lease.Delivery)
			s.done[r.event] = true
			s.effects[r.event]++
		}
		if told && c.Verdict != v {
			return false
		}
		c.Verdict = v
	}
	return true
}

// newID returns the id of a new row and its place in its key. When a history is
// judged, the ids that it shows tell the places, and those of certain commits
// must rise; whether a commit without an answer was early enough for its id
// nobody judges.
func (s *reference) newID(event, key string, certain bool) (engine.DeliveryID, float64, bool) {
	s.commits++
	id, shown := s.ids[event]
	switch {
	case s.ids == nil:
		id = s.nextID
	case !shown: // nobody will see it
		return engine.DeliveryID(1000 + s.commits), float64(s.nextID) - 0.5 + float64(s.commits)/1e6, true
	case key == "" || !certain:
		return id, float64(id), true
	case id < s.nextID:
		return 0, 0, false
	}
	s.nextID = id + 1
	return id, float64(id), true
}

// before reports whether row a stands before row b in the order of their key.
func (s *reference) before(a, b engine.DeliveryID) bool {
	x, y := s.rows[a], s.rows[b]
	return x.key != "" && x.key == y.key && x.order < y.order
}

func (s *reference) lists(l engine.Lease) bool {
	claim, ok := s.lane.list[l.Delivery]
	return s.lane.epoch == l.Epoch && s.lane.holder == l.Holder && ok && claim == l.Claim
}

// mayEnd is the guard that all ends but Release share.
func (s *reference) mayEnd(l engine.Lease) bool {
	before, pending := s.rows[l.After]
	return s.lists(l) && (!pending || before.dead)
}

func (s *reference) completeMany(leases []engine.Lease) []engine.Ended {
	ended := make([]engine.Ended, len(leases))
	for i, l := range leases {
		refused := slices.ContainsFunc(leases[:i], func(o engine.Lease) bool {
			return o.Delivery == l.After && ended[slices.Index(leases, o)].Verdict == leaseLost
		})
		r, there := s.rows[l.Delivery]
		if s.mayEnd(l) && !r.dead && !refused {
			ended[i].Verdict = applied
			if there {
				s.done[r.event] = true
				delete(s.rows, l.Delivery)
			}
		}
	}
	return ended
}

func (s *reference) end(l engine.Lease, rest []engine.Lease, change func(*refRow)) (any, bool) {
	r, ok := s.rows[l.Delivery]
	if !ok || r.dead || !s.mayEnd(l) {
		return engine.EndReply{Now: s.now(), Verdict: leaseLost}, true
	}
	change(&r)
	s.rows[l.Delivery] = r
	for _, o := range append(slices.Clone(rest), l) {
		if s.lists(o) {
			delete(s.lane.list, o.Delivery)
		}
	}
	return engine.EndReply{Now: s.now(), Verdict: applied}, true
}

func (s *reference) relinquish(in *engine.RelinquishInput) engine.RelinquishReply {
	l := &s.lane
	if l.holder != in.Holder || l.epoch != in.Lanes[0].Epoch || in.Number <= l.claim {
		return engine.RelinquishReply{Now: s.now()}
	}
	for _, r := range in.Running {
		if claim, ok := l.list[r.Delivery]; ok && claim == r.Claim {
			return engine.RelinquishReply{Now: s.now()}
		}
	}
	l.holder, l.last, l.claim, l.list = engine.Holder{}, in.Holder, in.Number, map[engine.DeliveryID]int64{}
	return engine.RelinquishReply{Now: s.now(), Lanes: []engine.LaneID{0}}
}

// claim performs TakeOver and Claim.
func (s *reference) claim(in *engine.ClaimInput, want any, choose func(n int) int) (any, bool) {
	l := &s.lane
	reply := engine.ClaimReply{Now: s.now()}
	imitate, guided := want.(engine.ClaimReply)
	named := len(in.Held) > 0 || in.AllMine
	switch {
	case l.holder == in.Holder && in.Number > l.claim && named:
		kept := map[engine.DeliveryID]int64{}
		for _, r := range in.Running {
			if claim, ok := l.list[r.Delivery]; ok && claim == r.Claim {
				kept[r.Delivery] = claim
			}
		}
		l.list = kept
		reply.Lanes = []engine.ClaimedLane{{}}
	case s.mayTake(in) && in.MaxLanes > 0:
		// Whether it does is the store's choice.
		takes := choose != nil && choose(4) > 0
		if guided {
			takes = len(imitate.Lanes) > 0 && imitate.Lanes[0].TakenOver || len(imitate.GivenBack) > 0
		}
		if takes {
			s.takeOver(in)
			reply.Lanes = []engine.ClaimedLane{{TakenOver: true}}
		}
	}
	if len(in.Held) > 0 && (len(reply.Lanes) == 0 || reply.Lanes[0].TakenOver) {
		reply.Gone = []engine.LaneID{0}
	}
	if len(reply.Lanes) == 0 {
		return reply, true
	}
	l.claim, l.expires = in.Number, s.clock+refTTL
	reply.Lanes[0].Epoch, reply.Lanes[0].ExpiresAt = l.epoch, engine.StoreTime(l.expires)
	for _, r := range in.Running {
		if claim, ok := l.list[r.Delivery]; !ok || claim != r.Claim {
			reply.LeaseLost = append(reply.LeaseLost, r)
		}
	}
	if guided {
		ok := s.imitate(in, &reply, imitate.Picks)
		s.giveBack(in, &reply, len(imitate.GivenBack) > 0)
		return reply, ok
	}
	s.pick(in, &reply, choose)
	s.giveBack(in, &reply, choose(2) > 0)
	return reply, true
}

// giveBack relinquishes a lane that was taken over and gave nothing, if the
// store likes.
func (s *reference) giveBack(in *engine.ClaimInput, reply *engine.ClaimReply, likes bool) {
	if !likes || !reply.Lanes[0].TakenOver || len(reply.Picks) > 0 {
		return
	}
	s.lane = refLane{epoch: s.lane.epoch, last: in.Holder, claim: in.Number, list: map[engine.DeliveryID]int64{}}
	reply.GivenBack = []engine.LaneEpoch{reply.Lanes[0].LaneEpoch}
	reply.Lanes, reply.LeaseLost = nil, nil
}

func (s *reference) mayTake(in *engine.ClaimInput) bool {
	l := &s.lane
	if l.holder.IsZero() {
		return l.last != in.Holder || in.Number > l.claim
	}
	return l.holder != in.Holder && l.expires <= s.clock
}

func (s *reference) takeOver(in *engine.ClaimInput) {
	l := &s.lane
	charges := map[engine.DeliveryID]bool{}
	for id := range l.list {
		if r, ok := s.rows[id]; ok && !r.dead {
			charges[id] = true
		}
	}
	for id := range charges {
		r := s.rows[id]
		r.takeovers++
		first := true
		for o := range charges {
			if s.before(o, id) {
				first = false
			}
		}
		if first {
			r.attempts++
		}
		s.rows[id] = r
	}
	l.epoch++
	l.holder, l.last, l.list = in.Holder, engine.Holder{}, map[engine.DeliveryID]int64{}
}

// mayPick says what of a delivery a claim may grant, after its picks so far:
// not at all, alone or at the head of a chain, or after the last pick.
func (s *reference) mayPick(in *engine.ClaimInput, id engine.DeliveryID, picks []engine.Picked) (alone, following bool) {
	r, ok := s.rows[id]
	if !ok || r.dead {
		return false, false
	}
	suspect := in.SuspectRunning
	for _, p := range picks {
		if p.Lease.Delivery == id {
			return false, false
		}
		suspect = suspect || p.Delivery.Takeovers > 0
	}
	if suspect && r.takeovers > 0 {
		return false, false
	}
	for _, run := range in.Running {
		if run.Delivery == id || r.key != "" && run.Key == r.key {
			return false, false
		}
	}
	if r.key == "" {
		return true, false
	}
	alone = true
	var before engine.DeliveryID // the pending one of its key before it
	for o, other := range s.rows {
		if s.before(o, id) && !other.dead {
			if alone || s.before(before, o) {
				before = o
			}
			alone = false
		}
	}
	if alone || len(picks) == 0 || r.attempts > 0 || r.takeovers > 0 {
		return alone, false
	}
	last := picks[len(picks)-1]
	charged := false
	for _, p := range picks {
		charged = charged || p.Delivery.Key == r.key && (p.Delivery.Attempts > 0 || p.Delivery.Takeovers > 0)
	}
	return false, last.Lease.Delivery == before && !charged
}

func (s *reference) grant(in *engine.ClaimInput, reply *engine.ClaimReply, id, after engine.DeliveryID) {
	s.lane.list[id] = in.Number
	l := lease(id, in.Holder, s.lane.epoch, in.Number)
	l.After = after
	reply.Picks = append(reply.Picks, engine.Picked{Lease: l, Delivery: s.row(id)})
}

// pick grants a few deliveries.
func (s *reference) pick(in *engine.ClaimInput, reply *engine.ClaimReply, choose func(n int) int) {
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		alone, following := s.mayPick(in, id, reply.Picks)
		if !alone && !following || choose(3) == 0 {
			continue
		}
		var before engine.DeliveryID
		if following {
			before = reply.Picks[len(reply.Picks)-1].Lease.Delivery
		}
		s.grant(in, reply, id, before)
	}
}

// imitate grants what another answer granted, if that is allowed.
func (s *reference) imitate(in *engine.ClaimInput, reply *engine.ClaimReply, picks []engine.Picked) bool {
	for _, p := range picks {
		alone, following := s.mayPick(in, p.Lease.Delivery, reply.Picks)
		if p.Lease.After == 0 && !alone || p.Lease.After != 0 && !following {
			return false
		}
		s.grant(in, reply, p.Lease.Delivery, p.Lease.After)
	}
	return true
}

// possible searches for an order of the operations, and of the ticks between
// them, in which the reference gives the same answers. Calls without an answer
// may be carried out or not.
func possible(ops []Operation) bool {
	s := newReference()
	s.ids = map[string]engine.DeliveryID{}
	see := func(d engine.Delivery) { s.ids[d.Event] = d.ID }
	for _, o := range ops {
		switch out := o.Output.(type) {
		case engine.ClaimReply:
			for _, p := range out.Picks {
				see(p.Delivery)
			}
		case engine.ListReply:
			for _, l := range out.Deliveries {
				see(l.Delivery)
			}
		}
	}
	return search(s, ops, 0, map[string]bool{})
}

func search(s *reference, ops []Operation, done uint64, seen map[string]bool) bool {
	var next int64 = 1 << 62 // nothing that is called later can come first
	left := false
	for i, o := range ops {
		if done&(1<<i) == 0 && o.Outcome == Returned {
			next, left = min(next, o.Return), true
		}
	}
	if !left {
		return true
	}
	key := s.key(done)
	if seen[key] {
		return false
	}
	seen[key] = true
	for i, o := range ops {
		if done&(1<<i) != 0 || o.Call > next {
			continue
		}
		if o.Outcome == Open {
			for after := range s.outcomes(o) {
				if search(after, ops, done|1<<i, seen) {
					return true
				}
			}
			continue
		}
		if after := s.clone(); after.gives(o) && search(after, ops, done|1<<i, seen) {
			return true
		}
	}
	return false
}

// outcomes yields what a call without an answer may lead to, with every choice
// that the store has.
func (s *reference) outcomes(o Operation) iter.Seq[*reference] {
	return func(yield func(*reference) bool) {
		var choices []int
		for {
			after := s.clone()
			drawn, ok := 0, true
			choose := func(int) int {
				if drawn == len(choices) {
					choices = append(choices, 0)
				}
				drawn++
				return choices[drawn-1]
			}
			if _, isTx := o.Input.(Transaction); isTx {
				ok = after.gives(o) // what its statements answered is known
			} else {
				after.perform(o.Input, nil, choose)
			}
			if ok && !yield(after) {
				return
			}
			// The next choices: each is 0 or 1, which is all that callers tell apart.
			choices = choices[:drawn]
			for len(choices) > 0 && choices[len(choices)-1] == 1 {
				choices = choices[:len(choices)-1]
			}
			if len(choices) == 0 {
				return
			}
			choices[len(choices)-1] = 1
		}
	}
}

// gives reports whether the reference may answer so.
func (s *reference) gives(o Operation) bool {
	switch in := o.Input.(type) {
	case tick:
		s.clock += refTick
		return true
	case Transaction:
		copied := copyOf(in)
		return s.transaction(&copied, true, o.Outcome == Returned)
	}
	out, ok := s.perform(o.Input, o.Output, nil)
	return ok && reflect.DeepEqual(out, o.Output)
}

func copyOf(tx Transaction) Transaction {
	return Transaction{slices.Clone(tx.Published), slices.Clone(tx.Completed), slices.Clone(tx.Effects)}
}

// key tells states of the search apart.
func (s *reference) key(done uint64) string {
	return string(appendSorted(nil, s, done))
}

// refClaim is a claim as the reference's workers make it.
func refClaim(h engine.Holder, n int64) engine.ClaimInput {
	return engine.ClaimInput{Holder: h, Number: n, TTL: refTTL * time.Nanosecond, MaxLanes: 1}
}

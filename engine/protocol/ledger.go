package protocol

import "slices"

// Ledger is ghost history: what no store keeps, and what the invariants speak
// of. It covers the surviving history only. When a store lost commits, a new
// Ledger (or a [Ledger.Clone] from before) is stepped with what survived.
type Ledger struct {
	pairs []*pairHistory // in the order of their commits
	keys  []*keyHistory
	lanes []*laneHistory
	// groups are in the order of their first Subscribe, which numbers them.
	groups []string
	kills  []kill
	// lostEnds are completions that the store had acknowledged and lost.
	lostEnds []Lease
	// invented are calls that named what was never committed.
	invented []string

	// Lookup indexes; never iterated.
	byID    map[DeliveryID]*pairHistory
	ofEvent map[string]*pairHistory // the latest; the others by sibling
	keyOf   map[handlerKey]*keyHistory
	laneOf  map[LaneID]*laneHistory

	touched  Scope // what the action under way concerns
	newPairs slab[pairHistory]
	newRuns  slab[run]
}

// pair is what is promised to run: an event and a handler.
type pair struct{ event, handler string }

// fate is what became of a delivery.
type fate uint8

const (
	alive        fate = iota // pending or dead: its row is there
	completed                // an Applied completion deleted the row
	purged                   // deleted as an old dead letter
	unsubscribed             // deleted with its handler's subscription
)

// pairHistory is the life of one delivery. The fields under "broken" record a
// promise that was not kept, for the invariant that speaks of it.
type pairHistory struct {
	pair
	number  int // place in Ledger.pairs
	id      DeliveryID
	key     *keyHistory  // nil when the delivery has no key
	index   int          // place in the commit order of its key
	sibling *pairHistory // another pair of the event
	last    *run         // the latest run granted

	fate        fate
	forgotten   bool // its event was purged: the id may be published anew
	dead        bool
	swept       bool // dead by Unsubscribe
	excepted    bool // from KeyOrder: once dead or requeued
	completions int
	completedBy Token  // the run whose completion deleted the row
	charges     int32  // since the last Requeue
	takeovers   int32  // since the last Requeue
	badEnds     int    // Reschedule, Bury and refused ends, ever
	killer      bool   // the environment said that it killed a worker
	owes        bool   // the store refused to write what a run of it costs
	lives       int    // one more than its Requeues
	blamed      []kill // the deaths that it paid for

	broken *breach // nil while every promise was kept
}

// breach records how promises about a delivery were broken, for the
// invariants that speak of them.
type breach struct {
	again       bool         // delivered again while the event is kept
	regranted   bool         // granted although completed
	revived     string       // the call that ran or rewrote a dead delivery
	beside      string       // why a grant broke the order of its key
	overtakenBy *pairHistory // completed earlier although committed later
	early       *pairHistory // completed although this predecessor was pending
	behind      bool         // its sequence is not in commit order
	overcharged bool         // one run was charged twice
	mischarged  string       // what was charged is not what a run costs
	unknownEnd  *Token       // an end accepted under a token never granted
	fencedEnd   *Token       // an end accepted after its takeover
	overEnd     *Token       // an end accepted of a run that was over
	dropped     string       // why what its worker may still run left the list
	chargedFor  *pairHistory // a killer that cost it two charges
	deleted     string       // why its deletion is none that a promise excepts
}

// breach returns the record of broken promises to write on.
func (p *pairHistory) breach() *breach {
	if p.broken == nil {
		p.broken = &breach{}
	}
	return p.broken
}

// phase is where a run stands.
type phase uint8

const (
	open      phase = iota // granted, and its lane must list it
	ended                  // completed, rescheduled, snoozed or buried
	givenBack              // released, or no longer stated by its worker
	lost                   // taken over, not charged yet (Snapshot)
	stuck                  // its end or charge was refused by the store
	fenced                 // taken over and charged
)

// run is one grant of a delivery.
type run struct {
	Token
	phase   phase
	charges int32
	death   int // of its worker, by the takeover: see Ledger.deathOf
	earlier *run
}

// keyHistory is what happened to one (handler, key).
type keyHistory struct {
	handlerKey
	number       int
	commits      int   // deliveries committed so far
	lastSequence int64 // of the last commit
	open         int   // runs granted and not over
	lastDone     *pairHistory
}

// laneHistory is what happened to one lane.
type laneHistory struct {
	id      LaneID
	group   string // of the Subscribe that made it
	epoch   int64
	holder  Holder
	last    Holder         // who gave it back, while it is free
	current []*pairHistory // with an open run
	lost    []*pairHistory // with a lost run

	// broken: a call of somebody else that was accepted.
	intruder Holder
	call     string
	// broken: why a takeover gave it to a holder of another group.
	foreign string
}

// kill is a worker's death that one delivery caused. A requeued delivery
// starts anew, also as a killer: it may run beside its old neighbours again.
type kill struct {
	holder Holder
	by     *pairHistory
	life   int
}

// NewLedger returns the history of an empty State.
func NewLedger() *Ledger {
	return &Ledger{
		byID:    map[DeliveryID]*pairHistory{},
		ofEvent: map[string]*pairHistory{},
		keyOf:   map[handlerKey]*keyHistory{},
		laneOf:  map[LaneID]*laneHistory{},
	}
}

// Killed tells the Ledger that a delivery killed the worker of this holder. A
// store cannot know that, and InnocentNeighbours speaks of it: a worker that
// died of something else (a crash, a freeze, an outage) is not told, and what
// its lanes are charged counts for no killer. Told before the takeover.
func (l *Ledger) Killed(holder Holder, by DeliveryID) {
	p := l.byID[by]
	if p == nil {
		return
	}
	p.killer = true
	l.kills = append(l.kills, kill{holder, p, p.lives})
}

// LostCompletion tells the Ledger that the store lost a completion of this run
// which it had committed: a late copy of the call may commit it again, also
// where it can no longer be told apart from a grant beside it (docs/adr, 14).
// The surviving history cannot know that. Told before anything that is granted
// or committed after the loss.
func (l *Ledger) LostCompletion(lease Lease) { l.lostEnds = append(l.lostEnds, lease) }

// completedBeside reports whether what a claim grants was completed beside it:
// after the claim had read its picks and before it committed, by the late copy
// of a completion that the store had lost, under an older claim of the same
// holder. A completion takes FOR KEY SHARE on the lane and the holder's claim
// FOR NO KEY UPDATE, so neither sees the other (docs/adr, 14).
func (l *Ledger) completedBeside(p *pairHistory, h *laneHistory, a *Claim) bool {
	by := p.completedBy
	older := by.Lane == a.Lane && by.Epoch == h.epoch && by.Holder == a.Holder && by.Claim < a.Number
	return a.Seen != 0 && older && slices.ContainsFunc(l.lostEnds, func(e Lease) bool {
		return e.Delivery == p.id && e.Token == by
	})
}

// deathOf returns the place in kills, from 1, of the death of a holder's
// worker; 0 when nothing killed it.
func (l *Ledger) deathOf(holder Holder) int {
	for i, k := range l.kills {
		if k.holder == holder {
			return i + 1
		}
	}
	return 0
}

// Completions returns how many completions of an event's handler committed.
func (l *Ledger) Completions(event, handler string) int {
	p := l.find(pair{event, handler})
	if p == nil {
		return 0
	}
	return p.completions
}

// Clone returns a Ledger that shares nothing mutable with l.
func (l *Ledger) Clone() *Ledger {
	c := NewLedger()
	c.invented = slices.Clone(l.invented)
	c.lostEnds = slices.Clone(l.lostEnds)
	c.groups = slices.Clone(l.groups)
	c.cloneKeys(l.keys)
	c.clonePairs(l.pairs)
	for i, k := range l.keys {
		c.keys[i].lastDone = c.twin(k.lastDone)
	}
	c.cloneLanes(l.lanes)
	c.kills = c.cloneKills(l.kills)
	return c
}

func (l *Ledger) cloneKeys(from []*keyHistory) {
	block := make([]keyHistory, len(from))
	l.keys = make([]*keyHistory, len(from))
	for i, k := range from {
		block[i] = *k
		l.keys[i] = &block[i]
		l.keyOf[k.handlerKey] = &block[i]
	}
}

func (l *Ledger) clonePairs(from []*pairHistory) {
	block := make([]pairHistory, len(from))
	l.pairs = make([]*pairHistory, len(from))
	for i, p := range from {
		block[i] = *p
		l.pairs[i] = &block[i]
	}
	for i, p := range from {
		c := l.pairs[i]
		c.sibling = l.twin(p.sibling)
		c.broken = l.cloneBreach(p.broken)
		c.blamed = l.cloneKills(p.blamed)
		c.last = cloneRuns(p.last)
		if p.key != nil {
			c.key = l.keys[p.key.number]
		}
		l.index(c)
	}
}

func (l *Ledger) cloneBreach(b *breach) *breach {
	if b == nil {
		return nil
	}
	c := *b
	c.overtakenBy, c.early, c.chargedFor = l.twin(b.overtakenBy), l.twin(b.early), l.twin(b.chargedFor)
	return &c
}

func (l *Ledger) cloneLanes(from []*laneHistory) {
	for _, h := range from {
		c := *h
		c.current, c.lost = l.twins(h.current), l.twins(h.lost)
		l.lanes = append(l.lanes, &c)
		l.laneOf[c.id] = &c
	}
}

// twin returns the copy of a pair of another Ledger.
func (l *Ledger) twin(p *pairHistory) *pairHistory {
	if p == nil {
		return nil
	}
	return l.pairs[p.number]
}

func (l *Ledger) cloneKills(list []kill) []kill {
	out := slices.Clone(list)
	for i := range out {
		out[i].by = l.twin(out[i].by)
	}
	return out
}

func (l *Ledger) twins(list []*pairHistory) []*pairHistory {
	var out []*pairHistory
	for _, p := range list {
		out = append(out, l.twin(p))
	}
	return out
}

func cloneRuns(r *run) *run {
	if r == nil {
		return nil
	}
	c := *r
	c.earlier = cloneRuns(r.earlier)
	return &c
}

// index makes a pair findable, in place of an older one of the same name.
func (l *Ledger) index(p *pairHistory) {
	l.byID[p.id] = p
	if !p.forgotten {
		l.ofEvent[p.event] = p
	}
}

// find returns the latest delivery of a pair whose event is kept, or nil.
func (l *Ledger) find(name pair) *pairHistory {
	for p := l.ofEvent[name.event]; p != nil; p = p.sibling {
		if p.handler == name.handler {
			return p
		}
	}
	return nil
}

// lane returns the history of a lane.
func (l *Ledger) lane(id LaneID) *laneHistory {
	h := l.laneOf[id]
	if h == nil {
		h = &laneHistory{id: id}
		l.lanes = append(l.lanes, h)
		l.laneOf[id] = h
	}
	return h
}

// key returns the history of a (handler, key).
func (l *Ledger) key(of handlerKey) *keyHistory {
	k := l.keyOf[of]
	if k == nil {
		k = &keyHistory{handlerKey: of, number: len(l.keys)}
		l.keys = append(l.keys, k)
		l.keyOf[of] = k
	}
	return k
}

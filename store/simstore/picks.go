package simstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/mutant"
)

// picker chooses what a claim grants: picks(lane) of the protocol. It reads
// everything at the snapshot of one statement.
type picker struct {
	db      *database
	in      *engine.ClaimInput
	running map[chainName]protocol.DeliveryID // keys of which something runs
	room    []int                             // per handler of the input
	chains  int                               // more chains this call may grant
	left    int                               // more deliveries this call may grant
	suspect bool                              // no further suspect may be granted
}

func newPicker(db *database, in *engine.ClaimInput) *picker {
	p := &picker{db: db, in: in, chains: in.Room, left: in.Limit, suspect: in.SuspectRunning}
	p.room = make([]int, len(in.Handlers))
	for i := range in.Handlers {
		p.room[i] = in.Handlers[i].Room
	}
	for i := range in.Running {
		if r := &in.Running[i]; r.Key != "" {
			if p.running == nil {
				p.running = map[chainName]protocol.DeliveryID{}
			}
			p.running[chainName{r.Key, r.Handler}] = r.Delivery
		}
	}
	return p
}

// full reports whether nothing more can be granted.
func (p *picker) full() bool { return p.chains <= 0 || p.left <= 0 }

// handlersWithRoom names the handlers that a claim may pick for.
func handlersWithRoom(in *engine.ClaimInput) []string {
	names := make([]string, 0, len(in.Handlers))
	for i := range in.Handlers {
		if in.Handlers[i].Room > 0 {
			names = append(names, in.Handlers[i].Name)
		}
	}
	return names
}

// head is a delivery that may be granted, with the chain it may bring.
type head struct {
	lane  *work
	d     *protocol.Delivery
	chain *chain
	tail  []*protocol.Delivery
}

// pick chooses among the due deliveries of the lanes: the heads with the
// earliest due times, and when there is room left, the followers of each.
func (p *picker) pick(st *stmt, lanes []*work) {
	if p.full() {
		return
	}
	var heads []head
	for _, w := range lanes {
		if w.picksFrom {
			heads = append(heads, p.heads(st, w)...)
		}
	}
	slices.SortFunc(heads, func(a, b head) int { return byDue(a.d, b.d) })
	heads = p.choose(heads)
	p.follow(st, heads)
	for i := range heads {
		h := &heads[i]
		h.lane.grant(h.d, 0)
		after := h.d.ID
		for _, d := range h.tail {
			h.lane.grant(d, after)
			after = d.ID
		}
	}
}

func byDue(a, b *protocol.Delivery) int {
	if c := cmp.Compare(a.AvailableAt, b.AvailableAt); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}

// choose takes from the candidates, in order, what there is room for.
func (p *picker) choose(heads []head) []head {
	chosen := heads[:0]
	for _, h := range heads {
		i := p.handler(h.d.Handler)
		if p.full() || p.room[i] <= 0 || p.barred(h.d) {
			continue
		}
		if h.d.Takeovers > 0 {
			suspectsGranted.Hit()
			p.suspect = true
		}
		p.room[i]--
		p.chains--
		p.left--
		chosen = append(chosen, h)
	}
	return chosen
}

// barred reports whether the delivery is a suspect beside another. The
// suspects run one at a time, so that a poison delivery charges an innocent
// neighbour at most once.
func (p *picker) barred(d *protocol.Delivery) bool {
	return d.Takeovers > 0 && p.suspect && !mutant.On("more-than-one-suspect")
}

// handler returns the index of a handler among those of the worker, -1 when
// the worker lacks it.
func (p *picker) handler(name string) int {
	for i := range p.in.Handlers {
		if p.in.Handlers[i].Name == name {
			return i
		}
	}
	return -1
}

// heads returns candidates of one lane: enough that choose finds what it wants
// among them.
func (p *picker) heads(st *stmt, w *work) []head {
	index := p.db.index.lanes[w.id]
	if index == nil {
		return nil
	}
	s := &scan{p: p, st: st, w: w, room: slices.Clone(p.room), wanted: min(p.chains, p.left)}
	for _, r := range index.unkeyed.items {
		if r.place.due > st.tx.now || s.full() {
			break
		}
		if d := s.pickable(r); d != nil {
			s.take(head{lane: w, d: d})
		}
	}
	s.wanted += min(p.chains, p.left) // the keyed ones count on their own
	for _, c := range index.chains.items {
		if s.full() {
			break
		}
		if d := s.headOf(c); d != nil {
			s.take(head{lane: w, d: d, chain: c})
		}
	}
	if s.suspect.d != nil {
		s.found = append(s.found, s.suspect)
	}
	return s.found
}

// scan is a search through one lane.
type scan struct {
	p       *picker
	st      *stmt
	w       *work
	room    []int
	wanted  int
	found   []head
	suspect head // the suspect due first
}

func (s *scan) full() bool { return len(s.found) >= s.wanted }

func (s *scan) take(h head) {
	if h.d.Takeovers > 0 && !mutant.On("more-than-one-suspect") {
		if s.p.suspect || s.suspect.d != nil {
			suspectsBarred.Hit()
		}
		if !s.p.suspect && (s.suspect.d == nil || byDue(h.d, s.suspect.d) < 0) {
			s.suspect = h
		}
		return
	}
	s.room[s.p.handler(h.d.Handler)]--
	s.found = append(s.found, h)
}

// pickable returns the row as the statement sees it, if the claim may grant it
// as far as the row alone says.
func (s *scan) pickable(r *deliveryRow) *protocol.Delivery {
	v := r.seen(s.st.tx, s.st.snap)
	if v == nil {
		return nil
	}
	d := v.value
	if d.Status != protocol.Pending && !mutant.On("dead-claimable") || d.AvailableAt > s.st.tx.now {
		return nil
	}
	i := s.p.handler(d.Handler)
	if i < 0 {
		s.lacks(d)
		return nil
	}
	if s.room[i] <= 0 || s.p.runs(d.ID) && !mutant.On("picks-running-deliveries") || slices.Contains(s.w.stuck, d.ID) {
		return nil
	}
	return d
}

// runs reports whether the worker states the delivery, kept or not.
func (p *picker) runs(id protocol.DeliveryID) bool {
	_, found := slices.BinarySearchFunc(p.in.Running, id, func(r engine.Running, id protocol.DeliveryID) int {
		return cmp.Compare(r.Delivery, id)
	})
	return found
}

// headOf returns the first pending row of a (handler, key) if the claim may
// grant it: nothing of the key may run.
func (s *scan) headOf(c *chain) *protocol.Delivery {
	for _, r := range c.rows.items {
		v := r.seen(s.st.tx, s.st.snap)
		if v == nil || v.value.Status != protocol.Pending {
			continue
		}
		if runs, any := s.p.running[c.chainName]; any && s.p.holdsBack(runs, r.key) {
			s.noteHeld(v.value, runs)
			return nil
		}
		return s.pickable(r)
	}
	return nil
}

// noteHeld counts a delivery that waits for a running one of its key.
func (s *scan) noteHeld(d *protocol.Delivery, runs protocol.DeliveryID) {
	if s.p.runs(d.ID) {
		return // it is the one that runs
	}
	keysHeld.Hit()
	if o := read(s.st, s.p.db.deliveries, runs); o != nil && d.Sequence < o.Sequence {
		requeuedHeld.Hit()
	}
}

// holdsBack reports whether a running delivery of the key keeps another from
// starting: whichever of them is the earlier one.
func (p *picker) holdsBack(running, id protocol.DeliveryID) bool {
	switch {
	case mutant.On("key-order-ignores-running"):
		return false
	case mutant.On("requeued-overtakes"):
		return running < id
	}
	return true
}

// servedWithin is how recently a subscription must have been seen for its
// handler to count as lacked: one that nobody serves any more must not keep
// lanes draining.
const servedWithin = 3 * time.Minute

// lacks notes a row whose handler the worker lacks while others serve it.
func (s *scan) lacks(d *protocol.Delivery) {
	if s.w.lacking {
		return
	}
	e := read(s.st, s.p.db.events, d.Event)
	if e == nil {
		return
	}
	sub := read(s.st, s.p.db.subscriptions, protocol.EventHandler{Event: e.Type, Handler: d.Handler})
	switch s.w.lacking = sub != nil && !sub.Removed && sub.SeenAt.Add(servedWithin) >= s.st.tx.now; {
	case s.w.lacking:
		lacking.Hit()
	case sub != nil && !sub.Removed:
		unserved.Hit()
	}
}

// follow lets the chosen heads bring their followers, as far as the limit
// goes: one each, in turns.
func (p *picker) follow(st *stmt, heads []head) {
	most := p.left
	for i := range heads {
		if h := &heads[i]; h.chain != nil && most > 0 && (!charged(h.d) || mutant.On("chain-not-stopped-at-charged")) {
			if h.tail = p.followers(st, h, most); len(h.tail) > 0 {
				chainsGranted.Hit()
			}
		} else if h.chain != nil && charged(h.d) {
			chargedHeads.Hit()
		}
	}
	for turn := 1; turn <= most; turn++ {
		for i := range heads {
			switch h := &heads[i]; {
			case len(h.tail) < turn:
			case p.left == 0:
				h.tail = h.tail[:turn-1]
			default:
				p.left--
			}
		}
	}
}

func charged(d *protocol.Delivery) bool { return d.Attempts > 0 || d.Takeovers > 0 }

// followers returns the pending rows behind a head, ending at the first that
// is not due, was charged, or is stuck: passing over one would break the
// order of its key.
func (p *picker) followers(st *stmt, h *head, most int) []*protocol.Delivery {
	var tail []*protocol.Delivery
	rows := &h.chain.rows
	first := rows.search(p.db.deliveries.rows[h.d.ID])
	for _, r := range rows.items[first+1:] {
		if len(tail) >= most {
			break
		}
		v := r.seen(st.tx, st.snap)
		if v == nil || v.value.Status != protocol.Pending {
			if v != nil {
				chainsPastDead.Hit()
			}
			continue
		}
		d := v.value
		if charged(d) && mutant.On("chain-not-stopped-at-charged") {
			continue
		}
		if d.AvailableAt > st.tx.now || charged(d) || slices.Contains(h.lane.stuck, d.ID) || p.runs(d.ID) {
			if charged(d) {
				chainsCharged.Hit()
			} else if d.AvailableAt > st.tx.now {
				chainsEarly.Hit()
			}
			break
		}
		tail = append(tail, d)
	}
	return tail
}

// hasPick reports whether the worker could pick something of a lane.
func (p *picker) hasPick(st *stmt, lane *protocol.Lane) bool {
	if p.full() {
		return false
	}
	w := &work{id: lane.ID, stuck: lane.Stuck}
	heads := p.heads(st, w)
	for i := range heads {
		if !p.barred(heads[i].d) {
			return true
		}
	}
	return false
}

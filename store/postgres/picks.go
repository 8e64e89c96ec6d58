package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// candidate is a pending row that a claim may grant.
type candidate struct {
	lane      protocol.LaneID
	id        protocol.DeliveryID
	seq       int64 // of the event
	handler   string
	key       string
	due       protocol.Time
	attempts  int32
	takeovers int32
	lastError string
	isDue     bool
	lacked    bool // others serve its handler, this worker does not
	after     protocol.DeliveryID
	chosen    bool
}

func (c *candidate) charged() bool { return c.attempts > 0 || c.takeovers > 0 }

// chainName is what an order of deliveries is promised for.
type chainName struct{ key, handler string }

// picker chooses what a claim grants: picks(lane) of the protocol.
type picker struct {
	in      *engine.ClaimInput
	room    map[string]int     // per handler of the worker
	running map[chainName]bool // keys of which something runs
	runs    []int64            // deliveries that the worker states, ascending
	chains  int                // more chains this call may grant
	left    int                // more deliveries this call may grant
	suspect bool               // no further suspect may be granted
}

func newPicker(in *engine.ClaimInput) *picker {
	p := &picker{
		in: in, chains: in.Room, left: in.Limit, suspect: in.SuspectRunning,
		room: map[string]int{}, running: map[chainName]bool{},
	}
	for i := range in.Handlers {
		p.room[in.Handlers[i].Name] = in.Handlers[i].Room
	}
	for i := range in.Running {
		r := &in.Running[i]
		p.runs = append(p.runs, int64(r.Delivery))
		if r.Key != "" {
			p.running[chainName{r.Key, r.Handler}] = true
		}
	}
	slices.Sort(p.runs)
	return p
}

// full reports whether nothing more can be granted.
func (p *picker) full() bool { return p.chains <= 0 || p.left <= 0 || len(p.withRoom()) == 0 }

// withRoom names the handlers that the call may pick for.
func (p *picker) withRoom() []string {
	names := make([]string, 0, len(p.in.Handlers))
	for i := range p.in.Handlers {
		if name := p.in.Handlers[i].Name; p.room[name] > 0 {
			names = append(names, name)
		}
	}
	return names
}

func (p *picker) handlers() []string {
	names := make([]string, len(p.in.Handlers))
	for i := range p.in.Handlers {
		names[i] = p.in.Handlers[i].Name
	}
	return names
}

// search is one look for candidates, per lane.
type search struct {
	perLane int
	all     bool // every handler of the worker had room
	found   map[protocol.LaneID][]*candidate
	from    map[protocol.LaneID]hint
	heads   map[protocol.LaneID]int // heads of keys that were read
}

// The rows read per lane: half as many again as an even share of what may be
// granted, because lanes are not even. What is read and not granted is wasted.
const (
	leastPerLane = 4
	mostPerLane  = 1000
)

// search queues a look for candidates in lanes.
func (k *claiming) search(lanes []protocol.LaneID) *search {
	s := &search{
		all:   true,
		found: map[protocol.LaneID][]*candidate{}, from: map[protocol.LaneID]hint{}, heads: map[protocol.LaneID]int{},
	}
	if k.picker.full() {
		return s
	}
	share := min(k.picker.chains, k.picker.left) / len(lanes)
	s.perLane = min(max(share+share/2, leastPerLane), mostPerLane)
	for _, room := range k.picker.room {
		s.all = s.all && room > 0
	}
	k.look(s, lanes, k.s.hintFor)
	return s
}

// look queues the statement of a search, each lane from the hint given.
func (k *claiming) look(s *search, lanes []protocol.LaneID, from func(protocol.Holder, protocol.LaneID) hint) {
	due := make([]time.Time, len(lanes))
	id := make([]int64, len(lanes))
	key, handler := make([]string, len(lanes)), make([]string, len(lanes))
	for i, l := range lanes {
		h := from(k.in.Holder, l)
		s.from[l] = h
		due[i], id[i], key[i], handler[i] = h.due.Std(), int64(h.id), h.key, h.handler
	}
	k.later("candidates", s.read, lanes, due, id, key, handler, k.picker.withRoom(), k.picker.handlers(),
		k.picker.runs, k.in.Group, s.perLane)
}

func (s *search) read(rows pgx.Rows) error {
	for rows.Next() {
		c := &candidate{}
		var due time.Time
		var key *string
		if err := rows.Scan(&c.lane, &c.id, &c.seq, &c.handler, &key, &due, &c.attempts, &c.takeovers,
			&c.lastError, &c.isDue, &c.lacked); err != nil {
			return err
		}
		c.due = stored(due)
		if key != nil {
			c.key = *key
			s.heads[c.lane]++
		}
		s.found[c.lane] = append(s.found[c.lane], c)
	}
	return rows.Err()
}

// pick chooses among the candidates of locked lanes: the earliest due, and
// when there is room left, the followers of each head.
func (k *claiming) pick(lanes []*lane, s *search) error {
	if err := k.wrap(lanes, s); err != nil {
		return err
	}
	var heads []*candidate
	at := map[protocol.LaneID]*lane{}
	for _, l := range lanes {
		if !l.picksFrom {
			continue
		}
		at[l.id] = l
		for _, c := range s.found[l.id] {
			if k.picker.pickable(l, c) {
				heads = append(heads, c)
			}
		}
	}
	slices.SortStableFunc(heads, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id))
	})
	heads = k.picker.choose(heads)
	tails, err := k.followers(at, heads)
	if err != nil {
		return err
	}
	for i, h := range heads {
		l := at[h.lane]
		l.picked = append(l.picked, h)
		after := h.id
		for _, c := range tails[i] {
			c.after, after = after, c.id
			l.picked = append(l.picked, c)
		}
	}
	for _, l := range lanes {
		k.s.note(k.in.Holder, l, s)
	}
	return nil
}

// wrap looks again from the beginning where the search of a lane began in the
// middle and found nothing: a hint must not hide work. Behind a watermark that
// is worth its price only when the whole claim would be empty; else the full
// search of every fullEvery does.
func (k *claiming) wrap(lanes []*lane, s *search) error {
	var empty []protocol.LaneID
	for _, l := range lanes {
		from := s.from[l.id]
		if l.picksFrom && len(s.found[l.id]) == 0 && (from.key != "" || from.due != 0 && len(s.found) == 0) {
			empty = append(empty, l.id)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	k.look(s, empty, func(protocol.Holder, protocol.LaneID) hint { return hint{} })
	return k.send(k.ctx)
}

// pickable reports whether a candidate may be granted as far as it alone says,
// and notes in the lane that a handler is lacked.
func (p *picker) pickable(l *lane, c *candidate) bool {
	if c.lacked && c.isDue {
		l.lacking = true
	}
	return c.isDue && p.room[c.handler] > 0 &&
		(c.key == "" || !p.running[chainName{c.key, c.handler}]) &&
		!slices.Contains(l.stuck, c.id) && !p.runsAlready(c.id)
}

func (p *picker) runsAlready(id protocol.DeliveryID) bool {
	_, runs := slices.BinarySearch(p.runs, int64(id))
	return runs
}

// choose takes from the candidates, in order, what there is room for. The
// suspects run one at a time, so that a poison delivery charges an innocent
// neighbour at most once.
func (p *picker) choose(heads []*candidate) []*candidate {
	var chosen []*candidate
	for _, c := range heads {
		if p.chains <= 0 || p.left <= 0 {
			break
		}
		if p.room[c.handler] <= 0 || c.takeovers > 0 && p.suspect {
			continue
		}
		p.suspect = p.suspect || c.takeovers > 0
		p.room[c.handler]--
		p.chains--
		p.left--
		c.chosen = true
		chosen = append(chosen, c)
	}
	return chosen
}

// followers reads what the chosen heads of keys may bring, one each in turns
// as far as the limit goes: the pending rows behind a head, ending at the first
// that is not due, was charged, or is stuck. Passing over one would break the
// order of its key.
func (k *claiming) followers(at map[protocol.LaneID]*lane, heads []*candidate) (map[int][]*candidate, error) {
	tails := map[int][]*candidate{}
	var index []int
	var lanes []int32
	var keys, names []string
	var ids []int64
	for i, h := range heads {
		if h.key != "" && !h.charged() {
			index = append(index, i)
			lanes, keys = append(lanes, int32(h.lane)), append(keys, h.key)
			names, ids = append(names, h.handler), append(ids, int64(h.id))
		}
	}
	if len(index) == 0 || k.picker.left <= 0 {
		return tails, nil
	}
	ended := map[int]bool{}
	k.later("followers", func(rows pgx.Rows) error {
		for rows.Next() {
			c := &candidate{}
			var n int
			var due time.Time
			if err := rows.Scan(&n, &c.id, &c.seq, &due, &c.attempts, &c.takeovers, &c.lastError, &c.isDue); err != nil {
				return err
			}
			i := index[n-1]
			h := heads[i]
			c.lane, c.key, c.handler, c.due = h.lane, h.key, h.handler, stored(due)
			ended[i] = ended[i] || !c.isDue || c.charged() || slices.Contains(at[c.lane].stuck, c.id) ||
				k.picker.runsAlready(c.id)
			if !ended[i] {
				tails[i] = append(tails[i], c)
			}
		}
		return rows.Err()
	}, lanes, keys, names, ids, min(k.picker.left, max(1, 2*k.picker.left/len(index))))
	if err := k.send(k.ctx); err != nil {
		return nil, err
	}
	k.picker.share(index, tails)
	return tails, nil
}

// share cuts the tails so that together they fit into what is left.
func (p *picker) share(index []int, tails map[int][]*candidate) {
	for turn := 1; ; turn++ {
		more := false
		for _, i := range index {
			switch {
			case len(tails[i]) < turn:
			case p.left <= 0:
				tails[i] = tails[i][:turn-1]
			default:
				p.left--
				more = true
			}
		}
		if !more {
			return
		}
	}
}

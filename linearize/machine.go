package linearize

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/anishathalye/porcupine"
)

// state is what a model knows of one partition at one moment. States are
// values: a model never changes one that it was given.
type state interface {
	// appendKey appends what tells the state apart from others.
	appendKey([]byte) []byte
	// String says in words what the state is, for reports.
	String() string
}

// rules are a sequential model. in is what one call did in one partition.
type rules[S state, P fmt.Stringer] interface {
	// start returns the state of an empty store.
	start() S
	// settled returns the states that a call with this answer may lead to,
	// or why the answer is impossible.
	settled(s S, p *part[P]) ([]S, *misfit)
	// effects returns the states that an open call leads to when it takes
	// effect before the part at; none when it would change nothing.
	effects(s S, p, at *part[P]) []S
	// silent returns the states that the store may reach by itself.
	silent(s S) []S
	// spent reports whether an open call can have no effect from here on,
	// provided that no commit is lost.
	spent(s S, p *part[P]) bool
}

// joiner are rules that can take two states for one that may be either. A set
// that grows large is made smaller that way: the model then knows less, and
// still refuses nothing that is possible.
type joiner[S state] interface {
	// appendJoinKey appends what two states must share to be joined.
	appendJoinKey(s S, b []byte) []byte
	join(a, b S) S
}

// misfit is why an answer is impossible in a state. It is put into words only
// when somebody asks.
type misfit struct {
	format  string
	args    []any
	because *op // the call that made the state what it is; may be nil
}

func mismatch(because *op, format string, args ...any) *misfit {
	return &misfit{format, args, because}
}

func (m *misfit) String() string { return fmt.Sprintf(m.format, m.args...) }

// part is one call as one partition sees it.
type part[P fmt.Stringer] struct {
	op    *op
	call  int64
	ret   int64
	until int64 // of an open part: no effect after
	role  role
	in    P
	wrong string // the answer contradicts itself, whatever the state
	index int    // in its partition
	// sticky: an open part that stays possible once it took effect, because
	// which of several calls it was makes no difference.
	sticky bool
	// like is the first of several open calls that count as the same one made
	// again; nil for the first.
	like *part[P]
	// farFetched: an open part that is not needed to explain most histories,
	// so that the check tries without it first.
	farFetched bool
	// flushes: the call's commit makes every earlier one durable.
	flushes bool
}

type role uint8

const (
	settledRole role = iota
	openRole
	// maybeRole is a settled call that a prefix of the history cuts through:
	// with the answer it got, or not yet.
	maybeRole
	crashRole
)

// node is one of the states a partition may be in, with the open calls that
// may still take effect.
type node[S state] struct {
	state S
	key   string // of state, open and past
	bare  int    // length of the state's own part of key
	open  []int32
	past  *past[S]
}

// past is what a crash may take a partition back to.
type past[S state] struct {
	state  S
	key    string
	before *past[S]
	hash   uint64
	// flushed: a commit that made everything up to here durable came after.
	flushed bool
}

// set is what porcupine sees as a state: every state the partition may be in.
type set[S state] struct {
	nodes []node[S]
	hash  uint64
}

// hashOf mixes a key, the same way on every machine and in every run, because
// the order in which states are looked at must not change either.
func hashOf(key string) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(len(key)) ^ odd
	for len(key) > 0 {
		var word [8]byte
		key = key[copy(word[:], key):]
		high, low := bits.Mul64(h^binary.LittleEndian.Uint64(word[:]), odd)
		h = high ^ low
	}
	return h
}

// manyNodes is how large a set may grow before states are joined.
const manyNodes = 48

// mostNodes bounds a set, and mostWork the nodes of one pass. A history that
// needs more has too many open calls at once for a verdict.
const (
	mostNodes = 3000
	mostWork  = 1 << 20
)

// machine runs a model over the parts of one partition.
type machine[S state, P fmt.Stringer] struct {
	title string
	rules rules[S, P]
	parts []*part[P]
	// lastCrash is when the last crash was over; 0: none happened.
	lastCrash int64
}

// run is one pass of the checker over a machine.
type run[S state, P fmt.Stringer] struct {
	*machine[S, P]
	buf      []byte
	work     int
	overflow *atomic.Bool
}

// model returns the machine as porcupine takes it. overflow is set when the
// verdict means nothing because there were too many states.
func (m *machine[S, P]) model() (porcupine.Model, *atomic.Bool) {
	r := &run[S, P]{machine: m, overflow: new(atomic.Bool)}
	return porcupine.Model{
		Init: func() any { return r.initial() },
		Step: func(s, in, _ any) (bool, any) {
			next := r.step(s.(*set[S]), in.(*part[P]))
			return len(next.nodes) > 0, next
		},
		Equal: func(a, b any) bool { return a.(*set[S]).equal(b.(*set[S])) },
		Hash:  func(s any) uint64 { return s.(*set[S]).hash },
		DescribeOperation: func(in, _ any) string {
			return in.(*part[P]).String()
		},
		DescribeState:             func(s any) string { return s.(*set[S]).String() },
		DescribeOperationMetadata: func(any) string { return "" },
	}, r.overflow
}

func (r *run[S, P]) initial() *set[S] {
	return r.collect([]node[S]{r.node(r.rules.start(), nil, nil)})
}

// step returns what the partition may be in after a part.
func (r *run[S, P]) step(s *set[S], p *part[P]) *set[S] {
	if r.overflow.Load() {
		return &set[S]{}
	}
	if p.role == openRole {
		return r.collect(r.join(s.nodes, p))
	}
	var next []node[S]
	if p.role == maybeRole {
		next = append(next, s.nodes...)
	}
	for _, n := range r.settle(s.nodes, p) {
		if p.role == crashRole {
			next = r.crash(next, n, p)
			continue
		}
		states, _ := r.rules.settled(n.state, p)
		for _, after := range states {
			next = append(next, r.node(after, n.open, r.remember(n, p.call, p.flushes)))
		}
	}
	return r.collect(r.expire(next, p.call))
}

// settle returns the nodes with all that may have happened unseen before a
// part: open calls that took effect, and silent steps.
func (r *run[S, P]) settle(nodes []node[S], at *part[P]) []node[S] {
	all, fresh := nodes, nodes
	var known map[string]bool
	for len(fresh) > 0 && len(all) <= mostNodes {
		var found []node[S]
		for _, n := range fresh {
			found = r.unseen(found, n, at)
		}
		if len(found) == 0 {
			break
		}
		if known == nil {
			known = make(map[string]bool, 2*len(nodes))
			for _, n := range nodes {
				known[n.key] = true
			}
			all = slices.Clone(nodes)
		}
		fresh = fresh[:0:0]
		for _, n := range found {
			if !known[n.key] {
				known[n.key] = true
				all, fresh = append(all, n), append(fresh, n)
			}
		}
	}
	return all
}

// unseen appends the nodes one unseen step away from n.
func (r *run[S, P]) unseen(list []node[S], n node[S], at *part[P]) []node[S] {
	for _, s := range r.rules.silent(n.state) {
		list = append(list, r.node(s, n.open, r.remember(n, at.call, false)))
	}
	for i, index := range n.open {
		if i > 0 && n.open[i-1] == index {
			continue // the same call again
		}
		p := r.parts[index]
		states := r.rules.effects(n.state, p, at)
		if len(states) == 0 {
			continue
		}
		rest := n.open
		if !p.sticky {
			rest = slices.Delete(slices.Clone(n.open), i, i+1)
		}
		for _, s := range states {
			list = append(list, r.node(s, rest, r.remember(n, at.call, p.flushes)))
		}
	}
	return list
}

// join adds an open call to those that may still take effect. Those whose time
// is over before it get their last chance first.
func (r *run[S, P]) join(nodes []node[S], p *part[P]) []node[S] {
	if slices.ContainsFunc(nodes, func(n node[S]) bool { return r.anyOver(n, p.call) }) {
		nodes = r.settle(nodes, p)
	}
	index := int32(p.index)
	if p.like != nil {
		index = int32(p.like.index)
	}
	joined := make([]node[S], len(nodes))
	for i, n := range nodes {
		at, _ := slices.BinarySearch(n.open, index)
		joined[i] = r.node(n.state, slices.Insert(slices.Clone(n.open), at, index), n.past)
	}
	return r.expire(joined, p.call)
}

func (r *run[S, P]) anyOver(n node[S], call int64) bool {
	return slices.ContainsFunc(n.open, func(index int32) bool { return r.parts[index].until < call })
}

// expire drops the open calls that can have no effect any more for a part that
// began at a time.
func (r *run[S, P]) expire(nodes []node[S], call int64) []node[S] {
	for i, n := range nodes {
		over := func(index int32) bool {
			p := r.parts[index]
			return p.until < call || r.lastCrash == 0 && r.rules.spent(n.state, p)
		}
		if slices.ContainsFunc(n.open, over) {
			nodes[i] = r.node(n.state, slices.DeleteFunc(slices.Clone(n.open), over), n.past)
		}
	}
	return nodes
}

// remember returns the past of what follows n at a time.
func (r *run[S, P]) remember(n node[S], call int64, flushes bool) *past[S] {
	if call > r.lastCrash {
		return nil
	}
	key := n.key[:n.bare]
	h := hashOf(key)
	if n.past != nil {
		h ^= n.past.hash*31 + 1
	}
	if flushes {
		h++
	}
	return &past[S]{state: n.state, key: key, before: n.past, hash: h, flushed: flushes}
}

// crash appends what a crash may leave of n. After the last crash nobody looks
// back any more.
func (r *run[S, P]) crash(list []node[S], n node[S], p *part[P]) []node[S] {
	before := func(b *past[S]) *past[S] {
		if p.ret >= r.lastCrash {
			return nil
		}
		return b
	}
	crash, _ := p.op.Input.(Crash)
	list = append(list, r.node(n.state, n.open, before(n.past)))
	for back := n.past; back != nil && (crash.Failover || !back.flushed); back = back.before {
		list = append(list, r.node(back.state, n.open, before(back.before)))
	}
	return list
}

func (r *run[S, P]) node(s S, open []int32, before *past[S]) node[S] {
	r.buf = s.appendKey(r.buf[:0])
	bare := len(r.buf)
	for _, index := range open {
		r.buf = binary.LittleEndian.AppendUint32(r.buf, uint32(index))
	}
	if before != nil {
		r.buf = binary.LittleEndian.AppendUint64(r.buf, before.hash)
	}
	return node[S]{state: s, key: string(r.buf), bare: bare, open: open, past: before}
}

// collect makes a set: each node once, and none whose possibilities another
// node has too.
func (r *run[S, P]) collect(nodes []node[S]) *set[S] {
	if len(nodes) > 1 {
		slices.SortFunc(nodes, compareNodes)
		nodes = slices.CompactFunc(nodes, func(a, b node[S]) bool { return a.key == b.key })
		nodes = undominated(nodes)
	}
	if j, ok := r.rules.(joiner[S]); ok && len(nodes) > manyNodes {
		nodes = r.joined(j, nodes)
	}
	if r.work += len(nodes); len(nodes) > mostNodes || r.work > mostWork {
		r.overflow.Store(true)
		nodes = nil
	}
	s := &set[S]{nodes: nodes}
	for i := range nodes {
		s.hash ^= hashOf(nodes[i].key)
	}
	return s
}

// joined joins the nodes that may be joined.
func (r *run[S, P]) joined(j joiner[S], nodes []node[S]) []node[S] {
	place := map[string]int{}
	var kept []node[S]
	for _, n := range nodes {
		key := j.appendJoinKey(n.state, nil)
		key = append(key, n.key[n.bare:]...)
		i, found := place[string(key)]
		if !found {
			place[string(key)] = len(kept)
			kept = append(kept, n)
			continue
		}
		kept[i] = r.node(j.join(kept[i].state, n.state), n.open, n.past)
	}
	slices.SortFunc(kept, compareNodes)
	return undominated(kept)
}

// undominated drops a node when another is in the same state with more open
// calls: whatever the first may lead to, the second may as well. Nodes in the
// same state stand together.
func undominated[S state](nodes []node[S]) []node[S] {
	kept := make([]node[S], 0, len(nodes))
	for len(nodes) > 0 {
		n := 1
		for n < len(nodes) && nodes[n].key[:nodes[n].bare] == nodes[0].key[:nodes[0].bare] {
			n++
		}
		for i := range nodes[:n] {
			if !dominated(nodes[:n], &nodes[i]) {
				kept = append(kept, nodes[i])
			}
		}
		nodes = nodes[n:]
	}
	return kept
}

func dominated[S state](same []node[S], n *node[S]) bool {
	return slices.ContainsFunc(same, func(o node[S]) bool {
		return len(o.open) > len(n.open) && o.past.equal(n.past) && containsAll(o.open, n.open)
	})
}

func (p *past[S]) equal(o *past[S]) bool {
	return p == o || p != nil && o != nil && p.hash == o.hash
}

// containsAll reports whether the sorted list all has every element of some,
// as often.
func containsAll(all, some []int32) bool {
	i := 0
	for _, x := range some {
		for i < len(all) && all[i] < x {
			i++
		}
		if i == len(all) || all[i] != x {
			return false
		}
		i++
	}
	return true
}

func compareNodes[S state](a, b node[S]) int {
	return cmp.Or(cmp.Compare(a.key[:a.bare], b.key[:b.bare]), cmp.Compare(a.key[a.bare:], b.key[b.bare:]))
}

func (s *set[S]) equal(o *set[S]) bool {
	return s == o || s.hash == o.hash && slices.EqualFunc(s.nodes, o.nodes, func(a, b node[S]) bool { return a.key == b.key })
}

// String names the states of the set, a few of them.
func (s *set[S]) String() string {
	const most = 4
	var names []string
	var last []byte
	for i := range s.nodes {
		key := []byte(s.nodes[i].key[:s.nodes[i].bare])
		if i > 0 && bytes.Equal(key, last) {
			continue
		}
		last = key
		names = append(names, s.nodes[i].state.String())
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("one of %d more", len(names)-most))
	}
	return strings.Join(names, "; or ")
}

// operations returns the parts as porcupine takes them. An open part stands
// where it begins: from there on it is in the set.
func operations[P fmt.Stringer](parts []*part[P]) []porcupine.Operation {
	list := make([]porcupine.Operation, len(parts))
	for i, p := range parts {
		list[i] = porcupine.Operation{ClientId: p.op.Client, Input: p, Call: p.call, Return: p.ret}
	}
	return list
}

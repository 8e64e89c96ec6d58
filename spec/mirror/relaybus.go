package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/spec/cfg"
)

// relaybus is the twin of Relaybus.tla and the modules below it. Unlike the
// other twins it has no store of its own: every action is performed by
// protocol.Step on a protocol.State and a protocol.Ledger, so that equal
// numbers of states say that State and State.tla are one, and equal depths of
// Broken configurations that a rule of the one is a rule of the other.
type relaybus struct {
	rules
	semantics protocol.Semantics
	modulus   int32
	names     []string // of the workers
	does      []string
	handlers  []string
	early     []string
	groupOf   func(handler string) string
	handles   func(worker string) []string
	backlog   []relayEvent
	later     []relayEvent

	transactional   []string
	poison, badRows []int

	maxClock, maxLives, maxLate, maxPicks, maxDeliveries int
	ttl, timeout, delay                                  int64
	maxNumber                                            int64
	maxAttempts                                          int32
	maxRequeues                                          int

	// A relayState is the numbers of what lies here.
	stores  shelf[relayStore]
	workers shelf[map[string]relayWorker]
	calls   shelf[relayCall]
	last    struct {
		state relayState
		world *relayWorld
	}
}

// relayState says where on the shelves the parts of a state of Relaybus.tla
// lie: its store, its workers, its calls by their number, and the clock. Two
// states have the same numbers exactly when every part of them has the same
// text. Written out they would take a kilobyte each, and there are millions;
// of their parts there are few.
type relayState string

type relayEvent struct{ id, key string }

// relayRules are those of Calls.tla; a State knows the others.
var relayRules = []string{"ChargeLost", "Worker.doubt"}

const (
	relayType  = "t"
	relayFirst = protocol.Time(1) // the clock at first
)

var relayEventLists = map[string][]relayEvent{
	"OneEvent":      {{"e1", "a"}},
	"TwoOfOneKey":   {{"e1", "a"}, {"e2", "a"}},
	"ThreeOfOneKey": {{"e1", "a"}, {"e2", "a"}, {"e3", "a"}},
	"TwoOfTwoKeys":  {{"e1", "a"}, {"e2", "b"}},
	"TwoWithoutKey": {{"e1", ""}, {"e2", ""}},
	"NoEvents":      {},
	"EventOfKeyA":   {{"e9", "a"}},
	"FirstEvent":    {{"e1", "a"}},
	"NoLater":       {},
}

var relayHandlerLists = map[string][]string{"OneHandler": {"x"}, "TwoHandlers": {"x", "y"}}

var relayGroups = map[string]func(string) string{
	"OneGroup":        func(string) string { return "g" },
	"GroupPerHandler": func(handler string) string { return handler },
}

// newRelaybus builds the model. LaneIndex needs no reading: the keys and ids in
// Relaybus.tla stand in the lanes that FNV-1a gives them.
func newRelaybus(c cfg.Config) (Model[relayState], error) {
	r := cfg.NewReader(c)
	m := &relaybus{
		modulus: int32(r.Int("Modulus")), names: r.Strings("Workers"), does: r.Strings("Does"),
		handlers: relayHandlerLists[r.Operator("Handlers")], early: r.Strings("Early"),
		groupOf: relayGroups[r.Operator("GroupOf")],
		backlog: relayEventLists[r.Operator("Backlog")], later: relayEventLists[r.Operator("Later")],
		transactional: r.Strings("Transactional"), poison: r.Ints("Poison"), badRows: r.Ints("BadRows"),
		maxClock: r.Int("MaxClock"), maxLives: r.Int("MaxLives"), maxLate: r.Int("MaxLate"),
		maxPicks: r.Int("MaxPicks"), maxDeliveries: r.Int("MaxDeliveries"),
		ttl: int64(r.Int("TTL")), timeout: int64(r.Int("Timeout")), delay: int64(r.Int("Delay")),
		maxNumber: int64(r.Int("MaxNumber")), maxAttempts: int32(r.Int("MaxAttempts")),
		maxRequeues: r.Int("MaxRequeues"),
	}
	r.Operator("LaneIndex")
	m.handles = m.handlesOf(r.Operator("Handles"))
	if r.String("Semantics") == "snapshot" {
		m.semantics = protocol.Snapshot
	}
	m.rules = rules{r.Strings("Without")}
	err := errors.Join(r.Err(), m.known(append(slices.Clone(protocol.Rules), relayRules...)...))
	if slices.Contains(m.does, "Eager") {
		err = errors.Join(err, errors.New("the twin's workers are not eager"))
	}
	if !m.rule("TakeOver.epoch") {
		err = errors.Join(err, errors.New("protocol.Ledger counts epochs itself: the twin keeps TakeOver.epoch"))
	}
	return m, err
}

func (m *relaybus) handlesOf(name string) func(string) []string {
	return func(worker string) []string {
		switch {
		case name == "OneEach" && worker == "v", name == "XOrAll" && worker == "v":
			return []string{"x"}
		case name == "OneEach":
			return []string{"y"}
		}
		return m.handlers
	}
}

// relayWorld is what a relayState stands for.
type relayWorld struct {
	relayStore
	workers map[string]relayWorker
	calls   []relayCall // a set, sorted by text
	clock   protocol.Time
}

// relayStore is what the store holds, and how it came to that. Of two histories
// with the same text the first stands for both: the text has all that Ledger.tla
// remembers, and what else protocol.Ledger does may not matter.
type relayStore struct {
	state   *protocol.State
	history *protocol.Ledger
	broken  bool // a promise was; the history says which

	pairs []relayPair // by delivery id - 1
	terms map[protocol.LaneID]protocol.Holder
	kills map[protocol.Holder]relayKill

	place uint64 // on its shelf, plus one; 0 once somebody changed it
}

// clone shares the State and its history, which only perform changes.
func (w *relayWorld) clone() *relayWorld {
	c := *w
	c.pairs = slices.Clone(w.pairs)
	c.terms, c.kills, c.workers = maps.Clone(w.terms), maps.Clone(w.kills), maps.Clone(w.workers)
	c.calls = slices.Clone(w.calls)
	return &c
}

// perform performs an action on a copy of the world, and returns nil when the
// State refuses it.
func (w *relayWorld) perform(a protocol.Action) *relayWorld {
	c := w.clone()
	c.place = 0
	c.state, c.history = w.state.Clone(), w.history.Clone()
	refusal, violation := protocol.Step(c.state, c.history, a)
	if refusal != nil {
		return nil
	}
	c.broken = w.broken || violation != nil
	return c
}

// relayWorker is what one process of a name believes.
type relayWorker struct {
	life   int
	up     bool
	number int64
	doubt  protocol.Time
	past   bool
	leases []relayLease // by delivery and claim
}

type relayLease struct {
	protocol.Lease
	suspect bool
	phase   string
}

type relayCall struct {
	kind, worker string
	late         bool

	holder    protocol.Holder
	number    int64
	running   []protocol.Running
	suspect   bool
	all, sure bool
	notAfter  protocol.Time
	lane      protocol.LaneID   // of a Relinquish
	reached   []protocol.LaneID // sorted
	granted   []relayLease      // as in relayWorker
	lost      []protocol.InFlight
	leases    []protocol.Lease // in order
	rest      []protocol.Lease // by delivery

	text string // of all the above; what makes two calls one
}

func (c *relayCall) laneCall() bool { return c.kind == "Claim" || c.kind == "Relinquish" }

func (w *relayWorld) add(c relayCall) {
	c.text = ""
	c.text = fmt.Sprint(c)
	i, there := slices.BinarySearchFunc(w.calls, c.text, func(x relayCall, text string) int {
		return strings.Compare(x.text, text)
	})
	if !there {
		w.calls = slices.Insert(w.calls, i, c)
	}
}

func (w *relayWorld) remove(c *relayCall) {
	text := c.text
	w.calls = slices.DeleteFunc(w.calls, func(x relayCall) bool { return x.text == text })
}

// text writes down what the module's variables hold of the store.
func (x *relayStore) text() string {
	var b strings.Builder
	for e := range x.state.Events() {
		fmt.Fprintln(&b, e.ID, e.Type, e.Key, e.PublishedAt, e.Handlers)
	}
	for d := range x.state.Deliveries() {
		d.LastError = ""
		fmt.Fprintln(&b, d)
	}
	for l := range x.state.AllLanes() {
		l.Owner = ""
		fmt.Fprintln(&b, l)
	}
	for s := range x.state.Subscriptions() {
		number, _ := x.state.Group(s.Group)
		fmt.Fprintln(&b, s, number)
	}
	for _, key := range []string{"a", "b"} {
		fmt.Fprint(&b, x.state.Slot(protocol.SlotOf(key)), " ")
	}
	fmt.Fprintln(&b, x.pairs, x.terms, x.kills, x.broken)
	return b.String()
}

// keep puts the parts of a world on the shelves.
func (m *relaybus) keep(w *relayWorld) relayState {
	place := w.place
	if place == 0 {
		place = m.stores.put(w.relayStore.text(), w.relayStore) + 1
	}
	b := binary.AppendUvarint(nil, place)
	b = binary.AppendUvarint(b, m.workers.put(fmt.Sprint(w.workers), w.workers))
	b = binary.AppendVarint(b, int64(w.clock))
	for i := range w.calls {
		b = binary.AppendUvarint(b, m.calls.put(w.calls[i].text, w.calls[i]))
	}
	return relayState(b)
}

// world puts a state together again. Nobody may write on it.
func (m *relaybus) world(s relayState) *relayWorld {
	if m.last.world != nil && m.last.state == s {
		return m.last.world
	}
	b := []byte(s)
	next := func() uint64 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return n
	}
	place := next()
	w := &relayWorld{relayStore: m.stores.at(place - 1), workers: m.workers.at(next())}
	w.place = place
	clock, size := binary.Varint(b)
	w.clock, b = protocol.Time(clock), b[size:]
	for len(b) > 0 {
		w.calls = append(w.calls, m.calls.at(next()))
	}
	m.last.state, m.last.world = s, w
	return w
}

// shelf numbers values by their texts, in the order in which they come. Values
// of one text are the same; the first of them is kept.
type shelf[T any] struct {
	numbers map[string]uint64
	values  []T
}

func (s *shelf[T]) put(text string, v T) uint64 {
	if n, there := s.numbers[text]; there {
		return n
	}
	if s.numbers == nil {
		s.numbers = map[string]uint64{}
	}
	n := uint64(len(s.values))
	s.numbers[text] = n
	s.values = append(s.values, v)
	return n
}

func (s *shelf[T]) at(n uint64) T { return s.values[n] }

// Init implements Model.
func (m *relaybus) Init(add func(relayState)) {
	w := &relayWorld{
		relayStore: relayStore{
			state: m.emptyState(), history: protocol.NewLedger(),
			terms: map[protocol.LaneID]protocol.Holder{}, kills: map[protocol.Holder]relayKill{},
		},
		workers: map[string]relayWorker{}, clock: relayFirst,
	}
	for _, h := range m.handlers {
		if slices.Contains(m.early, h) {
			w = m.subscribe(w, h)
		}
	}
	for _, e := range m.backlog {
		w = m.publish(w, e)
	}
	for _, name := range m.names {
		w.workers[name] = relayWorker{life: 1, up: true}
	}
	add(m.keep(w))
}

// emptyState is a State without the rules that the configuration leaves out.
func (m *relaybus) emptyState() *protocol.State {
	s := protocol.NewState(m.semantics, m.modulus)
	if err := s.Without(slices.DeleteFunc(slices.Clone(m.without), func(name string) bool {
		return slices.Contains(relayRules, name)
	})...); err != nil {
		panic(err) // newRelaybus has looked at the names
	}
	return s
}

// Next implements Model.
func (m *relaybus) Next(s relayState, step func(string, relayState)) {
	w := m.world(s)
	t := &relayTurn{m: m, w: w, lead: func(action string, to *relayWorld) {
		if to != nil {
			step(action, m.keep(to))
		}
	}}
	t.performs()
	for _, name := range m.names {
		t.sends(name)
	}
	t.operates()
	t.strikes()
}

// relayTurn finds the steps from one world.
type relayTurn struct {
	m    *relaybus
	w    *relayWorld
	lead func(action string, to *relayWorld)
}

func (m *relaybus) done(what string) bool { return slices.Contains(m.does, what) }

// holder names a process: each is a holder of its own, whatever its name.
func (m *relaybus) holder(w *relayWorld, name string) (h protocol.Holder) {
	copy(h[:], fmt.Sprint(name, w.workers[name].life))
	return h
}

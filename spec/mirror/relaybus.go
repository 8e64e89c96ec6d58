package mirror

import (
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
// numbers of states say that State and State.tla are one. Guards of the store
// that a configuration leaves out are beyond it: a State has no such switch.
type relaybus struct {
	rules     // of workers only
	semantics protocol.Semantics
	modulus   int32
	workers   []string
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

	// worlds has what each state stands for: a State cannot be compared.
	worlds map[relayState]*relayWorld
}

// relayState is the text of everything that a state of Relaybus.tla holds.
type relayState string

type relayEvent struct{ id, key string }

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
		modulus: int32(r.Int("Modulus")), workers: r.Strings("Workers"), does: r.Strings("Does"),
		handlers: relayHandlerLists[r.Operator("Handlers")], early: r.Strings("Early"),
		groupOf: relayGroups[r.Operator("GroupOf")],
		backlog: relayEventLists[r.Operator("Backlog")], later: relayEventLists[r.Operator("Later")],
		transactional: r.Strings("Transactional"), poison: r.Ints("Poison"), badRows: r.Ints("BadRows"),
		maxClock: r.Int("MaxClock"), maxLives: r.Int("MaxLives"), maxLate: r.Int("MaxLate"),
		maxPicks: r.Int("MaxPicks"), maxDeliveries: r.Int("MaxDeliveries"),
		ttl: int64(r.Int("TTL")), timeout: int64(r.Int("Timeout")), delay: int64(r.Int("Delay")),
		maxNumber: int64(r.Int("MaxNumber")), maxAttempts: int32(r.Int("MaxAttempts")),
		maxRequeues: r.Int("MaxRequeues"),
		worlds:      map[relayState]*relayWorld{},
	}
	r.Operator("LaneIndex")
	m.handles = m.handlesOf(r.Operator("Handles"))
	if r.String("Semantics") == "snapshot" {
		m.semantics = protocol.Snapshot
	}
	m.rules = rules{r.Strings("Without")}
	err := errors.Join(r.Err(), m.known("Worker.doubt"))
	if slices.Contains(m.does, "Eager") {
		err = errors.Join(err, errors.New("the twin's workers are not eager"))
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
	state   *protocol.State
	history *protocol.Ledger
	broken  *protocol.Violation

	pairs   []relayPair // by delivery id - 1
	terms   map[protocol.LaneID]protocol.Holder
	kills   map[protocol.Holder]relayKill
	workers map[string]relayWorker
	calls   []relayCall // a set, sorted by text
	clock   protocol.Time
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
	c.state, c.history = w.state.Clone(), w.history.Clone()
	refusal, violation := protocol.Step(c.state, c.history, a)
	if refusal != nil {
		return nil
	}
	if violation != nil {
		c.broken = violation
	}
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

// key writes down everything that the module's variables hold.
func (w *relayWorld) key() relayState {
	var b strings.Builder
	for e := range w.state.Events() {
		fmt.Fprintln(&b, e.ID, e.Type, e.Key, e.PublishedAt, e.Handlers)
	}
	for d := range w.state.Deliveries() {
		d.LastError = ""
		fmt.Fprintln(&b, d)
	}
	for l := range w.state.AllLanes() {
		l.Owner = ""
		fmt.Fprintln(&b, l)
	}
	for s := range w.state.Subscriptions() {
		number, _ := w.state.Group(s.Group)
		fmt.Fprintln(&b, s, number)
	}
	for _, key := range []string{"a", "b"} {
		fmt.Fprint(&b, w.state.Slot(protocol.SlotOf(key)), " ")
	}
	for i := range w.calls {
		fmt.Fprintln(&b, w.calls[i].text)
	}
	fmt.Fprintln(&b, w.pairs, w.terms, w.kills, w.workers, w.clock)
	return relayState(b.String())
}

// Init implements Model.
func (m *relaybus) Init(add func(relayState)) {
	w := &relayWorld{
		state: protocol.NewState(m.semantics, m.modulus), history: protocol.NewLedger(),
		terms: map[protocol.LaneID]protocol.Holder{}, kills: map[protocol.Holder]relayKill{},
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
	for _, name := range m.workers {
		w.workers[name] = relayWorker{life: 1, up: true}
	}
	add(m.keep(w))
}

func (m *relaybus) keep(w *relayWorld) relayState {
	key := w.key()
	if _, there := m.worlds[key]; !there {
		m.worlds[key] = w
	}
	return key
}

// Next implements Model.
func (m *relaybus) Next(s relayState, step func(string, relayState)) {
	w := m.worlds[s]
	t := &relayTurn{m: m, w: w, lead: func(action string, to *relayWorld) {
		if to != nil {
			step(action, m.keep(to))
		}
	}}
	t.performs()
	for _, name := range m.workers {
		t.sends(name)
	}
	t.operates()
	t.strikes()
	m.worlds[s] = nil // it is not taken from here again: a world is ten times its key
}

// Rewind implements Rewinder.
func (m *relaybus) Rewind() { clear(m.worlds) }

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

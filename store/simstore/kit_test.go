package simstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// script is a Scheduler driven by hand: a test puts what other callers do into
// hooks at the points of a call, and they run there, on the same thread.
type script struct {
	now   protocol.Time
	at    func(p Point) error // before statements, commits and replies
	block func(p Point) error // instead of a wait; nil: the wait would never end
	seen  []Point
	quiet bool // the hook is running: no hook within the hook
}

var errStuck = errors.New("test: waits for a lock that nobody releases")

func (s *script) Now() protocol.Time { return s.now }

func (s *script) Pause(ctx context.Context, p Point) error {
	s.seen = append(s.seen, p)
	if s.at == nil || s.quiet {
		return ctx.Err()
	}
	s.quiet = true
	defer func() { s.quiet = false }()
	if err := s.at(p); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *script) Block(_ context.Context, p Point, deadline protocol.Time) error {
	s.seen = append(s.seen, Point{Call: p.Call, Step: "block " + p.Step, Lane: p.Lane, Delivery: p.Delivery})
	if s.block != nil {
		hook := s.block
		s.block = nil
		return hook(p)
	}
	if deadline == 0 {
		return errStuck
	}
	s.now = deadline
	return context.DeadlineExceeded
}

func (s *script) Wake()  {}
func (s *script) Enter() {}
func (s *script) Leave() {}

// once runs do the first time that the step of a call is reached.
func (s *script) once(call, step string, do func()) {
	s.at = func(p Point) error {
		if p.Call == call && p.Step == step && do != nil {
			f := do
			do = nil
			f()
		}
		return nil
	}
}

// fail makes the step of a call fail with err each time it is reached.
func (s *script) fail(call, step string, id protocol.DeliveryID, err error) {
	s.at = func(p Point) error {
		if p.Call == call && p.Step == step && p.Delivery == id {
			return err
		}
		return nil
	}
}

const (
	second = protocol.Time(time.Second)
	ttl    = 10 * time.Second
)

// bench is a store with the pure model stepped beside it.
type bench struct {
	testing.TB
	*Store
	script *script
	mode   protocol.Semantics

	model     *protocol.State
	history   *protocol.Ledger
	states    []*protocol.State // model after each commit, by position
	ledgers   []*protocol.Ledger
	completed [][]protocol.Lease // by each commit, by position
	actions   []string
	committed func() // after each commit
	alone     bool   // the store is damaged on purpose: no model beside it
}

func newBench(t testing.TB, mode protocol.Semantics, with ...func(*Options)) *bench {
	b := &bench{TB: t, script: &script{now: 1000 * second}, mode: mode}
	o := Options{Semantics: mode, Lanes: 4, Scheduler: b.script, Observer: b.observe, LockTimeout: time.Second}
	for _, f := range with {
		f(&o)
	}
	b.model, b.history = protocol.NewState(mode, o.Lanes), protocol.NewLedger()
	b.states = []*protocol.State{b.model.Clone()}
	b.ledgers = []*protocol.Ledger{b.history.Clone()}
	b.completed = [][]protocol.Lease{nil}
	b.Store = NewWith(o)
	return b
}

// observe steps the model with what the store committed.
func (b *bench) observe(c Committed) {
	if b.alone {
		return
	}
	if c.Position > 0 && c.Position != int64(len(b.states)) {
		b.Fatalf("commit %d after %d", c.Position, len(b.states)-1)
	}
	for _, a := range c.Actions {
		b.actions = append(b.actions, describe(a, c.Position))
		b.judgeThere(a)
		refusal, violation := protocol.Step(b.model, b.history, a)
		if refusal != nil {
			b.refuse(refusal.String())
		}
		if violation != nil {
			b.refuse(violation.String())
		}
	}
	if c.Position > 0 {
		b.states = append(b.states, b.model.Clone())
		b.ledgers = append(b.ledgers, b.history.Clone())
		b.completed = append(b.completed, completedBy(c.Actions))
		b.compare()
		if b.committed != nil {
			b.committed()
		}
	}
}

func (b *bench) refuse(why string) {
	b.Helper()
	b.Fatalf("the model disagrees: %s\n%v", why, b.last())
}

// judgeThere judges picks and verdicts that were read at an earlier position.
func (b *bench) judgeThere(a protocol.Action) {
	seen := int64(0)
	switch a := a.(type) {
	case protocol.Claim:
		if seen = a.Seen; seen != 0 {
			if o := b.states[seen].Clone().PicksAllowed(a); !o.OK() {
				b.refuse(fmt.Sprintf("picks at %d: %v", seen, o))
			}
		}
		return
	case protocol.CompleteMany:
		b.judgeWhole(a)
		return
	case protocol.Complete:
		seen = a.Seen
	case protocol.Reschedule:
		seen = a.Seen
	case protocol.Snooze:
		seen = a.Seen
	case protocol.Bury:
		seen = a.Seen
	case protocol.Release:
		seen = a.Seen
	}
	if seen == 0 {
		return
	}
	for _, o := range b.states[seen].Clone().Judge(a) {
		if o.OK() {
			b.refuse(fmt.Sprintf("%v at %d: the model says Applied", a, seen))
		}
	}
}

// judgeWhole judges what a CompleteMany read at an earlier position: each
// verdict must be right somewhere from there on.
func (b *bench) judgeWhole(a protocol.CompleteMany) {
	if a.Seen == 0 {
		return
	}
	right := make([]bool, len(a.Leases))
	for _, state := range append(b.states[a.Seen:len(b.states):len(b.states)], b.model) {
		for i, o := range state.Clone().Judge(a) {
			right[i] = right[i] || o.OK() == (a.Verdicts[i] == protocol.Applied)
		}
	}
	for i := range right {
		if !right[i] && (a.Verdicts[i] == protocol.LeaseLost || slices.Contains(a.Unlisted, a.Leases[i].Delivery)) {
			b.refuse(fmt.Sprintf("%v of %v is right nowhere from %d on", a.Verdicts[i], a.Leases[i], a.Seen))
		}
	}
}

// compare compares the rows of store and model.
func (b *bench) compare() {
	got := b.Snapshot()
	want := Contents{Position: got.Position, Groups: got.Groups, Rows: got.Rows, Completions: got.Completions}
	for e := range b.model.Events() {
		want.Events = append(want.Events, e)
	}
	for d := range b.model.Deliveries() {
		want.Deliveries = append(want.Deliveries, d)
	}
	for l := range b.model.AllLanes() {
		l.InFlight, l.Lost, l.Stuck = slices.Clone(l.InFlight), slices.Clone(l.Lost), slices.Clone(l.Stuck)
		want.Lanes = append(want.Lanes, l)
	}
	for s := range b.model.Subscriptions() {
		want.Subscriptions = append(want.Subscriptions, s)
	}
	if !reflect.DeepEqual(normal(got), normal(want)) {
		b.refuse(fmt.Sprintf("rows differ\nstore %+v\nmodel %+v", normal(got), normal(want)))
	}
}

// last returns the last few actions.
func (b *bench) last() []string { return b.actions[max(0, len(b.actions)-5):] }

// normal makes empty lists nil.
func normal(c Contents) Contents {
	for i := range c.Lanes {
		l := &c.Lanes[i]
		if len(l.InFlight) == 0 {
			l.InFlight = nil
		}
		if len(l.Lost) == 0 {
			l.Lost = nil
		}
		if len(l.Stuck) == 0 {
			l.Stuck = nil
		}
	}
	for i := range c.Events {
		if len(c.Events[i].Payload) == 0 {
			c.Events[i].Payload = nil
		}
		if len(c.Events[i].Handlers) == 0 {
			c.Events[i].Handlers = nil
		}
	}
	return c
}

func describe(a protocol.Action, pos int64) string {
	return fmt.Sprintf("\n%d %s%+v", pos, a.Name(), a)
}

// crash loses the commits after keep, in the store and in the model.
func (b *bench) crash(keep int64) {
	b.Helper()
	b.Crash(keep)
	b.model, b.history = b.states[keep].Clone(), b.ledgers[keep].Clone()
	for _, lost := range b.completed[keep+1:] {
		for _, lease := range lost {
			b.history.LostCompletion(lease)
		}
	}
	b.states, b.ledgers, b.completed = b.states[:keep+1], b.ledgers[:keep+1], b.completed[:keep+1]
	b.compare()
}

// completedBy returns the runs that actions completed outside of handlers'
// transactions.
func completedBy(actions []protocol.Action) []protocol.Lease {
	var leases []protocol.Lease
	for _, a := range actions {
		c, ok := a.(protocol.CompleteMany)
		for i := range c.Leases {
			if ok && c.Verdicts[i] == protocol.Applied {
				leases = append(leases, c.Leases[i])
			}
		}
	}
	return leases
}

// must fails the test on an error.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

var ctx = context.Background()

// subscribe subscribes handlers of the event type "e".
func (b *bench) subscribe(handlers ...string) {
	b.Helper()
	in := engine.SubscribeInput{Group: "default"}
	for _, h := range handlers {
		in.Handlers = append(in.Handlers, engine.EventHandler{Event: "e", Handler: h})
	}
	must(b.Subscribe(ctx, in))(b)
}

// publish publishes events of type "e" in one transaction: "id" or "id/key".
func (b *bench) publish(ids ...string) []engine.PublishResult {
	b.Helper()
	tx := must(b.Begin(ctx))(b)
	results := must(b.Publish(ctx, tx, events(ids...)))(b)
	if err := tx.Commit(ctx); err != nil {
		b.Fatal(err)
	}
	return results
}

func (b *bench) Publish(ctx context.Context, tx *Tx, events []protocol.Event) ([]engine.PublishResult, error) {
	return b.Store.Publish(ctx, tx, events)
}

func events(ids ...string) []protocol.Event {
	var list []protocol.Event
	for _, id := range ids {
		e := protocol.Event{ID: id, Type: "e"}
		for i := range id {
			if id[i] == '/' {
				e.ID, e.Key = id[:i], id[i+1:]
			}
		}
		e.Payload = []byte(e.ID)
		list = append(list, e)
	}
	return list
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) { b.script.now = b.script.now.Add(d) }

// both runs a test in both semantics.
func both(t *testing.T, test func(t *testing.T, mode protocol.Semantics)) {
	t.Helper()
	for _, mode := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

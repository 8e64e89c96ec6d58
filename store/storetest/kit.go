package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

const (
	// ttl is longer than any test: leases run out only when a case says so.
	ttl = time.Hour
	// later is when something is due that must not be due within a test.
	later = time.Hour
	// patience bounds one case. A case that hangs ends with it.
	patience = 20 * time.Second
)

// letGo is how long a store may take to roll a transaction back whose context
// ended. A variable, for the test of the suite itself.
var letGo = 10 * time.Second

// bench is one store with what cases do to it.
type bench struct {
	testing.TB
	subject
	ctx       context.Context
	semantics protocol.Semantics
	group     int32
	lanes     int32
	made      int // holders so far
}

func newBench(t testing.TB, semantics protocol.Semantics, s subject) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return &bench{TB: t, subject: s, ctx: ctx, semantics: semantics}
}

// snapshot reports whether the store is of the Snapshot family.
func (b *bench) snapshot() bool { return b.semantics == protocol.Snapshot }

// expect fails the case unless the condition holds.
func (b *bench) expect(ok bool, format string, args ...any) {
	b.Helper()
	if !ok {
		b.Fatalf(format, args...)
	}
}

// ok fails the case on an error.
func (b *bench) ok(err error, doing string) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", doing, err)
	}
}

// retry repeats a call while its error says that nothing was applied.
func (b *bench) retry(call func() error) error {
	var err error
	for try := range 200 {
		if err = call(); !errors.Is(err, engine.ErrRetryable) {
			return err
		}
		time.Sleep(time.Duration(try) * 100 * time.Microsecond)
	}
	return err
}

// subscribe subscribes handlers of the event type "e" in the default group.
func (b *bench) subscribe(handlers ...string) engine.SubscribeReply {
	b.Helper()
	return b.join(false, "default", "e", handlers...)
}

func (b *bench) join(revive bool, group, event string, handlers ...string) engine.SubscribeReply {
	b.Helper()
	in := engine.SubscribeInput{Group: group, Revive: revive}
	for _, h := range handlers {
		in.Handlers = append(in.Handlers, engine.EventHandler{Event: event, Handler: h})
	}
	var reply engine.SubscribeReply
	b.ok(b.retry(func() (err error) {
		reply, err = b.Subscribe(b.ctx, in)
		return err
	}), "subscribe")
	b.group, b.lanes = reply.Group, reply.Lanes
	return reply
}

// event reads "id" or "id/key" as an event of type "e".
func event(name string) protocol.Event {
	id, key, _ := strings.Cut(name, "/")
	return protocol.Event{ID: id, Key: key, Type: "e", Payload: []byte(id)}
}

func events(names ...string) []protocol.Event {
	var list []protocol.Event
	for _, n := range names {
		list = append(list, event(n))
	}
	return list
}

// publish publishes events in one transaction.
func (b *bench) publish(names ...string) []engine.PublishResult {
	b.Helper()
	return b.publishEvents(events(names...)...)
}

func (b *bench) publishEvents(list ...protocol.Event) []engine.PublishResult {
	b.Helper()
	results, err := b.tryPublish("", list...)
	b.ok(err, "publish")
	return results
}

// tryPublish publishes in a transaction at a level, again while it may.
func (b *bench) tryPublish(level string, list ...protocol.Event) (results []engine.PublishResult, err error) {
	err = b.retry(func() error {
		return b.inTx(b.ctx, level, func(ctx context.Context, tx any) (err error) {
			results, err = b.publishIn(ctx, tx, list)
			return err
		})
	})
	return results, err
}

// list returns all deliveries that a filter selects.
func (b *bench) list(f engine.Filter) []engine.Listed {
	b.Helper()
	var all []engine.Listed
	in := engine.ListInput{Filter: f, Limit: engine.MaxList}
	for {
		page := b.listPage(in)
		all = append(all, page.Deliveries...)
		if page.Next == 0 {
			return all
		}
		in.After = page.Next
	}
}

func (b *bench) listPage(in engine.ListInput) engine.ListReply {
	b.Helper()
	reply, err := b.List(b.ctx, in)
	b.ok(err, "list")
	return reply
}

// row returns the delivery of an event for handler "h", which must be there.
func (b *bench) row(event string) engine.Delivery {
	b.Helper()
	return b.rowOf(event, "h")
}

func (b *bench) rowOf(event, handler string) engine.Delivery {
	b.Helper()
	rows := b.list(engine.Filter{EventID: event, Handler: handler})
	b.expect(len(rows) == 1, "event %q has %d deliveries for %q, want 1", event, len(rows), handler)
	return rows[0].Delivery
}

// gone fails unless the deliveries of the events for "h" have no row.
func (b *bench) gone(names ...string) {
	b.Helper()
	for _, n := range names {
		b.expect(len(b.list(engine.Filter{EventID: n, Handler: "h"})) == 0, "the delivery of %q is still there", n)
	}
}

// pending fails unless a delivery waits, charged so many attempts.
func (b *bench) pending(event string, attempts int32) {
	b.Helper()
	d := b.row(event)
	b.expect(d.Status == protocol.Pending && d.Attempts == attempts, "%q: %s with %d attempts, want pending with %d", event, d.Status, d.Attempts, attempts)
}

// due makes deliveries of "h" due.
func (b *bench) due(names ...string) {
	b.Helper()
	for _, n := range names {
		b.ok(b.makeDue(b.ctx, b.row(n).ID), "make due")
	}
}

// expireLanes lets the leases of all lanes of the group run out.
func (b *bench) expireLanes() {
	b.Helper()
	for i := range b.lanes {
		b.ok(b.expire(b.ctx, engine.LaneID(b.group*b.lanes+i)), "expire")
	}
}

// effects counts the user's rows of a key.
func (b *bench) effects(key string) int {
	b.Helper()
	n, err := b.count(b.ctx, key)
	b.ok(err, "count")
	return n
}

// verify fails when Verify finds anything: no case damages the store.
func (b *bench) verify(when string) {
	b.Helper()
	reply, err := b.Verify(b.ctx)
	b.ok(err, "verify")
	b.expect(len(reply.Findings) == 0, "a false alarm %s: %+v", when, reply.Findings)
}

// statistics counts what the store holds.
func (b *bench) statistics() engine.Statistics {
	b.Helper()
	s, err := b.Statistics(b.ctx)
	b.ok(err, "statistics")
	return s
}

// requeue requeues deliveries of "h".
func (b *bench) requeue(names ...string) int {
	b.Helper()
	var in engine.RequeueInput
	for _, n := range names {
		in.IDs = append(in.IDs, b.row(n).ID)
	}
	reply, err := b.Requeue(b.ctx, in)
	b.ok(err, "requeue")
	return reply.Requeued
}

// sameLane returns n event ids, beginning with a prefix, that share a lane.
func (b *bench) sameLane(prefix string, n int) []string {
	var ids []string
	want := protocol.LaneOf(b.group, b.lanes, "", prefix)
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprint(prefix, i); protocol.LaneOf(b.group, b.lanes, "", id) == want {
			ids = append(ids, id)
		}
	}
	return ids
}

// otherLane returns an event id whose lane is not that of another.
func (b *bench) otherLane(than string) string {
	for i := 0; ; i++ {
		if id := fmt.Sprint("other", i); protocol.LaneOf(b.group, b.lanes, "", id) != protocol.LaneOf(b.group, b.lanes, "", than) {
			return id
		}
	}
}

// mustPause arranges for do to run at a point, or skips the case.
func (b *bench) mustPause(p Point, do func()) {
	b.Helper()
	if !b.pause(p, do) {
		b.Skipf("the store has no pause point %q", p)
	}
}

// names returns the events of picks, in their order.
func names(picks []engine.Picked) []string {
	list := []string{}
	for _, p := range picks {
		list = append(list, p.Delivery.Event)
	}
	return list
}

// sorted returns a sorted copy.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// same fails unless two lists hold the same names in any order.
func (b *bench) same(got []string, want ...string) {
	b.Helper()
	b.expect(slices.Equal(sorted(got), sorted(want)), "got %q, want %q", got, want)
}

// inOrder fails unless two lists are equal.
func (b *bench) inOrder(got []string, want ...string) {
	b.Helper()
	b.expect(slices.Equal(got, want), "got %q, want %q in this order", got, want)
}

package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// The tests of this file play the deadlocks that spec/tla/LockOrder.tla rules
// out: in each the first call waits for a row that the test holds, the second
// locks what it can, and then the test lets go.

// circle is two calls that may lock the same rows.
type circle struct {
	hold          string // statement that takes what the first call waits for
	first, second func() error
}

// play wants both calls to end well, whatever they waited for.
func (c *circle) play(t *testing.T, s *opened) {
	t.Helper()
	letGo := s.holds(t, c.hold)
	first := started(c.first)
	s.waitUntilWaiting(t, 1, "")
	second := started(c.second)
	for len(second) == 0 && s.waiting(t, "") < 2 {
		time.Sleep(5 * time.Millisecond)
	}
	letGo()
	if one, other := <-first, <-second; one != nil || other != nil {
		t.Errorf("%v and %v, want neither to fail", one, other)
	}
}

func started(call func() error) chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// holds runs a statement in a transaction, and returns what ends it.
func (s *opened) holds(t testing.TB, sql string) (letGo func()) {
	t.Helper()
	ctx := context.Background()
	tx, err := s.pool.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, strings.ReplaceAll(sql, "relaybus.", s.schema+"."))
	}
	if err != nil {
		t.Fatal(err)
	}
	letGo = func() { _ = tx.Rollback(ctx) }
	t.Cleanup(letGo)
	return letGo
}

func holding(d engine.Delivery) string {
	return fmt.Sprintf("select id from relaybus.deliveries where id = %d for update", d.ID)
}

func (s *opened) unsubscribe(bury bool) error {
	_, err := s.store.Unsubscribe(context.Background(), engine.UnsubscribeInput{EventHandler: subscription, Bury: bury})
	return err
}

func (s *opened) completeAll(leases ...engine.Lease) error {
	reply, err := s.store.CompleteMany(context.Background(), engine.CompleteManyInput{Leases: leases})
	for _, e := range reply.Ended {
		if e.Err != nil && !engine.IsDefinite(e.Err) {
			return e.Err
		}
	}
	return err
}

// grants returns what a first worker is granted, by id.
func (s *opened) grants(t *testing.T) []engine.Picked {
	t.Helper()
	picks := newWorker(t, s, 1).claim().Picks
	slices.SortFunc(picks, func(a, b engine.Picked) int { return cmp.Compare(a.Delivery.ID, b.Delivery.ID) })
	return picks
}

// A batch with a chain in it locks all its rows in one order, the chain's and
// the others.
func TestCompletionsAndUnsubscribe(t *testing.T) {
	s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e", Key: "alone"},
		protocol.Event{ID: "b", Type: "e", Key: "chain"}, protocol.Event{ID: "c", Type: "e", Key: "chain"})
	picks := s.grants(t)
	c := circle{
		hold:   holding(picks[0].Delivery),
		first:  func() error { return s.unsubscribe(true) },
		second: func() error { return s.completeAll(picks[1].Lease, picks[2].Lease, picks[0].Lease) },
	}
	c.play(t, s)
}

// A batch that goes on row by row, since the server refused one, keeps the
// order.
func TestCompletionsApartAndUnsubscribe(t *testing.T) {
	ctx := context.Background()
	s := seeded(t, postgres.Options{})
	if _, err := s.store.Subscribe(ctx, engine.SubscribeInput{
		Group: "default", Handlers: []engine.EventHandler{{Event: "other", Handler: "h"}},
	}); err != nil {
		t.Fatal(err)
	}
	s.publish(t, protocol.Event{ID: "refused", Type: "other"})
	s.publish(t, protocol.Event{ID: "a", Type: "e"}, protocol.Event{ID: "b", Type: "e"})
	picks := s.grants(t)
	if err := s.refuse(ctx, picks[0].Delivery.ID, true); err != nil {
		t.Fatal(err)
	}
	c := circle{
		hold:   holding(picks[1].Delivery),
		first:  func() error { return s.unsubscribe(false) },
		second: func() error { return s.completeAll(picks[2].Lease, picks[1].Lease, picks[0].Lease) },
	}
	c.play(t, s)
}

// spread are events in more lanes than a claim takes over at once.
func spread() []protocol.Event {
	var events []protocol.Event
	for i := range 12 {
		events = append(events, protocol.Event{ID: fmt.Sprint("event ", i), Type: "e"})
	}
	return events
}

// takeOverLast is a claim that takes expired lanes over and comes to that of
// the delivery last.
func (s *opened) takeOverLast(t *testing.T, d engine.Delivery) func() error {
	t.Helper()
	if err := s.exec(context.Background(), "update %s.lanes set lease_expires_at = now() - interval '1 s' where holder is not null"); err != nil {
		t.Fatal(err)
	}
	const number = 2
	w := newWorker(t, s, byte(int(d.Lane)+1-number))
	w.holder[4] = 1 // another than the first worker
	return func() error {
		_, err := s.store.Claim(context.Background(), engine.ClaimInput{
			Holder: w.holder, Owner: "successor", Number: number, TTL: time.Hour,
			Handlers: []engine.HandlerRoom{{Name: "h", Room: 100}}, Room: 100, Limit: 100, MaxLanes: 256,
		})
		return err
	}
}

// A claim that takes lanes over charges rows of some before it comes to the
// others: whoever locks many rows locks their lanes first.
func TestTakeoverAndUnsubscribe(t *testing.T) {
	for _, bury := range []bool{true, false} {
		t.Run(fmt.Sprintf("bury %v", bury), func(t *testing.T) {
			s := seeded(t, postgres.Options{}, spread()...)
			lowest := s.grants(t)[0].Delivery
			c := circle{
				hold:   holding(lowest),
				first:  func() error { return s.unsubscribe(bury) },
				second: s.takeOverLast(t, lowest),
			}
			c.play(t, s)
		})
	}
}

// The same with rows that were buried while they ran.
func TestTakeoverAndRequeue(t *testing.T) {
	s := seeded(t, postgres.Options{}, spread()...)
	lowest := s.grants(t)[0].Delivery
	if err := s.unsubscribe(true); err != nil {
		t.Fatal(err)
	}
	c := circle{
		hold: holding(lowest),
		first: func() error {
			_, err := s.store.Requeue(context.Background(), engine.RequeueInput{All: true})
			return err
		},
		second: s.takeOverLast(t, lowest),
	}
	c.play(t, s)
}

// Stuck rows of several lanes are tried in the order of ids.
func TestStuckRowsAndUnsubscribe(t *testing.T) {
	ctx := context.Background()
	s := seeded(t, postgres.Options{})
	var ids []string
	for i := 0; len(ids) < 2; i++ { // the first in a lane behind that of the second
		id := fmt.Sprint("event ", i)
		lane := protocol.LaneOf(0, protocol.DefaultLanes, "", id)
		if len(ids) == 0 && lane > 200 || len(ids) == 1 && lane < 50 {
			ids = append(ids, id)
		}
	}
	s.publish(t, protocol.Event{ID: ids[0], Type: "e"}, protocol.Event{ID: ids[1], Type: "e"})
	w := newWorker(t, s, 1)
	reply := w.claim()
	var held []engine.LaneEpoch
	for _, l := range reply.Lanes {
		held = append(held, l.LaneEpoch)
	}
	if err := s.exec(ctx, `update %[1]s.lanes l set in_flight = '{}', in_flight_claims = '{}',
		stuck = array(select id from %[1]s.deliveries d where d.lane = l.lane) where holder is not null`); err != nil {
		t.Fatal(err)
	}
	lowest := slices.MinFunc(reply.Picks, func(a, b engine.Picked) int { return cmp.Compare(a.Delivery.ID, b.Delivery.ID) })
	c := circle{
		hold:  holding(lowest.Delivery),
		first: func() error { return s.unsubscribe(true) },
		second: func() error {
			_, err := s.store.Claim(ctx, engine.ClaimInput{Holder: w.holder, Number: 10, TTL: time.Hour, Held: held, RetryStuck: true})
			return err
		},
	}
	c.play(t, s)
}

// subscribing is a bus with handlers that is there for the first time.
func (s *opened) subscribing(handlers ...string) func() error {
	in := engine.SubscribeInput{Group: "default"}
	for _, h := range handlers {
		in.Handlers = append(in.Handlers, engine.EventHandler{Event: "e", Handler: h})
	}
	return func() error {
		_, err := s.store.Subscribe(context.Background(), in)
		return err
	}
}

// madeMeanwhile makes subscriptions when the first call has looked for them.
func (s *opened) madeMeanwhile(call func() error, handlers ...string) func() error {
	return func() error {
		for _, h := range handlers {
			if err := s.exec(context.Background(), "insert into %s.subscriptions values ('e', $1, 0)", h); err != nil {
				return err
			}
		}
		return call()
	}
}

// Of two buses with a new handler one finds the other's older ones missing and
// one finds them there.
func TestSubscribeAtOnce(t *testing.T) {
	s := seeded(t, postgres.Options{})
	c := circle{
		hold:   "lock table relaybus.groups in row exclusive mode",
		first:  s.subscribing("older", "newer"),
		second: s.madeMeanwhile(s.subscribing("older", "newer"), "older"),
	}
	c.play(t, s)
}

// Subscriptions are locked in one order, that of their columns: in that of a
// database which sorts Z behind a, two calls deadlock.
func TestSubscribeInOneOrder(t *testing.T) {
	for _, c := range []struct {
		order string
		fails bool
	}{{`q.handler collate "C"`, false}, {"lower(q.handler)", true}} {
		t.Run(c.order, func(t *testing.T) {
			s := seeded(t, postgres.Options{})
			if !s.store.Rewrite("subscribe", `q.handler collate "C"`, c.order) {
				t.Fatal("the statement does not name its order any more")
			}
			one, other := s.subscribeCrosswise(t)
			if failed := one != nil || other != nil; failed != c.fails {
				t.Errorf("%v and %v, want a deadlock: %v", one, other, c.fails)
			}
		})
	}
}

// subscribeCrosswise lets one call make what another has found missing, while
// that one waits for the first of two subscriptions.
func (s *opened) subscribeCrosswise(t *testing.T) (one, other error) {
	groups := s.holds(t, "lock table relaybus.groups in row exclusive mode")
	making := started(s.subscribing("Z", "a"))
	s.waitUntilWaiting(t, 1, "")
	finding := started(s.madeMeanwhile(func() error {
		first := s.holds(t, "select handler from relaybus.subscriptions where handler = 'Z' for update")
		found := started(s.subscribing("Z", "a"))
		s.waitUntilWaiting(t, 2, "")
		groups()
		s.waitUntilWaiting(t, 2, "relation")
		first()
		return <-found
	}, "Z", "a"))
	return <-making, <-finding
}

// A sweep goes on behind a batch of which a row ended before it was locked.
func TestSweepBehindARowThatEnded(t *testing.T) {
	ctx := context.Background()
	s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e"}, protocol.Event{ID: "b", Type: "e"})
	if err := s.exec(ctx, "update %s.subscriptions set removed = true"); err != nil {
		t.Fatal(err)
	}
	end, err := s.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Rollback(ctx)
	if _, err := end.Exec(ctx, "delete from "+s.schema+".deliveries where id = (select min(id) from "+s.schema+".deliveries)"); err != nil {
		t.Fatal(err)
	}
	swept := 0
	purge := started(func() error {
		reply, err := s.store.Purge(ctx, engine.PurgeInput{Batch: 1})
		swept = reply.Swept
		return err
	})
	s.waitUntilBlocked(t)
	if err := end.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-purge; err != nil || swept != 1 {
		t.Errorf("swept %d, %v, want the one that was left", swept, err)
	}
}

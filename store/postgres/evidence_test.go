package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// One delivery from publish to completion is one heap tuple and three index
// entries, and nothing else in the pages of its table: no update makes a
// second version that vacuum must remove. An extra entry here is what users
// would pay for with every delivery.
func TestOneDeliveryIsOneTupleAndThreeIndexEntries(t *testing.T) {
	ctx := context.Background()
	s := seeded(t, postgres.Options{})
	if err := s.exec(ctx, "truncate relaybus.deliveries"); err != nil { // a place that was used before has dead tuples
		t.Fatal(err)
	}
	s.publish(t, protocol.Event{ID: "a", Type: "e"})
	if _, err := s.pool.Exec(ctx, "create extension if not exists pageinspect"); err != nil {
		t.Logf("the server has no extension pageinspect for this user, so only the counters are looked at: %v", err)
		s.complete(t)
		return
	}
	count := func(query string, args ...any) (n int) {
		t.Helper()
		if err := s.pool.QueryRow(ctx, fmt.Sprintf(query, args...)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	look := func(when string) {
		t.Helper()
		if n := count("select count(*) from heap_page_items(get_raw_page('%s.deliveries', 0))", s.schema); n != 1 {
			t.Errorf("%s the heap has %d tuples of the delivery, want 1", when, n)
		}
		for index, want := range map[string]int{
			"deliveries_pkey": 1, "deliveries_event_seq_handler_key": 1, "deliveries_due": 1, "deliveries_keyed": 0, "deliveries_dead": 0,
		} {
			n := 0
			if count("select pg_relation_size('%s.%s') / current_setting('block_size')::int", s.schema, index) > 1 {
				n = count("select count(*) from bt_page_items('%s.%s', 1)", s.schema, index)
			}
			if n != want {
				t.Errorf("%s the index %s has %d entries of the delivery, want %d", when, index, n, want)
			}
		}
	}
	look("once published")
	s.complete(t)
	look("once completed")
}

// complete claims and completes what there is, and sees that no delivery row
// was updated on the way.
func (s *opened) complete(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	lease := newWorker(t, s, 1).claim().Picks[0].Lease
	var ctid string
	if err := s.pool.QueryRow(ctx, "select ctid::text from "+s.schema+".deliveries").Scan(&ctid); err != nil {
		t.Fatal(err)
	}
	if ctid != "(0,1)" {
		t.Errorf("the claim moved the row to %s: it was updated", ctid)
	}
	reply, err := s.store.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{lease}})
	if err != nil || reply.Ended[0].Verdict != protocol.Applied {
		t.Fatalf("the completion is %v, %v", reply.Ended, err)
	}
}

package postgres_test

import (
	"context"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// A claim commits asynchronously: a crash of the server can take it back after
// its worker was told of it, and the epoch is issued again to somebody else.
// The two are told apart by holder and claim number, whoever ends first.
func TestClaimLostInACrash(t *testing.T) {
	server := testdb.Private(t)
	place := newPlace(t, server.URL, "lost")
	t.Cleanup(place.pool.Close)
	ctx := context.Background()
	// Nothing but a synchronous commit writes the log to disk before the crash.
	for _, sql := range []string{"alter system set wal_writer_delay = '10s'", "select pg_reload_conf()"} {
		if _, err := place.pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name        string
		former      engine.Verdict // of the worker whose claim was lost
		formerFirst bool
		sync        bool // claims wait for the disk: nothing is lost
	}{
		{"the former worker ends first", engine.LeaseLost, true, false},
		{"the new worker ends first", engine.LeaseLost, false, false},
		{"synchronous claims", engine.Applied, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := place.empty(ctx); err != nil {
				t.Fatal(err)
			}
			s := &opened{place: place}
			var err error
			if s.store, err = postgres.NewWith(place.pool, postgres.Options{Schema: place.schema, SynchronousClaims: c.sync}); err != nil {
				t.Fatal(err)
			}
			defer s.store.Close()
			in := engine.SubscribeInput{Group: "default", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}}}
			if _, err := s.store.Subscribe(ctx, in); err != nil {
				t.Fatal(err)
			}
			s.publish(t, protocol.Event{ID: "a", Type: "e"})
			former := newWorker(t, s, 1).claim().Picks[0].Lease
			server.Stop(t)
			server.Start(t)
			place.pool.Reset() // its connections are to the server that is gone
			s.store.Close()
			if s.store, err = postgres.NewWith(place.pool, postgres.Options{Schema: place.schema, SynchronousClaims: c.sync}); err != nil {
				t.Fatal(err)
			}
			defer s.store.Close()
			picks := newWorker(t, s, 2).claim().Picks
			if c.sync {
				if len(picks) > 0 {
					t.Fatal("a synchronous claim was lost")
				}
				if got := <-s.completion(former); got != c.former {
					t.Errorf("the worker's completion is %v", got)
				}
				return
			}
			if len(picks) != 1 || picks[0].Lease.Epoch != former.Epoch {
				t.Fatalf("%+v, want the delivery of %v under the same epoch: the claim was not lost", picks, former)
			}
			if picks[0].Delivery.Attempts != 0 {
				t.Errorf("charged %d times", picks[0].Delivery.Attempts)
			}
			for _, isFormer := range []bool{c.formerFirst, !c.formerFirst} {
				l, want := picks[0].Lease, engine.Applied
				if isFormer {
					l, want = former, c.former
				}
				if got := <-s.completion(l); got != want {
					t.Errorf("%v: %v, want %v", l, got, want)
				}
			}
		})
	}
}

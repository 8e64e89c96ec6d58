package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// TestPurgeYields: while another purge of the schema is at work one that
// yields deletes nothing, and one that an operator asked for does.
func TestPurgeYields(t *testing.T) {
	s := seeded(t, postgres.Options{})
	ctx := context.Background()
	old := func(id string) {
		t.Helper()
		if err := s.exec(ctx, "insert into %s.events (id, type, payload, handlers, published_at) values ($1, 'e', '', '{}', now() - interval '1 day')", id); err != nil {
			t.Fatal(err)
		}
	}
	purge := func(yield bool) int {
		t.Helper()
		reply, err := s.store.Purge(ctx, engine.PurgeInput{DeadAfter: time.Hour, EventsAfter: time.Hour, Yield: yield})
		if err != nil {
			t.Fatal(err)
		}
		return reply.Events
	}
	for _, c := range []struct{ yield, want bool }{{true, false}, {false, true}} {
		old("e")
		second := -1
		s.pauses.set("purge/purge_events", func() { second = purge(c.yield) })
		first := purge(true)
		if first+second != 1 || (second == 1) != c.want {
			t.Errorf("beside a purge at work, one with Yield %v deleted %d events and the first %d", c.yield, second, first)
		}
	}
}

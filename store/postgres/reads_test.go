package postgres_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

var subplan = regexp.MustCompile(`(?m)^\s*(SubPlan \d+)$`)

// perRow finds a subquery that runs once for each row: with a million
// deliveries and some thousand in flight such a plan does not end within
// minutes. A hashed one runs once.
func perRow(plan string) bool {
	for _, m := range subplan.FindAllStringSubmatch(plan, -1) {
		if !strings.Contains(plan, "hashed "+m[1]) {
			return true
		}
	}
	return false
}

// What operators read stays one pass, or less, on tables that have grown.
func TestPlansOfReads(t *testing.T) {
	pool, o := migrated(t, "plans")
	run(t, pool, in(o, `
		insert into SCHEMA.groups values ('g', 0);
		insert into SCHEMA.lanes (lane, holder, lease_expires_at, in_flight, in_flight_claims)
		select n, '01000000-0000-0000-0000-000000000000', now() + interval '1 day', array[n * 10 + 1, n * 10 + 2], '{1, 1}' from generate_series(0, 255) n;
		insert into SCHEMA.subscriptions values ('e', 'h', 0);
		insert into SCHEMA.events (id, type, payload, handlers) select 'e' || n, 'e', '', '{h}' from generate_series(1, 30000) n;
		insert into SCHEMA.deliveries (id, event_seq, handler, lane) select seq, seq, 'h', seq % 256 from SCHEMA.events;
		analyze SCHEMA.events; analyze SCHEMA.deliveries; analyze SCHEMA.lanes`))
	s, err := postgres.NewWith(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	dead := protocol.Dead
	list := func(f engine.Filter) []any { return postgres.ListArguments(engine.ListInput{Filter: f, Limit: 101}) }
	for _, c := range []struct {
		name, statement string
		args            []any
		uses            string
	}{
		{"statistics", "statistics", nil, ""},
		{"statistics by handler", "statistics_by_handler", nil, ""},
		{"verify", "verify_deliveries", []any{"unsubscribed"}, ""},
		{"a page", "list", list(engine.Filter{}), "deliveries_pkey"},
		{"of a handler", "list", list(engine.Filter{Handler: "h"}), "deliveries_pkey"},
		{"of an event", "list", list(engine.Filter{EventID: "e7"}), "events_id_key"},
		{"dead ones", "list", list(engine.Filter{Status: &dead}), "deliveries_dead"},
	} {
		plan, err := s.Plan(context.Background(), c.statement, c.args...)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if perRow(plan) || !strings.Contains(plan, c.uses) {
			t.Errorf("%s: want no subquery per row, and the index %q:\n%s", c.name, c.uses, plan)
		}
	}
}

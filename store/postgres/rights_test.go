package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// A role with the grants of its duty can do all of it, and each single
// privilege is needed: without it the duty fails, as with a store that is away,
// until somebody runs the GRANT that the error names.
func TestRightsAreExact(t *testing.T) {
	owner, o := migrated(t, "rights")
	o.History = true
	for _, duty := range postgres.Duties() {
		t.Run(string(duty), func(t *testing.T) {
			role := fmt.Sprintf("relaybus_%s_%d", duty, os.Getpid())
			run(t, owner, "drop role if exists "+role+"; create role "+role)
			t.Cleanup(func() { run(t, owner, "drop owned by "+role+"; drop role "+role) })
			grants, err := postgres.Grants(o, duty, role)
			if err != nil {
				t.Fatal(err)
			}
			run(t, owner, strings.Join(grants, "\n"))
			pool := poolAs(t, role)
			if err := does(t, duty, owner, pool, o); err != nil {
				t.Fatalf("with all grants: %v", err)
			}
			for _, g := range grants {
				for _, one := range single(g) {
					run(t, owner, strings.Replace(strings.Replace(one, "grant ", "revoke ", 1), " to ", " from ", 1))
					err := does(t, duty, owner, pool, o)
					if err == nil || engine.IsDefinite(err) || errors.Is(err, engine.ErrRetryable) || !strings.Contains(err.Error(), named(duty, g)) {
						t.Errorf("without %s want an error without a mark that says %q, got %v", one, named(duty, g), err)
					}
					run(t, owner, one)
				}
			}
			if err := does(t, duty, owner, pool, o); err != nil {
				t.Fatalf("with all grants again: %v", err)
			}
		})
	}
}

var privileges = regexp.MustCompile(`^grant ([a-z, ]+) on `)

// single splits a grant of several privileges.
func single(grant string) (list []string) {
	all := privileges.FindStringSubmatch(grant)[1]
	for _, p := range strings.Split(all, ", ") {
		list = append(list, strings.Replace(grant, all, p, 1))
	}
	return list
}

var grantOn = regexp.MustCompile(`^grant (.+) on (schema|table|sequence) (.+) to `)

// named is what an error must say to whoever lacks a part of a grant.
func named(duty postgres.Duty, grant string) string {
	found := grantOn.FindStringSubmatch(grant)
	if found[2] == "schema" {
		return "the role needs GRANT USAGE ON SCHEMA " + found[3]
	}
	object := found[3][strings.LastIndex(found[3], ".")+1:]
	return fmt.Sprintf("as %s GRANT %s ON %s", duty, strings.ToUpper(found[1]), object)
}

func poolAs(t *testing.T, role string) *pgxpool.Pool {
	t.Helper()
	config := mustPool(t).Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set role "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// does does all that a duty includes, on tables that the owner prepared.
func does(t *testing.T, duty postgres.Duty, owner, pool *pgxpool.Pool, o postgres.Options) error {
	t.Helper()
	ctx := context.Background()
	run(t, owner, in(o, `truncate SCHEMA.events, SCHEMA.deliveries, SCHEMA.lanes, SCHEMA.groups, SCHEMA.subscriptions, SCHEMA.completions restart identity cascade`))
	own, err := postgres.NewWith(owner, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.NewWith(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	switch duty {
	case postgres.Publisher:
		subscribe(t, own)
		return errors.Join(put(ctx, s, 3), put(ctx, s, 3))
	case postgres.Worker:
		return work(ctx, s)
	}
	subscribe(t, own)
	if err := work(ctx, own); err != nil {
		t.Fatal(err)
	}
	return operate(ctx, t, s, owner, pool, o)
}

var subscription = engine.EventHandler{Event: "e", Handler: "h"}

func subscribe(t *testing.T, s *postgres.Store) {
	t.Helper()
	if _, err := s.Subscribe(context.Background(), engine.SubscribeInput{Group: "g", Handlers: []engine.EventHandler{subscription}}); err != nil {
		t.Fatal(err)
	}
}

// put publishes n events with a key, always the same ids.
func put(ctx context.Context, s *postgres.Store, n int) error {
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var events []protocol.Event
		for i := range n {
			events = append(events, protocol.Event{ID: fmt.Sprint(i), Type: "e", Key: fmt.Sprint(i), Payload: []byte("{}")})
		}
		_, err := s.Publish(ctx, tx, events)
		return err
	})
}

// work is a worker's day: every call of the store once.
func work(ctx context.Context, s *postgres.Store) error {
	sub, err := s.Subscribe(ctx, engine.SubscribeInput{Group: "g", Handlers: []engine.EventHandler{subscription}})
	if err != nil {
		return err
	}
	if err := put(ctx, s, 6); err != nil {
		return err
	}
	holder := protocol.Holder{1}
	late := sub.Now.Add(time.Hour)
	claim, err := s.Claim(ctx, engine.ClaimInput{Holder: holder, Owner: "w", Group: sub.Group, Number: 2, TTL: time.Minute, NotAfter: late,
		Handlers: []engine.HandlerRoom{{Name: "h", Room: 10}}, Room: 10, Limit: 10, MaxLanes: 10})
	if err != nil {
		return err
	}
	if len(claim.Picks) != 6 {
		return fmt.Errorf("%d picks of 6", len(claim.Picks))
	}
	lease := func(i int) engine.Lease { return claim.Picks[i].Lease }
	_, err1 := s.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: holder, Lanes: []engine.LaneEpoch{claim.Lanes[0].LaneEpoch}, TTL: time.Minute, NotAfter: late})
	_, err2 := s.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{lease(0)}})
	err3 := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.Complete(ctx, tx, engine.CompleteInput{Lease: lease(1), TTL: time.Minute})
		return err
	})
	_, err4 := s.Reschedule(ctx, engine.RescheduleInput{Lease: lease(2), Delay: time.Hour, Error: "x"})
	_, err5 := s.Snooze(ctx, engine.SnoozeInput{Lease: lease(3), Delay: time.Hour, Settle: true})
	_, err6 := s.Bury(ctx, engine.BuryInput{Lease: lease(4), Error: "x", Charge: true})
	_, err7 := s.Release(ctx, engine.ReleaseInput{Leases: []engine.Lease{lease(5)}})
	_, err8 := s.Relinquish(ctx, engine.RelinquishInput{Holder: holder, Group: sub.Group, Number: 3, NotAfter: late})
	return first(err1, err2, err3, err4, err5, err6, err7, err8)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// operate is an operator's day.
func operate(ctx context.Context, t *testing.T, s *postgres.Store, owner, pool *pgxpool.Pool, o postgres.Options) error {
	run(t, owner, in(o, `update SCHEMA.deliveries set died_at = now() - interval '2 days' where status = 1;
		update SCHEMA.events set published_at = now() - interval '2 days';
		update SCHEMA.completions set completed_at = now() - interval '2 days'`))
	differences, err1 := postgres.ValidateSchema(ctx, pool, o)
	if err1 == nil && len(differences) > 0 {
		t.Fatalf("%q", differences)
	}
	_, err2 := s.Statistics(ctx)
	_, err3 := s.Verify(ctx)
	_, err4 := s.List(ctx, engine.ListInput{})
	_, err5 := s.Lanes(ctx, postgres.AnyLane)
	_, err6 := s.Subscriptions(ctx)
	_, err7 := s.Show(ctx, 1)
	requeued, err8 := s.Requeue(ctx, engine.RequeueInput{All: true})
	if err8 == nil && requeued.Requeued != 1 {
		t.Fatalf("requeued %+v", requeued)
	}
	_, err9 := s.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: subscription, Bury: true})
	day := 24 * time.Hour
	purged, err10 := s.Purge(ctx, engine.PurgeInput{DeadAfter: day, EventsAfter: day, HistoryAfter: day})
	if first(err8, err10) == nil && (purged.Events != 2 || purged.History != 2) {
		t.Fatalf("purged %+v", purged)
	}
	return first(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10)
}

// Who may not make a schema is told which GRANT that needs.
func TestMigrateWithoutRights(t *testing.T) {
	owner, o := emptySchema(t, "no rights")
	role := fmt.Sprintf("relaybus_nobody_%d", os.Getpid())
	run(t, owner, "drop role if exists "+role+"; create role "+role)
	t.Cleanup(func() { run(t, owner, "drop owned by "+role+"; drop role "+role) })
	err := postgres.Migrate(context.Background(), poolAs(t, role), o)
	var refused *pgconn.PgError
	if err == nil || !strings.Contains(err.Error(), "GRANT CREATE ON DATABASE") || !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
}

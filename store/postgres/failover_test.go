package postgres_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/internal/testdb"
)

// TestStandbyPromoted starts a bus on a standby. It says what kind of server it
// met, waits, and goes on where the primary's bus stopped once the standby is
// promoted.
func TestStandbyPromoted(t *testing.T) {
	primary := testdb.Private(t)
	old := newSurvivor(t, primary, survivorConfig{})
	old.stop(t)
	standby := primary.Standby(t)
	old.start(t)
	old.publish(t, 0, 200)
	old.awaitEffects(t, 20)
	old.stop(t)
	old.awaitReplay(t, standby)
	primary.Stop(t)

	s := old.elsewhere(t, standby, standby.URL)
	started := make(chan error, 1)
	go func() { started <- s.bus.Start(context.Background()) }()
	t.Cleanup(func() { s.stop(t) })
	for s.log.count(slog.LevelWarn, "relaybus: store away") == 0 {
		select {
		case err := <-started:
			t.Fatalf("Start returned on a standby: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.spins(t, &trouble{})
	s.must(t, "select pg_promote()")
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	s.publish(t, 200, 300)
	s.awaitEffects(t, 300)
	s.stop(t)
	s.judge(t, &trouble{says: true, word: "the server takes no writes: it is a standby"})
}

// TestFailover loses the primary while its standby is behind. Events and
// completions of the last moments are gone, delivery ids are issued again to
// others, and the buses that were there before go on with the standby.
func TestFailover(t *testing.T) {
	primary := testdb.Private(t)
	first := newSurvivor(t, primary, survivorConfig{})
	first.stop(t)
	standby := primary.Standby(t)
	var buses []*survivor
	for range 2 {
		s := first.elsewhere(t, standby, either(t, standby, primary))
		s.pace = 20 * time.Millisecond // not done with the first events when the standby stops
		s.start(t)
		buses = append(buses, s)
	}
	s := buses[0]
	s.publish(t, 0, 200)
	first.awaitEffects(t, 20)
	first.awaitReplay(t, standby)
	standby.Stop(t)
	s.publish(t, 200, 300) // nobody but the primary knows
	first.awaitEffects(t, 250)
	issued := first.count(t, "select last_value from %s.delivery_ids")
	primary.Stop(t)
	standby.Start(t)
	s.spins(t, &trouble{})
	if events, effects := s.count(t, "select count(*) from %s.events"), s.count(t, "select count(*) from %s.effects"); events != 200 || effects >= 200 {
		t.Errorf("the standby knows %d events and %d effects, want 200 and fewer: nothing was lost", events, effects)
	}
	s.must(t, "select pg_promote()")
	s.publish(t, 300, 400)
	s.awaitEffects(t, 300)
	for _, s := range buses {
		s.stop(t)
		s.judge(t, &trouble{says: true})
	}
	if again := s.count(t, "select min(c.id) from %s.completions c join %s.events e on e.seq = c.event_seq where e.id like 'e3__'"); again > issued {
		t.Errorf("the first delivery after the failover is %d: no id was issued again, the last before was %d", again, issued)
	}
}

// either is the URL of whichever of two servers takes writes.
func either(t *testing.T, a, b *testdb.Server) string {
	t.Helper()
	first, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	first.Host += "," + second.Host
	first.RawQuery += "&target_session_attrs=read-write"
	return first.String()
}

// elsewhere is another bus of the same schema: looked at on one server, running
// where its URL says. It is not started.
func (s *survivor) elsewhere(t *testing.T, server *testdb.Server, url string) *survivor {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	other := &survivor{server: server, place: &place{pool: pool, schema: s.schema}}
	other.connect(t, url)
	other.newBus(t, every20ms)
	return other
}

// awaitReplay waits until a standby has all that was committed so far.
func (s *survivor) awaitReplay(t *testing.T, standby *testdb.Server) {
	t.Helper()
	ctx := context.Background()
	var end string
	if err := s.pool.QueryRow(ctx, "select pg_current_wal_insert_lsn()::text").Scan(&end); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, standby.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for there := false; !there; time.Sleep(10 * time.Millisecond) {
		if err := conn.QueryRow(ctx, "select pg_is_in_recovery() and pg_last_wal_replay_lsn() >= $1::pg_lsn", end).Scan(&there); err != nil {
			t.Fatal(err)
		}
	}
}

// count asks the server for a number.
func (s *survivor) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := s.pool.QueryRow(context.Background(), strings.ReplaceAll(sql, "%s", s.schema)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

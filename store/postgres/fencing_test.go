package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// The tests of this file run the statements of sql/ on two connections, a
// step here and a step there, and show for each rule that the statement
// without it lets through what it must not.

// worker is a bus instance that claims by hand.
type worker struct {
	s      *opened
	t      testing.TB
	holder engine.Holder
	number int64
}

func newWorker(t testing.TB, s *opened, name byte) *worker {
	return &worker{s: s, t: t, holder: engine.Holder{name}}
}

func (w *worker) claim(held ...engine.LaneEpoch) engine.ClaimReply {
	w.t.Helper()
	w.number += 2
	reply, err := w.s.store.Claim(context.Background(), engine.ClaimInput{
		Holder: w.holder, Owner: fmt.Sprint("worker ", w.holder[0]), Number: w.number, TTL: time.Hour, Held: held,
		Handlers: []engine.HandlerRoom{{Name: "h", Room: 10}}, Room: 10, Limit: 10, MaxLanes: 256,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return reply
}

// seeded is a store with one event for the handler h.
func seeded(t testing.TB, o postgres.Options, events ...protocol.Event) *opened {
	t.Helper()
	s := open(t, o)
	ctx := context.Background()
	if _, err := s.store.Subscribe(ctx, engine.SubscribeInput{
		Group: "default", Handlers: []engine.EventHandler{{Event: "e", Handler: "h"}},
	}); err != nil {
		t.Fatal(err)
	}
	s.publish(t, events...)
	return s
}

func (s *opened) publish(t testing.TB, events ...protocol.Event) {
	t.Helper()
	if err := s.store.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.store.Publish(ctx, tx, events)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// sql returns a file of sql/ for the store's schema.
func (s *opened) sql(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("sql/" + name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "relaybus.", s.schema+".")
}

// without returns a statement without a rule; the rule must have been there.
func without(t testing.TB, sql, rule, instead string) string {
	t.Helper()
	if !strings.Contains(sql, rule) {
		t.Fatalf("the statement does not say %q any more", rule)
	}
	return strings.ReplaceAll(sql, rule, instead)
}

func uuidOf(h engine.Holder) pgtype.UUID { return pgtype.UUID{Bytes: h, Valid: true} }

// takeOver runs take_over.sql in an open transaction.
func takeOver(t testing.TB, tx pgx.Tx, sql string, w *worker) {
	t.Helper()
	rows, err := tx.Query(context.Background(), sql, 0, 256, 0, uuidOf(w.holder), "successor", int64(2),
		pgtype.Interval{Microseconds: time.Hour.Microseconds(), Valid: true}, 256, []string{"h"}, false, false, []int32{}, []int64{})
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if rows.CommandTag().RowsAffected() == 0 {
		t.Fatal("nothing was taken over")
	}
}

// completion is CompleteMany on its way.
func (s *opened) completion(l engine.Lease) <-chan engine.Verdict {
	verdict := make(chan engine.Verdict, 1)
	go func() {
		reply, err := s.store.CompleteMany(context.Background(), engine.CompleteManyInput{Leases: []engine.Lease{l}})
		if err != nil {
			close(verdict)
			return
		}
		verdict <- reply.Ended[0].Verdict
	}()
	return verdict
}

// waiting counts the sessions that wait for a lock of another one, but for
// those that wait for one kind of thing.
func (s *opened) waiting(t testing.TB, but string) (n int) {
	t.Helper()
	err := s.pool.QueryRow(context.Background(), `select count(*) from pg_stat_activity
		where wait_event_type = 'Lock' and wait_event <> $2 and application_name = $1`, s.schema, but).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitUntilWaiting returns when so many sessions wait.
func (s *opened) waitUntilWaiting(t testing.TB, sessions int, but string) {
	t.Helper()
	for range 1000 {
		if s.waiting(t, but) >= sessions {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no %d sessions wait for a lock", sessions)
}

// waitUntilBlocked returns when a session waits for a lock of another one.
func (s *opened) waitUntilBlocked(t testing.TB) {
	t.Helper()
	s.waitUntilWaiting(t, 1, "")
}

// A completion whose snapshot is older than the takeover's commit is refused,
// because the takeover took UPDATE strength before it wrote. With less the old
// epoch is accepted: the delivery was charged, and completes all the same.
func TestTakeoverFencesACompletionOnItsWay(t *testing.T) {
	for _, c := range []struct {
		name, rule, instead string
		want                engine.Verdict
	}{
		{"as it is", "", "", engine.LeaseLost},
		{"no key update", "for update skip locked", "for no key update skip locked", engine.Applied},
		{"plain update", "for update skip locked", "", engine.Applied},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e"})
			lease := newWorker(t, s, 1).claim().Picks[0].Lease
			if err := s.expire(ctx, lease.Lane); err != nil {
				t.Fatal(err)
			}
			sql := s.sql(t, "take_over")
			if c.rule != "" {
				sql = without(t, sql, c.rule, c.instead)
			}
			tx, err := s.pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(ctx)
			takeOver(t, tx, sql, newWorker(t, s, 2))
			verdict := s.completion(lease)
			if c.want == engine.LeaseLost {
				s.waitUntilBlocked(t)
			} else if got := <-verdict; got != c.want {
				t.Fatalf("without the rule the completion is %v: the test no longer shows what it is for", got)
			} else {
				return
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if got := <-verdict; got != engine.LeaseLost {
				t.Errorf("the former holder's completion is %v: its delivery was charged, and another worker runs it", got)
			}
		})
	}
}

// A takeover reads deliveries in a later statement than the one that locks the
// lane. With one snapshot for both, as under REPEATABLE READ, it grants what
// was completed in between; the store sets READ COMMITTED itself.
func TestTakeoverReadsAfterItsLock(t *testing.T) {
	for level, want := range map[pgx.TxIsoLevel]int{pgx.ReadCommitted: 0, pgx.RepeatableRead: 1} {
		t.Run(string(level), func(t *testing.T) {
			ctx := context.Background()
			s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e"})
			lease := newWorker(t, s, 1).claim().Picks[0].Lease
			tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(ctx)
			if _, err := tx.Exec(ctx, "select count(*) from "+s.schema+".lanes"); err != nil { // the snapshot
				t.Fatal(err)
			}
			if got := <-s.completion(lease); got != engine.Applied {
				t.Fatalf("completed: %v", got)
			}
			// The lane is free for all that matters here: only its rows are read.
			var n int
			err = tx.QueryRow(ctx, "select count(*) from ("+s.sql(t, "candidates")+") c", []int32{int32(lease.Lane)},
				[]time.Time{time.Unix(0, 0)}, []int64{0}, []string{""}, []string{""}, []string{"h"}, []string{"h"}, []int64{}, 0, 10).Scan(&n)
			if err != nil {
				t.Fatal(err)
			}
			if n != want {
				t.Errorf("%d candidates, want %d: one that was completed would run again", n, want)
			}
		})
	}
}

// Defaults of the database do not weaken the store's own transactions.
func TestDefaultsOfTheDatabase(t *testing.T) {
	ctx := context.Background()
	s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e"}, protocol.Event{ID: "b", Type: "e", Key: "k"})
	config := s.pool.Config()
	for name, value := range map[string]string{
		"default_transaction_isolation": "repeatable read", "synchronous_commit": "off", "enable_indexscan": "off",
		"search_path": "pg_catalog", "timezone": "Asia/Kathmandu", "intervalstyle": "sql_standard", "datestyle": "German, DMY",
		"bytea_output": "escape",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if s.store, err = postgres.NewWith(pool, postgres.Options{Schema: s.schema}); err != nil {
		t.Fatal(err)
	}
	defer s.store.Close()
	w := newWorker(t, s, 1)
	reply := w.claim()
	if len(reply.Picks) != 2 {
		t.Fatalf("%d picks, want 2", len(reply.Picks))
	}
	for _, p := range reply.Picks {
		if got := <-s.completion(p.Lease); got != engine.Applied {
			t.Errorf("#%d: %v", p.Delivery.ID, got)
		}
	}
	found, err := s.store.Verify(ctx)
	if err != nil || len(found.Findings) > 0 {
		t.Errorf("verify: %+v, %v", found.Findings, err)
	}
}

// A completion that found its run listed waits for the row, which the same
// run's Snooze has written and commits. The run is over: the lane, locked FOR
// KEY SHARE, is not read again and would not say so. Only the row's version
// does; by its id alone it would be deleted, and what was to run again never does.
func TestCompletionOfARowWrittenMeanwhile(t *testing.T) {
	byID := func(row string) [2]string {
		return [2]string{"d.ctid = " + row + ".row_id and d.xmin = " + row + ".row_version", "d.id = " + row + ".id"}
	}
	for _, c := range []struct {
		statement string
		rule      [2]string
		args      func(engine.Lease) []any
	}{
		{"complete_alone", byID("f"), func(l engine.Lease) []any {
			return append(completionArgs(l), []int64{l.Claim}, []bool{false}, false)
		}},
		{"complete_many", byID("g"), func(l engine.Lease) []any {
			return append(completionArgs(l), []int64{l.Claim}, []int64{0}, []int32{1}, []bool{false}, false)
		}},
		{"complete", [2]string{"d.ctid = s.row_id and d.xmin = s.row_version", "d.id = $4"}, func(l engine.Lease) []any {
			return []any{l.Lane, l.Epoch, uuidOf(l.Holder), l.Delivery, l.Claim, 0, false, 1000}
		}},
	} {
		for _, left := range []int{1, 0} {
			t.Run(fmt.Sprintf("%s/%d left", c.statement, left), func(t *testing.T) {
				ctx := context.Background()
				s := seeded(t, postgres.Options{}, protocol.Event{ID: "a", Type: "e"})
				lease := newWorker(t, s, 1).claim().Picks[0].Lease
				sql := s.sql(t, c.statement)
				if left == 0 {
					sql = without(t, sql, c.rule[0], c.rule[1])
				}
				tx, err := s.pool.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(ctx)
				for _, write := range []string{
					"update " + s.schema + ".lanes set in_flight = '{}', in_flight_claims = '{}' where lane = $1",
					"update " + s.schema + ".deliveries set available_at = available_at + interval '1 hour' where lane = $1",
				} {
					if _, err := tx.Exec(ctx, write, lease.Lane); err != nil {
						t.Fatal(err)
					}
				}
				done := make(chan error, 1)
				go func() {
					_, err := s.pool.Exec(ctx, sql, c.args(lease)...)
					done <- err
				}()
				s.waitUntilBlocked(t)
				if err := tx.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				var n int
				if err := s.pool.QueryRow(ctx, "select count(*) from "+s.schema+".deliveries").Scan(&n); err != nil {
					t.Fatal(err)
				}
				if n != left {
					t.Errorf("%d rows are left, want %d: one that was put off is lost", n, left)
				}
			})
		}
	}
}

// completionArgs are the first arguments of both statements of CompleteMany,
// up to the delivery.
func completionArgs(l engine.Lease) []any {
	return []any{[]int32{int32(l.Lane)}, []int64{l.Epoch}, []pgtype.UUID{uuidOf(l.Holder)}, []int32{1}, []int32{int32(l.Lane)}, []int64{int64(l.Delivery)}}
}

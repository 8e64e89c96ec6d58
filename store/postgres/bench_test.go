package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// preload publishes n events of one type, in batches.
func preload(b *testing.B, s *opened, n int, key func(i int) string) {
	b.Helper()
	ctx := context.Background()
	for first := 0; first < n; first += 5000 {
		var events []protocol.Event
		for i := first; i < min(first+5000, n); i++ {
			events = append(events, protocol.Event{ID: fmt.Sprintf("e%d", i), Type: "e", Key: key(i), Payload: []byte(`{"n":1}`)})
		}
		if err := s.store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := s.store.Publish(ctx, tx, events)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDispatch measures a bus with a handler that does nothing, per
// delivery, from a backlog of b.N.
func BenchmarkDispatch(b *testing.B) {
	for _, c := range []struct {
		name string
		key  func(i int) string
	}{
		{"unkeyed", func(int) string { return "" }},
		{"keyed", func(i int) string { return fmt.Sprintf("k%d", i%5000) }},
		{"one key", func(int) string { return "k" }},
	} {
		b.Run(c.name, func(b *testing.B) { dispatch(b, c.key) })
	}
}

func dispatch(b *testing.B, key func(i int) string) {
	s := open(b, postgres.Options{})
	bus, err := engine.New[pgx.Tx](s.store, engine.Config{
		Logger: slog.New(slog.DiscardHandler), Concurrency: 1000, ClaimLimit: 400, LanesPerClaim: 64, CompletionBatch: 400,
	})
	if err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	done := make(chan struct{})
	err = engine.Handle(bus, engine.Handler{Event: "e", Name: "h", Concurrency: 1000}, func(context.Context, engine.Event[[]byte]) error {
		if handled.Add(1) == int64(b.N) {
			close(done)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	if err := bus.Start(ctx); err != nil {
		b.Fatal(err)
	}
	if err := bus.Stop(ctx); err != nil { // it has subscribed
		b.Fatal(err)
	}
	preload(b, s, b.N, key)
	before := s.counters(b)
	b.ResetTimer()
	began := time.Now()
	if err := bus.Start(ctx); err != nil {
		b.Fatal(err)
	}
	<-done
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "deliveries/s")
	b.StopTimer()
	if err := bus.Stop(ctx); err != nil {
		b.Fatal(err)
	}
	after := s.counters(b)
	b.ReportMetric(float64(after.wal-before.wal)/float64(b.N), "walB/delivery")
	b.ReportMetric(float64(after.lanes-before.lanes)/float64(b.N), "lane-updates/delivery")
	if n := after.lanes - before.lanes; n > 0 {
		b.ReportMetric(100*float64(after.hot-before.hot)/float64(n), "%HOT")
	}
	b.ReportMetric(float64(after.deliveries-before.deliveries), "delivery-updates")
}

// counters are what the server counts.
type counters struct{ wal, lanes, hot, deliveries int64 }

func (s *opened) counters(b *testing.B) (c counters) {
	b.Helper()
	time.Sleep(1500 * time.Millisecond) // statistics arrive late
	err := s.pool.QueryRow(context.Background(), fmt.Sprintf(`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
		l.n_tup_upd, l.n_tup_hot_upd, d.n_tup_upd
		from pg_stat_all_tables l, pg_stat_all_tables d
		where l.schemaname = '%[1]s' and l.relname = 'lanes' and d.schemaname = '%[1]s' and d.relname = 'deliveries'`, s.schema)).
		Scan(&c.wal, &c.lanes, &c.hot, &c.deliveries)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

package postgres_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// BenchmarkPublishNow measures what a hint to other processes costs their
// publishers: not sent, sent as Options.Notify does, and, as a yardstick, sent
// inside the publishing transaction.
func BenchmarkPublishNow(b *testing.B) {
	for _, c := range []struct {
		name           string
		notify, inside bool
	}{{"off", false, false}, {"on", true, false}, {"inside the transaction", false, true}} {
		b.Run(c.name, func(b *testing.B) {
			s := seeded(b, postgres.Options{Notify: c.notify})
			bus, err := engine.New[pgx.Tx](s.store, engine.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			publish := func(ctx context.Context, tx pgx.Tx) error {
				if err := bus.Publish(ctx, tx, engine.Message{Type: "e", Payload: 1}); err != nil || !c.inside {
					return err
				}
				_, err := tx.Exec(ctx, "select pg_notify($1, '')", s.schema)
				return err
			}
			b.SetParallelism(4)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := bus.InTx(context.Background(), publish); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

const (
	eventType   = "bench.event"
	handlerName = "bench"
)

// place is a schema that one measurement has for itself.
type place struct {
	admin  *pgxpool.Pool
	schema string
	store  *postgres.Store // publishes
}

var places atomic.Int64

// newPlace makes a schema and subscribes the handler.
func newPlace(ctx context.Context, admin *pgxpool.Pool) (*place, error) {
	p := &place{admin: admin, schema: fmt.Sprintf("relaybus_bench_%d_%d", os.Getpid(), places.Add(1))}
	options := postgres.Options{Schema: p.schema}
	if err := postgres.Migrate(ctx, admin, options); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	var err error
	if p.store, err = postgres.NewWith(admin, options); err != nil {
		return nil, errors.Join(err, p.drop())
	}
	_, err = p.store.Subscribe(ctx, engine.SubscribeInput{
		Group: "default", Handlers: []engine.EventHandler{{Event: eventType, Handler: handlerName}},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: %w", err), p.drop())
	}
	return p, nil
}

func (p *place) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := p.admin.Exec(ctx, "drop schema "+pgx.Identifier{p.schema}.Sanitize()+" cascade")
	return err
}

// preload publishes events first to last−1; the payload is the number.
func (p *place) preload(ctx context.Context, first, last int, key func(int) string) error {
	const batch = 5000
	for ; first < last; first += batch {
		events := make([]protocol.Event, 0, batch)
		for i := first; i < min(first+batch, last); i++ {
			events = append(events, event(i, key(i)))
		}
		if err := p.publish(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

func event(i int, key string) protocol.Event {
	number := strconv.Itoa(i)
	return protocol.Event{ID: "event-" + number, Type: eventType, Key: key, Payload: []byte(number)}
}

func (p *place) publish(ctx context.Context, events []protocol.Event) error {
	return p.store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := p.store.Publish(ctx, tx, events)
		return err
	})
}

func noKey(int) string { return "" }

// counters are what the server counts.
type counters struct {
	lsn                             string
	laneUpdates, laneHot, rowWrites int64
	dead                            int64
}

func (p *place) counters(ctx context.Context) (c counters, err error) {
	err = p.admin.QueryRow(ctx, `select pg_current_wal_insert_lsn()::text, l.n_tup_upd, l.n_tup_hot_upd, d.n_tup_upd, d.n_dead_tup
		from pg_stat_all_tables l, pg_stat_all_tables d
		where l.schemaname = $1 and l.relname = 'lanes' and d.schemaname = $1 and d.relname = 'deliveries'`, p.schema).
		Scan(&c.lsn, &c.laneUpdates, &c.laneHot, &c.rowWrites, &c.dead)
	if err != nil {
		return c, fmt.Errorf("bench: counters: %w", err)
	}
	return c, nil
}

// wal returns the bytes written to the WAL between two positions, and how many
// of them are full-page images: −1 when the server has no pg_walinspect.
func (p *place) wal(ctx context.Context, from, to string) (total, images float64, err error) {
	if err := p.admin.QueryRow(ctx, "select pg_wal_lsn_diff($1::pg_lsn, $2::pg_lsn)::float8", to, from).Scan(&total); err != nil {
		return 0, 0, fmt.Errorf("bench: wal: %w", err)
	}
	if _, err := p.admin.Exec(ctx, "create extension if not exists pg_walinspect"); err != nil {
		return total, -1, nil
	}
	err = p.admin.QueryRow(ctx, "select sum(fpi_size)::float8 from pg_get_wal_stats($1, $2)", from, to).Scan(&images)
	if err != nil {
		return total, -1, nil
	}
	return total, images, nil
}

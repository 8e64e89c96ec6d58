package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// publishing measures Publish against bare inserts into tables of the same
// columns and indexes, without any of the protocol: no known ids, no slots.
func (r *run) publishing(ctx context.Context) error {
	const slice = 800 * time.Millisecond
	return r.in(ctx, func(p *place) error {
		b := &bare{place: p}
		if err := b.create(ctx); err != nil {
			return err
		}
		for _, c := range []struct {
			name  string
			size  int
			keyed bool
			bare  func(context.Context, []protocol.Event) error
		}{
			{"1 against two inserts", 1, false, b.two},
			{"1 against one statement", 1, false, b.unnest},
			{"100 without keys", 100, false, b.unnest},
			{"100 with keys", 100, true, b.unnest},
			{"10,000 without keys", 10_000, false, b.unnest},
			{"10,000 with keys", 10_000, true, b.unnest},
		} {
			ours, theirs, err := b.turns(ctx, slice*time.Duration(2*r.o.Rounds+1), c.size, c.keyed, p.publish, c.bare)
			if err != nil {
				return err
			}
			r.result.add(c.name, float64(c.size)/Median(ours), "/s")
			r.result.add(c.name+": ratio", Median(theirs)/Median(ours), "×")
		}
		return nil
	})
}

// bare is what publishing would be without the protocol.
type bare struct {
	*place
	next         int
	schema, text string
}

func (b *bare) create(ctx context.Context) error {
	b.schema = pgx.Identifier{b.place.schema}.Sanitize()
	_, err := b.admin.Exec(ctx, fmt.Sprintf(`
		create table %[1]s.bare_events (like %[1]s.events including all);
		create table %[1]s.bare_deliveries (like %[1]s.deliveries including all);
		create sequence %[1]s.bare_ids`, b.schema))
	b.text = fmt.Sprintf(`with e as (
		insert into %[1]s.bare_events (id, type, key, payload, handlers)
		select *, array['%[2]s'] from unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) returning seq, key)
		insert into %[1]s.bare_deliveries (id, event_seq, handler, lane, key)
		select nextval('%[1]s.bare_ids'), seq, '%[2]s', seq %% 256, key from e`, b.schema, handlerName)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// turns publishes batches in two ways for a while, one after the other and each
// first every other time, and returns how many seconds each took. Disks and
// neighbours are slow for a while at a time: turns of one batch see that alike,
// and medians leave out who waits for a checkpoint.
func (b *bare) turns(ctx context.Context, d time.Duration, size int, keyed bool,
	one, other func(context.Context, []protocol.Event) error) (ones, others []float64, err error) {
	began := time.Now()
	for n := 0; n < 6 || time.Since(began) < d; n++ {
		for turn := range 2 {
			publish, list := one, &ones
			if (n+turn)%2 == 1 {
				publish, list = other, &others
			}
			events := b.batch(size, keyed)
			at := time.Now()
			if err := publish(ctx, events); err != nil {
				return nil, nil, fmt.Errorf("bench: %w", err)
			}
			*list = append(*list, time.Since(at).Seconds())
		}
	}
	return ones, others, nil
}

// batch makes events that nobody published before.
func (b *bare) batch(size int, keyed bool) []protocol.Event {
	events := make([]protocol.Event, size)
	for i := range events {
		b.next++
		key := ""
		if keyed {
			key = fmt.Sprintf("key-%d", b.next%1000)
		}
		events[i] = event(b.next, key)
	}
	return events
}

func (b *bare) unnest(ctx context.Context, events []protocol.Event) error {
	n := len(events)
	ids, types, keys, payloads := make([]string, n), make([]string, n), make([]*string, n), make([][]byte, n)
	for i := range events {
		e := &events[i]
		ids[i], types[i], payloads[i] = e.ID, e.Type, e.Payload
		if e.Key != "" {
			keys[i] = &e.Key
		}
	}
	return b.store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, b.text, ids, types, keys, payloads)
		return err
	})
}

// two inserts an event and its delivery in two statements.
func (b *bare) two(ctx context.Context, events []protocol.Event) error {
	e := &events[0]
	return b.store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var seq int64
		err := tx.QueryRow(ctx, "insert into "+b.schema+".bare_events (id, type, payload, handlers) values ($1, $2, $3, $4) returning seq",
			e.ID, e.Type, e.Payload, []string{handlerName}).Scan(&seq)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "insert into "+b.schema+".bare_deliveries (id, event_seq, handler, lane) values (nextval('"+b.schema+".bare_ids'), $1, $2, $3)",
			seq, handlerName, seq%256)
		return err
	})
}

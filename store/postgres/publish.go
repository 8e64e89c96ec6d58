package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// publication is the events of one Publish, each id once, one slice per
// column.
type publication struct {
	ids, types []string
	keys       []*string
	payloads   [][]byte
	headers    []*string
	dues       []protocol.Due

	batch *picks.Batch
}

// Publish writes events and a delivery per subscribed handler inside tx, in
// one round trip. An id that is known already gets deliveries for the handlers
// it never had one for; with another type or key it adds nothing and the
// result says Mismatch.
//
// Publish.tla, action Publish. Locks: slots in slot order, then events in id
// order, held until the caller commits. Publish once and last in a
// transaction: several calls may deadlock with another application, which
// surfaces as [engine.ErrRetryable].
func (s *Store) Publish(ctx context.Context, tx pgx.Tx, events []protocol.Event) ([]engine.PublishResult, error) {
	if len(events) == 0 {
		return nil, nil
	}
	p, err := newPublication(events)
	if err != nil {
		return nil, err
	}
	s.options.Hook(ctx, "publish", "publish")
	for written := false; !written; {
		set, err := s.subscribersFor(ctx, tx)
		if err == nil {
			written, err = s.write(ctx, tx, p, set)
		}
		if err != nil {
			return nil, classify("publish", err)
		}
		if !written {
			s.subscribers.CompareAndSwap(set, nil)
		}
	}
	return p.batch.Results(), nil
}

// write sends the statements; it reports false when the set of subscriptions
// is not the one of now, and nothing was written.
func (s *Store) write(ctx context.Context, tx pgx.Tx, p *publication, set *subscribers) (written bool, err error) {
	b := &pgx.Batch{}
	if len(p.batch.Slots) > 0 {
		b.Queue(s.sql.named("lock_slots"), p.batch.Slots, max(s.options.PublishIdle, 0).Milliseconds()).QueryRow(p.readSlots)
	}
	handlers, list := set.deliveries(p)
	b.Queue(s.sql.named("publish"), p.ids, p.types, someOf(p.keys), p.payloads, someOf(p.headers), handlers,
		pgtype.UUID{Bytes: set.version, Valid: true}, list.ids, list.handlers, list.lanes, someOf(list.dues), someOf(list.delays)).Query(func(rows pgx.Rows) error {
		written, err = p.read(rows)
		return err
	})
	err = tx.SendBatch(ctx, b).Close()
	return written, err
}

// someOf returns a column, or null when nothing stands in it: unnest fills it
// up, and large batches do not carry it.
func someOf[V any](column []*V) []*V {
	if slices.ContainsFunc(column, func(v *V) bool { return v != nil }) {
		return column
	}
	return nil
}

func newPublication(events []protocol.Event) (*publication, error) {
	batch, err := picks.NewBatch(events)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	p := &publication{batch: batch}
	for _, e := range batch.Events {
		if err := p.add(e); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *publication) add(e *protocol.Event) error {
	var key, headers *string
	if e.Key != "" {
		key = &e.Key
	}
	if len(e.Headers) > 0 {
		text, err := json.Marshal(headerPairs(e.Headers))
		if err != nil {
			return fmt.Errorf("postgres: publish: %w: headers of event %q: %w", engine.ErrInvalid, e.ID, err)
		}
		list := string(text)
		headers = &list
	}
	payload := e.Payload
	if payload == nil {
		payload = []byte{}
	}
	p.ids, p.types, p.keys = append(p.ids, e.ID), append(p.types, e.Type), append(p.keys, key)
	p.payloads, p.headers, p.dues = append(p.payloads, payload), append(p.headers, headers), append(p.dues, e.Due)
	return nil
}

func headerPairs(headers []protocol.Header) [][2]string {
	list := make([][2]string, len(headers))
	for i, h := range headers {
		list[i] = [2]string{h.Name, h.Value}
	}
	return list
}

// readSlots sees that every key had its slot to lock.
func (p *publication) readSlots(row pgx.Row) error {
	var locked int
	var limit *string
	if err := row.Scan(&locked, &limit); err != nil {
		return err
	}
	if locked != len(p.batch.Slots) {
		return fmt.Errorf("%d of %d slots are missing: relaybus migrate validate says how to mend them", len(p.batch.Slots)-locked, len(p.batch.Slots))
	}
	return nil
}

// read takes the events that were known; every other one was added.
func (p *publication) read(rows pgx.Rows) (written bool, err error) {
	for i := range p.ids {
		p.batch.Say(i, protocol.Added)
	}
	for rows.Next() {
		var id, typ, key *string
		var known, handlers *int
		if err := rows.Scan(&written, &id, &typ, &key, &known, &handlers); err != nil {
			return false, err
		}
		if id == nil {
			continue
		}
		j, given := p.batch.Place(*id)
		if !given {
			return false, fmt.Errorf("the server returned event %q, which was not published", *id)
		}
		stands := protocol.Event{Type: *typ}
		if key != nil {
			stands.Key = *key
		}
		p.batch.Say(j, picks.Compare(&stands, p.batch.Events[j], *handlers != *known))
	}
	return written, rows.Err()
}

// scanEvent reads a row of an event: seq, id, type, key, payload, headers,
// published_at, handlers.
func scanEvent(rows pgx.Rows) (int64, *protocol.Event, error) {
	e := &protocol.Event{}
	var seq int64
	var key *string
	var headers []byte
	var published time.Time
	if err := rows.Scan(&seq, &e.ID, &e.Type, &key, &e.Payload, &headers, &published, &e.Handlers); err != nil {
		return 0, nil, err
	}
	if key != nil {
		e.Key = *key
	}
	slices.Sort(e.Handlers) // a set; the row keeps the order in which they were added
	e.PublishedAt = stored(published)
	return seq, e, setHeaders(e, headers)
}

// setHeaders reads the stored form of headers.
func setHeaders(e *protocol.Event, text []byte) error {
	if text == nil {
		return nil
	}
	var pairs [][2]string
	if err := json.Unmarshal(text, &pairs); err != nil {
		return fmt.Errorf("event %q: headers: %w", e.ID, err)
	}
	for _, h := range pairs {
		e.Headers = append(e.Headers, protocol.Header{Name: h[0], Value: h[1]})
	}
	return nil
}

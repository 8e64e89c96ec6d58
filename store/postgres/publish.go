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
)

// publication is the events of one Publish, each id once, one slice per
// column.
type publication struct {
	ids, types []string
	keys       []*string
	payloads   [][]byte
	headers    []*string
	delays     []pgtype.Interval
	dues       []*time.Time
	lanes      []int32
	slots      []int32

	results []engine.PublishResult // per entry
	entry   []int                  // per event given
}

// Publish writes events and a delivery per subscribed handler inside tx, in
// one statement. An id that is known already gets deliveries for the handlers
// it never had one for; with another type or key it adds nothing and the
// result says Mismatch.
//
// Publish.tla, action Publish. Locks: events in id order, then slots in slot
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
	rows, err := tx.Query(ctx, s.sql.named("publish"), p.ids, p.types, p.keys, p.payloads, p.headers, p.delays, p.dues,
		p.lanes, p.slots, protocol.DefaultLanes, max(s.options.PublishIdle, 0).Milliseconds())
	if err == nil {
		err = p.read(rows)
	}
	if err != nil {
		return nil, classify("publish", err)
	}
	return p.conclude(events), nil
}

func newPublication(events []protocol.Event) (*publication, error) {
	p := &publication{entry: make([]int, len(events))}
	byID := make(map[string]int, len(events))
	for i := range events {
		e := &events[i]
		if e.ID == "" {
			return nil, fmt.Errorf("postgres: publish: %w: event without an id", engine.ErrInvalid)
		}
		j, known := byID[e.ID]
		if !known {
			j = len(p.ids)
			byID[e.ID] = j
			if err := p.add(e); err != nil {
				return nil, err
			}
		}
		p.entry[i] = j
	}
	p.results = make([]engine.PublishResult, len(p.ids))
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
	p.payloads, p.headers = append(p.payloads, payload), append(p.headers, headers)
	p.delays = append(p.delays, interval(max(e.Due.Delay, 0)))
	var due *time.Time
	if e.Due.At != 0 {
		at := e.Due.At.Std()
		due = &at
	}
	p.dues = append(p.dues, due)
	p.lanes = append(p.lanes, int32(protocol.LaneOf(0, protocol.DefaultLanes, e.Key, e.ID)))
	p.slots = append(p.slots, protocol.SlotOf(e.Key))
	return nil
}

func headerPairs(headers []protocol.Header) [][2]string {
	list := make([][2]string, len(headers))
	for i, h := range headers {
		list[i] = [2]string{h.Name, h.Value}
	}
	return list
}

func (p *publication) read(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var n, known, handlers int
		var same bool
		if err := rows.Scan(&n, &known, &handlers, &same); err != nil {
			return err
		}
		switch {
		case !same:
			p.results[n-1] = protocol.Mismatch
		case known >= 0 && handlers == known:
			p.results[n-1] = protocol.Known
		default:
			p.results[n-1] = protocol.Added
		}
	}
	return rows.Err()
}

// conclude returns the results in input order. An id that stood twice in the
// batch is Known the second time.
func (p *publication) conclude(events []protocol.Event) []engine.PublishResult {
	results := make([]engine.PublishResult, len(events))
	first := make([]bool, len(p.ids))
	for i, j := range p.entry {
		key := ""
		if p.keys[j] != nil {
			key = *p.keys[j]
		}
		switch {
		case !first[j]:
			results[i] = p.results[j]
			first[j] = true
		case p.types[j] != events[i].Type || key != events[i].Key:
			results[i] = protocol.Mismatch
		case p.results[j] == protocol.Added:
			results[i] = protocol.Known
		default:
			results[i] = p.results[j]
		}
	}
	return results
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

package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// look runs fn in one read-only snapshot, which is of the time now. Plans are made for the arguments,
// so that a filter that is not given costs nothing; compiling them would cost
// more than it saves.
func (s *Store) look(ctx context.Context, call string, fn func(tx pgx.Tx, now protocol.Time) error) error {
	conn, err := s.acquire(ctx, call)
	if err != nil {
		return err
	}
	defer conn.Release()
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error {
		const settings = "select now(), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)"
		var now protocol.Time
		if err := tx.QueryRow(ctx, settings).Scan(scanTime{&now}, nil, nil); err != nil {
			return err
		}
		return fn(tx, now)
	})
	if err != nil {
		return classify(call, err)
	}
	return nil
}

// each scans the rows of a statement one by one.
func (s *Store) each(ctx context.Context, tx pgx.Tx, name string, row func(rows pgx.Rows) error, args ...any) error {
	rows, err := tx.Query(ctx, s.sql.named(name), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// List returns deliveries by id, a page at a time.
func (s *Store) List(ctx context.Context, in engine.ListInput) (engine.ListReply, error) {
	if in.Limit < 0 || in.Limit > engine.MaxList {
		return engine.ListReply{}, fmt.Errorf("postgres: list: %w: limit %d, at most %d", engine.ErrInvalid, in.Limit, engine.MaxList)
	}
	if in.Limit == 0 {
		in.Limit = engine.DefaultList
	}
	var reply engine.ListReply
	asked := in
	asked.Limit++ // the row behind the page says whether there is another
	err := s.look(ctx, "list", func(tx pgx.Tx, now protocol.Time) error {
		reply.Now = now
		return s.each(ctx, tx, "list", func(rows pgx.Rows) error {
			l, err := scanListed(rows)
			reply.Deliveries = append(reply.Deliveries, l)
			return err
		}, listArguments(asked)...)
	})
	if len(reply.Deliveries) > in.Limit {
		reply.Deliveries = reply.Deliveries[:in.Limit]
		reply.Next = reply.Deliveries[in.Limit-1].Delivery.ID
	}
	return reply, err
}

// listArguments are those of list.sql.
func listArguments(in engine.ListInput) []any {
	f := &in.Filter
	var status *int16
	if f.Status != nil {
		n := int16(*f.Status)
		status = &n
	}
	return []any{int64(in.After), in.Limit, orNull(f.Handler), orNull(f.Key), orNull(f.EventType), orNull(f.EventID), status,
		timeOrNull(f.DiedSince), timeOrNull(f.DiedUntil)}
}

// scanTime scans a time of the server; null leaves it 0.
type scanTime struct{ to *protocol.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (s scanTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	*s.to = 0
	if v.Valid {
		*s.to = stored(v.Time)
	}
	return nil
}

// scanText scans a text; null leaves it empty.
type scanText struct{ to *string }

// ScanText implements pgtype.TextScanner.
func (s scanText) ScanText(v pgtype.Text) error {
	*s.to = v.String
	return nil
}

func scanListed(rows pgx.Rows) (engine.Listed, error) {
	var l engine.Listed
	d := &l.Delivery
	var status int16
	var owner, id, kind *string
	var seq *int64
	e := &protocol.Event{}
	var headers []byte
	err := rows.Scan(&d.ID, &d.Handler, &d.Lane, scanText{&d.Key}, &status, scanTime{&d.AvailableAt}, &d.Attempts, &d.Takeovers,
		&d.LastError, scanTime{&d.DiedAt}, &owner, &seq, &id, &kind, scanText{&e.Key}, &e.Payload, &headers,
		scanTime{&e.PublishedAt}, &e.Handlers)
	if err != nil {
		return l, err
	}
	d.Status, d.Sequence = protocol.Status(status), int64(d.ID)
	if owner != nil {
		l.Running, l.Owner = true, *owner
	}
	if id != nil {
		e.ID, e.Type, d.Event = *id, *kind, *id
		slices.Sort(e.Handlers) // as scanEvent
		l.Event = e
		return l, setHeaders(e, headers)
	}
	return l, nil
}

// Statistics counts what the store holds, in one snapshot.
func (s *Store) Statistics(ctx context.Context) (engine.Statistics, error) {
	var t engine.Statistics
	err := s.look(ctx, "statistics", func(tx pgx.Tx, _ protocol.Time) error {
		err := tx.QueryRow(ctx, s.sql.named("statistics")).Scan(scanTime{&t.Now}, &t.Events, &t.Completed, &t.Running, &t.Waiting,
			&t.Stuck, &t.Held, &t.Expired)
		if err != nil {
			return err
		}
		return s.each(ctx, tx, "statistics_by_handler", func(rows pgx.Rows) error {
			var h engine.HandlerStatistics
			var oldest protocol.Time
			if err := rows.Scan(&h.Handler, &h.Pending, &h.Due, scanTime{&oldest}, &h.Dead, scanTime{&h.SeenAt}, &h.Subscribed, &h.Removed); err != nil {
				return err
			}
			t.Handlers = append(t.Handlers, h)
			t.Pending += h.Pending
			t.Due += h.Due
			t.Dead += h.Dead
			if oldest != 0 && (t.OldestDue == 0 || oldest < t.OldestDue) {
				t.OldestDue = oldest
			}
			return nil
		})
	})
	return t, err
}

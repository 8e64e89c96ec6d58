package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Purge deletes old rows in batches of one transaction each, every batch
// repeating its condition on the rows that it deletes, and sweeps again what
// was published meanwhile for handlers that were removed. When a batch fails,
// what the earlier ones did stands, and the reply counts it.
//
// Operate.tla, action Purge.
func (s *Store) Purge(ctx context.Context, in engine.PurgeInput) (engine.PurgeReply, error) {
	return s.PurgeWith(ctx, in, func(engine.PurgeReply) {})
}

// PurgeWith is Purge that tells after each batch what was done so far.
func (s *Store) PurgeWith(ctx context.Context, in engine.PurgeInput, progress func(engine.PurgeReply)) (engine.PurgeReply, error) {
	p := &purge{s: s, PurgeInput: in, progress: progress}
	if in.DeadAfter < 0 || in.EventsAfter < 0 || in.HistoryAfter < 0 || in.Batch < 0 {
		return p.done, fmt.Errorf("postgres: purge: %w: negative age or batch: %+v", engine.ErrInvalid, in)
	}
	if p.Batch == 0 {
		p.Batch = engine.DefaultBatch
	}
	for _, part := range []func(context.Context) error{p.sweepRemoved, p.dead, p.events, p.history} {
		if err := part(ctx); errors.Is(err, errBusy) {
			return p.done, nil
		} else if err != nil {
			return p.done, err
		}
	}
	return p.done, nil
}

// errBusy: another purge is at work, and this one yields.
var errBusy = engine.Definite(errors.New("another purge is at work"))

// transact runs a batch. Whoever yields takes a lock that lives as long as the
// batch's transaction, which a transaction pooler keeps together.
func (p *purge) transact(ctx context.Context, fn func(w *work) error) error {
	return p.s.transact(ctx, "purge", false, mostWait, func(w *work) error {
		if p.Yield {
			alone := true
			w.later("yield", func(rows pgx.Rows) error {
				for rows.Next() {
					if err := rows.Scan(&alone); err != nil {
						return err
					}
				}
				return rows.Err()
			}, p.s.options.Schema)
			if err := w.send(ctx); err != nil {
				return err
			}
			if !alone {
				return errBusy
			}
		}
		return fn(w)
	})
}

// purge is one Purge call at work.
type purge struct {
	s *Store
	engine.PurgeInput
	done     engine.PurgeReply
	progress func(engine.PurgeReply)
}

// sweepRemoved repeats the sweep of Unsubscribe: a publisher may have been
// open when the handler was removed. What it finds becomes dead letters.
func (p *purge) sweepRemoved(ctx context.Context) error {
	removed, err := p.removed(ctx)
	if err != nil {
		return err
	}
	for _, h := range removed {
		r := &removing{s: p.s, handler: h, bury: true, batch: p.Batch, again: true}
		if err := r.all(ctx, &p.done.Swept); err != nil {
			return err
		}
	}
	return nil
}

// removed returns the handlers that were removed.
func (p *purge) removed(ctx context.Context) (list []protocol.EventHandler, err error) {
	conn, err := p.s.acquire(ctx, "purge")
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, p.s.sql.named("removed"))
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[protocol.EventHandler])
	}
	if err != nil {
		return nil, classify("purge", err)
	}
	return list, nil
}

// batches runs a statement of one age until a batch was not full.
func (p *purge) batches(ctx context.Context, name string, after time.Duration, total *int) error {
	for after > 0 {
		var n *int
		err := p.transact(ctx, func(w *work) error {
			w.pause(ctx, name)
			n = w.counted(name, interval(after), p.Batch)
			return nil
		})
		if err != nil {
			return err
		}
		*total += *n
		p.progress(p.done)
		if *n < p.Batch {
			return nil
		}
	}
	return nil
}

func (p *purge) dead(ctx context.Context) error {
	return p.batches(ctx, "purge_dead", p.DeadAfter, &p.done.Dead)
}

func (p *purge) history(ctx context.Context) error {
	return p.batches(ctx, "purge_history", p.HistoryAfter, &p.done.History)
}

// events walks over the events in the order they were published, as far as
// they are old.
func (p *purge) events(ctx context.Context) error {
	for cursor := int64(0); p.EventsAfter > 0; {
		w, err := p.window(ctx, cursor)
		if err != nil || !w.anyOld {
			return err
		}
		cursor = w.last
		n, err := p.deleteEvents(ctx, w.bare)
		p.done.Events += n
		p.progress(p.done)
		if err != nil {
			return err
		}
	}
	return nil
}

// window is a stretch of events.
type window struct {
	last   int64
	anyOld bool
	bare   []int64 // old, and without a delivery
}

func (p *purge) window(ctx context.Context, cursor int64) (w window, err error) {
	conn, err := p.s.acquire(ctx, "purge")
	if err != nil {
		return w, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, p.s.sql.named("old_events"), cursor, p.Batch, interval(p.EventsAfter))
	if err != nil {
		return w, classify("purge", err)
	}
	defer rows.Close()
	for rows.Next() {
		var old, bare bool
		if err := rows.Scan(&w.last, &old, &bare); err != nil {
			return w, classify("purge", err)
		}
		w.anyOld = w.anyOld || old
		if old && bare {
			w.bare = append(w.bare, w.last)
		}
	}
	if err := rows.Err(); err != nil {
		return w, classify("purge", err)
	}
	return w, nil
}

// deleteEvents locks the events first and looks for deliveries in a later
// statement.
func (p *purge) deleteEvents(ctx context.Context, seqs []int64) (int, error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	var deleted *int
	err := p.transact(ctx, func(w *work) error {
		w.pause(ctx, "purge_events")
		var locked []int64
		w.later("lock_events", func(rows pgx.Rows) (err error) {
			locked, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		}, seqs)
		if err := w.send(ctx); err != nil {
			return err
		}
		deleted = w.counted("purge_events", locked)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return *deleted, nil
}

package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Requeue brings dead letters back to pending, in batches of one transaction
// each. By a filter it walks over the ids once, so that a delivery that dies
// again meanwhile is not requeued for ever. When a batch fails, what the
// earlier ones did stands, and the reply counts it.
//
// Operate.tla, action Requeue. Locks: the lanes FOR KEY SHARE, ascending, then
// the deliveries, ascending.
func (s *Store) Requeue(ctx context.Context, in engine.RequeueInput) (engine.RequeueReply, error) {
	return s.RequeueWith(ctx, in, func(engine.RequeueReply) {})
}

// RequeueWith is Requeue that tells after each batch what was done so far.
func (s *Store) RequeueWith(ctx context.Context, in engine.RequeueInput, progress func(engine.RequeueReply)) (engine.RequeueReply, error) {
	var reply engine.RequeueReply
	switch {
	case in.Limit < 0:
		return reply, fmt.Errorf("postgres: requeue: %w: limit %d", engine.ErrInvalid, in.Limit)
	case len(in.IDs) == 0 && in.Filter == (engine.Filter{}) && !in.All:
		return reply, fmt.Errorf("postgres: requeue: %w: a filter that selects everything needs All", engine.ErrInvalid)
	}
	if in.Filter.Status != nil && *in.Filter.Status != protocol.Dead {
		return reply, nil
	}
	q := &requeueing{s: s, in: &in, ids: slices.Clone(in.IDs)}
	slices.Sort(q.ids)
	q.ids = slices.Compact(q.ids)
	for in.Limit == 0 || reply.Requeued < in.Limit {
		batch, err := q.next(ctx)
		if err != nil || len(batch) == 0 {
			return reply, err
		}
		n, err := q.requeue(ctx, batch, in.Limit-reply.Requeued)
		reply.Requeued += n
		progress(reply)
		if err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// requeueing is one Requeue call at work.
type requeueing struct {
	s      *Store
	in     *engine.RequeueInput
	ids    []protocol.DeliveryID // left of those named
	cursor protocol.DeliveryID
}

// next returns the ids of the next batch, ascending.
func (q *requeueing) next(ctx context.Context) ([]protocol.DeliveryID, error) {
	if len(q.in.IDs) > 0 {
		n := min(len(q.ids), engine.DefaultBatch)
		batch := q.ids[:n]
		q.ids = q.ids[n:]
		return batch, nil
	}
	f := &q.in.Filter
	conn, err := q.s.acquire(ctx, "requeue")
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, q.s.sql.named("find_dead"), int64(q.cursor), engine.DefaultBatch,
		orNull(f.Handler), orNull(f.Key), orNull(f.EventType), orNull(f.EventID), timeOrNull(f.DiedSince), timeOrNull(f.DiedUntil))
	var batch []protocol.DeliveryID
	if err == nil {
		batch, err = pgx.CollectRows(rows, pgx.RowTo[protocol.DeliveryID])
	}
	if err != nil {
		return nil, classify("requeue", err)
	}
	if len(batch) > 0 {
		q.cursor = batch[len(batch)-1]
	}
	return batch, nil
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func timeOrNull(t protocol.Time) *time.Time {
	if t == 0 {
		return nil
	}
	// Times of the server are whole microseconds: a bound in between means
	// the next one.
	at := t.Add(time.Microsecond - 1).Std().Truncate(time.Microsecond)
	return &at
}

func (q *requeueing) requeue(ctx context.Context, batch []protocol.DeliveryID, left int) (int, error) {
	var since, until *time.Time
	if len(q.in.IDs) == 0 {
		since, until = timeOrNull(q.in.Filter.DiedSince), timeOrNull(q.in.Filter.DiedUntil)
	}
	if q.in.Limit == 0 {
		left = len(batch)
	}
	return q.s.exec(ctx, "requeue", func(w *work) *int { return w.counted("requeue", batch, since, until, left) })
}

// counted queues a statement whose affected rows are counted.
func (w *work) counted(name string, args ...any) *int {
	n := new(int)
	w.later(name, func(rows pgx.Rows) error {
		rows.Close()
		*n = int(rows.CommandTag().RowsAffected())
		return rows.Err()
	}, args...)
	return n
}

// exec runs one statement in a transaction of its own.
func (s *Store) exec(ctx context.Context, call string, queue func(w *work) *int) (int, error) {
	var n *int
	err := s.transact(ctx, call, false, mostWait, func(w *work) error {
		n = queue(w)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return *n, nil
}

// unsubscribed is the reason that a swept delivery died of.
const unsubscribed = "unsubscribed"

// Unsubscribe marks a handler of an event type as removed and buries or
// deletes what is pending for it, in batches: when one fails, what the earlier
// ones did stands, and the reply counts it.
//
// Operate.tla, action Unsubscribe. Locks: as [Store.Requeue], behind the
// subscription.
func (s *Store) Unsubscribe(ctx context.Context, in engine.UnsubscribeInput) (engine.UnsubscribeReply, error) {
	var reply engine.UnsubscribeReply
	r := &removing{s: s, handler: in.EventHandler, bury: in.Bury, batch: engine.DefaultBatch}
	err := r.all(ctx, &reply.Swept)
	return reply, err
}

// removing is the removal of one handler at work.
type removing struct {
	s       *Store
	handler protocol.EventHandler
	bury    bool
	batch   int
	again   bool // it was removed before; one that was revived since is left alone
	cursor  int64
}

func (r *removing) all(ctx context.Context, swept *int) error {
	for {
		found, err := r.one(ctx)
		for _, f := range found {
			r.cursor = max(r.cursor, f.ID)
			if f.Swept {
				*swept++
			}
		}
		if err != nil || len(found) < r.batch {
			return err
		}
	}
}

// pending is a delivery that a sweep found pending. One that was ended before
// it could be locked was not swept.
type pending struct {
	ID    int64
	Swept bool
}

// one marks the handler and sweeps one batch.
func (r *removing) one(ctx context.Context) (found []pending, err error) {
	err = r.s.transact(ctx, "unsubscribe", false, mostWait, func(w *work) error {
		marked := w.counted("mark_removed", r.handler.Event, r.handler.Handler, r.again)
		if err := w.send(ctx); err != nil {
			return err
		}
		if *marked == 0 && r.again {
			return nil
		}
		if *marked == 0 {
			return fmt.Errorf("postgres: unsubscribe: %w: no subscription of %q to %q", engine.ErrInvalid, r.handler.Handler, r.handler.Event)
		}
		name, args := "sweep_delete", []any{r.handler.Event, r.handler.Handler, r.cursor, r.batch}
		if r.bury {
			name, args = "sweep_bury", append(args, unsubscribed)
		}
		w.later(name, func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[pending])
			return err
		}, args...)
		return w.send(ctx)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

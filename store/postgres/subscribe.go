package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// Subscribe writes the subscriptions of a bus and creates the lanes of its
// group when they are missing. A handler belongs to the group of its first
// subscription; another group is refused with a definite error. The first call
// checks the version of the schema: see [ErrSchema].
//
// Operate.tla, action Subscribe. Locks: the subscriptions, in order; for what
// is missing in another transaction, behind the table of groups.
func (s *Store) Subscribe(ctx context.Context, in engine.SubscribeInput) (engine.SubscribeReply, error) {
	j := &joining{in: &in, reply: engine.SubscribeReply{Lanes: protocol.DefaultLanes}}
	handlers := slices.Clone(in.Handlers)
	slices.SortFunc(handlers, func(a, b engine.EventHandler) int {
		return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(a.Handler, b.Handler))
	})
	for _, h := range slices.Compact(handlers) {
		j.types, j.handlers = append(j.types, h.Event), append(j.handlers, h.Handler)
	}
	err := s.checkOnce(ctx)
	if err != nil {
		return j.reply, err
	}
	err = s.transact(ctx, "subscribe", false, mostWait, func(w *work) error { return j.again(ctx, w) })
	if errors.Is(err, errMissing) {
		err = s.transact(ctx, "subscribe", false, mostWait, func(w *work) error { return j.anew(ctx, w) })
	}
	return j.reply, err
}

// joining is one Subscribe call at work.
type joining struct {
	in       *engine.SubscribeInput
	types    []string
	handlers []string
	reply    engine.SubscribeReply
	lanes    int
	known    int
}

// errMissing: there is something to make, and the transaction is undone.
var errMissing = engine.Definite(errors.New("not all subscriptions are there"))

// again notes that a bus is there which the store knows. For one that it does
// not it gives its locks back: whoever waits for the lock of the groups must
// hold no subscription, or the one who has that lock may wait for it.
func (j *joining) again(ctx context.Context, w *work) error {
	err := j.refresh(ctx, w)
	if err == nil && (j.reply.Group < 0 || j.lanes != protocol.DefaultLanes || j.known != len(j.handlers)) {
		err = errMissing
	}
	return err
}

// anew makes what is missing.
func (j *joining) anew(ctx context.Context, w *work) error {
	w.queue.Queue("lock table " + quoted(w.s.options.Schema) + ".groups in share row exclusive mode")
	other := ""
	w.later("groups_of", func(rows pgx.Rows) error {
		for rows.Next() {
			var handler, group string
			if err := rows.Scan(&handler, &group); err != nil {
				return err
			}
			other = fmt.Sprintf("handler %q belongs to group %q, not %q", handler, group, j.in.Group)
		}
		return rows.Err()
	}, j.handlers, j.in.Group)
	if err := w.send(ctx); err != nil {
		return err
	}
	if other != "" {
		return engine.Definite(fmt.Errorf("postgres: subscribe: %s: move it while its lanes are drained, or set Config.Group", other))
	}
	w.later("subscribe", nil, j.in.Group, j.types, j.handlers, j.in.Revive, protocol.DefaultLanes)
	return j.refresh(ctx, w)
}

// refresh notes that the bus is there, and reads what of it the store knows.
func (j *joining) refresh(ctx context.Context, w *work) error {
	j.known, j.reply.Removed = 0, nil
	w.later("refresh", func(rows pgx.Rows) error {
		for rows.Next() {
			var now time.Time
			var event, handler *string
			var removed *bool
			if err := rows.Scan(&j.reply.Group, &j.lanes, &now, &event, &handler, &removed); err != nil {
				return err
			}
			j.reply.Now = stored(now)
			if event == nil {
				continue
			}
			j.known++
			if *removed {
				j.reply.Removed = append(j.reply.Removed, engine.EventHandler{Event: *event, Handler: *handler})
			}
		}
		return rows.Err()
	}, j.in.Group, j.types, j.handlers, j.in.Revive, protocol.DefaultLanes)
	return w.send(ctx)
}

// clock asks for the server's clock.
func (s *Store) clock(ctx context.Context) (protocol.Time, error) {
	conn, err := s.acquire(ctx, "clock")
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	var now time.Time
	if err := conn.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
		return 0, classify("clock", err)
	}
	return stored(now), nil
}

// withClock sets a reply's clock where the call itself read none. What the call
// did stands, whatever becomes of the question.
func (s *Store) withClock(ctx context.Context, now *engine.StoreTime, err error) error {
	if err == nil && *now == 0 {
		if *now, err = s.clock(ctx); err != nil {
			err = inDoubt("clock", err)
		}
	}
	return err
}

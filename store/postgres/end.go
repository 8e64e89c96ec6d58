package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// ending is an end that keeps the row: Reschedule, Snooze or Bury.
type ending struct {
	name  string // of the statement
	lease engine.Lease
	rest  []engine.Lease
	args  func(text string) []any // what the statement takes beside the lease
	text  string                  // the error to record
	stuck bool                    // a row that the server refuses goes to the lane's stuck
}

// Reschedule ends a failed run: charged, due again after the delay.
func (s *Store) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	return s.end(ctx, in.Settle, &ending{
		name: "reschedule", lease: in.Lease, rest: in.Rest, text: in.Error, stuck: true,
		args: func(text string) []any { return []any{interval(in.Delay), text} },
	})
}

// Snooze ends a run without a charge. With Settle it first waits for a handler
// transaction of the same delivery that may still be open.
func (s *Store) Snooze(ctx context.Context, in engine.SnoozeInput) (engine.EndReply, error) {
	return s.end(ctx, in.Settle, &ending{
		name: "snooze", lease: in.Lease, rest: in.Rest,
		args: func(string) []any { return []any{interval(in.Delay)} },
	})
}

// Bury ends a run for good.
func (s *Store) Bury(ctx context.Context, in engine.BuryInput) (engine.EndReply, error) {
	return s.end(ctx, false, &ending{
		name: "bury", lease: in.Lease, rest: in.Rest, text: in.Error, stuck: true,
		args: func(text string) []any { return []any{in.Charge, text} },
	})
}

// end performs one end that keeps the row. What the server refuses for good is
// tried again with a text that any database can hold, and then noted as stuck:
// the failure is recorded either way.
//
// Finish.tla, actions Reschedule, Snooze and Bury. Locks: the lane FOR NO KEY
// UPDATE, then the delivery.
func (s *Store) end(ctx context.Context, settle bool, e *ending) (engine.EndReply, error) {
	if settle {
		if err := s.settle(ctx, e.lease.Delivery); err != nil {
			return engine.EndReply{}, err
		}
	}
	reply, err := s.endOnce(ctx, e, e.name, e.args(engine.CleanText(e.text)))
	if !engine.IsDefinite(err) || !e.stuck {
		return reply, err
	}
	if reply, again := s.endOnce(ctx, e, e.name, e.args(plain(e.text))); !engine.IsDefinite(again) {
		return reply, again
	}
	if _, again := s.endOnce(ctx, e, "leave_stuck", nil); again != nil {
		return engine.EndReply{}, again
	}
	return engine.EndReply{}, err
}

// mostPlain bounds an error text that is kept when the full one is refused.
const mostPlain = 256

// plain returns the text in printable ASCII, cut short: every database
// encoding holds it.
func plain(text string) string {
	b := make([]byte, 0, mostPlain)
	for i := 0; i < len(text) && len(b) < mostPlain; i++ {
		c := text[i]
		if c < ' ' || c > '~' {
			c = '?'
		}
		b = append(b, c)
	}
	return string(b)
}

func (s *Store) endOnce(ctx context.Context, e *ending, name string, args []any) (engine.EndReply, error) {
	l := &e.lease
	var restIDs, restClaims []int64
	for i := range e.rest {
		r := &e.rest[i]
		if r.Lane == l.Lane && r.Epoch == l.Epoch && r.Holder == l.Holder {
			restIDs, restClaims = append(restIDs, int64(r.Delivery)), append(restClaims, r.Claim)
		}
	}
	all := []any{l.Lane, l.Epoch, uuid(l.Holder), int64(l.Delivery), l.Claim, int64(l.After), restIDs, restClaims}
	var reply engine.EndReply
	err := s.transact(ctx, e.name, false, mostWait, func(w *work) error {
		w.pause(ctx, "end")
		w.later(name, func(rows pgx.Rows) error {
			for rows.Next() {
				var ended int
				var now time.Time
				if err := rows.Scan(&ended, &now); err != nil {
					return err
				}
				reply.Now = stored(now)
				if ended > 0 {
					reply.Verdict = protocol.Applied
				}
			}
			return rows.Err()
		}, append(all, args...)...)
		return nil
	})
	return reply, err
}

// settle waits for a handler transaction that may still be open: it holds the
// row that it deleted. No lane lock is held meanwhile.
func (s *Store) settle(ctx context.Context, id protocol.DeliveryID) error {
	return s.transact(ctx, "settle", false, mostWait, func(w *work) error {
		w.later("settle", nil, int64(id))
		return nil
	})
}

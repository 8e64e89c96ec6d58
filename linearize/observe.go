package linearize

import (
	"context"
	"errors"
	"slices"

	"github.com/relaybus-go/relaybus/engine"
)

// Observe wraps a store so that every call through it is recorded. client
// groups the calls, one number per bus instance; now reads the clock that all
// observers of a history share, and a counter is fine. What the store offers
// beside engine.TxStore is hidden.
//
// Transactions are seen through InTx alone. A Publish or Complete in another
// transaction is recorded as open, since nobody says whether it committed. The
// effects of handlers are noted with [NoteEffect].
func Observe[Tx any](store engine.TxStore[Tx], h *History, client int, now func() int64) engine.TxStore[Tx] {
	return observe(store, store.Publish, h, client, now)
}

// observer is generic in the type of events, which the engine does not name:
// it is inferred from the store's Publish.
type observer[Tx, E any] struct {
	store   engine.TxStore[Tx]
	publish func(context.Context, Tx, []E) ([]engine.PublishResult, error)
	h       *History
	client  int
	now     func() int64
}

func observe[Tx, E any](store engine.TxStore[Tx], publish func(context.Context, Tx, []E) ([]engine.PublishResult, error),
	h *History, client int, now func() int64) engine.TxStore[Tx] {
	return any(&observer[Tx, E]{store, publish, h, client, now}).(engine.TxStore[Tx])
}

// recorded makes one call and records it.
func recorded[Tx, E, In, Out any](s *observer[Tx, E], ctx context.Context, in In, kept In,
	method func(context.Context, In) (Out, error)) (Out, error) {
	call := s.h.Begin(s.client, s.now(), kept)
	out, err := method(ctx, in)
	call.End(s.now(), out, err)
	return out, err
}

// Subscribe implements [engine.Store].
func (s *observer[Tx, E]) Subscribe(ctx context.Context, in engine.SubscribeInput) (engine.SubscribeReply, error) {
	kept := in
	kept.Handlers = slices.Clone(in.Handlers)
	return recorded(s, ctx, in, kept, s.store.Subscribe)
}

// Claim implements [engine.Store].
func (s *observer[Tx, E]) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	kept := in
	kept.Held, kept.LetExpire, kept.Draining = slices.Clone(in.Held), slices.Clone(in.LetExpire), slices.Clone(in.Draining)
	kept.Running = slices.Clone(in.Running)
	return recorded(s, ctx, in, kept, s.store.Claim)
}

// ExtendLease implements [engine.Store].
func (s *observer[Tx, E]) ExtendLease(ctx context.Context, in engine.ExtendLeaseInput) (engine.ExtendLeaseReply, error) {
	kept := in
	kept.Lanes = slices.Clone(in.Lanes)
	return recorded(s, ctx, in, kept, s.store.ExtendLease)
}

// CompleteMany implements [engine.Store].
func (s *observer[Tx, E]) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	return recorded(s, ctx, in, engine.CompleteManyInput{Leases: slices.Clone(in.Leases)}, s.store.CompleteMany)
}

// Reschedule implements [engine.Store].
func (s *observer[Tx, E]) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	kept := in
	kept.Rest = slices.Clone(in.Rest)
	return recorded(s, ctx, in, kept, s.store.Reschedule)
}

// Snooze implements [engine.Store].
func (s *observer[Tx, E]) Snooze(ctx context.Context, in engine.SnoozeInput) (engine.EndReply, error) {
	kept := in
	kept.Rest = slices.Clone(in.Rest)
	return recorded(s, ctx, in, kept, s.store.Snooze)
}

// Bury implements [engine.Store].
func (s *observer[Tx, E]) Bury(ctx context.Context, in engine.BuryInput) (engine.EndReply, error) {
	kept := in
	kept.Rest = slices.Clone(in.Rest)
	return recorded(s, ctx, in, kept, s.store.Bury)
}

// Release implements [engine.Store].
func (s *observer[Tx, E]) Release(ctx context.Context, in engine.ReleaseInput) (engine.ReleaseReply, error) {
	return recorded(s, ctx, in, engine.ReleaseInput{Leases: slices.Clone(in.Leases)}, s.store.Release)
}

// Relinquish implements [engine.Store].
func (s *observer[Tx, E]) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	kept := in
	kept.Lanes, kept.Keep, kept.Running = slices.Clone(in.Lanes), slices.Clone(in.Keep), slices.Clone(in.Running)
	return recorded(s, ctx, in, kept, s.store.Relinquish)
}

type transactionKey struct{}

// InTx implements [engine.TxStore]. What fn does through the observer with its
// context is one recorded transaction, which begins when fn does: a store that
// calls fn again has rolled the former try back.
func (s *observer[Tx, E]) InTx(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	var last *Call
	err := s.store.InTx(ctx, func(ctx context.Context, tx Tx) error {
		if last != nil {
			last.Fail(s.now(), engine.ErrRetryable)
		}
		last = s.h.Begin(s.client, s.now(), Transaction{})
		return fn(context.WithValue(ctx, transactionKey{}, last), tx)
	})
	switch {
	case last == nil || errors.Is(err, engine.ErrCommitUnknown):
	case err == nil:
		last.Return(s.now(), nil)
	default:
		last.Fail(s.now(), engine.ErrRetryable)
	}
	return err
}

// open returns the transaction of a context, or one that nobody will end.
func (s *observer[Tx, E]) open(ctx context.Context) *Call {
	if call, ok := ctx.Value(transactionKey{}).(*Call); ok {
		return call
	}
	return s.h.Begin(s.client, s.now(), Transaction{})
}

// Publish implements [engine.TxStore].
func (s *observer[Tx, E]) Publish(ctx context.Context, tx Tx, events []E) ([]engine.PublishResult, error) {
	call := s.open(ctx)
	results, err := s.publish(ctx, tx, events)
	if err == nil {
		call.note(func(tx *Transaction) {
			for i := range results {
				e := as(engine.Picked{}.Event, &events[i])
				tx.Published = append(tx.Published, Published{Event: e.ID, Type: e.Type, Key: e.Key, Result: results[i]})
			}
		})
	}
	return results, err
}

// as returns v, which has the type of like.
func as[T any](like T, v any) T { return v.(T) }

// Complete implements [engine.TxStore].
func (s *observer[Tx, E]) Complete(ctx context.Context, tx Tx, in engine.CompleteInput) (engine.Verdict, error) {
	call := s.open(ctx)
	verdict, err := s.store.Complete(ctx, tx, in)
	if err == nil {
		call.note(func(tx *Transaction) { tx.Completed = append(tx.Completed, Completed{in.Lease, verdict}) })
	}
	return verdict, err
}

// NoteEffect records that the handler of a delivery writes an effect in the
// transaction of ctx, which must come from an observed store's InTx.
func NoteEffect(ctx context.Context, n Name) {
	if call, ok := ctx.Value(transactionKey{}).(*Call); ok {
		call.note(func(tx *Transaction) { tx.Effects = append(tx.Effects, n) })
	}
}

// ObserveOperator wraps the operator's side of a store as [Observe] does.
// Statistics and Verify are passed on and not recorded.
func ObserveOperator(o engine.Operator, h *History, client int, now func() int64) engine.Operator {
	return &operator{o, h, client, now}
}

type operator struct {
	engine.Operator
	h      *History
	client int
	now    func() int64
}

// Requeue implements [engine.Operator].
func (s *operator) Requeue(ctx context.Context, in engine.RequeueInput) (engine.RequeueReply, error) {
	kept := in
	kept.IDs = slices.Clone(in.IDs)
	call := s.h.Begin(s.client, s.now(), kept)
	out, err := s.Operator.Requeue(ctx, in)
	call.End(s.now(), out, err)
	return out, err
}

// Purge implements [engine.Operator].
func (s *operator) Purge(ctx context.Context, in engine.PurgeInput) (engine.PurgeReply, error) {
	call := s.h.Begin(s.client, s.now(), in)
	out, err := s.Operator.Purge(ctx, in)
	call.End(s.now(), out, err)
	return out, err
}

// Unsubscribe implements [engine.Operator].
func (s *operator) Unsubscribe(ctx context.Context, in engine.UnsubscribeInput) (engine.UnsubscribeReply, error) {
	call := s.h.Begin(s.client, s.now(), in)
	out, err := s.Operator.Unsubscribe(ctx, in)
	call.End(s.now(), out, err)
	return out, err
}

// List implements [engine.Operator].
func (s *operator) List(ctx context.Context, in engine.ListInput) (engine.ListReply, error) {
	call := s.h.Begin(s.client, s.now(), in)
	out, err := s.Operator.List(ctx, in)
	call.End(s.now(), out, err)
	return out, err
}

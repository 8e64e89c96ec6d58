package storetest

import (
	"context"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// subject is a store whose transaction type is out of the way, so that cases
// need no type parameter.
type subject interface {
	engine.Store
	engine.Operator
	levels() []string
	inTx(ctx context.Context, level string, fn func(ctx context.Context, tx any) error) error
	publishIn(ctx context.Context, tx any, events []protocol.Event) ([]engine.PublishResult, error)
	completeIn(ctx context.Context, tx any, in engine.CompleteInput) (engine.Verdict, error)
	putIn(ctx context.Context, tx any, key, value string) error
	count(ctx context.Context, key string) (int, error)
	expire(ctx context.Context, lane engine.LaneID) error
	makeDue(ctx context.Context, id engine.DeliveryID) error
	pause(p Point, do func()) bool
	crash(ctx context.Context) (can bool, err error)
	refuse(ctx context.Context, id engine.DeliveryID, refuse bool) (can bool, err error)
}

// adapted is an opened store as a subject.
type adapted[Tx any] struct {
	Subject[Tx]
	o *Opened[Tx]
}

func adapt[Tx any](o *Opened[Tx]) subject { return &adapted[Tx]{o.Store, o} }

func (a *adapted[Tx]) levels() []string {
	var names []string
	for _, l := range a.o.Levels {
		names = append(names, l.Name)
	}
	return names
}

// inTx runs fn at a level; "" is the store's own choice.
func (a *adapted[Tx]) inTx(ctx context.Context, level string, fn func(ctx context.Context, tx any) error) error {
	typed := func(ctx context.Context, tx Tx) error { return fn(ctx, tx) }
	if level == "" {
		return a.InTx(ctx, typed)
	}
	for _, l := range a.o.Levels {
		if l.Name == level {
			return l.InTx(ctx, typed)
		}
	}
	return fmt.Errorf("no isolation level %q", level)
}

func (a *adapted[Tx]) publishIn(ctx context.Context, tx any, events []protocol.Event) ([]engine.PublishResult, error) {
	return a.Publish(ctx, tx.(Tx), events)
}

func (a *adapted[Tx]) completeIn(ctx context.Context, tx any, in engine.CompleteInput) (engine.Verdict, error) {
	return a.Complete(ctx, tx.(Tx), in)
}

func (a *adapted[Tx]) putIn(ctx context.Context, tx any, key, value string) error {
	return a.o.Put(ctx, tx.(Tx), key, value)
}

func (a *adapted[Tx]) count(ctx context.Context, key string) (int, error) { return a.o.Count(ctx, key) }

func (a *adapted[Tx]) expire(ctx context.Context, lane engine.LaneID) error {
	return a.o.Expire(ctx, lane)
}

func (a *adapted[Tx]) makeDue(ctx context.Context, id engine.DeliveryID) error {
	return a.o.MakeDue(ctx, id)
}

func (a *adapted[Tx]) pause(p Point, do func()) bool { return a.o.Pause != nil && a.o.Pause(p, do) }

func (a *adapted[Tx]) refuse(ctx context.Context, id engine.DeliveryID, refuse bool) (can bool, err error) {
	if a.o.Refuse == nil {
		return false, nil
	}
	return true, a.o.Refuse(ctx, id, refuse)
}

func (a *adapted[Tx]) crash(ctx context.Context) (can bool, err error) {
	if a.o.Crash == nil {
		return false, nil
	}
	return true, a.o.Crash(ctx)
}

package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// telling is a store that counts how often other processes are told.
type telling struct {
	*simstore.Store
	told int
}

func (s *telling) Notify() { s.told++ }

// TestOthersAreToldOfPublications: exactly after commits that published
// something, for a hint costs the database and every other process.
func TestOthersAreToldOfPublications(t *testing.T) {
	store := &telling{Store: simstore.New()}
	bus, err := engine.New(store, engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	failed := errors.New("no")
	publish := func(ctx context.Context, tx *simstore.Tx) error {
		return bus.Publish(ctx, tx, engine.Message{Type: "e"})
	}
	for _, c := range []struct {
		name string
		do   func() error
		want int
	}{
		{"PublishNow", func() error { return bus.PublishNow(ctx, engine.Message{Type: "e"}) }, 1},
		{"a transaction that published", func() error { return bus.InTx(ctx, publish) }, 1},
		{"a transaction that published nothing", func() error {
			return bus.InTx(ctx, func(context.Context, *simstore.Tx) error { return nil })
		}, 0},
		{"a transaction that was rolled back", func() error {
			err := bus.InTx(ctx, func(ctx context.Context, tx *simstore.Tx) error {
				return errors.Join(publish(ctx, tx), failed)
			})
			if !errors.Is(err, failed) {
				return err
			}
			return nil
		}, 0},
		{"Wake, after a commit of the caller's own", func() error { bus.Wake(); return nil }, 1},
	} {
		store.told = 0
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if store.told != c.want {
			t.Errorf("%s: others were told %d times, want %d", c.name, store.told, c.want)
		}
	}
}

// TestOthersAreToldOfWhatAHandlerPublished: its transaction is the engine's.
func TestOthersAreToldOfWhatAHandlerPublished(t *testing.T) {
	store := &telling{Store: simstore.New()}
	bus, err := engine.New(store, engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	err = engine.HandleTx(bus, engine.Handler{Event: "e", Name: "h"},
		func(ctx context.Context, tx *simstore.Tx, _ engine.Event[int]) error {
			return bus.Publish(ctx, tx, engine.Message{Type: "f", Payload: 2})
		})
	if err == nil {
		err = engine.Handle(bus, engine.Handler{Event: "f", Name: "last"}, func(context.Context, engine.Event[int]) error {
			close(done)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := bus.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := bus.InTx(ctx, func(_ context.Context, tx *simstore.Tx) error {
		return bus.Publish(context.Background(), tx, engine.Message{Type: "e", Payload: 1}) // not seen: another context
	}); err != nil {
		t.Fatal(err)
	}
	<-done
	if err := bus.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if store.told != 1 {
		t.Errorf("others were told %d times, want once, of what the handler published", store.told)
	}
}

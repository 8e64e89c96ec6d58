package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// These examples show what can be put around handlers and publications.

type tenantKey struct{}

// withTenant is a middleware: it gives every handler the tenant of its event,
// and says which attempts failed.
func withTenant(out io.Writer) engine.Middleware {
	return func(ctx context.Context, d engine.DeliveryInfo, next func(context.Context) error) error {
		for _, h := range d.Headers {
			if h.Name == "tenant" {
				ctx = context.WithValue(ctx, tenantKey{}, h.Value)
			}
		}
		err := next(ctx)
		if err != nil {
			fmt.Fprintf(out, "attempt %d of %d of %s: %v\n", d.Attempt, d.MaxAttempts, d.Handler, err)
		}
		return err
	}
}

// tagged is a publish middleware: every message carries the tenant on.
func tagged(ctx context.Context, msgs []engine.Message, next func(context.Context, []engine.Message) error) error {
	if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
		for i := range msgs {
			msgs[i].Headers = append(msgs[i].Headers, engine.Header{Name: "tenant", Value: tenant})
		}
	}
	return next(ctx, msgs)
}

// Middleware stands around handlers and around publications.
func Example_middleware() {
	store := simstore.New()
	bus, err := engine.New(store, engine.Config{
		Middleware:        []engine.Middleware{withTenant(os.Stdout)},
		PublishMiddleware: []engine.PublishMiddleware{tagged},
		Logger:            slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan string)
	err = engine.Handle(bus, engine.Handler{Event: "order.placed", Name: "mail", MaxAttempts: 5},
		func(ctx context.Context, e engine.Event[Order]) error {
			if e.Attempt == 1 {
				return engine.RetryAfter(time.Millisecond, errors.New("mail server is busy"))
			}
			done <- fmt.Sprintf("%s for %v", e.Payload.Item, ctx.Value(tenantKey{}))
			return nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := bus.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	request := context.WithValue(ctx, tenantKey{}, "acme")
	if err := bus.PublishNow(request, engine.Message{Type: "order.placed", Payload: Order{Item: "tea"}}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-done)
	fmt.Println("stopped:", bus.Stop(ctx))
	// Output:
	// attempt 1 of 5 of mail: mail server is busy
	// tea for acme
	// stopped: <nil>
}

// completions is an Observer that counts what is done. A real one would count
// in a metrics library: see [engine.Observation] for all it may be told.
type completions struct{ done chan string }

func (c completions) Observe(o engine.Observation) {
	switch o.Kind {
	case engine.ObservedCompleted, engine.ObservedBuried:
		c.done <- fmt.Sprintf("%s %s, key %s, attempt %d", o.Handler, o.Kind, o.Key, o.Attempt)
	}
}

func ExampleObserver() {
	seen := completions{done: make(chan string, 2)}
	bus, err := engine.New(simstore.New(), engine.Config{Observer: seen, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = engine.Handle(bus, engine.Handler{Event: "order.placed", Name: "mail"},
		func(ctx context.Context, e engine.Event[Order]) error {
			if e.Payload.Item == "" {
				return engine.Cancel(errors.New("an order of nothing"))
			}
			return nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := bus.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, order := range []Order{{ID: "o-1", Item: "tea"}, {ID: "o-2"}} {
		if err := bus.PublishNow(ctx, engine.Message{Type: "order.placed", Key: order.ID, Payload: order}); err != nil {
			fmt.Println(err)
		}
		fmt.Println(<-seen.done)
	}
	fmt.Println("stopped:", bus.Stop(ctx))
	// Output:
	// mail completed, key o-1, attempt 1
	// mail buried, key o-2, attempt 1
	// stopped: <nil>
}

// A batch is published in one call; it tells what became of each message.
func ExampleBus_PublishAll() {
	bus, err := engine.New(simstore.New(), engine.Config{}) // a publisher needs no handlers
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := []engine.Message{
		{ID: "o-1", Type: "order.placed", Key: "o-1", Payload: Order{ID: "o-1", Item: "tea"}},
		{ID: "o-1", Type: "order.placed", Key: "o-1", Payload: Order{ID: "o-1", Item: "tea"}}, // twice
		{Type: "stock.checked", Payload: []byte("raw bytes"), Delay: time.Hour},               // an id is made
		{ID: "o-1", Type: "order.lost", Key: "o-1", Payload: Order{ID: "o-1"}},                // the id is taken
	}
	err = bus.InTx(context.Background(), func(ctx context.Context, tx *simstore.Tx) error {
		published, err := bus.PublishAll(ctx, tx, batch)
		for _, p := range published {
			fmt.Println(len(p.ID), p.Result)
		}
		return err
	})
	fmt.Println("committed:", err == nil)
	// Output:
	// 3 Added
	// 3 Known
	// 36 Added
	// 3 Mismatch
	// committed: true
}

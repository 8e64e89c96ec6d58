package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/simstore"
)

type Order struct{ ID, Item string }

func run(ctx context.Context) error {
	store := simstore.New()
	bus, err := engine.New(store, engine.Config{}) // the zero Config works
	if err != nil {
		return err
	}
	err = engine.Handle(bus, engine.Handler{Event: "order.placed", Name: "mail"},
		func(ctx context.Context, e engine.Event[Order]) error { return send(e.Payload) })
	if err != nil {
		return err
	}
	err = engine.HandleTx(bus, engine.Handler{Event: "order.placed", Name: "ledger"},
		func(ctx context.Context, tx *simstore.Tx, e engine.Event[Order]) error {
			return post(ctx, tx, e.Payload)
		})
	if err != nil {
		return err
	}
	if err := bus.Start(ctx); err != nil { // what is published from here on reaches both
		return err
	}
	err = bus.InTx(ctx, func(ctx context.Context, tx *simstore.Tx) error { // your transaction
		order := Order{ID: "o-1", Item: "tea"} // write it through tx, then:
		return bus.Publish(ctx, tx, engine.Message{Type: "order.placed", Key: order.ID, Payload: order})
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return bus.Stop(context.Background()) // gracefully
}

var done = make(chan string)

func send(o Order) error {
	done <- "mail about " + o.Item
	return nil
}

func post(ctx context.Context, tx *simstore.Tx, o Order) error {
	if err := tx.Put(ctx, "ledger", o.ID, []byte(o.Item)); err != nil {
		return err
	}
	done <- "booked " + o.Item
	return nil
}

// One event reaches two handlers; the program runs until its context ends.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- run(ctx) }()
	fmt.Println(<-done)
	fmt.Println(<-done)
	cancel()
	fmt.Println("stopped:", <-stopped)
	// Unordered output:
	// mail about tea
	// booked tea
	// stopped: <nil>
}

// A transactional handler's writes commit together with the completion of its
// delivery, so this balance counts every deposit once, however often a worker
// dies half-way. The deposits of one account share a key and arrive in the
// order in which they were committed.
func ExampleHandleTx() {
	type Deposit struct{ Amount int }
	ctx := context.Background()
	store := simstore.New()
	bus, err := engine.New(store, engine.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	arrived := make(chan int)
	err = engine.HandleTx(bus, engine.Handler{Event: "deposit", Name: "balance"},
		func(ctx context.Context, tx *simstore.Tx, e engine.Event[Deposit]) error {
			old, _, err := tx.GetForUpdate(ctx, "balance", e.Key)
			if err != nil {
				return err
			}
			balance, _ := strconv.Atoi(string(old))
			balance += e.Payload.Amount
			arrived <- balance
			return tx.Put(ctx, "balance", e.Key, []byte(strconv.Itoa(balance)))
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := bus.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, amount := range []int{50, 20, 7} {
		err := bus.PublishNow(ctx, engine.Message{Type: "deposit", Key: "account-1", Payload: Deposit{amount}})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(<-arrived, <-arrived, <-arrived)
	fmt.Println("stopped:", bus.Stop(ctx))
	// Output:
	// 50 70 77
	// stopped: <nil>
}

// Stop lets the handler that runs finish and stores its completion; what has
// not started is given back to other workers at once, uncharged.
func ExampleBus_Stop() {
	ctx := context.Background()
	store := simstore.New()
	bus, err := engine.New(store, engine.Config{StopTimeout: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	began := make(chan struct{})
	err = engine.Handle(bus, engine.Handler{Event: "report", Name: "render"},
		func(ctx context.Context, e engine.Event[string]) error {
			close(began)
			select {
			case <-time.After(50 * time.Millisecond):
				fmt.Println("rendered", e.Payload)
				return nil
			case <-ctx.Done(): // when the time of the stop is nearly over
				return context.Cause(ctx)
			}
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := bus.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := bus.PublishNow(ctx, engine.Message{Type: "report", Payload: "May"}); err != nil {
		fmt.Println(err)
	}
	<-began
	fmt.Println("stopped:", bus.Stop(ctx))
	fmt.Println("deliveries left:", len(store.Snapshot().Deliveries))
	// Output:
	// rendered May
	// stopped: <nil>
	// deliveries left: 0
}

// The error that a handler returns says what becomes of its delivery.
func Example_outcomes() {
	handler := func(ctx context.Context, e engine.Event[Order]) error {
		switch err := charge(e.Payload); {
		case errors.Is(err, errCardDeclined):
			return engine.Cancel(err) // to the dead letters, at once
		case errors.Is(err, errRateLimited):
			return engine.RetryAfter(time.Minute, err) // a charged attempt, tried again in a minute
		case errors.Is(err, errBankClosed):
			return engine.Snooze(8 * time.Hour) // nobody's fault: uncharged
		default:
			return err // nil: done; anything else: tried again after Handler.Retry
		}
	}
	fmt.Println(handler(context.Background(), engine.Event[Order]{Payload: Order{Item: "yacht"}}))
	// Output: card declined
}

var (
	errCardDeclined = errors.New("card declined")
	errRateLimited  = errors.New("too many requests")
	errBankClosed   = errors.New("bank is closed")
)

func charge(Order) error { return errCardDeclined }

// Events of one key reach a handler one at a time and in the order in which
// their transactions committed, also when one of them has to be tried again.
// Other keys do not wait.
func Example_orderByKey() {
	ctx := context.Background()
	bus, err := engine.New(simstore.New(), engine.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	steps := make(chan string)
	retry := engine.Exponential{Base: time.Millisecond, Cap: time.Millisecond}
	err = engine.Handle(bus, engine.Handler{Event: "order.changed", Name: "tell-customer", Retry: retry},
		func(ctx context.Context, e engine.Event[string]) error {
			if e.Payload == "packed" && e.Attempt == 1 {
				return errors.New("mail server is busy") // "shipped" waits for it
			}
			steps <- e.Payload
			return nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := bus.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range []string{"placed", "packed", "shipped"} {
		if err := bus.PublishNow(ctx, engine.Message{Type: "order.changed", Key: "o-1", Payload: step}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(<-steps, <-steps, <-steps)
	fmt.Println("stopped:", bus.Stop(ctx))
	// Output:
	// placed packed shipped
	// stopped: <nil>
}

// A delivery whose attempts are used up becomes a dead letter with the reason
// of its last failure. It waits there, and holds nothing up, until somebody
// requeues it.
func Example_deadLetters() {
	ctx := context.Background()
	store := simstore.New()
	bus, err := engine.New(store, engine.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	var repaired atomic.Bool
	attempts := make(chan string, 3)
	err = engine.Handle(bus, engine.Handler{
		Event: "invoice", Name: "print", MaxAttempts: 2,
		Retry: engine.Exponential{Base: time.Millisecond, Cap: time.Millisecond},
	}, func(ctx context.Context, e engine.Event[string]) error {
		attempts <- fmt.Sprintf("attempt %d of %d", e.Attempt, e.MaxAttempts)
		if repaired.Load() {
			return nil
		}
		return errors.New("no paper")
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := bus.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := bus.PublishNow(ctx, engine.Message{Type: "invoice", Payload: "i-1"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-attempts)
	fmt.Println(<-attempts)
	dead := func() int {
		s, err := store.Statistics(ctx)
		if err != nil {
			fmt.Println(err)
		}
		return s.Dead
	}
	for dead() == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("dead letter:", store.Snapshot().Deliveries[0].LastError)

	repaired.Store(true)
	reply, err := store.Requeue(ctx, engine.RequeueInput{Filter: engine.Filter{Handler: "print"}})
	fmt.Println("requeued:", reply.Requeued, err)
	bus.Wake() // or wait for the next poll
	fmt.Println(<-attempts)
	fmt.Println("stopped:", bus.Stop(ctx))
	fmt.Println("deliveries left:", len(store.Snapshot().Deliveries))
	// Output:
	// attempt 1 of 2
	// attempt 2 of 2
	// dead letter: no paper
	// requeued: 1 <nil>
	// attempt 1 of 2
	// stopped: <nil>
	// deliveries left: 0
}

// Two services share a store: each has a group, so neither waits for the
// other's workers. Billing is being deployed: the new release has a handler
// that the old one lacks, and both run for a while. Workers of the old release
// leave the new handler's deliveries to those of the new one.
func Example_rollingDeploy() {
	ctx := context.Background()
	store := simstore.New()
	handled := make(chan string)
	start := func(group string, handlers ...string) *engine.Bus[*simstore.Tx] {
		bus, err := engine.New(store, engine.Config{Group: group})
		if err != nil {
			panic(err)
		}
		for _, name := range handlers {
			err := engine.Handle(bus, engine.Handler{Event: "order.placed", Name: name},
				func(ctx context.Context, e engine.Event[Order]) error {
					handled <- name + " " + e.Payload.Item
					return nil
				})
			if err != nil {
				panic(err)
			}
		}
		if err := bus.Start(ctx); err != nil {
			panic(err)
		}
		return bus
	}
	search := start("search", "index")
	oldBilling := start("billing", "invoice")
	newBilling := start("billing", "invoice", "bonus-points") // subscribed from here on

	err := oldBilling.PublishNow(ctx, engine.Message{Type: "order.placed", Payload: Order{Item: "tea"}})
	if err != nil {
		fmt.Println(err)
	}
	for range 3 {
		fmt.Println(<-handled)
	}
	for _, bus := range []*engine.Bus[*simstore.Tx]{oldBilling, newBilling, search} {
		if err := bus.Stop(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Unordered output:
	// invoice tea
	// index tea
	// bonus-points tea
}

// What a handler publishes goes on in the trace of the event it handles, and
// a message may be put off.
func ExampleHeadersFrom() {
	ctx := context.Background()
	store := simstore.New()
	bus, err := engine.New(store, engine.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	got := make(chan string)
	err = errors.Join(
		engine.HandleTx(bus, engine.Handler{Event: "order.placed", Name: "plan-reminder"},
			func(ctx context.Context, tx *simstore.Tx, e engine.Event[Order]) error {
				return bus.Publish(ctx, tx, engine.Message{Type: "reminder", Key: e.Key, Payload: e.Payload, Delay: 10 * time.Millisecond})
			}),
		engine.Handle(bus, engine.Handler{Event: "reminder", Name: "remind"},
			func(ctx context.Context, e engine.Event[Order]) error {
				got <- e.Payload.Item + " " + e.Header(engine.HeaderTraceParent)
				return nil
			}))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := bus.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	traced := engine.WithHeaders(ctx, engine.Header{Name: engine.HeaderTraceParent, Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
	if err := bus.PublishNow(traced, engine.Message{Type: "order.placed", Key: "o-1", Payload: Order{Item: "tea"}}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-got)
	fmt.Println("stopped:", bus.Stop(ctx))
	// Output:
	// tea 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
	// stopped: <nil>
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

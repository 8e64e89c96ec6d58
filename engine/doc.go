// Package engine publishes events inside the caller's own database transaction
// and runs every subscribed handler at least once, in order per key, with
// attempts charged honestly.
//
//	bus, err := engine.New(store, engine.Config{})
//	err = engine.Handle(bus, engine.Handler{Event: "order.placed", Name: "mail"},
//		func(ctx context.Context, e engine.Event[Order]) error { return send(e.Payload) })
//	err = bus.Start(ctx)
//	err = bus.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
//		return bus.Publish(ctx, tx, engine.Message{Type: "order.placed", Key: order.ID, Payload: order})
//	})
//
// # What is guaranteed
//
// An event that committed reaches every handler that was subscribed to its
// type, until the handler succeeds or the delivery becomes a dead letter;
// one that was rolled back reaches none. A handler registered with [HandleTx]
// has its effects through the transaction exactly once. One registered with
// [Handle] may run again after it succeeded, and must be idempotent. Events of
// one key reach a handler one at a time, in the order in which their
// transactions committed; a dead letter does not hold the key up. An attempt
// is charged when it ends in failure, or when its worker was lost; never for
// a shutdown, a lost lease or a conflict in the database.
//
// # What is assumed
//
// The store keeps the contract of [TxStore]. Clocks of workers may be wrong
// and may jump: only the store's clock decides. Workers may die, freeze and
// come back at any point: what a former owner of a lane still sends is refused
// by its token.
//
// # What is not done
//
// A handler that ignores its context cannot be stopped: after its timeout and
// grace its attempt ends as failed without it, and its goroutine may overlap
// with the next run. Its effects outside of the transaction are its own
// affair.
//
// # How a handler's run ends
//
//	it returns                 the delivery                          charged
//	nil                        is completed                          no
//	an error, or it panics     runs again after Handler.Retry        yes
//	RetryAfter(d, err)         runs again after d                    yes
//	Snooze(d)                  runs again after d                    no
//	Cancel(reason)             becomes a dead letter                 yes
//
// The last attempt that Handler.MaxAttempts allows ends in the dead letters.
//
// # Publishing
//
// [Bus.Publish] writes inside a transaction of the caller's, whoever began it;
// call [Bus.Wake] after the commit, or let [Bus.InTx] do both. [Bus.PublishNow]
// has a transaction of its own. [Message.Delay] and [Message.At] put an event
// off, by the store's clock. Publishing an id again is harmless while the event
// is kept, and gives it to handlers that are new since.
//
// # Observing
//
// [Config.Observer] is told of every claim, run, end and store call, for
// metrics; [Config.Middleware] and [Config.PublishMiddleware] stand around runs
// and publications, for traces. What a handler publishes carries the trace
// context of its event: [HeadersFrom]. [DeliveryFrom] tells a handler about
// its run. Logs go to [Config.Logger].
//
// # Deploying
//
// Subscriptions stay in the store, so publishers need no handler code, and work
// waits while no worker runs. Workers of several releases, with different
// handlers, may run side by side. Services that are deployed apart each have a
// [Config.Group]. [Bus.Stop] loses nothing and charges nothing.
//
// # What to read
//
// Applications need [New], [Config] and [Bus]; [Handle], [HandleTx], [Handler]
// and [Event]; [Message]; and the errors that a handler returns: [RetryAfter],
// [Snooze], [Cancel]. Beside them stand [Codec], [RetryPolicy], [Middleware]
// and [Observer], to be replaced or added, and [Operator], for administration.
// Types called …Input and …Reply are what the engine and a [Store] say to each
// other. The rest belongs to [Machine], for those who simulate.
//
// # Layers
//
// [Bus] is what applications use. Below it [Machine] is the same without
// goroutines and clocks: the Dispatcher, which decides everything a worker
// does from inputs to effects, and the execution of one delivery. [Bus.Run]
// drives a Machine in real time, a simulator drives it in virtual time. A
// [Store] realises the actions of package protocol on a database.
package engine

package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

var errRollback = errors.New("the test rolls back")

// openTx is a caller's transaction that a case holds open. It lives in a
// goroutine of its own, because InTx ends when its body does.
type openTx struct {
	b     *bench
	calls chan txCall
	end   chan error
	done  chan error
	err   error // the first statement that failed
}

type txCall struct {
	fn  func(ctx context.Context, tx any) error
	out chan error
}

// open begins a transaction at a level; "" is the store's own choice.
func (b *bench) open(level string) *openTx {
	o := &openTx{b: b, calls: make(chan txCall), end: make(chan error), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(b.ctx)
	b.Cleanup(cancel)
	go func() { o.done <- b.inTx(ctx, level, o.body) }()
	return o
}

func (o *openTx) body(ctx context.Context, tx any) error {
	for {
		select {
		case c := <-o.calls:
			c.out <- c.fn(ctx, tx)
		case err := <-o.end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// start begins a statement that may have to wait; its outcome arrives on the
// channel.
func (o *openTx) start(fn func(ctx context.Context, tx any) error) <-chan error {
	out := make(chan error, 1)
	select {
	case o.calls <- txCall{fn, out}:
	case err := <-o.done:
		o.done <- err
		out <- fmt.Errorf("the transaction ended by itself: %w", err)
	}
	return out
}

// do runs a statement and waits for it.
func (o *openTx) do(fn func(ctx context.Context, tx any) error) error {
	err := <-o.start(fn)
	if err != nil && o.err == nil {
		o.err = err
	}
	return err
}

func (o *openTx) publishing(list []protocol.Event, results *[]engine.PublishResult) func(ctx context.Context, tx any) error {
	return func(ctx context.Context, tx any) error {
		got, err := o.b.publishIn(ctx, tx, list)
		if results != nil {
			*results = got
		}
		return err
	}
}

func (o *openTx) publish(names ...string) ([]engine.PublishResult, error) {
	var results []engine.PublishResult
	err := o.do(o.publishing(events(names...), &results))
	return results, err
}

func (o *openTx) put(key string) error {
	return o.do(func(ctx context.Context, tx any) error { return o.b.putIn(ctx, tx, key, "x") })
}

func (o *openTx) complete(l engine.Lease) (engine.Verdict, error) {
	var v engine.Verdict
	err := o.do(func(ctx context.Context, tx any) (err error) {
		v, err = o.b.completeIn(ctx, tx, engine.CompleteInput{Lease: l, TTL: ttl})
		return err
	})
	return v, err
}

// commit commits, unless a statement failed before.
func (o *openTx) commit() error { return o.finish(o.err) }

// rollback undoes the transaction.
func (o *openTx) rollback() {
	o.b.Helper()
	if err := o.finish(errRollback); !errors.Is(err, errRollback) && o.err == nil {
		o.b.Fatalf("rolled back: %v", err)
	}
}

func (o *openTx) finish(how error) error {
	select {
	case o.end <- how:
		return <-o.done
	case err := <-o.done:
		o.done <- err
		return err
	}
}

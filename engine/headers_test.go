package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

func headersOf(t *testing.T, bus *Bus[*fakeTx], ctx context.Context, m Message) string {
	t.Helper()
	tx := &fakeTx{}
	must(t, bus.Publish(ctx, tx, m))
	text := ""
	for _, h := range tx.events[0].Headers {
		text += fmt.Sprintf("%s=%s ", h.Name, h.Value)
	}
	return text
}

func TestHeadersOfTheContext(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	ctx := WithHeaders(t.Context(), Header{Name: "tenant", Value: "a"}, Header{Name: "region", Value: "eu"})
	inner := WithHeaders(ctx, Header{Name: "tenant", Value: "b"})
	for _, c := range []struct {
		ctx  context.Context
		own  []Header
		want string
	}{
		{t.Context(), nil, ""},
		{ctx, nil, "tenant=a region=eu "},
		{inner, nil, "tenant=b region=eu "},
		{inner, []Header{{Name: "tenant", Value: "own"}}, "tenant=own region=eu "},
		{WithoutHeaders(inner), []Header{{Name: "n", Value: "v"}}, "n=v "},
	} {
		if got := headersOf(t, bus, c.ctx, Message{Type: "t", Headers: c.own}); got != c.want {
			t.Errorf("headers %q, want %q", got, c.want)
		}
	}
	// What the context adds never makes a good message a bad one.
	headersOf(t, bus, ctx, Message{Type: "t", Headers: make64(MaxHeaders)})
	wantInvalid(t, bus.Publish(WithHeaders(ctx, Header{Name: "n", Value: "\x00"}), &fakeTx{}, Message{Type: "t"}), `header "n"`)
}

// A trace goes on through what a handler publishes, unless it says otherwise.
func TestHandlersPublishInTheTraceOfTheirEvent(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	var got []string
	must(t, Handle(bus, Handler{Event: "e", Name: "h"}, func(ctx context.Context, _ Event[[]byte]) error {
		got = append(got,
			headersOf(t, bus, ctx, Message{Type: "t"}),
			headersOf(t, bus, WithHeaders(ctx, Header{Name: HeaderTraceParent, Value: "child"}), Message{Type: "t"}),
			headersOf(t, bus, WithoutHeaders(ctx), Message{Type: "t"}))
		return nil
	}))
	run := &Run{Handler: "h", Picked: picked(1, "e", "h", "{}"), MaxAttempts: 1}
	run.Picked.Event.Headers = []Header{{Name: "secret", Value: "s"}, {Name: HeaderTraceParent, Value: "00-1-2-01"}, {Name: HeaderTraceState, Value: "x=1"}}
	ctx := WithHeaders(t.Context(), Header{Name: "process", Value: "p"}, Header{Name: HeaderTraceParent, Value: "of the start"})
	if result := bus.execute(&runContext{Context: ctx, run: run}); result.Outcome != Succeeded || !result.published {
		t.Fatalf("result: %+v", result)
	}
	want := []string{"traceparent=00-1-2-01 tracestate=x=1 process=p ", "traceparent=child tracestate=x=1 process=p ", ""}
	if !slices.Equal(got, want) {
		t.Errorf("headers %q, want %q", got, want)
	}
}

func TestPublishMiddleware(t *testing.T) {
	var order []string
	wrap := func(name string) PublishMiddleware {
		return func(ctx context.Context, msgs []Message, next func(context.Context, []Message) error) error {
			order = append(order, name+" "+msgs[0].ID)
			for i := range msgs {
				msgs[i].Headers = append(msgs[i].Headers, Header{Name: name, Value: "1"})
			}
			err := next(ctx, msgs)
			order = append(order, fmt.Sprint(name, " saw ", errors.Is(err, ErrMismatch)))
			return err
		}
	}
	bus, store := newTestBus(t, Config{NewID: func() string { return "made" }, PublishMiddleware: []PublishMiddleware{wrap("outer"), wrap("inner")}})
	store.result = Mismatch
	mine := make([]Header, 1, 5)
	mine[0] = Header{Name: "mine", Value: "0"}
	tx := &fakeTx{}
	if err := bus.Publish(t.Context(), tx, Message{Type: "t", Headers: mine}); !errors.Is(err, ErrMismatch) {
		t.Errorf("Publish: %v", err)
	}
	if want := []string{"outer made", "inner made", "inner saw true", "outer saw true"}; !slices.Equal(order, want) {
		t.Errorf("order %q", order)
	}
	if headers := tx.events[0].Headers; len(headers) != 3 || headers[2].Name != "inner" || mine[:2][1].Name != "" {
		t.Errorf("headers %v; the caller's slice %v", headers, mine[:2])
	}
	refuse := errors.New("not today")
	bus.cfg.PublishMiddleware = []PublishMiddleware{func(context.Context, []Message, func(context.Context, []Message) error) error { return refuse }}
	if err := bus.PublishNow(t.Context(), Message{Type: "t"}); !errors.Is(err, refuse) || len(store.committed) != 0 {
		t.Errorf("refused by the middleware: %v, %d commits", err, len(store.committed))
	}
	bus.cfg.PublishMiddleware = []PublishMiddleware{func(ctx context.Context, _ []Message, next func(context.Context, []Message) error) error {
		return next(ctx, nil)
	}}
	must(t, bus.PublishNow(t.Context(), Message{Type: "t"}))
	if len(store.committed) != 0 {
		t.Error("a transaction was opened for no message")
	}
}

// A retried PublishNow keeps its ids: the middleware runs once.
func TestPublishMiddlewareRunsOncePerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		bus, store := newTestBus(t, Config{PublishMiddleware: []PublishMiddleware{
			func(ctx context.Context, msgs []Message, next func(context.Context, []Message) error) error {
				calls++
				return next(ctx, msgs)
			}}})
		store.scripts = repeat(script{commit: ErrRetryable}, 2)
		must(t, bus.PublishNow(t.Context(), Message{Type: "t"}))
		if calls != 1 || len(store.committed) != 1 {
			t.Errorf("%d calls, %d commits", calls, len(store.committed))
		}
	})
}

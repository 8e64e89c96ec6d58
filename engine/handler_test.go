package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func nothing(context.Context, Event[[]byte]) error { return nil }

func nothingTx(context.Context, *fakeTx, Event[[]byte]) error { return nil }

func TestHandlerValidate(t *testing.T) {
	ok := Handler{Event: "order.placed", Name: "mail"}
	for says, change := range map[string]func(h *Handler){
		"Handler.Name is empty":           func(h *Handler) { h.Name = "" },
		`"mail": Event is empty`:          func(h *Handler) { h.Event = "" },
		"Handler.Name has 129 bytes":      func(h *Handler) { h.Name = strings.Repeat("n", 129) },
		"Event has 129 bytes, at most":    func(h *Handler) { h.Event = strings.Repeat("n", 129) },
		"NUL":                             func(h *Handler) { h.Event = "a\x00" },
		"not valid UTF-8":                 func(h *Handler) { h.Name = "a\xff" },
		"Concurrency is -1":               func(h *Handler) { h.Concurrency = -1 },
		"between 0 and 100000":            func(h *Handler) { h.Concurrency = 100_001 },
		"Timeout is -1s":                  func(h *Handler) { h.Timeout = -time.Second },
		"between 1ms and 168h0m0s":        func(h *Handler) { h.Timeout = 169 * time.Hour },
		"Grace is 1ns":                    func(h *Handler) { h.Grace = 1 },
		"between 1ms and 24h0m0s":         func(h *Handler) { h.Grace = 25 * time.Hour },
		"MaxAttempts is -1":               func(h *Handler) { h.MaxAttempts = -1 },
		"between 1 and 1000000":           func(h *Handler) { h.MaxAttempts = 1_000_001 },
		`handler "mail": Retry: invalid:`: func(h *Handler) { h.Retry = Exponential{Factor: -1} },
	} {
		h := ok
		change(&h)
		wantInvalid(t, h.Validate(), says)
		bus, _ := newTestBus(t, Config{})
		wantInvalid(t, Handle(bus, h, nothing), says)
	}
	must(t, ok.Validate())
}

func TestRegistrationErrors(t *testing.T) {
	h := Handler{Event: "order.placed", Name: "mail", Retry: Exponential{Base: time.Minute}}
	other := func(change func(h *Handler)) Handler {
		o := h
		o.Event = "order.shipped"
		change(&o)
		return o
	}
	bus, _ := newTestBus(t, Config{})
	must(t, Handle(bus, h, nothing))
	must(t, Handle(bus, other(func(*Handler) {}), nothing))
	must(t, Handle(bus, other(func(h *Handler) { h.Event = "order.lost"; h.MaxAttempts = 20 }), nothing)) // the default, spelled out

	wantInvalid(t, Handle(bus, h, nothing), `"mail" is registered for "order.placed" already`)
	wantInvalid(t, HandleTx(bus, other(func(h *Handler) { h.Event = "x" }), nothingTx), "two different names")
	wantInvalid(t, Handle(bus, other(func(h *Handler) { h.Event = "x"; h.Concurrency = 3 }), nothing), `other settings than for "order.placed"`)
	wantInvalid(t, Handle(bus, other(func(h *Handler) { h.Event = "x"; h.Retry = nil }), nothing), "other settings")
	wantInvalid(t, Handle[[]byte](bus, other(func(h *Handler) { h.Event = "x" }), nil), "has no function")
	wantInvalid(t, HandleTx[[]byte](bus, other(func(h *Handler) { h.Name = "x" }), nil), "has no function")
	wantInvalid(t, Handle((*Bus[*fakeTx])(nil), h, nothing), "a nil bus")
	wantInvalid(t, HandleTx((*Bus[*fakeTx])(nil), h, nothingTx), "a nil bus")
}

func TestRegistrationEndsWithTheFirstMachine(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	must(t, Handle(bus, Handler{Event: "a", Name: "h"}, nothing))
	_, err := NewMachine(bus)
	must(t, err)
	err = Handle(bus, Handler{Event: "b", Name: "h"}, nothing)
	if !errors.Is(err, ErrStarted) {
		t.Fatalf("registration after the start: %v", err)
	}
}

// The Dispatcher works on one entry per name and on sorted lists, so that two
// processes that register in another order decide alike.
func TestDispatcherConfig(t *testing.T) {
	bus, _ := newTestBus(t, Config{Concurrency: 7})
	must(t, Handle(bus, Handler{Event: "b", Name: "z"}, nothing))
	must(t, HandleTx(bus, Handler{Event: "b", Name: "m", Concurrency: 2, MaxAttempts: 3, Timeout: time.Minute, Grace: time.Second}, nothingTx))
	must(t, Handle(bus, Handler{Event: "a", Name: "z"}, nothing))
	c := bus.dispatcherConfig(Holder{1})
	if len(c.Handlers) != 2 || c.Handlers[0].Name != "m" || c.Handlers[1].Name != "z" {
		t.Fatalf("handlers: %+v", c.Handlers)
	}
	m, z := c.Handlers[0], c.Handlers[1]
	if !m.Transactional || m.Concurrency != 2 || m.MaxAttempts != 3 || m.Timeout != time.Minute || m.Grace != time.Second {
		t.Errorf("m: %+v", m)
	}
	if z.Transactional || z.Concurrency != 7 || z.MaxAttempts != 20 || z.Timeout != 15*time.Minute || z.Grace != 30*time.Second {
		t.Errorf("z: %+v", z)
	}
	want := []EventHandler{{Event: "a", Handler: "z"}, {Event: "b", Handler: "m"}, {Event: "b", Handler: "z"}}
	if !slices.Equal(c.Subscriptions, want) {
		t.Errorf("subscriptions: %v", c.Subscriptions)
	}
}

// Types are inferred in every form that the documentation shows.
func TestPayloadTypes(t *testing.T) {
	type order struct{ ID int }
	bus, _ := newTestBus(t, Config{})
	must(t, Handle(bus, Handler{Event: "e", Name: "struct"}, func(_ context.Context, e Event[order]) error { return nil }))
	must(t, Handle(bus, Handler{Event: "e", Name: "pointer"}, func(_ context.Context, e Event[*order]) error { return nil }))
	must(t, Handle(bus, Handler{Event: "e", Name: "bytes"}, func(_ context.Context, e Event[[]byte]) error { return nil }))
	must(t, Handle(bus, Handler{Event: "e", Name: "raw"}, func(_ context.Context, e Event[json.RawMessage]) error { return nil }))
	must(t, HandleTx(bus, Handler{Event: "e", Name: "tx"}, func(_ context.Context, tx *fakeTx, e Event[order]) error { return nil }))
}

func TestEventHeader(t *testing.T) {
	e := Event[int]{Headers: []Header{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}}
	if e.Header("a") != "1" || e.Header("b") != "" {
		t.Errorf("headers: %q %q", e.Header("a"), e.Header("b"))
	}
}

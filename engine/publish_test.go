package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func publishOne(bus *Bus[*fakeTx], m Message) (*fakeTx, error) {
	tx := &fakeTx{}
	return tx, bus.Publish(context.Background(), tx, m)
}

func TestPublishLimits(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	for name, c := range map[string]struct {
		m    Message
		says string // "" means accepted
	}{
		"least message":           {Message{Type: "t"}, ""},
		"no type":                 {Message{}, "type is empty"},
		"type at the limit":       {Message{Type: strings.Repeat("t", 128)}, ""},
		"type too long":           {Message{Type: strings.Repeat("t", 129)}, "type has 129 bytes, at most 128"},
		"type with NUL":           {Message{Type: "a\x00"}, "NUL"},
		"type not UTF-8":          {Message{Type: "a\xff"}, "not valid UTF-8"},
		"id at the limit":         {Message{Type: "t", ID: strings.Repeat("i", 512)}, ""},
		"id too long":             {Message{Type: "t", ID: strings.Repeat("i", 513)}, "id has 513 bytes"},
		"id with NUL":             {Message{Type: "t", ID: "\x00"}, "NUL"},
		"id of blanks is an id":   {Message{Type: "t", ID: "  "}, ""},
		"key at the limit":        {Message{Type: "t", Key: strings.Repeat("k", 512)}, ""},
		"key too long":            {Message{Type: "t", Key: strings.Repeat("é", 257)}, "key has 514 bytes"},
		"key not UTF-8":           {Message{Type: "t", Key: "\xc3"}, "not valid UTF-8"},
		"payload at the limit":    {Message{Type: "t", Payload: make([]byte, MaxPayload)}, ""},
		"payload too long":        {Message{Type: "t", Payload: make([]byte, MaxPayload+1)}, "payload has 1048577 bytes"},
		"payload too long coded":  {Message{Type: "t", Payload: strings.Repeat("x", MaxPayload)}, "payload has 1048578 bytes"},
		"payload not encodable":   {Message{Type: "t", Payload: make(chan int)}, "payload of type chan int cannot be encoded"},
		"payload of any bytes":    {Message{Type: "t", Payload: []byte("\x00\xff")}, ""},
		"delay at the limit":      {Message{Type: "t", Delay: MaxDelay}, ""},
		"delay too long":          {Message{Type: "t", Delay: MaxDelay + 1}, "Delay is 8760h0m0.000000001s"},
		"delay below zero":        {Message{Type: "t", Delay: -1}, "must lie between 0 and 8760h0m0s"},
		"time passed":             {Message{Type: "t", At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}, ""},
		"time far away":           {Message{Type: "t", At: time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC)}, ""},
		"time in another unit":    {Message{Type: "t", At: time.Unix(0, 1_700_000_000)}, "At is 1970-01-01"},
		"time in a larger unit":   {Message{Type: "t", At: time.Unix(1_700_000_000_000, 0)}, "between the years 2000 and 2200"},
		"time and delay":          {Message{Type: "t", Delay: 1, At: time.Now()}, "set one"},
		"headers at the limit":    {Message{Type: "t", Headers: make64(64)}, ""},
		"too many headers":        {Message{Type: "t", Headers: make64(65)}, "65 headers, at most 64"},
		"header without a name":   {Message{Type: "t", Headers: []Header{{Value: "v"}}}, "header name is empty"},
		"header value with NUL":   {Message{Type: "t", Headers: []Header{{Name: "n", Value: "\x00"}}}, `header "n"`},
		"header value too long":   {Message{Type: "t", Headers: []Header{{Name: "n", Value: strings.Repeat("v", 8193)}}}, `header "n" has 8193 bytes`},
		"header without a value":  {Message{Type: "t", Headers: []Header{{Name: "n"}}}, ""},
		"type shown only in part": {Message{Type: strings.Repeat("t", 1<<20)}, "type has 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := publishOne(bus, c.m)
			if c.says == "" {
				must(t, err)
				if len(tx.events) != 1 {
					t.Fatalf("%d events were written", len(tx.events))
				}
				return
			}
			wantInvalid(t, err, "message 1 of 1", c.says)
			if len(err.Error()) > 1000 {
				t.Errorf("the error repeats the input: %d bytes", len(err.Error()))
			}
			if len(tx.events) != 0 {
				t.Error("something was written")
			}
		})
	}
}

func make64(n int) []Header {
	headers := make([]Header, n)
	for i := range headers {
		headers[i] = Header{Name: fmt.Sprint("h", i), Value: "v"}
	}
	return headers
}

func TestPublishWithoutATransaction(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	wantInvalid(t, bus.Publish(t.Context(), nil, Message{Type: "t"}), "publish: invalid: the transaction is nil")
}

// One bad message must leave the caller's transaction as it was.
func TestPublishRefusesTheWholeBatch(t *testing.T) {
	bus, store := newTestBus(t, Config{})
	batch := []Message{{Type: "t"}, {Type: "t", Key: "\xff"}, {Type: "t"}}
	tx := &fakeTx{}
	wantInvalid(t, bus.Publish(t.Context(), tx, batch...), `message 2 of 3, type "t"`)
	if len(tx.events) != 0 {
		t.Errorf("%d events of a refused batch were written", len(tx.events))
	}
	wantInvalid(t, bus.PublishNow(t.Context(), batch...), "message 2 of 3")
	if len(store.committed)+store.rolled != 0 {
		t.Error("a transaction was opened for a refused batch")
	}
}

func TestPublishNothing(t *testing.T) {
	bus, store := newTestBus(t, Config{})
	must(t, bus.Publish(t.Context(), &fakeTx{}))
	must(t, bus.PublishNow(t.Context()))
	if len(store.committed) != 0 {
		t.Error("a transaction was opened for no message")
	}
}

func TestPublishAll(t *testing.T) {
	n := 0
	bus, _ := newTestBus(t, Config{NewID: func() string { n++; return fmt.Sprint("made-", n) }})
	headers := []Header{{Name: "trace", Value: "1"}}
	tx := &fakeTx{}
	published, err := bus.PublishAll(t.Context(), tx, []Message{
		{Type: "a", Payload: map[string]int{"n": 1}, Headers: headers}, {ID: "mine", Type: "b", Key: "k"},
	})
	must(t, err)
	if len(published) != 2 || published[0] != (Published{ID: "made-1"}) || published[1] != (Published{ID: "mine"}) {
		t.Errorf("published: %+v", published)
	}
	headers[0].Value = "changed later"
	if e := tx.events[0]; e.ID != "made-1" || e.Type != "a" || string(e.Payload) != `{"n":1}` || e.Headers[0].Value != "1" {
		t.Errorf("first event: %+v", e)
	}
	if e := tx.events[1]; e.Key != "k" || string(e.Payload) != "null" {
		t.Errorf("second event: %+v", e)
	}
}

// An id that is taken by another event would lose the new one silently.
func TestPublishMismatch(t *testing.T) {
	bus, store := newTestBus(t, Config{})
	store.result = Mismatch
	_, err := publishOne(bus, Message{ID: "x", Type: "t"})
	if !errors.Is(err, ErrMismatch) {
		t.Fatalf("mismatch: %v", err)
	}
	wantText(t, err.Error(), `"x"`)
	if err := bus.PublishNow(t.Context(), Message{ID: "x", Type: "t"}); !errors.Is(err, ErrMismatch) || len(store.committed) != 0 {
		t.Errorf("PublishNow: %v, %d commits", err, len(store.committed))
	}
	store.result = Known
	_, err = publishOne(bus, Message{ID: "x", Type: "t"})
	must(t, err)
}

func TestPublishNowRetries(t *testing.T) {
	retryable := fmt.Errorf("deadlock: %w", ErrRetryable)
	unknown := fmt.Errorf("line dropped: %w", ErrCommitUnknown)
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		scripts []script
		tries   int
		is      []error
	}{
		"at once":                          {nil, 1, nil},
		"after conflicts":                  {[]script{{commit: retryable}, {begin: retryable}}, 3, nil},
		"after an unknown commit":          {[]script{{commit: unknown}}, 2, nil},
		"conflicts without end":            {repeat(script{commit: retryable}, 9), 5, []error{ErrRetryable}},
		"never known":                      {repeat(script{commit: unknown}, 9), 5, []error{ErrCommitUnknown}},
		"store down":                       {[]script{{begin: down}}, 1, []error{down}},
		"unknown, and then the store away": {[]script{{commit: unknown}, {begin: down}}, 2, []error{down, ErrCommitUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, store := newTestBus(t, Config{})
				before := len(c.scripts)
				store.scripts = c.scripts
				err := bus.PublishNow(t.Context(), Message{Type: "t"})
				if (err == nil) != (c.is == nil) {
					t.Fatalf("error: %v", err)
				}
				for _, want := range c.is {
					if !errors.Is(err, want) {
						t.Errorf("error %v does not wrap %v", err, want)
					}
				}
				tries := before - len(store.scripts) + len(store.committed)
				if tries != c.tries {
					t.Errorf("%d transactions, want %d", tries, c.tries)
				}
			})
		})
	}
}

func repeat(s script, n int) []script {
	all := make([]script, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// The caller's own transaction is never repeated by the library.
func TestInTxRunsOnce(t *testing.T) {
	bus, store := newTestBus(t, Config{})
	store.scripts = []script{{commit: ErrRetryable}}
	calls := 0
	err := bus.InTx(t.Context(), func(context.Context, *fakeTx) error { calls++; return nil })
	if !errors.Is(err, ErrRetryable) || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

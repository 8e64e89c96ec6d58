package engine

import (
	"context"
	"testing"
)

// A body that runs again after a conflict gets its event as it was published,
// whatever the run before did to its copy.
func TestExecuteTxRerunGetsFreshEvent(t *testing.T) {
	bus, store := newTestBus(t, Config{})
	calls := 0
	must(t, HandleTx(bus, Handler{Event: "e", Name: "h"}, func(_ context.Context, _ *fakeTx, e Event[map[string]int]) error {
		if calls++; len(e.Payload) != 1 || e.Payload["a"] != 1 || e.Header("trace") != "t1" {
			t.Errorf("run %d got %v and headers %v", calls, e.Payload, e.Headers)
		}
		e.Payload["a"], e.Payload["b"] = 2, 3
		e.Headers[0].Value = "changed"
		return nil
	}))
	m, err := NewMachine(bus)
	must(t, err)
	store.scripts = []script{{commit: ErrRetryable}, {commit: ErrRetryable}}
	if r := m.Execute(t.Context(), aRun(`{"a":1}`)); r.Outcome != Committed || calls != 3 {
		t.Errorf("result %+v after %d calls", r, calls)
	}
}

package linearize

import (
	"errors"
	"slices"
	"sync"

	"github.com/relaybus-go/relaybus/engine"
)

// This is the one file of the package with a lock: a History and its Calls are
// safe for concurrent use, everything else works on a copy.

// History collects the calls of any number of clients.
type History struct {
	family Family
	mu     sync.Mutex
	ops    []*Operation
}

// NewHistory returns an empty history of a store of the given family.
func NewHistory(f Family) *History { return &History{family: f} }

// Family returns the kind of store that the history comes from.
func (h *History) Family() Family { return h.family }

// Len returns how many calls were recorded.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// Record adds a call that is over. It panics when input and output do not
// match the table at [Operation].
func (h *History) Record(op Operation) {
	op.admit()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, &op)
}

// Begin adds a call that begins at a time. It is open until its end is
// reported, for ever if that never happens.
func (h *History) Begin(client int, at int64, input any) *Call {
	op := &Operation{Client: client, Call: at, Input: input}
	op.admit()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	return &Call{h: h, op: op}
}

// Operations returns a copy of what was recorded so far, in the order of
// recording.
func (h *History) Operations() []Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := make([]Operation, len(h.ops))
	for i, op := range h.ops {
		ops[i] = *op
	}
	return ops
}

// Call is a recorded call whose end may still be to come.
type Call struct {
	h  *History
	op *Operation
}

// Return reports the answer. It panics when it does not match the input.
func (c *Call) Return(at int64, output any) {
	c.end(at, output, Returned)
}

// Fail reports an error, which ends the call unless its [OutcomeOf] is Open.
func (c *Call) Fail(at int64, err error) {
	if outcome := OutcomeOf(err); outcome != Open {
		c.end(at, nil, outcome)
	}
}

// OutcomeOf says what an error means for the outcome of a call:
// [engine.ErrRetryable] is Retryable, [engine.Definite] and [engine.ErrInvalid]
// are Definite, nil is Returned, and any other leaves the call Open.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Returned
	case errors.Is(err, engine.ErrCommitUnknown):
		return Open
	case errors.Is(err, engine.ErrRetryable):
		return Retryable
	case engine.IsDefinite(err) || errors.Is(err, engine.ErrInvalid):
		return Definite
	}
	return Open
}

// End reports what a method returned: an answer when err is nil, else the
// error.
func (c *Call) End(at int64, output any, err error) {
	if err != nil {
		c.Fail(at, err)
		return
	}
	c.Return(at, output)
}

// Lose says that the store has lost what the call did or read; an answer that
// came, or is still to come, only serves to name things in reports.
func (c *Call) Lose() {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.op.Outcome = Lost
	c.op.Return = max(c.op.Return, c.op.Call)
}

func (c *Call) end(at int64, output any, outcome Outcome) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	op := *c.op
	if op.Outcome == Lost {
		outcome = Lost
	}
	op.Return, op.Output, op.Outcome = at, output, outcome
	op.admit()
	*c.op = op
}

// note adds what a statement did to a transaction that goes on.
func (c *Call) note(add func(tx *Transaction)) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	tx := c.op.Input.(Transaction)
	tx = Transaction{slices.Clone(tx.Published), slices.Clone(tx.Completed), slices.Clone(tx.Effects)}
	add(&tx)
	c.op.Input = tx
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/linearize"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// A history is what the clients of the store asked and were told, as they saw
// it: a call whose answer was lost, or whose process died, stays open. It knows
// one thing that clients do not, which commits a crash or a failover took back,
// because the promises are about what survives: a call whose commits are all
// lost is struck out, with what it read of other lost commits; one that lost
// some of them is open.
//
// Recording draws nothing, waits for nothing and is in no hash: a recorded run
// takes the steps of one that is not.
type history struct {
	w     *world
	at    int64
	calls []*told
	most  int // calls to record
	full  bool
}

// told is one recorded call. The methods of a nil one do nothing, so that runs
// without a history need no second way.
type told struct {
	linearize.Operation
	h           *history
	first, last int64 // positions: of its first commit, of the last it wrote or read
}

// mostCalls bounds a history. Drawn workloads stay below a tenth of it; a
// recorded one that is longer is not judged, and counted as unknown.
const mostCalls = 10_000

// ticksPerStep tells the calls of one step apart: the times of a history are
// hundredths of a step.
const ticksPerStep = 100

// clock returns the time of the next thing that a client sees.
func (h *history) clock() int64 {
	h.at = max(h.at+1, int64(h.w.steps)*ticksPerStep)
	return h.at
}

// begin records that a client makes a call.
func (h *history) begin(client int, in any) *told {
	if h == nil || h.full {
		return nil
	}
	if len(h.calls) == h.most {
		h.full, h.calls = true, nil
		return nil
	}
	t := &told{Operation: linearize.Operation{Client: client, Call: h.clock(), Input: in}, h: h}
	h.calls = append(h.calls, t)
	return t
}

// beginTx records that a client begins a transaction.
func (h *history) beginTx(client int) *told { return h.begin(client, linearize.Transaction{}) }

// operate makes a call of the operator's, who sits beside the store.
func operate[In, Out any](w *world, method func(*simstore.Store, context.Context, In) (Out, error), in In) (Out, error) {
	t := w.history.begin(operatorClient, in)
	w.current.told = t
	out, err := method(w.store, context.Background(), in)
	w.history.served(t)
	t.end(out, err)
	return out, err
}

// end records what the client was told.
func (t *told) end(out any, err error) {
	if t == nil {
		return
	}
	outcome := linearize.OutcomeOf(err)
	if outcome == linearize.Open {
		return
	}
	t.Return = t.h.clock()
	if outcome == linearize.Returned {
		t.Output = out
	}
	if t.Outcome != linearize.Lost {
		t.Outcome = outcome
	}
}

// endTx records how a transaction ended. A body that failed never sent COMMIT.
func (t *told) endTx(err error) {
	if t == nil {
		return
	}
	if linearize.OutcomeOf(err) == linearize.Open && !errors.Is(err, engine.ErrCommitUnknown) {
		err = engine.ErrRetryable
	}
	t.end(nil, err)
}

// change changes the transaction that is being recorded.
func (t *told) change(add func(tx *linearize.Transaction)) {
	if t != nil {
		tx := t.Input.(linearize.Transaction)
		add(&tx)
		t.Input = tx
	}
}

func (t *told) published(events []protocol.Event, results []engine.PublishResult) {
	t.change(func(tx *linearize.Transaction) {
		for i, r := range results {
			e := &events[i]
			tx.Published = append(tx.Published, linearize.Published{Event: e.ID, Type: e.Type, Key: e.Key, Result: r})
		}
	})
}

func (t *told) completed(l engine.Lease, v engine.Verdict) {
	t.change(func(tx *linearize.Transaction) {
		tx.Completed = append(tx.Completed, linearize.Completed{Lease: l, Verdict: v})
	})
}

func (t *told) effect(r *handlerRun) {
	t.change(func(tx *linearize.Transaction) {
		tx.Effects = append(tx.Effects, linearize.Name{Event: r.run.Picked.Delivery.Event, Handler: r.handler.name})
	})
}

// touched notes where the store stood when it committed something for the
// call, or judged it and changed nothing.
func (h *history) touched(x simstore.Committed) {
	if h == nil || h.w.current == nil || h.w.current.told == nil {
		return
	}
	t := h.w.current.told
	if x.Position == 0 {
		t.last = max(t.last, h.w.store.Position())
		return
	}
	if t.last = x.Position; t.first == 0 {
		t.first = x.Position
	}
}

// served notes that the store is about to answer: of a call that wrote nothing
// nobody knows what it read.
func (h *history) served(t *told) {
	if t != nil && t.first == 0 {
		t.last = h.w.store.Position()
	}
}

// rewound strikes out what the store lost.
func (h *history) rewound(keep int64) {
	if h == nil {
		return
	}
	for _, t := range h.calls {
		switch {
		case t.last <= keep || t.Outcome == linearize.Lost:
			continue
		case t.first != 0 && t.first <= keep:
			t.Outcome, t.Output = linearize.Open, nil // done in part
		default:
			t.Outcome, t.Return = linearize.Lost, max(t.Return, t.Call)
		}
	}
}

// History says what became of the history of a run.
type History struct {
	Calls int // recorded; at least so many when TooLong
	Open  int // of them: without an answer
	Lost  int // of them: struck out, because the store lost them
	// TooLong: there were more calls than are recorded, and nothing was judged.
	TooLong bool
	// Report is what linearize found; empty when TooLong.
	Report linearize.Report
}

// Status is illegal when no order of the calls explains some answer, and
// unknown when that was not found out.
func (h *History) Status() linearize.Status {
	if h.TooLong {
		return linearize.Unknown
	}
	return h.Report.Status()
}

// closing records what is left in the end: all rows, and how often the effects
// of each delivery were committed.
func (h *history) closing() {
	store := h.w.store
	for in := (engine.ListInput{Limit: engine.MaxList}); ; {
		t := h.begin(operatorClient, in)
		reply, err := store.List(context.Background(), in)
		t.end(reply, err)
		if err != nil || reply.Next == 0 {
			break
		}
		in.After = reply.Next
	}
	counts := map[linearize.Name]int{}
	for _, r := range store.Snapshot().Rows {
		if r.Table != effectTable {
			continue
		}
		run, _, _ := strings.Cut(r.Key, "@")
		slash := strings.LastIndexByte(run, '/')
		counts[linearize.Name{Event: run[:slash], Handler: run[slash+1:]}]++
	}
	var names []linearize.Name
	for _, t := range h.calls {
		if tx, ok := t.Input.(linearize.Transaction); ok {
			names = append(names, tx.Effects...)
		}
	}
	slices.SortFunc(names, linearize.Name.Compare)
	for _, n := range slices.Compact(names) {
		h.begin(operatorClient, linearize.CountEffects{Name: n}).end(counts[n], nil)
	}
}

// judge closes the history and looks for an order that explains it.
func (h *history) judge() *History {
	h.closing()
	if h.full {
		return &History{Calls: h.most, TooLong: true}
	}
	found := &History{Calls: len(h.calls)}
	family := linearize.Locking
	if h.w.knobs.Semantics == protocol.Snapshot {
		family = linearize.Snapshot
	}
	all := linearize.NewHistory(family)
	for _, t := range h.calls {
		switch t.Outcome {
		case linearize.Open:
			found.Open++
		case linearize.Lost:
			found.Lost++
		}
		all.Record(t.Operation)
	}
	found.Report = linearize.Check(all, 0)
	return found
}

// linearizability is the name of the checker of histories.
const linearizability = "linearizability"

// judgeHistory judges the history of a run that has ended.
func (w *world) judgeHistory() *History {
	if w.history == nil {
		return nil
	}
	h := w.history.judge()
	if h.Status() == linearize.Illegal {
		for _, r := range h.Report.Results {
			if r.Status == linearize.Illegal {
				w.checks.deaf = false
				w.checks.fail(linearizability, r.Property.String(), "%s\n  (times are hundredths of a step)", r.Explanation)
				break
			}
		}
	}
	return h
}

// String says in a few words what was found.
func (h *History) String() string {
	if h.TooLong {
		return fmt.Sprintf("unknown: more than %d calls", h.Calls)
	}
	return fmt.Sprintf("%s: %d calls, %d open, %d lost", h.Status(), h.Calls, h.Open, h.Lost)
}

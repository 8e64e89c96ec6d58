package storetest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// recorder is a test that notes how it ended instead of failing.
type recorder struct {
	testing.TB
	failure  string
	skipped  bool
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return r.failure != "" }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(string, ...any) {
}
func (r *recorder) Errorf(format string, args ...any) {
	r.failure += fmt.Sprintf(format, args...) + "\n"
}
func (r *recorder) FailNow() { r.failure += "failed\n"; runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skip(...any) {
	r.skipped = true
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) { r.Skip() }

// watch runs a test body that must not skip.
func watch(t *testing.T, body func(t testing.TB)) string {
	t.Helper()
	failure, skipped := watchSkipping(t, body)
	if skipped {
		t.Error("skipped")
	}
	return failure
}

// watchSkipping runs a test body to its end and returns how it failed, "" if
// it did not, and whether it skipped.
func watchSkipping(t *testing.T, body func(t testing.TB)) (failure string, skipped bool) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		body(r)
	}()
	<-done
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return r.failure, r.skipped
}

// sim is a simstore with one method at a time overridden.
type sim = *simstore.Store

type (
	losesCompletions  struct{ sim }
	saysApplied       struct{ sim }
	completesTwice    struct{ sim }
	forgetsToCharge   struct{ sim }
	forgetsWhatRuns   struct{ sim }
	servesLate        struct{ sim }
	forgetsSuspects   struct{ sim }
	takesAnyLimit     struct{ sim }
	givesEverything   struct{ sim }
	purgesYoung       struct{ sim }
	requeuesAll       struct{ sim }
	cryWolf           struct{ sim }
	countsRunning     struct{ sim }
	losesPages        struct{ sim }
	cutsPayloads      struct{ sim }
	publishesReversed struct{ sim }
	commitsAnyway     struct{ sim }
	revives           struct{ sim }
	dropsRest         struct{ sim }
	renewsForAll      struct{ sim }
	buriesSilently    struct{ sim }
	hangsOn           struct{ sim }
	stopsAtBadRow     struct{ sim }
	neverRetriesStuck struct{ sim }
	hidesStuck        struct{ sim }
	failsTakeover     struct{ sim }
)

func (s losesCompletions) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	reply := engine.CompleteManyReply{Ended: make([]engine.Ended, len(in.Leases))}
	for i := range reply.Ended {
		reply.Ended[i].Verdict = engine.Applied
	}
	return reply, nil
}

func (s saysApplied) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	reply, err := s.sim.CompleteMany(ctx, in)
	for i := range reply.Ended {
		reply.Ended[i].Verdict = engine.Applied
	}
	return reply, err
}

func (s completesTwice) Complete(ctx context.Context, tx *simstore.Tx, in engine.CompleteInput) (engine.Verdict, error) {
	_, err := s.sim.Complete(ctx, tx, in)
	return engine.Applied, err
}

func (s forgetsToCharge) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	return s.Snooze(ctx, engine.SnoozeInput{Lease: in.Lease, Rest: in.Rest, Delay: in.Delay, Settle: in.Settle})
}

func (s forgetsWhatRuns) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	in.Running = nil
	return s.sim.Claim(ctx, in)
}

func (s servesLate) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	in.NotAfter = 0
	return s.sim.Claim(ctx, in)
}

func (s forgetsSuspects) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	in.SuspectRunning = false
	return s.sim.Claim(ctx, in)
}

func (s takesAnyLimit) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	in.Limit = max(in.Limit, 10)
	return s.sim.Claim(ctx, in)
}

func (s givesEverything) Relinquish(ctx context.Context, in engine.RelinquishInput) (engine.RelinquishReply, error) {
	in.Keep, in.Running = nil, nil
	return s.sim.Relinquish(ctx, in)
}

func (s purgesYoung) Purge(ctx context.Context, in engine.PurgeInput) (engine.PurgeReply, error) {
	in.DeadAfter = min(in.DeadAfter, time.Nanosecond)
	if in.DeadAfter == 0 {
		in.DeadAfter = time.Nanosecond
	}
	return s.sim.Purge(ctx, in)
}

func (s requeuesAll) Requeue(ctx context.Context, in engine.RequeueInput) (engine.RequeueReply, error) {
	in.All = true
	return s.sim.Requeue(ctx, in)
}

func (s cryWolf) Verify(ctx context.Context) (engine.VerifyReply, error) {
	reply, err := s.sim.Verify(ctx)
	if stats, _ := s.Statistics(ctx); stats.Expired > 0 {
		reply.Findings = append(reply.Findings, engine.Finding{Check: "expired lane"})
	}
	return reply, err
}

func (s countsRunning) Statistics(ctx context.Context) (engine.Statistics, error) {
	stats, err := s.sim.Statistics(ctx)
	stats.Due += stats.Running
	return stats, err
}

func (s losesPages) List(ctx context.Context, in engine.ListInput) (engine.ListReply, error) {
	reply, err := s.sim.List(ctx, in)
	if reply.Next != 0 {
		reply.Next++
	}
	return reply, err
}

func (s cutsPayloads) Publish(ctx context.Context, tx *simstore.Tx, events []protocol.Event) ([]engine.PublishResult, error) {
	events = slices.Clone(events)
	for i := range events {
		events[i].Payload, _, _ = bytes.Cut(events[i].Payload, []byte{0})
	}
	return s.sim.Publish(ctx, tx, events)
}

func (s publishesReversed) Publish(ctx context.Context, tx *simstore.Tx, events []protocol.Event) ([]engine.PublishResult, error) {
	events = slices.Clone(events)
	slices.Reverse(events)
	results, err := s.sim.Publish(ctx, tx, events)
	slices.Reverse(results)
	return results, err
}

func (s commitsAnyway) InTx(ctx context.Context, fn func(ctx context.Context, tx *simstore.Tx) error) error {
	var failed error
	err := s.sim.InTx(ctx, func(ctx context.Context, tx *simstore.Tx) error {
		failed = fn(ctx, tx)
		return nil
	})
	if failed != nil {
		return failed
	}
	return err
}

func (s revives) Subscribe(ctx context.Context, in engine.SubscribeInput) (engine.SubscribeReply, error) {
	in.Revive = true
	return s.sim.Subscribe(ctx, in)
}

func (s dropsRest) Reschedule(ctx context.Context, in engine.RescheduleInput) (engine.EndReply, error) {
	in.Rest = nil
	return s.sim.Reschedule(ctx, in)
}

func (s renewsForAll) ExtendLease(ctx context.Context, in engine.ExtendLeaseInput) (engine.ExtendLeaseReply, error) {
	for i := range in.Lanes {
		if l, ok := s.Lane(in.Lanes[i].Lane); ok {
			in.Holder = l.Holder
		}
	}
	return s.sim.ExtendLease(ctx, in)
}

func (s buriesSilently) Unsubscribe(ctx context.Context, in engine.UnsubscribeInput) (engine.UnsubscribeReply, error) {
	in.Bury = !in.Bury
	return s.sim.Unsubscribe(ctx, in)
}

func (s hangsOn) InTx(ctx context.Context, fn func(ctx context.Context, tx *simstore.Tx) error) error {
	return s.sim.InTx(context.WithoutCancel(ctx), func(_ context.Context, tx *simstore.Tx) error { return fn(ctx, tx) })
}

func (s stopsAtBadRow) CompleteMany(ctx context.Context, in engine.CompleteManyInput) (engine.CompleteManyReply, error) {
	reply, err := s.sim.CompleteMany(ctx, in)
	for _, e := range reply.Ended {
		if e.Err != nil {
			return engine.CompleteManyReply{}, e.Err
		}
	}
	return reply, err
}

func (s neverRetriesStuck) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	in.RetryStuck = false
	return s.sim.Claim(ctx, in)
}

func (s hidesStuck) Verify(ctx context.Context) (engine.VerifyReply, error) {
	reply, err := s.sim.Verify(ctx)
	reply.Findings = slices.DeleteFunc(reply.Findings, func(f engine.Finding) bool { return f.Check == "stuck" })
	return reply, err
}

func (s failsTakeover) Claim(ctx context.Context, in engine.ClaimInput) (engine.ClaimReply, error) {
	reply, err := s.sim.Claim(ctx, in)
	if reply.Stuck > 0 && len(reply.Picks) > 0 {
		return engine.ClaimReply{}, errBadRow
	}
	return reply, err
}

// wrongStores names the case that must reject each.
var wrongStores = []struct {
	name string
	wrap func(sim) Subject[*simstore.Tx]
	by   string
	// random: the random commands reject it too, practically always with their
	// default number of sequences.
	random bool
}{
	{"loses completions", func(s sim) Subject[*simstore.Tx] { return losesCompletions{s} }, "a completed delivery is gone", true},
	{"says Applied", func(s sim) Subject[*simstore.Tx] { return saysApplied{s} }, "verdicts stand in the caller's order", true},
	{"completes twice", func(s sim) Subject[*simstore.Tx] { return completesTwice{s} }, "a transaction must delete the row itself", true},
	{"forgets to charge", func(s sim) Subject[*simstore.Tx] { return forgetsToCharge{s} }, "a failed run is charged and waits", true},
	{"forgets what runs", func(s sim) Subject[*simstore.Tx] { return forgetsWhatRuns{s} }, "nothing of a key starts while one of it runs", true},
	{"serves late", func(s sim) Subject[*simstore.Tx] { return servesLate{s} }, "a claim after its time changes nothing", true},
	{"forgets suspects", func(s sim) Subject[*simstore.Tx] { return forgetsSuspects{s} }, "suspects run one at a time", false},
	{"takes any limit", func(s sim) Subject[*simstore.Tx] { return takesAnyLimit{s} }, "limit and room of a call", true},
	{"gives everything back", func(s sim) Subject[*simstore.Tx] { return givesEverything{s} }, "a lane with a run is not given back", true},
	{"purges the young", func(s sim) Subject[*simstore.Tx] { return purgesYoung{s} }, "a purge of nothing", true},
	{"requeues all", func(s sim) Subject[*simstore.Tx] { return requeuesAll{s} }, "requeue everything needs to be said", false},
	{"cries wolf", func(s sim) Subject[*simstore.Tx] { return cryWolf{s} }, "verify raises no false alarm", false},
	{"counts what runs as due", func(s sim) Subject[*simstore.Tx] { return countsRunning{s} }, "statistics count what is there", true},
	{"loses pages", func(s sim) Subject[*simstore.Tx] { return losesPages{s} }, "a list comes in pages", false},
	{"cuts payloads", func(s sim) Subject[*simstore.Tx] { return cutsPayloads{s} }, "payload bytes are kept exactly", false},
	{"publishes in reverse", func(s sim) Subject[*simstore.Tx] { return publishesReversed{s} }, "sequences follow the input order of a key", false},
	{"commits anyway", func(s sim) Subject[*simstore.Tx] { return commitsAnyway{s} }, "a rolled back publish leaves nothing", true},
	{"revives", func(s sim) Subject[*simstore.Tx] { return revives{s} }, "a start does not revive a removed handler", false},
	{"drops the rest of a chain", func(s sim) Subject[*simstore.Tx] { return dropsRest{s} }, "a failed head releases the rest with it", false},
	{"renews for all", func(s sim) Subject[*simstore.Tx] { return renewsForAll{s} }, "renewals", true},
	{"hangs on", func(s sim) Subject[*simstore.Tx] { return hangsOn{s} }, "a transaction whose context ends", false},
	{"stops at a bad row", func(s sim) Subject[*simstore.Tx] { return stopsAtBadRow{s} }, "a bad row among many completions", false},
	{"never retries what is stuck", func(s sim) Subject[*simstore.Tx] { return neverRetriesStuck{s} }, "stuck rows of a free lane are tried again", false},
	{"hides what is stuck", func(s sim) Subject[*simstore.Tx] { return hidesStuck{s} }, "a failure that cannot be recorded is stuck", false},
	{"fails a takeover at a bad row", func(s sim) Subject[*simstore.Tx] { return failsTakeover{s} }, "a charge that cannot be recorded is stuck", false},
	{"deletes for bury", func(s sim) Subject[*simstore.Tx] { return buriesSilently{s} }, "an unsubscribed handler's work is buried", true},
}

func caseNamed(t *testing.T, name string) kase {
	t.Helper()
	for _, c := range allCases() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no case %q", name)
	return kase{}
}

// TestWrongStoresAreRejected: a suite that cannot fail says nothing.
func TestWrongStoresAreRejected(t *testing.T) {
	noFailFiles(t)
	letGo = 300 * time.Millisecond
	defer func() { letGo = 10 * time.Second }()
	for _, w := range wrongStores {
		for _, semantics := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
			t.Run(w.name+"/"+semantics.String(), func(t *testing.T) {
				h := simHarness(semantics, w.wrap)
				if watch(t, func(t testing.TB) { h.play(t, caseNamed(t.(*recorder).TB.(*testing.T), w.by)) }) == "" {
					t.Errorf("case %q accepts it", w.by)
				}
				if w.random && !testing.Short() && watch(t, func(t testing.TB) { h.random(t) }) == "" {
					t.Error("the random commands accept it")
				}
			})
		}
	}
}

// noFailFiles keeps rapid from writing files about failures that are meant,
// and from shrinking them.
func noFailFiles(t *testing.T) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		f := flag.Lookup(name)
		if f == nil {
			t.Fatalf("rapid has no flag %q", name)
		}
		before := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(before) })
	}
}

// TestSequencesCloseTheirStores: a server has few connections, and a run of
// random commands opens hundreds of stores.
func TestSequencesCloseTheirStores(t *testing.T) {
	h := simHarness(protocol.Locking, nil)
	open, most := 0, 0
	inner := h.Open
	h.Open = func(t testing.TB) *Opened[*simstore.Tx] {
		open++
		most = max(most, open)
		t.Cleanup(func() { open-- })
		return inner(t)
	}
	h.random(t)
	if open != 0 || most != 1 {
		t.Errorf("%d stores were open at once, %d still are", most, open)
	}
}

// TestCasesAreNamed: each case has a name of its own and says what a user
// would lose.
func TestCasesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range allCases() {
		if seen[c.name] || c.name == "" || strings.TrimSpace(c.why) == "" || c.run == nil {
			t.Errorf("case %q: a second one, or without an explanation", c.name)
		}
		seen[c.name] = true
	}
	if len(seen) < 70 {
		t.Errorf("%d cases", len(seen))
	}
}

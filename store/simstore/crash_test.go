package simstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// TestCrashToAPrefix runs a store at random, keeps what it held after each
// commit, and checks that a crash goes back to exactly that.
func TestCrashToAPrefix(t *testing.T) {
	for seed := range uint64(60) {
		b := newBench(t, protocol.Locking, func(o *Options) { o.AsyncClaims, o.History = seed%2 == 0, true })
		r := rand.New(rand.NewPCG(seed, 1))
		held := []Contents{b.Snapshot()}
		drawn := []sequence{b.db.sequence}
		b.committed = func() { held, drawn = append(held, b.Snapshot()), append(drawn, b.db.sequence) }
		b.subscribe("g", "h")
		workers := []*worker{b.worker("a", "g", "h"), b.worker("b", "h")}
		for step := range 60 {
			actAtRandom(b, r, workers[r.IntN(2)], step)
			if r.IntN(12) > 0 {
				continue
			}
			open := must(b.Begin(ctx))(t)
			open.Put(ctx, "t", "open", nil)
			lose := min(b.Position(), r.Int64N(8))
			b.crash(b.Position() - lose)
			at := b.Position()
			held, drawn = held[:at+1], drawn[:at+1]
			if got := b.Snapshot(); !reflect.DeepEqual(got, held[at]) {
				t.Fatalf("seed %d: after a crash to %d\n got %+v\nwant %+v", seed, at, got, held[at])
			}
			if b.db.sequence != drawn[at] || b.Durable() != at {
				t.Fatalf("seed %d: sequence %v, durable %d", seed, b.db.sequence, b.Durable())
			}
			if err := open.Put(ctx, "t", "open", nil); !errors.Is(err, ErrConnectionLost) {
				t.Fatalf("seed %d: a transaction outlived the crash: %v", seed, err)
			}
			for _, w := range workers {
				w.held, w.running = nil, nil
			}
			if at == 0 {
				b.subscribe("g", "h")
			}
		}
		if len(b.db.garbage) > 0 || len(b.db.open) > 0 {
			t.Fatalf("seed %d: %d old versions and %d transactions are left", seed, len(b.db.garbage), len(b.db.open))
		}
	}
}

// actAtRandom lets a worker or a publisher do something.
func actAtRandom(b *bench, r *rand.Rand, w *worker, step int) {
	b.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
	switch r.IntN(6) {
	case 0:
		id := fmt.Sprint("e", step)
		if r.IntN(2) == 0 {
			id += fmt.Sprint("/k", r.IntN(3))
		}
		b.publish(id)
	case 1, 2:
		w.claim()
	default:
		if len(w.running) == 0 {
			return
		}
		id := w.running[r.IntN(len(w.running))].Delivery
		switch r.IntN(4) {
		case 0:
			w.reschedule(id)
		case 1:
			w.bury(id)
			must(b.Requeue(ctx, engine.RequeueInput{IDs: []protocol.DeliveryID{id}}))(b)
		default:
			w.complete(id)
		}
		w.forget(id)
	}
}

// TestAsyncCommitsAreLostAsASuffix: claims are acknowledged before they are
// durable; the next synchronous commit makes all before it durable.
func TestAsyncCommitsAreLostAsASuffix(t *testing.T) {
	b := newBench(t, protocol.Locking, func(o *Options) { o.AsyncClaims = true })
	b.subscribe("h")
	b.publish("a", "b", "c")
	w := b.worker("w", "h")
	durable := b.Durable()
	if durable != b.Position() {
		t.Fatal("a publish was not durable")
	}
	w.claim()
	if b.Durable() != durable || b.Position() == durable {
		t.Fatalf("after a claim position %d, durable %d", b.Position(), b.Durable())
	}
	w.complete(1)
	if b.Durable() != b.Position() {
		t.Fatal("a completion did not make the claim before it durable")
	}
	w.forget(1)
	w.claim()
	b.crash(b.Durable())
	if l := must2(b.Lane(w.held[0].Lane)); l.Claim != 2 {
		t.Fatalf("the lane says claim %d, want the first one, which the completion made durable", l.Claim)
	}
}

func must2[T any](value T, _ bool) T { return value }

// TestIDsAreIssuedAgain: what a crash lost is drawn again, for something else.
func TestIDsAreIssuedAgain(t *testing.T) {
	b := newBench(t, protocol.Locking)
	b.subscribe("h")
	b.publish("a")
	before := b.Position()
	b.publish("lost")
	b.crash(before)
	b.publish("found")
	d, ok := b.Delivery(2)
	if !ok || d.Event != "found" {
		t.Fatalf("delivery 2 is %+v, want that of the event published after the crash", d)
	}
}

// TestMajorityLosesNothing: a Snapshot store acknowledges what a majority has.
func TestMajorityLosesNothing(t *testing.T) {
	b := newBench(t, protocol.Snapshot)
	b.subscribe("h")
	b.publish("a")
	before := b.Position()
	open := must(b.Begin(ctx))(t)
	if err := open.Put(ctx, "t", "x", nil); err != nil {
		t.Fatal(err)
	}
	b.Crash(0)
	if b.Position() != before {
		t.Fatalf("position %d, want %d", b.Position(), before)
	}
	if err := open.Commit(ctx); !errors.Is(err, engine.ErrCommitUnknown) {
		t.Fatalf("COMMIT across a failover: %v", err)
	}
}

// TestCallAcrossACrash: a call whose transaction the crash ended fails with an
// unknown outcome, at whichever step the crash comes, and leaves nothing of
// itself behind.
func TestCallAcrossACrash(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		for _, step := range []string{"complete", "lock lanes", "delete", "commit", "reply"} {
			b := newBench(t, mode)
			b.subscribe("h")
			b.publish("a")
			w := b.worker("w", "h")
			w.claim()
			struck := false
			b.script.once("CompleteMany", step, func() { struck = true; b.crash(b.Position()) })
			_, err := b.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{w.lease(1)}})
			if !struck {
				continue
			}
			if err == nil || errors.Is(err, engine.ErrRetryable) || engine.IsDefinite(err) {
				t.Errorf("crash at %q: %v", step, err)
			}
			if _, there := b.Delivery(1); there == (step == "reply") {
				t.Errorf("crash at %q: delivery there: %v", step, there)
			}
			if len(b.db.open) > 0 {
				t.Errorf("crash at %q: a transaction is left open", step)
			}
		}
	})
}

// TestForget: a store that will not go back further drops what it would need.
func TestForget(t *testing.T) {
	b := newBench(t, protocol.Locking)
	b.subscribe("h")
	for i := range 20 {
		b.publish(fmt.Sprint(i))
	}
	b.Forget(15)
	if len(b.db.log) != 6 {
		t.Fatalf("%d commits can be undone, want 6", len(b.db.log))
	}
	b.Crash(3)
	if b.Position() != 15 {
		t.Fatalf("went back to %d", b.Position())
	}
	if d, ok := b.Delivery(14); !ok || d.Event != "13" {
		t.Fatalf("delivery 14 is %+v", d)
	}
	if b.db.sequence.next != 14 {
		t.Fatalf("the next id follows %d", b.db.sequence.next)
	}
	live := New()
	live.Subscribe(ctx, engine.SubscribeInput{Group: "g"})
	if len(live.db.log) != 0 {
		t.Fatal("a live store remembers how to undo what is durable")
	}
}

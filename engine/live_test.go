package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/simstore"
)

// These tests run whole buses against simstore, as an application would, in
// the fake time of synctest and on both families of stores.

type bus = engine.Bus[*simstore.Tx]

// onBothFamilies runs body on a locking and on a snapshot store.
func onBothFamilies(t *testing.T, body func(t *testing.T, store *simstore.Store)) {
	for _, s := range []protocol.Semantics{protocol.Locking, protocol.Snapshot} {
		t.Run(s.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body(t, simstore.NewWith(simstore.Options{Semantics: s}))
			})
		})
	}
}

// startBus starts a bus with what register registers; the test's end stops it.
func startBus(t *testing.T, store engine.TxStore[*simstore.Tx], register func(b *bus) error) *bus {
	t.Helper()
	b, err := engine.New(store, engine.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, register(b))
	must(t, b.Start(context.Background()))
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stop(t *testing.T, buses ...*bus) {
	t.Helper()
	for _, b := range buses {
		must(t, b.Stop(context.Background()))
	}
}

// log collects lines from handlers.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// wantRest fails unless the store holds n deliveries.
func wantRest(t *testing.T, store *simstore.Store, n int) []protocol.Delivery {
	t.Helper()
	rest := store.Snapshot().Deliveries
	if len(rest) != n {
		t.Fatalf("%d deliveries are left, want %d: %+v", len(rest), n, rest)
	}
	return rest
}

// A retried head is not overtaken by what follows it, on either of two
// workers, and other keys do not wait for it.
func TestLiveKeyOrderWithRetries(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		var slow, other log
		var mu sync.Mutex
		running := map[string]int{}
		register := func(b *bus) error {
			h := engine.Handler{Event: "e", Name: "h", Retry: engine.Exponential{Base: time.Second, Cap: time.Second}}
			return engine.Handle(b, h, func(_ context.Context, e engine.Event[int]) error {
				mu.Lock()
				running[e.Key]++
				if running[e.Key] > 1 {
					t.Errorf("two runs of key %s at once", e.Key)
				}
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				running[e.Key]--
				mu.Unlock()
				if e.Key == "other" {
					other.add("%d", e.Payload)
				} else if slow.add("%d/%d", e.Payload, e.Attempt); e.Payload == 3 && e.Attempt < 3 {
					return errors.New("not yet")
				}
				return nil
			})
		}
		one, two := startBus(t, store, register), startBus(t, store, register)
		for i := 1; i <= 6; i++ {
			must(t, one.PublishNow(t.Context(), engine.Message{Type: "e", Key: "slow", Payload: i}, engine.Message{Type: "e", Key: "other", Payload: i}))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"1/1", "2/1", "3/1", "3/2", "3/3", "4/1", "5/1", "6/1"}; !slices.Equal(slow.lines, want) {
			t.Errorf("runs of the key with a failure: %q", slow.lines)
		}
		if want := []string{"1", "2", "3", "4", "5", "6"}; !slices.Equal(other.lines, want) {
			t.Errorf("runs of the other key: %q", other.lines)
		}
		stop(t, one, two)
		wantRest(t, store, 0)
	})
}

// What a failed run wrote is gone; what the successful one wrote is there
// once, with everything it published.
func TestLiveTransactionalEffectIsThereOnce(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		var follow log
		b := startBus(t, store, func(b *bus) error {
			return errors.Join(
				engine.HandleTx(b, engine.Handler{Event: "order", Name: "book"}, func(ctx context.Context, tx *simstore.Tx, e engine.Event[string]) error {
					if err := tx.Put(ctx, "book", fmt.Sprint(e.ID, "/", e.Attempt), []byte(e.Payload)); err != nil {
						return err
					}
					if err := b.Publish(ctx, tx, engine.Message{ID: fmt.Sprint("booked ", e.Attempt), Type: "booked"}); err != nil {
						return err
					}
					switch e.Attempt {
					case 1:
						return errors.New("first failure")
					case 2:
						panic("second failure")
					}
					return nil
				}),
				engine.Handle(b, engine.Handler{Event: "booked", Name: "tell"}, func(_ context.Context, e engine.Event[[]byte]) error {
					follow.add("%s", e.ID)
					return nil
				}))
		})
		must(t, b.PublishNow(t.Context(), engine.Message{ID: "o1", Type: "order", Payload: "tea"}))
		time.Sleep(time.Minute)
		stop(t, b)
		rows := store.Snapshot().Rows
		if len(rows) != 1 || rows[0].Key != "o1/3" || string(rows[0].Value) != "tea" {
			t.Errorf("effects: %+v", rows)
		}
		if !slices.Equal(follow.lines, []string{"booked 3"}) {
			t.Errorf("events that followed: %q", follow.lines)
		}
		wantRest(t, store, 0)
	})
}

// Every way to fail for good ends in the dead letters with its reason, and a
// requeued delivery starts over.
func TestLiveDeadLetters(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		var runs log
		repaired := false
		b := startBus(t, store, func(b *bus) error {
			h := engine.Handler{Event: "e", Name: "h", MaxAttempts: 2, Retry: engine.Exponential{Base: time.Second}}
			return engine.Handle(b, h, func(_ context.Context, e engine.Event[string]) error {
				runs.add("%s %d/%d", e.Payload, e.Attempt, e.MaxAttempts)
				switch {
				case repaired:
					return nil
				case e.Payload == "cancelled":
					return engine.Cancel(errors.New("no such customer"))
				default:
					return errors.New("failed\x00 again")
				}
			})
		})
		must(t, b.PublishNow(t.Context(),
			engine.Message{Type: "e", Payload: "fails"},
			engine.Message{Type: "e", Payload: "cancelled"},
			engine.Message{Type: "e", Payload: []byte("not JSON")}))
		time.Sleep(time.Minute)
		synctest.Wait()
		reasons := map[int32]string{}
		var ids []protocol.DeliveryID
		for _, d := range wantRest(t, store, 3) {
			if d.Status != protocol.Dead {
				t.Errorf("not dead: %+v", d)
			}
			reasons[d.Attempts] += d.LastError + "\n"
			ids = append(ids, d.ID)
		}
		for _, part := range []string{"failed\uFFFD again", "cannot be decoded into string"} {
			if !strings.Contains(reasons[2], part) {
				t.Errorf("reasons after two attempts lack %q: %q", part, reasons[2])
			}
		}
		if !strings.Contains(reasons[1], "no such customer") {
			t.Errorf("the cancelled one: %q", reasons)
		}
		repaired, runs.lines = true, nil
		_, err := store.Requeue(t.Context(), engine.RequeueInput{IDs: ids[:2]})
		must(t, err)
		time.Sleep(time.Minute)
		synctest.Wait() // so that what the handlers wrote may be read
		slices.Sort(runs.lines)
		if !slices.Equal(runs.lines, []string{"cancelled 1/2", "fails 1/2"}) {
			t.Errorf("after the requeue: %q", runs.lines)
		}
		stop(t, b)
		wantRest(t, store, 1)
	})
}

// Ten restarts in the middle of a run cost nobody an attempt.
func TestLiveRestartsChargeNothing(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		var mu sync.Mutex
		patient, highest := false, 0
		register := func(b *bus) error {
			h := engine.Handler{Event: "e", Name: "h", Concurrency: 1, MaxAttempts: 3}
			return engine.Handle(b, h, func(ctx context.Context, e engine.Event[int]) error {
				mu.Lock()
				highest = max(highest, e.Attempt)
				finish := patient
				mu.Unlock()
				if finish {
					return nil
				}
				<-ctx.Done()
				return errors.New("interrupted")
			})
		}
		b := startBus(t, store, register)
		for i := range 20 {
			must(t, b.PublishNow(t.Context(), engine.Message{Type: "e", Payload: i}))
		}
		for range 10 {
			time.Sleep(2 * time.Second)
			stop(t, b)
			for _, d := range wantRest(t, store, 20) {
				if d.Attempts != 0 || d.Takeovers != 0 {
					t.Fatalf("a graceful stop charged %+v", d)
				}
			}
			must(t, b.Start(context.Background()))
		}
		mu.Lock()
		patient = true
		mu.Unlock()
		stop(t, b)
		must(t, b.Start(context.Background()))
		time.Sleep(5 * time.Minute)
		stop(t, b)
		wantRest(t, store, 0)
		if highest != 1 {
			t.Errorf("a handler was shown attempt %d", highest)
		}
	})
}

// The bytes a handler sees are those that were published, after a failure and
// a requeue too.
func TestLivePayloadsAndLimits(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		payloads := [][]byte{
			{}, []byte("null"), []byte(`{"z":9007199254740993,"a":1e400,"a":-0}`), []byte(`"\u0000 \\u0000 \ud800"`),
			{0xff, 0xfe, 0}, make([]byte, engine.MaxPayload),
		}
		var sent, got []string
		var mu sync.Mutex
		b := startBus(t, store, func(b *bus) error {
			h := engine.Handler{Event: strings.Repeat("e", engine.MaxName), Name: strings.Repeat("ä", engine.MaxName/2), Retry: engine.Exponential{Base: time.Second}}
			return engine.Handle(b, h, func(_ context.Context, e engine.Event[json.RawMessage]) error {
				if e.Attempt == 1 {
					return errors.New("first")
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%x %s", sha256.Sum256(e.Payload), e.Header("n")))
				return nil
			})
		})
		for i, p := range payloads {
			m := engine.Message{
				ID: fmt.Sprint(i, strings.Repeat("i", engine.MaxID-1)), Key: strings.Repeat("k", engine.MaxKey),
				Type: strings.Repeat("e", engine.MaxName), Payload: p,
				Headers: []engine.Header{{Name: "n", Value: fmt.Sprintf(`%d "<>&\u2028`, i)}},
			}
			must(t, b.PublishNow(t.Context(), m))
			sent = append(sent, fmt.Sprintf("%x %s", sha256.Sum256(p), m.Headers[0].Value))
		}
		time.Sleep(time.Minute)
		stop(t, b)
		if !slices.Equal(got, sent) {
			t.Errorf("sent and got differ:\n%q\n%q", sent, got)
		}
	})
}

// A delay counts from the store's clock, holds back its own key and nothing
// else, and is not renewed by a duplicate.
func TestLiveDelays(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		began := time.Now()
		var mu sync.Mutex
		seen := map[string]time.Duration{}
		b := startBus(t, store, func(b *bus) error {
			return engine.Handle(b, engine.Handler{Event: "e", Name: "h"}, func(_ context.Context, e engine.Event[[]byte]) error {
				mu.Lock()
				defer mu.Unlock()
				if _, again := seen[e.ID]; again {
					t.Errorf("%s ran twice", e.ID)
				}
				seen[e.ID] = time.Since(began)
				return nil
			})
		})
		must(t, b.PublishNow(t.Context(),
			engine.Message{ID: "delayed", Type: "e", Key: "k", Delay: time.Minute},
			engine.Message{ID: "behind it", Type: "e", Key: "k"},
			engine.Message{ID: "of another key", Type: "e", Key: "l"},
			engine.Message{ID: "at a time", Type: "e", At: began.Add(2 * time.Hour)},
			engine.Message{ID: "at a time that passed", Type: "e", At: began}))
		must(t, b.PublishNow(t.Context(), engine.Message{ID: "at a time", Type: "e", Delay: time.Second}))
		time.Sleep(3 * time.Hour)
		stop(t, b)
		for id, due := range map[string]time.Duration{
			"delayed": time.Minute, "behind it": time.Minute, "at a time": 2 * time.Hour, "of another key": 0, "at a time that passed": 0,
		} {
			if late := seen[id] - due; late < 0 || late > 2*time.Second || seen[id] == 0 && due != 0 {
				t.Errorf("%s: ran %v after its publication, due after %v", id, seen[id], due)
			}
		}
		wantRest(t, store, 0)
	})
}

// What a worker put off itself runs when it is due, not with the poll after.
func TestLiveADueDeliveryDoesNotWaitForThePoll(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		const pause = 700 * time.Millisecond
		var ran []time.Time
		b := startBus(t, store, func(b *bus) error {
			return engine.Handle(b, engine.Handler{Event: "e", Name: "h"}, func(context.Context, engine.Event[string]) error {
				if ran = append(ran, time.Now()); len(ran) < 20 {
					return engine.Snooze(pause)
				}
				return nil
			})
		})
		must(t, b.PublishNow(t.Context(), engine.Message{Type: "e", Payload: ""}))
		time.Sleep(time.Minute)
		stop(t, b)
		if len(ran) != 20 {
			t.Fatalf("ran %d times", len(ran))
		}
		for i := range ran[1:] {
			if late := ran[i+1].Sub(ran[i]) - pause; late < 0 || late > 100*time.Millisecond {
				t.Errorf("run %d began %v after it was due", i+1, late)
			}
		}
	})
}

// A duplicate neither aborts the caller's transaction nor repeats a handler;
// another event under the same id is refused aloud.
func TestLiveDuplicates(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		var runs log
		b := startBus(t, store, func(b *bus) error {
			return engine.Handle(b, engine.Handler{Event: "e", Name: "h"}, func(_ context.Context, e engine.Event[string]) error {
				runs.add("%s=%s", e.ID, e.Payload)
				return nil
			})
		})
		x := engine.Message{ID: "x", Type: "e", Payload: "first"}
		must(t, b.PublishNow(t.Context(), x))
		time.Sleep(time.Second)
		must(t, b.InTx(t.Context(), func(ctx context.Context, tx *simstore.Tx) error {
			must(t, tx.Put(ctx, "rows", "1", []byte("before")))
			again := x
			again.Payload = "second"
			published, err := b.PublishAll(ctx, tx, []engine.Message{again, {ID: "y", Type: "e", Payload: "new"}, again})
			must(t, err)
			if published[0].Result != engine.Known || published[1].Result != engine.Added || published[2].Result != engine.Known {
				t.Errorf("results: %+v", published)
			}
			return tx.Put(ctx, "rows", "2", []byte("after"))
		}))
		err := b.PublishNow(t.Context(), engine.Message{ID: "x", Type: "e", Key: "k"})
		if !errors.Is(err, engine.ErrMismatch) {
			t.Errorf("another event under the same id: %v", err)
		}
		time.Sleep(time.Second)
		stop(t, b)
		if !slices.Equal(runs.lines, []string{"x=first", "y=new"}) || len(store.Snapshot().Rows) != 2 {
			t.Errorf("runs %q, rows %v", runs.lines, store.Snapshot().Rows)
		}
	})
}

// One handler name for several event types keeps the order of a key across
// them: what a projection needs.
func TestLiveOneHandlerForSeveralTypes(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, store *simstore.Store) {
		var view log
		b := startBus(t, store, func(b *bus) error {
			var all error
			for _, event := range []string{"opened", "changed", "closed"} {
				err := engine.HandleTx(b, engine.Handler{Event: event, Name: "view"}, func(_ context.Context, _ *simstore.Tx, e engine.Event[int]) error {
					view.add("%s %d", e.Type, e.Payload)
					return nil
				})
				all = errors.Join(all, err)
			}
			return all
		})
		var want []string
		for i := range 9 {
			event := []string{"opened", "changed", "closed"}[i%3]
			must(t, b.PublishNow(t.Context(), engine.Message{Type: event, Key: "k", Payload: i}))
			want = append(want, fmt.Sprint(event, " ", i))
		}
		time.Sleep(time.Minute)
		stop(t, b)
		if !slices.Equal(view.lines, want) {
			t.Errorf("the projection saw %q", view.lines)
		}
	})
}

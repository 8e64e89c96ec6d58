package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/relaybus-go/relaybus/engine"
)

// keyWatch sees who runs what. Runs are noted before they start and after they
// end, so that two of one (handler, key) at once cannot go unnoticed.
type keyWatch struct {
	mu      sync.Mutex
	running map[string]string // (handler, key) to event
	ends    map[string]int    // event and handler to accepted completions
	done    int
	broken  string
}

func (k *keyWatch) begin(p *engine.Picked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.Delivery.Key == "" {
		return
	}
	name := p.Delivery.Handler + "/" + p.Delivery.Key
	if other, busy := k.running[name]; busy {
		k.broken = fmt.Sprintf("%s: %q beside %q", name, p.Delivery.Event, other)
	}
	k.running[name] = p.Delivery.Event
}

// end notes that a run is over; it is called before its completion is sent.
func (k *keyWatch) end(p *engine.Picked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, p.Delivery.Handler+"/"+p.Delivery.Key)
}

func (k *keyWatch) completed(p *engine.Picked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done++
	if k.ends == nil {
		k.ends = map[string]int{}
	}
	name := p.Delivery.Event + "/" + p.Delivery.Handler
	if k.ends[name]++; k.ends[name] > 1 {
		k.broken = fmt.Sprintf("%s was completed %d times", name, k.ends[name])
	}
}

func (k *keyWatch) fail(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = fmt.Sprintf(format, args...)
}

func (k *keyWatch) over(total int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.done >= total || k.broken != ""
}

// drain claims, runs and completes until all is done. It runs in a goroutine
// and therefore fails nothing itself.
func (w *worker) drain(k *keyWatch, total int) {
	for !k.over(total) && w.ctx.Err() == nil {
		in := w.input()
		in.Room, in.Limit, in.MaxLanes, in.AllMine = 4, 6, 3, true
		reply, err := w.tryClaim(in)
		if err != nil {
			k.fail("claim: %v", err)
			return
		}
		w.adopt(reply)
		for i := range reply.Picks {
			if !w.run(k, &reply.Picks[i]) {
				return
			}
		}
		w.running = nil
		if len(reply.Picks) == 0 {
			w.giveBack(k)
			time.Sleep(time.Millisecond)
		}
	}
}

func (w *worker) tryClaim(in engine.ClaimInput) (reply engine.ClaimReply, err error) {
	err = w.retry(func() error {
		reply, err = w.Claim(w.ctx, in)
		return err
	})
	return reply, err
}

// run runs one delivery, every other one with a transaction of its own.
func (w *worker) run(k *keyWatch, p *engine.Picked) bool {
	k.begin(p)
	time.Sleep(50 * time.Microsecond) // so that others may be seen beside it
	k.end(p)
	v, err := engine.LeaseLost, error(nil)
	if p.Delivery.ID%2 == 0 {
		v, err = w.txLease("", p.Delivery.Event, p.Lease)
	} else {
		err = w.retry(func() error {
			reply, err := w.CompleteMany(w.ctx, engine.CompleteManyInput{Leases: []engine.Lease{p.Lease}})
			if err == nil {
				v = reply.Ended[0].Verdict
			}
			return err
		})
	}
	if err != nil {
		k.fail("complete: %v", err)
		return false
	}
	if v == engine.Applied {
		k.completed(p)
	}
	return true
}

// giveBack lets others have the lanes.
func (w *worker) giveBack(k *keyWatch) {
	w.number += 2
	in := engine.RelinquishInput{Holder: w.holder, Group: w.group, Number: w.number}
	if err := w.retry(func() error { _, err := w.Relinquish(w.ctx, in); return err }); err != nil {
		k.fail("relinquish: %v", err)
	}
	w.held = nil
}

var loadCases = []kase{
	{
		name: "a busy store loses and repeats nothing",
		why:  "under load an event is lost, or handled twice",
		run: func(b *bench) {
			b.subscribe("h", "audit")
			const publishers, each = 3, 40
			total := publishers * each * 2
			k := &keyWatch{running: map[string]string{}}
			var wait sync.WaitGroup
			for p := range publishers {
				wait.Go(func() { b.publishMany(k, p, each) })
			}
			for _, w := range []*worker{b.worker("h", "audit"), b.worker("h"), b.worker("audit")} {
				wait.Go(func() { w.drain(k, total) })
			}
			wait.Wait()
			b.expect(k.broken == "", "%s", k.broken)
			b.expect(k.done == total, "%d of %d done", k.done, total)
			b.expect(len(b.list(engine.Filter{})) == 0, "left: %d", len(b.list(engine.Filter{})))
		},
	}, {
		name: "an operator on a busy store",
		why:  "looking after a busy store stops it, or raises false alarms at night",
		run: func(b *bench) {
			b.subscribe("h")
			const total = 60
			k := &keyWatch{running: map[string]string{}}
			var wait, operators sync.WaitGroup
			stop := make(chan struct{})
			wait.Go(func() { b.publishMany(k, 0, total) })
			workers := []*worker{b.worker(), b.worker()}
			for _, w := range workers {
				wait.Go(func() { w.drain(k, total) })
			}
			for _, call := range b.operatorCalls(k) {
				operators.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							call()
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			wait.Wait()
			close(stop)
			operators.Wait()
			b.expect(k.broken == "" && k.done == total, "%s; %d of %d done", k.broken, k.done, total)
		},
	}, {
		name: "many workers start at once",
		why:  "workers that start together take the same lane, and run the same work",
		run: func(b *bench) {
			b.subscribe("h")
			var list []string
			for i := range 40 {
				list = append(list, fmt.Sprint(i))
			}
			b.publish(list...)
			replies := make([]engine.ClaimReply, 8)
			errs := make([]error, 8)
			var wait sync.WaitGroup
			for i := range replies {
				w := b.worker()
				wait.Go(func() { replies[i], errs[i] = w.tryClaim(w.input()) })
			}
			wait.Wait()
			granted := map[engine.DeliveryID]bool{}
			for i, r := range replies {
				b.ok(errs[i], "claim")
				for _, p := range r.Picks {
					b.expect(!granted[p.Delivery.ID], "#%d was granted twice", p.Delivery.ID)
					granted[p.Delivery.ID] = true
				}
			}
		},
	},
}

// publishMany publishes events of a few keys, one after another, some twice.
func (b *bench) publishMany(k *keyWatch, publisher, n int) {
	for i := range n {
		e := event(fmt.Sprintf("%d-%d", publisher, i))
		if i%3 > 0 {
			e.Key = fmt.Sprint("key", i%5)
		}
		for range 1 + i%2 {
			if _, err := b.tryPublish("", e); err != nil {
				k.fail("publish: %v", err)
				return
			}
		}
	}
}

// operatorCalls are what an operator may do at any time.
func (b *bench) operatorCalls(k *keyWatch) []func() {
	return []func(){
		func() {
			v, err := b.Verify(b.ctx)
			if err != nil || len(v.Findings) > 0 {
				k.fail("verify: %v, %+v", err, v.Findings)
			}
		},
		func() {
			s, err := b.Statistics(b.ctx)
			if err != nil || s.Running+s.Waiting > s.Pending || s.Dead != 0 || s.Due > s.Pending {
				k.fail("statistics: %v, %+v", err, s)
			}
		},
		func() {
			if _, err := b.List(b.ctx, engine.ListInput{Limit: 10}); err != nil {
				k.fail("list: %v", err)
			}
		},
		func() {
			in := engine.PurgeInput{DeadAfter: time.Millisecond, HistoryAfter: time.Millisecond, Batch: 3}
			if err := b.retry(func() error { _, err := b.Purge(b.ctx, in); return err }); err != nil {
				k.fail("purge: %v", err)
			}
		},
		func() {
			if err := b.retry(func() error { _, err := b.Requeue(b.ctx, engine.RequeueInput{All: true}); return err }); err != nil {
				k.fail("requeue: %v", err)
			}
		},
	}
}

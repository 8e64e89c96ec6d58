package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
)

// latency publishes 1,000 events a second one by one and measures from the
// return of COMMIT to the start of the handler.
func (r *run) latency(ctx context.Context) error {
	return r.in(ctx, func(p *place) error {
		w, err := startWorker(ctx, r.job(p))
		if err != nil {
			return err
		}
		committed, published := r.publishSteadily(ctx, w, 1000)
		seen, err := r.settle(ctx, p, w)
		if err = errors.Join(published, err); err != nil {
			return err
		}
		r.judge([]report{seen}, 0, len(committed), noKey)
		waits := make([]time.Duration, 0, len(committed))
		for _, s := range seen.Runs {
			waits = append(waits, max(0, time.Duration(s.At-committed[s.Event])))
		}
		r.result.add("published", float64(len(committed))/r.o.Window.Seconds(), "/s")
		for _, one := range []struct {
			name string
			p    int
		}{{"p50", 50}, {"p95", 95}, {"p99", 99}} {
			r.result.add(one.name, float64(percentile(waits, one.p).Microseconds())/1000, "ms")
		}
		return nil
	})
}

// settle waits until everything is handled and stops the worker.
func (r *run) settle(ctx context.Context, p *place, w *worker) (report, error) {
	err := p.waitEmpty(ctx)
	seen, stopped := w.stop(ctx)
	return seen, errors.Join(err, stopped)
}

// publishSteadily publishes perSecond events a second for the window, from as
// many goroutines as it takes, and returns when each was committed. Where that
// is more than they can do there are fewer events.
func (r *run) publishSteadily(ctx context.Context, w *worker, perSecond int) ([]int64, error) {
	const publishers = 4
	total := int64(r.o.Window.Seconds() * float64(perSecond))
	committed := make([]int64, total)
	var drawn atomic.Int64
	began := time.Now()
	steadily := func() error {
		for time.Since(began) < r.o.Window {
			i := drawn.Add(1) - 1
			if i >= total {
				return nil
			}
			if err := sleep(ctx, time.Until(began.Add(time.Duration(i)*time.Second/time.Duration(perSecond)))); err != nil {
				return err
			}
			if err := w.publish(ctx, int(i)); err != nil {
				return err
			}
			committed[i] = time.Now().UnixNano()
		}
		return nil
	}
	failed := make(chan error, publishers)
	for range publishers {
		go func() { failed <- steadily() }()
	}
	var err error
	for range publishers {
		err = errors.Join(err, <-failed)
	}
	return committed[:min(drawn.Load(), total)], err
}

func (w *worker) publish(ctx context.Context, i int) error {
	e := event(i, "")
	return w.bus.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return w.bus.Publish(ctx, tx, engine.Message{ID: e.ID, Type: e.Type, Payload: e.Payload})
	})
}

// mixed publishes in batches of 100 while a worker handles them.
func (r *run) mixed(ctx context.Context) error {
	return r.in(ctx, func(p *place) error {
		w, err := startWorker(ctx, r.job(p))
		if err != nil {
			return err
		}
		n := 0
		began := time.Now()
		for time.Since(began) < r.o.Window {
			if err := p.preload(ctx, n, n+100, noKey); err != nil {
				return err
			}
			n += 100
			w.bus.Wake()
		}
		took := time.Since(began)
		behind := n - int(w.n.Load())
		seen, err := r.settle(ctx, p, w)
		if err != nil {
			return err
		}
		r.result.add("published", float64(n)/took.Seconds(), "/s")
		r.result.add("handled", r.judge([]report{seen}, 0, n, noKey), "/s")
		r.result.add("behind at the end", float64(behind), "events")
		return nil
	})
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// run is one scenario at work.
type run struct {
	o      Options
	admin  *pgxpool.Pool
	result Result
}

func (r *run) scenario(ctx context.Context) error {
	return map[string]func(context.Context) error{
		"dispatch": r.dispatch, "publish": r.publishing, "mixed": r.mixed, "latency": r.latency, "hotkey": r.hotKey,
		"blockedkey": r.blockedKey, "backlog": r.backlog, "heldsnapshot": r.heldSnapshot, "slowflush": r.slowFlush, "idle": r.idle,
	}[r.o.Scenario](ctx)
}

// in runs fn in a schema of its own.
func (r *run) in(ctx context.Context, fn func(p *place) error) error {
	p, err := newPlace(ctx, r.admin)
	if err != nil {
		return err
	}
	return errors.Join(fn(p), p.drop())
}

func (r *run) job(p *place) job { return job{URL: r.o.URL, Schema: p.schema, Tuned: r.o.Tuned} }

func (r *run) jobs(p *place) []job {
	list := make([]job, r.o.Processes)
	for i := range list {
		list[i] = r.job(p)
	}
	return list
}

// backlogOf measures the working off of n events.
func (r *run) backlogOf(ctx context.Context, n int, key func(int) string, change func(*job)) (d drained, err error) {
	err = r.in(ctx, func(p *place) error {
		if err := p.preload(ctx, 0, n, key); err != nil {
			return err
		}
		jobs := r.jobs(p)
		for i := range jobs {
			if change != nil {
				change(&jobs[i])
			}
		}
		d, err = r.drain(ctx, p, jobs, n, key)
		if err == nil {
			err = r.costs(ctx, p, d, n)
		}
		return err
	})
	return d, err
}

// costs adds the figures that a machine's load does not move; of several
// rounds the last ones stay.
func (r *run) costs(ctx context.Context, p *place, d drained, n int) error {
	total, images, err := p.wal(ctx, d.before.lsn, d.after.lsn)
	if err != nil {
		return err
	}
	r.set("WAL per delivery", total/float64(n), "B")
	if images >= 0 {
		r.set("WAL per delivery without full-page images", (total-images)/float64(n), "B")
	}
	r.set("statements per delivery", float64(d.statements)/float64(n), "")
	updates := d.after.laneUpdates - d.before.laneUpdates
	r.set("lane updates per delivery", float64(updates)/float64(n), "")
	if updates > 0 {
		r.set("lane updates that are HOT", 100*float64(d.after.laneHot-d.before.laneHot)/float64(updates), "%")
	}
	r.set("updates of delivery rows", float64(d.after.rowWrites-d.before.rowWrites), "")
	r.set("dead tuples of deliveries", float64(d.after.dead), "")
	return nil
}

func (r *run) set(name string, value float64, unit string) {
	if i := slices.IndexFunc(r.result.Figures, func(f Figure) bool { return f.Name == name }); i >= 0 {
		r.result.Figures[i].Value = value
		return
	}
	r.result.add(name, value, unit)
}

func (r *run) fault(format string, args ...any) {
	if len(r.result.Faults) < 10 {
		r.result.fault(format, args...)
	}
}

// pair measures two sides in turns and adds both medians and their ratio.
func (r *run) pair(ctx context.Context, one, other string, measure func(first bool) (float64, error)) error {
	var a, b []float64
	for range r.o.Rounds {
		for _, first := range []bool{true, false} {
			value, err := measure(first)
			if err != nil {
				return err
			}
			if first {
				a = append(a, value)
			} else {
				b = append(b, value)
			}
		}
	}
	r.result.add(one, Median(a), "/s")
	r.result.add(other, Median(b), "/s")
	if Median(b) > 0 {
		r.result.add("ratio", Median(a)/Median(b), "×")
	}
	return ctx.Err()
}

func (r *run) dispatch(ctx context.Context) error {
	n := r.o.events(50_000)
	if r.o.Raw {
		return r.pair(ctx, "relaybus", "raw loop", func(first bool) (float64, error) {
			if first {
				d, err := r.backlogOf(ctx, n, noKey, nil)
				return d.rate, err
			}
			return r.raw(ctx, n)
		})
	}
	return r.repeat("relaybus", func() (float64, error) {
		d, err := r.backlogOf(ctx, n, noKey, nil)
		return d.rate, err
	})
}

// repeat measures one side and adds the median.
func (r *run) repeat(name string, measure func() (float64, error)) error {
	var rates []float64
	for range r.o.Rounds {
		value, err := measure()
		if err != nil {
			return err
		}
		rates = append(rates, value)
	}
	r.result.add(name, Median(rates), "/s")
	return nil
}

func (r *run) hotKey(ctx context.Context) error {
	n := r.o.events(100_000)
	one := func(int) string { return "hot" }
	return r.repeat("one key", func() (float64, error) {
		d, err := r.backlogOf(ctx, n, one, nil)
		return d.rate, err
	})
}

// sameLane returns n keys of the lane that key "blocked" belongs to.
func sameLane(n int) []string {
	keys := make([]string, 0, n)
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("key-%d", i)
		if protocol.LaneOf(0, protocol.DefaultLanes, key, "") == protocol.LaneOf(0, protocol.DefaultLanes, "blocked", "") {
			keys = append(keys, key)
		}
	}
	return keys
}

// blockedKey publishes a deep key whose head is put off, and others of its
// lane; the rate of those is held against the rate without it.
func (r *run) blockedKey(ctx context.Context) error {
	deep := r.o.events(100_000)
	keys := sameLane(10_000)
	other := func(i int) string { return keys[i%len(keys)] }
	const n = 20_000
	return r.pair(ctx, "beside a blocked key", "without", func(first bool) (rate float64, err error) {
		err = r.in(ctx, func(p *place) error {
			if first {
				if err := r.block(ctx, p, deep); err != nil {
					return err
				}
			}
			if err := p.preload(ctx, 0, n, other); err != nil {
				return err
			}
			d, err := r.drain(ctx, p, []job{r.job(p)}, n, other)
			rate = d.rate
			return err
		})
		return rate, err
	})
}

// block publishes the deep key, behind the events that are counted, and puts
// its head off.
func (r *run) block(ctx context.Context, p *place, deep int) error {
	const behind = 1_000_000_000
	if err := p.preload(ctx, behind, behind+deep, func(int) string { return "blocked" }); err != nil {
		return err
	}
	_, err := p.admin.Exec(ctx, "update "+pgx.Identifier{p.schema}.Sanitize()+`.deliveries set available_at = now() + interval '1 hour', attempts = 1
		where id = (select min(id) from `+pgx.Identifier{p.schema}.Sanitize()+".deliveries)")
	return err
}

// backlog measures the first deliveries out of a deep backlog.
func (r *run) backlog(ctx context.Context) error {
	deep := max(r.o.events(1_000_000), 10_000)
	return r.pair(ctx, "deep backlog", "10,000 pending", func(first bool) (rate float64, err error) {
		n := 10_000
		if first {
			n = deep
		}
		err = r.in(ctx, func(p *place) error {
			if err := p.preload(ctx, 0, n, noKey); err != nil {
				return err
			}
			rate, err = r.firstOnes(ctx, p, 10_000)
			return err
		})
		return rate, err
	})
}

// firstOnes runs a worker until it has handled n, and returns the rate.
func (r *run) firstOnes(ctx context.Context, p *place, n int) (float64, error) {
	w, err := startWorker(ctx, r.job(p))
	if err != nil {
		return 0, err
	}
	for w.n.Load() < int64(n) {
		if err := sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	seen, err := w.stop(ctx)
	if err != nil {
		return 0, err
	}
	return rate(seen.Runs[:n]), nil
}

// heldSnapshot holds a snapshot in another session during every other round.
func (r *run) heldSnapshot(ctx context.Context) error {
	n := r.o.events(100_000)
	return r.pair(ctx, "snapshot held", "without", func(first bool) (rate float64, err error) {
		err = r.in(ctx, func(p *place) error {
			if err := p.preload(ctx, 0, n, noKey); err != nil {
				return err
			}
			if first {
				release, err := hold(ctx, r.admin)
				if err != nil {
					return err
				}
				defer release()
			}
			d, err := r.drain(ctx, p, []job{r.job(p)}, n, noKey)
			rate = d.rate
			return err
		})
		return rate, err
	})
}

func hold(ctx context.Context, pool *pgxpool.Pool) (release func(), err error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if _, err := tx.Exec(ctx, "select count(*) from pg_class"); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return func() { _ = tx.Rollback(ctx) }, nil
}

// slowFlush lets each flush of the WAL wait 5 ms.
func (r *run) slowFlush(ctx context.Context) error {
	n := r.o.events(20_000)
	return r.pair(ctx, "asynchronous claims", "synchronous claims", func(first bool) (float64, error) {
		d, err := r.backlogOf(ctx, n, noKey, func(j *job) {
			j.Sync = !first
			j.Params = map[string]string{"commit_delay": "5000", "commit_siblings": "0"}
		})
		return d.rate, err
	})
}

// idle counts the statements of a worker without work.
func (r *run) idle(ctx context.Context) error {
	return r.in(ctx, func(p *place) error {
		w, err := startWorker(ctx, r.job(p))
		if err != nil {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil { // the start
			return err
		}
		before := w.count.n.Load()
		if err := sleep(ctx, r.o.Window); err != nil {
			return err
		}
		r.result.add("statements per second", float64(w.count.n.Load()-before)/r.o.Window.Seconds(), "/s")
		_, err = w.stop(ctx)
		return err
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	driver "github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	upstream "github.com/riverqueue/river"

	"github.com/relaybus-go/relaybus/internal/bench"
)

// arguments are the job: a number, as in relaybus's scenario dispatch.
type arguments struct {
	N int `json:"n"`
}

func (arguments) Kind() string { return "bench" }

// worker does nothing but note that it ran.
type worker struct {
	upstream.WorkerDefaults[arguments]
	mu    sync.Mutex
	runs  map[int]int
	times []int64
	want  int
	done  chan struct{}
}

func (w *worker) Work(_ context.Context, job *upstream.Job[arguments]) error {
	at := time.Now().UnixNano()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[job.Args.N]++
	w.times = append(w.times, at)
	if len(w.times) == w.want {
		close(w.done)
	}
	return nil
}

// config is River's: its defaults with 100 workers, as relaybus's Concurrency,
// or the shortest pauses between fetches and as many workers as relaybus's
// tuned settings have.
func config(schema string, tuned bool, w *worker) *upstream.Config {
	workers := upstream.NewWorkers()
	upstream.AddWorker(workers, w)
	c := &upstream.Config{
		Schema: schema, Workers: workers, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]upstream.QueueConfig{upstream.QueueDefault: {MaxWorkers: 100}},
	}
	if tuned {
		c.FetchCooldown, c.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
		c.Queues[upstream.QueueDefault] = upstream.QueueConfig{MaxWorkers: 2000}
	}
	return c
}

type measured struct{ rate, wal float64 }

// river works n jobs off in a schema of its own.
func river(ctx context.Context, url string, tuned bool, n int) (m measured, err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return m, err
	}
	defer pool.Close()
	schema := fmt.Sprintf("river_bench_%d", os.Getpid())
	if _, err := pool.Exec(ctx, "create schema "+schema); err != nil {
		return m, err
	}
	defer func() {
		_, dropped := pool.Exec(context.WithoutCancel(ctx), "drop schema "+schema+" cascade")
		err = errors.Join(err, dropped)
	}()
	migrator, err := rivermigrate.New(driver.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return m, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return m, err
	}
	w := &worker{runs: map[int]int{}, want: n, done: make(chan struct{})}
	client, err := upstream.NewClient(driver.New(pool), config(schema, tuned, w))
	if err != nil {
		return m, err
	}
	for first := 0; first < n; first += 5000 {
		jobs := make([]upstream.InsertManyParams, 0, 5000)
		for i := first; i < min(first+5000, n); i++ {
			jobs = append(jobs, upstream.InsertManyParams{Args: arguments{i}})
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return m, err
		}
	}
	return workOff(ctx, pool, client, w)
}

func workOff[Tx any](ctx context.Context, pool *pgxpool.Pool, client *upstream.Client[Tx], w *worker) (m measured, err error) {
	const position = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8"
	_, _ = pool.Exec(ctx, "checkpoint") // as before a measurement of relaybus
	var from, to float64
	if err := pool.QueryRow(ctx, position).Scan(&from); err != nil {
		return m, err
	}
	if err := client.Start(ctx); err != nil {
		return m, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return m, context.Cause(ctx)
	}
	if err := client.Stop(ctx); err != nil { // it stores what was completed
		return m, err
	}
	if err := pool.QueryRow(ctx, position).Scan(&to); err != nil {
		return m, err
	}
	for i := range w.want {
		if w.runs[i] != 1 {
			return m, fmt.Errorf("INVALID: job %d ran %d times", i, w.runs[i])
		}
	}
	return measured{bench.Rate(w.times), (to - from) / float64(w.want)}, nil
}

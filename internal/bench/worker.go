package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// Config returns the engine's settings: the default ones, or larger claims.
func Config(tuned bool) engine.Config {
	c := engine.Config{Logger: slog.New(slog.DiscardHandler)}
	if tuned {
		c.Concurrency, c.ClaimLimit, c.LanesPerClaim, c.CompletionBatch = 2000, 1000, 32, 1000
	}
	return c
}

// job is what a worker is asked to do. It travels as JSON to a process of its
// own.
type job struct {
	URL    string            `json:"url"`
	Schema string            `json:"schema"`
	Tuned  bool              `json:"tuned"`
	Sync   bool              `json:"sync,omitempty"`
	Params map[string]string `json:"params,omitempty"` // of the server, per session
	Fails  string            `json:"fails,omitempty"`  // the event whose handler asks to be tried in an hour
}

// sighting is one run of the handler.
type sighting struct {
	Event int   `json:"e"`
	At    int64 `json:"t"` // Unix nanoseconds
}

// report is what a worker saw.
type report struct {
	Runs       []sighting `json:"runs"`
	Statements int64      `json:"statements"` // without BEGIN, settings and COMMIT
}

// worker is a bus with a handler that does nothing but note that it ran.
type worker struct {
	job   job
	pool  *pgxpool.Pool
	store *postgres.Store
	bus   *engine.Bus[pgx.Tx]
	count statements

	mu   sync.Mutex
	runs []sighting
	n    atomic.Int64
}

// startWorker returns a worker that works.
func startWorker(ctx context.Context, j job) (*worker, error) {
	w, err := newWorker(ctx, j)
	if err == nil {
		err = w.bus.Start(ctx)
	}
	return w, err
}

func newWorker(ctx context.Context, j job) (*worker, error) {
	w := &worker{job: j}
	config, err := pgxpool.ParseConfig(j.URL)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	config.MaxConns = max(config.MaxConns, 8)
	config.ConnConfig.Tracer = &w.count
	for name, value := range j.Params {
		config.ConnConfig.RuntimeParams[name] = value
	}
	if w.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if w.store, err = postgres.NewWith(w.pool, postgres.Options{Schema: j.Schema, SynchronousClaims: j.Sync}); err != nil {
		return nil, err
	}
	if w.bus, err = engine.New[pgx.Tx](w.store, Config(j.Tuned)); err != nil {
		return nil, err
	}
	return w, engine.Handle(w.bus, engine.Handler{Event: eventType, Name: handlerName}, w.handle)
}

func (w *worker) handle(_ context.Context, e engine.Event[int]) error {
	if e.ID == w.job.Fails {
		return engine.RetryAfter(time.Hour, fmt.Errorf("put off"))
	}
	at := time.Now().UnixNano()
	w.mu.Lock()
	w.runs = append(w.runs, sighting{e.Payload, at})
	w.mu.Unlock()
	w.n.Add(1)
	return nil
}

// stop ends the bus in good order and returns what it saw.
func (w *worker) stop(ctx context.Context) (report, error) {
	err := w.bus.Stop(ctx)
	w.store.Close()
	w.pool.Close()
	return report{Runs: w.runs, Statements: w.count.n.Load()}, err
}

// statements counts what is sent, but for what only opens, sets up and closes
// transactions.
type statements struct{ n atomic.Int64 }

func (s *statements) add(sql string) {
	switch word, _, _ := strings.Cut(sql, " "); word {
	case "begin", "commit", "rollback", "--":
		if word != "--" || strings.Contains(sql, "set_config('lock_timeout'") {
			return
		}
	}
	s.n.Add(1)
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.add(q.SQL)
	return ctx
}
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.add(q.SQL)
}
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Serve is a worker process: it reads its job from in, works until in ends,
// and writes what it saw to out.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var j job
	commands := json.NewDecoder(in)
	if err := commands.Decode(&j); err != nil {
		return fmt.Errorf("bench: worker: %w", err)
	}
	w, err := startWorker(ctx, j)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in)
	r, err := w.stop(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

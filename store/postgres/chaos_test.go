package postgres_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
)

var fullChaos = flag.Bool("chaos", false, "run TestChaos on the whole recorded logs, about five minutes")

// TestChaos publishes logs of events while four worker processes handle them,
// of which one is killed with SIGKILL every two seconds, and the server is
// stopped as by a power cut. In the end each event has its effect exactly once,
// in the order of its key, and no attempt was charged but for what was killed.
func TestChaos(t *testing.T) {
	c := newChaos(t)
	events, server := c.workload(t), c.server
	published := make(chan error, 1)
	go func() { published <- c.publish(events) }()
	rest := c.stops
	for c.left(t, published) {
		time.Sleep(c.pause)
		c.kill(t)
		if rest > 0 && c.kills.Load() == int64(c.wantKills*(c.stops-rest+1)/(c.stops+1)) {
			rest--
			server.Stop(t)
			time.Sleep(c.pause / 2)
			server.Start(t)
		}
	}
	if rest > 0 {
		t.Fatalf("all was done before the server was stopped %d more times", rest)
	}
	c.stopWorkers(t)
	t.Logf("%d events, %d kills, %d stops of the server", len(events), c.kills.Load(), c.stops)
	c.judge(t, events)
}

// chaosEvent is a line of a recorded log.
type chaosEvent struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Key     string          `json:"key"`
	Payload json.RawMessage `json:"payload"`
}

func (e *chaosEvent) message() engine.Message {
	return engine.Message{ID: e.ID, Type: e.Type, Key: e.Key, Payload: e.Payload}
}

// chaosTypes are those of the recorded logs; the generated one has the first.
var chaosTypes = []string{"order.placed", "file.added", "file.changed", "file.moved", "file.removed"}

func (c *chaos) workload(t *testing.T) []chaosEvent {
	if !*fullChaos {
		return generated(2400)
	}
	dir := cmp.Or(os.Getenv("RELAYBUS_TEST_DATA"), filepath.Join("..", "..", "..", "shared", "data"))
	var events []chaosEvent
	for _, name := range []string{"orders.ndjson", "repository-changes.ndjson"} {
		list, err := recordedLog(filepath.Join(dir, name))
		if err != nil {
			t.Logf("%v: a generated log takes its place (RELAYBUS_TEST_DATA names the folder of the recorded ones)", err)
			return generated(75_000)
		}
		events = append(events, list...)
	}
	return events
}

func recordedLog(name string) ([]chaosEvent, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var events []chaosEvent
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e chaosEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, len(events)+1, err)
		}
		if e.Payload == nil {
			e.Payload = json.RawMessage(`{}`)
		}
		events = append(events, e)
	}
	return events, nil
}

// generated is a log of n events: half of them of ten hot keys, a tenth
// without a key.
func generated(n int) []chaosEvent {
	r := rand.New(rand.NewPCG(1, 2))
	events := make([]chaosEvent, n)
	for i := range events {
		key := fmt.Sprint("hot ", r.IntN(10))
		switch r.IntN(10) {
		case 0:
			key = ""
		case 1, 2, 3, 4:
			key = fmt.Sprint("cold ", r.IntN(n/3))
		}
		events[i] = chaosEvent{ID: fmt.Sprint("event ", i), Type: chaosTypes[0], Key: key, Payload: json.RawMessage(`{"n":1}`)}
	}
	return events
}

const (
	chaosWorkers     = 4
	chaosConcurrency = 16
	chaosSchema      = "chaos"
	chaosLease       = 2 * time.Second
)

// chaos is one run of TestChaos.
type chaos struct {
	*place
	server    *testdb.Server
	store     *postgres.Store
	bus       *engine.Bus[pgx.Tx]
	workers   [chaosWorkers]*chaosWorker
	pause     time.Duration
	kills     atomic.Int64
	wantKills int // before everything is published
	stops     int // of the server
}

type chaosWorker struct {
	cmd   *exec.Cmd
	input io.Closer // its end tells the process to stop
}

func newChaos(t *testing.T) *chaos {
	c := &chaos{server: testdb.Private(t), pause: 2 * time.Second, wantKills: 30, stops: 2}
	if !*fullChaos {
		c.pause, c.wantKills = time.Second, 6
	}
	c.place = newPlace(t, c.server.URL, chaosSchema)
	t.Cleanup(c.pool.Close)
	for _, sql := range []string{
		"create table relaybus.ledger (n bigserial, event text not null, key text not null, payload text not null)",
		"create table relaybus.runs (n bigserial, event text not null, key text not null)",
	} {
		if err := c.exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.store, c.bus, err = chaosBus(c.pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.store.Close)
	for i := range c.workers {
		c.start(t, i)
	}
	t.Cleanup(func() {
		for _, w := range c.workers {
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait()
		}
	})
	c.awaitSubscriptions(t)
	return c
}

// awaitSubscriptions waits until a worker has subscribed: what is published
// before has no handler.
func (c *chaos) awaitSubscriptions(t *testing.T) {
	for n := 0; n < 2*len(chaosTypes); time.Sleep(20 * time.Millisecond) {
		if err := c.pool.QueryRow(context.Background(), "select count(*) from chaos.subscriptions").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *chaos) start(t *testing.T, i int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), chaosVariable+"="+c.server.URL)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.workers[i] = &chaosWorker{cmd: cmd, input: input}
}

// kill ends a worker without a warning, and starts another in its place.
func (c *chaos) kill(t *testing.T) {
	i := rand.IntN(len(c.workers))
	w := c.workers[i]
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.cmd.Wait()
	_ = w.input.Close()
	c.kills.Add(1)
	c.start(t, i)
}

func (c *chaos) stopWorkers(t *testing.T) {
	for _, w := range c.workers {
		_ = w.input.Close()
	}
	for _, w := range c.workers {
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("a worker that was told to stop: %v", err)
		}
	}
}

// publish publishes the log in its order, no faster than workers are killed. A
// batch of which nobody knows whether it was committed is published again.
func (c *chaos) publish(events []chaosEvent) error {
	const batch = 200
	for i := 0; i < len(events); i += batch {
		for int(c.kills.Load())*len(events) < (i-batch)*c.wantKills {
			time.Sleep(20 * time.Millisecond)
		}
		var list []engine.Message
		for j := i; j < min(i+batch, len(events)); j++ {
			list = append(list, events[j].message())
		}
		for try := 0; ; try++ {
			err := c.bus.PublishNow(context.Background(), list...)
			if err == nil {
				break
			}
			if try == 300 {
				return fmt.Errorf("publish: %w", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// left reports whether anything is left to publish or to handle.
func (c *chaos) left(t *testing.T, published chan error) bool {
	select {
	case err := <-published:
		if err != nil {
			t.Fatal(err)
		}
		published <- nil
	default:
		return true
	}
	var n int
	if err := c.pool.QueryRow(context.Background(), "select count(*) from chaos.deliveries where status = 0").Scan(&n); err != nil {
		t.Log(err) // a connection that the stop has cut
		return true
	}
	return n > 0
}

// judge compares what the handlers left with the log.
func (c *chaos) judge(t *testing.T, events []chaosEvent) {
	type effect struct{ event, key, payload string }
	var want, got []effect
	for i := range events {
		e := &events[i]
		want = append(want, effect{e.ID, e.Key, string(e.Payload)})
	}
	c.rows(t, "select event, key, payload from chaos.ledger order by n", func(rows pgx.Rows) error {
		var e effect
		err := rows.Scan(&e.event, &e.key, &e.payload)
		got = append(got, e)
		return err
	})
	order := func(a, b effect) int {
		if a.key == "" && b.key == "" {
			return cmp.Compare(a.event, b.event) // of these no order is promised
		}
		return cmp.Compare(a.key, b.key)
	}
	slices.SortStableFunc(want, order)
	slices.SortStableFunc(got, order)
	if !slices.Equal(got, want) {
		t.Errorf("the side effects are not the input: %d rows for %d events", len(got), len(want))
	}
	c.judgeRuns(t, events)
	c.judgeAttempts(t, events)
	found, err := c.store.Verify(context.Background())
	if err != nil || len(found.Findings) > 0 {
		t.Errorf("verify: %+v, %v", found.Findings, err)
	}
}

// judgeRuns checks the handler without a transaction: each event ran, and for
// the first time not before those of its key that came before it.
func (c *chaos) judgeRuns(t *testing.T, events []chaosEvent) {
	place := map[string]int{}
	for i := range events {
		place[events[i].ID] = i
	}
	last, runs, seen := map[string]int{}, 0, map[string]bool{}
	c.rows(t, "select event, key from chaos.runs order by n", func(rows pgx.Rows) error {
		var id, key string
		err := rows.Scan(&id, &key)
		runs++
		if !seen[id] && key != "" && place[id] < last[key] {
			t.Errorf("key %q: event %d ran after event %d", key, place[id], last[key])
		}
		if !seen[id] {
			last[key] = place[id]
		}
		seen[id] = true
		return err
	})
	if len(seen) != len(events) {
		t.Errorf("%d of %d events reached the handler without a transaction", len(seen), len(events))
	}
	t.Logf("%d runs without a transaction, %d of them repeated", runs, runs-len(events))
}

// judgeAttempts checks that attempts were charged for what runs at a kill, and
// around a stop of the server: then each run fails that has a connection, and
// lanes whose lease runs out charge theirs.
func (c *chaos) judgeAttempts(t *testing.T, events []chaosEvent) {
	var rows, charged, most int
	err := c.pool.QueryRow(context.Background(), "select count(*), coalesce(sum(attempts), 0), coalesce(max(attempts), 0) from chaos.completions").
		Scan(&rows, &charged, &most)
	if err != nil {
		t.Fatal(err)
	}
	kills := int(c.kills.Load())
	if rows != 2*len(events) {
		t.Errorf("%d completions of %d deliveries", rows, 2*len(events))
	}
	if bound := chaosConcurrency * (kills + 2*c.stops*chaosWorkers); charged > bound {
		t.Errorf("%d attempts were charged; %d kills and %d stops explain %d", charged, kills, c.stops, bound)
	}
	if most > kills+2*c.stops {
		t.Errorf("a delivery was charged %d times", most)
	}
	t.Logf("%d attempts were charged, at most %d to one delivery", charged, most)
}

func (c *chaos) rows(t *testing.T, sql string, row func(pgx.Rows) error) {
	t.Helper()
	rows, err := c.pool.Query(context.Background(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// chaosVariable tells the test binary that it is a worker: it names the server.
const chaosVariable = "RELAYBUS_CHAOS_WORKER"

// beWorker runs a worker, in a process that TestChaos has started, until its
// standard input ends.
func beWorker(url string) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = chaosConcurrency
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	_, bus, err := chaosBus(pool)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return bus.Run(ctx)
}

// chaosBus is a bus with the two handlers.
func chaosBus(pool *pgxpool.Pool) (*postgres.Store, *engine.Bus[pgx.Tx], error) {
	store, err := postgres.NewWith(pool, postgres.Options{Schema: chaosSchema, History: true})
	if err != nil {
		return nil, nil, err
	}
	bus, err := engine.New[pgx.Tx](store, engine.Config{
		Lease: chaosLease, Concurrency: chaosConcurrency, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	patient := func(event, name string) engine.Handler {
		return engine.Handler{Event: event, Name: name, MaxAttempts: 1000, Retry: engine.RetryFunc(
			func(int, func(int64) int64) time.Duration { return 50 * time.Millisecond })}
	}
	for _, event := range chaosTypes {
		err := cmp.Or(
			engine.HandleTx(bus, patient(event, "ledger"), func(ctx context.Context, tx pgx.Tx, e engine.Event[json.RawMessage]) error {
				_, err := tx.Exec(ctx, "insert into chaos.ledger (event, key, payload) values ($1, $2, $3)", e.ID, e.Key, string(e.Payload))
				return err
			}),
			engine.Handle(bus, patient(event, "runs"), func(ctx context.Context, e engine.Event[json.RawMessage]) error {
				_, err := pool.Exec(ctx, "insert into chaos.runs (event, key) values ($1, $2)", e.ID, e.Key)
				return err
			}))
		if err != nil {
			return nil, nil, err
		}
	}
	return store, bus, nil
}

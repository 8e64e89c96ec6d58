package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// trouble is something that befalls a server while a bus works.
type trouble struct {
	name  string
	begin func(t *testing.T, s *survivor)
	end   func(t *testing.T, s *survivor)
	// says: the bus must say that the store is away, and later that it is back.
	says bool
	// word must be in what it says.
	word string
	// uncharged: no attempt may be charged.
	uncharged bool
	// held: no lane and no lease may be lost.
	held bool
	// works: the bus goes on meanwhile, so that its statements say nothing.
	works bool
}

var troubles = []trouble{
	{
		name: "immediate stop", says: true,
		begin: func(t *testing.T, s *survivor) { s.server.Stop(t) },
		end:   func(t *testing.T, s *survivor) { s.server.Start(t) },
	}, {
		name: "read only", says: true, word: "takes no writes",
		begin: func(t *testing.T, s *survivor) { s.configure(t, "alter system set default_transaction_read_only = on") },
		end: func(t *testing.T, s *survivor) {
			s.configure(t, "alter system reset default_transaction_read_only")
		},
	}, {
		name: "too many connections", says: true,
		begin: func(t *testing.T, s *survivor) {
			s.must(t, "alter role app connection limit 0")
			s.must(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
		},
		end: func(t *testing.T, s *survivor) { s.must(t, "alter role app connection limit 100") },
	}, {
		name: "password withdrawn", says: true,
		begin: func(t *testing.T, s *survivor) {
			s.must(t, "alter role app nologin")
			s.must(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
		},
		end: func(t *testing.T, s *survivor) { s.must(t, "alter role app login") },
	}, {
		name: "rights withdrawn", says: true, word: "as worker GRANT ",
		begin: func(t *testing.T, s *survivor) { s.must(t, "revoke all on all tables in schema "+s.schema+" from app") },
		end:   func(t *testing.T, s *survivor) { s.must(t, "grant all on all tables in schema "+s.schema+" to app") },
	}, {
		// What a full disk says, wherever there is none to fill: see TestTablesDiskFull.
		name: "disk full", says: true, word: "SQLSTATE 53100",
		begin: func(t *testing.T, s *survivor) {
			s.must(t, `create or replace function `+s.schema+`.full() returns trigger language plpgsql as
				$$ begin raise disk_full using message = 'could not extend file'; end $$`)
			for _, table := range []string{"events", "deliveries", "lanes", "effects"} {
				s.must(t, fmt.Sprintf("create trigger full_disk before insert or update or delete on %[1]s.%[2]s for each row execute function %[1]s.full()", s.schema, table))
			}
		},
		end: func(t *testing.T, s *survivor) {
			for _, table := range []string{"events", "deliveries", "lanes", "effects"} {
				s.must(t, fmt.Sprintf("drop trigger full_disk on %s.%s", s.schema, table))
			}
		},
	}, {
		name: "tables locked", uncharged: true,
		begin: func(t *testing.T, s *survivor) {
			s.hold(t, func(tx pgx.Tx) error {
				_, err := tx.Exec(context.Background(), "lock table "+s.schema+".lanes, "+s.schema+".deliveries in access exclusive mode")
				return err
			})
		},
		end: func(t *testing.T, s *survivor) { s.letGo(t) },
	}, {
		name: "connections cut", works: true, // here and there
		begin: func(t *testing.T, s *survivor) {
			for range 10 {
				s.must(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
				time.Sleep(30 * time.Millisecond)
			}
		},
		end: func(*testing.T, *survivor) {},
	}, {
		name: "pool used up", uncharged: true, held: true,
		begin: func(t *testing.T, s *survivor) {
			for range s.app.Config().MaxConns {
				conn, err := s.app.Acquire(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				s.taken = append(s.taken, conn)
			}
		},
		end: func(t *testing.T, s *survivor) {
			for _, conn := range s.taken {
				conn.Release()
			}
		},
	},
}

const survivorLease = time.Second

// TestSurvival lets a bus work through what a server suffers in production, for
// one and a half leases. The bus says so once and once that it is over, does
// not spin meanwhile, and in the end all is handled with its effect once.
func TestSurvival(t *testing.T) {
	server := testdb.Private(t)
	for i, c := range troubles {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			newSurvivor(t, server, survivorConfig{number: i}).survive(t, &c)
		})
	}
}

func (s *survivor) survive(t *testing.T, c *trouble) {
	s.publish(t, 0, 200)
	s.awaitEffects(t, 20)
	c.begin(t, s)
	s.spins(t, c)
	c.end(t, s)
	s.publish(t, 200, 300)
	s.awaitEffects(t, 300)
	s.stop(t)
	s.judge(t, c)
}

// spins lets a trouble last and counts what the bus asks of the server
// meanwhile.
func (s *survivor) spins(t *testing.T, c *trouble) {
	t.Helper()
	before := s.asked.Load()
	began := time.Now()
	time.Sleep(survivorLease * 3 / 2)
	// Even a bus that backs off asks for claims, with each poll of all lanes that
	// it holds, for renewals, and for ends of what ran; the bound is a statement
	// every 3 ms, a spinning one asks thousands.
	if asked := s.asked.Load() - before; !c.works && asked > time.Since(began).Milliseconds()/3 {
		t.Errorf("%d statements and dials in %v: it spins", asked, time.Since(began))
	} else {
		t.Logf("%d statements and dials in %v", asked, time.Since(began))
	}
}

// TestEndsAloneRefused takes a right away that only completions need. Claims,
// which go on, must not make the store look back each time.
func TestEndsAloneRefused(t *testing.T) {
	s := newSurvivor(t, testdb.Private(t), survivorConfig{})
	s.stop(t)
	bus, err := engine.New[pgx.Tx](s.store, engine.Config{Lease: survivorLease, Concurrency: 3, Logger: slog.New(&s.log)})
	if err != nil {
		t.Fatal(err)
	}
	s.bus = bus
	if err := engine.Handle(bus, engine.Handler{Event: "e", Name: "h"}, func(context.Context, engine.Event[[]byte]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.must(t, "revoke delete on "+s.schema+".deliveries from app")
	s.start(t)
	s.publish(t, 0, 100)
	for s.log.first("relaybus: store away") == "" {
		time.Sleep(10 * time.Millisecond)
	}
	c := &trouble{says: true, word: "as worker GRANT "}
	s.spins(t, c)
	s.must(t, "grant delete on "+s.schema+".deliveries to app")
	for s.count(t, "select count(*) from %s.completions") < 100 {
		time.Sleep(10 * time.Millisecond)
	}
	s.stop(t)
	s.judgeWords(t, c)
}

// survivor is a bus on a server that is in trouble.
type survivor struct {
	*place  // of the superuser
	server  *testdb.Server
	app     *pgxpool.Pool // of the bus
	store   *postgres.Store
	bus     *engine.Bus[pgx.Tx]
	log     saidLog
	pace    time.Duration // of a run, default 5 ms
	asked   atomic.Int64  // statements and dials of the bus
	taken   []*pgxpool.Conn
	holding pgx.Tx
}

// survivorConfig is what a survivor's place and bus are made from.
type survivorConfig struct {
	number int                // of its schema on the server
	url    string             // of the bus; default the server's
	retry  engine.RetryPolicy // default every 20 ms
}

// every20ms tries again and again.
var every20ms = engine.RetryFunc(func(int, func(int64) int64) time.Duration { return 20 * time.Millisecond })

func newSurvivor(t *testing.T, server *testdb.Server, c survivorConfig) *survivor {
	s := &survivor{server: server, place: newPlace(t, server.URL, fmt.Sprint("survivor_", c.number))}
	t.Cleanup(s.pool.Close)
	s.prepare(t)
	s.connect(t, cmp.Or(c.url, server.URL))
	if c.retry == nil {
		c.retry = every20ms
	}
	s.newBus(t, c.retry)
	s.start(t)
	return s
}

// prepare makes the role of the bus, with all rights. Effects are numbered.
func (s *survivor) prepare(t *testing.T) {
	s.must(t, "alter table "+s.schema+".effects add column number bigserial")
	s.must(t, `do $$ begin if not exists (select from pg_roles where rolname = 'app') then create role app login; end if; end $$`)
	s.must(t, "grant usage on schema "+s.schema+" to app")
	s.must(t, "grant all on all tables in schema "+s.schema+" to app")
	s.must(t, "grant all on all sequences in schema "+s.schema+" to app")
}

// connect makes the pool and the store of the bus.
func (s *survivor) connect(t *testing.T, url string) {
	config, err := pgxpool.ParseConfig(strings.Replace(url, "postgres@", "app@", 1))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 6
	config.ConnConfig.Tracer = counting{&s.asked}
	if s.app, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.app.Close)
	if s.store, err = postgres.NewWith(s.app, postgres.Options{Schema: s.schema, History: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.store.Close)
}

// newBus makes the bus. Its handler notes each event among the effects.
func (s *survivor) newBus(t *testing.T, retry engine.RetryPolicy) {
	var err error
	s.bus, err = engine.New[pgx.Tx](s.store, engine.Config{Lease: survivorLease, Concurrency: 3, Logger: slog.New(&s.log)})
	if err != nil {
		t.Fatal(err)
	}
	h := engine.Handler{Event: "e", Name: "h", MaxAttempts: 1000, Retry: retry}
	if err := engine.HandleTx(s.bus, h, func(ctx context.Context, tx pgx.Tx, e engine.Event[[]byte]) error {
		time.Sleep(max(s.pace, 5*time.Millisecond))
		_, err := tx.Exec(ctx, "insert into "+s.schema+".effects values ($1, $2)", e.ID, e.Key)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (s *survivor) start(t *testing.T) {
	if err := s.bus.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
}

func (s *survivor) stop(t *testing.T) {
	if err := s.bus.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// must runs a statement as the superuser.
func (s *survivor) must(t *testing.T, sql string) {
	t.Helper()
	if _, err := s.pool.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// configure changes the server's configuration; it may be read-only.
func (s *survivor) configure(t *testing.T, sql string) {
	t.Helper()
	s.must(t, sql)
	s.must(t, "select pg_reload_conf()")
}

// hold keeps a transaction of the superuser open.
func (s *survivor) hold(t *testing.T, fn func(pgx.Tx) error) {
	tx, err := s.pool.Begin(context.Background())
	if err == nil {
		err = fn(tx)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.holding = tx
}

func (s *survivor) letGo(t *testing.T) {
	if err := s.holding.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (s *survivor) publish(t *testing.T, from, to int) {
	t.Helper()
	var list []engine.Message
	for i := from; i < to; i++ {
		list = append(list, engine.Message{ID: fmt.Sprint("e", i), Type: "e", Key: fmt.Sprint("k", i%40), Payload: []byte("x")})
	}
	for try := 0; ; try++ {
		err := s.bus.PublishNow(context.Background(), list...)
		if err == nil {
			return
		}
		if try == 100 {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// awaitEffects waits until so many events have their effect.
func (s *survivor) awaitEffects(t *testing.T, want int) {
	t.Helper()
	for n := 0; n < want; time.Sleep(10 * time.Millisecond) {
		err := s.pool.QueryRow(context.Background(), "select count(*) from "+s.schema+".effects").Scan(&n)
		if err != nil {
			t.Log(err) // a connection that the stop has cut
		}
	}
}

func (s *survivor) judge(t *testing.T, c *trouble) {
	var rows, distinct, completed, charged int
	err := s.pool.QueryRow(context.Background(), fmt.Sprintf(`select count(*), count(distinct key),
		(select count(*) from %[1]s.completions), (select sum(attempts) from %[1]s.completions) from %[1]s.effects`, s.schema)).
		Scan(&rows, &distinct, &completed, &charged)
	if err != nil {
		t.Fatal(err)
	}
	if rows != 300 || distinct != 300 || completed != 300 {
		t.Errorf("%d effects of %d events, %d completions, want 300 each", rows, distinct, completed)
	}
	if c.uncharged && charged > 0 {
		t.Errorf("%d attempts were charged", charged)
	}
	t.Logf("%d attempts were charged", charged)
	s.judgeOrder(t)
	found, err := s.store.Verify(context.Background())
	if err != nil || len(found.Findings) > 0 {
		t.Errorf("verify: %+v, %v", found.Findings, err)
	}
	s.judgeWords(t, c)
	if c.held {
		for _, lost := range []string{"relaybus: lease expired", "relaybus: lane lost", "relaybus: lease lost"} {
			if n := s.log.count(slog.LevelWarn, lost); n > 0 {
				t.Errorf("%d times %q", n, lost)
			}
		}
	}
}

// judgeWords: one warning that the store is away, with the trouble's word in it,
// and one line that it is back.
func (s *survivor) judgeWords(t *testing.T, c *trouble) {
	t.Helper()
	away, back := s.log.count(slog.LevelWarn, "relaybus: store away"), s.log.count(slog.LevelInfo, "relaybus: store back")
	// Connections that are cut ten times over may look like as many outages.
	if away != back || away > 1 && !c.works || c.says && away != 1 {
		t.Errorf("said %d times that the store is away and %d times that it is back:\n%s", away, back, s.log.text())
	}
	if line := s.log.first("relaybus: store away"); !strings.Contains(line, c.word) {
		t.Errorf("the store is away: %q, want %q in it", line, c.word)
	}
}

// judgeOrder holds the effects of each key against the order of publishing,
// which is that of the numbers in the events' ids.
func (s *survivor) judgeOrder(t *testing.T) {
	t.Helper()
	var late int
	err := s.pool.QueryRow(context.Background(), `select count(*) from (
		select substr(key, 2)::int as n, lag(substr(key, 2)::int) over (partition by value order by number) as before
		  from `+s.schema+`.effects) x where n < before`).Scan(&late)
	if err != nil || late > 0 {
		t.Errorf("%d effects came behind a later one of their key, %v", late, err)
	}
}

// counting counts what a pool's connections ask of the server.
type counting struct{ n *atomic.Int64 }

func (c counting) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (counting) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) {}
func (c counting) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (counting) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c counting) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (counting) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (counting) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// saidLog counts what a bus logs.
type saidLog struct {
	mu    sync.Mutex
	lines []slog.Record
}

func (l *saidLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *saidLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *saidLog) WithGroup(string) slog.Handler                    { return l }
func (l *saidLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r)
	return nil
}

func (l *saidLog) count(level slog.Level, message string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.lines {
		if r.Level == level && r.Message == message {
			n++
		}
	}
	return n
}

// first is the first line with a message, "" when there is none.
func (l *saidLog) first(message string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.lines {
		if r.Message == message {
			return lineOf(&r)
		}
	}
	return ""
}

func (l *saidLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, r := range l.lines[:min(len(l.lines), 30)] {
		b.WriteString(lineOf(&r) + "\n")
	}
	return b.String()
}

func lineOf(r *slog.Record) string {
	line := fmt.Sprint(r.Level, " ", r.Message)
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprint(" ", a); return true })
	return line
}

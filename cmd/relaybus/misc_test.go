package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// What destroys asks, and does nothing unless the answer is yes.
func TestConfirm(t *testing.T) {
	w := newWorld(t)
	w.migrate(t)
	w.fill(t)
	for _, answer := range []string{"no\n", "", "y\n"} {
		text := w.with(&app{asks: true, in: strings.NewReader(answer)}, "migrate", "down")
		if !strings.Contains(text, "Type yes to do it") || !strings.Contains(text, "nothing was done") || !strings.HasSuffix(text, "exit 2\n") {
			t.Errorf("answer %q: %s", answer, text)
		}
	}
	if text := w.command("verify"); !strings.HasSuffix(text, "exit 0\n") {
		t.Fatalf("after no: %s", text)
	}
	if text := w.with(&app{asks: true, in: strings.NewReader("yes\n")}, "migrate", "down"); !strings.HasSuffix(text, "exit 0\n") {
		t.Fatalf("after yes: %s", text)
	}
	if text := w.command("verify"); !strings.HasSuffix(text, "exit 2\n") {
		t.Fatalf("the tables must be gone: %s", text)
	}
}

// An interrupt at the question ends the command, and nothing is done.
func TestInterruptAtQuestion(t *testing.T) {
	w := newWorld(t)
	w.migrate(t)
	in, never := io.Pipe()
	defer never.Close()
	ctx, cancel := context.WithCancel(context.Background())
	asked := &notify{do: cancel}
	a := &app{asks: true, in: in, out: io.Discard, err: asked}
	code := a.run(ctx, []string{"--database-url", w.url, "--schema", w.schema, "migrate", "down"})
	if code != exitFailed || !strings.Contains(asked.String(), "interrupted: nothing was done") {
		t.Fatalf("exit %d: %s", code, asked.String())
	}
	if text := w.command("verify"); !strings.HasSuffix(text, "exit 0\n") {
		t.Fatalf("the tables must be there: %s", text)
	}
}

// notify calls do once, at the first line that is written.
type notify struct {
	bytes.Buffer
	once sync.Once
	do   func()
}

func (n *notify) Write(p []byte) (int, error) {
	defer n.once.Do(n.do)
	return n.Buffer.Write(p)
}

// stats --watch ends with an interrupt, and that is success.
func TestWatchEndsWithInterrupt(t *testing.T) {
	w := newWorld(t)
	w.migrate(t)
	for _, c := range []struct {
		name   string
		args   []string
		starts string
	}{
		{"lines", []string{"stats", "--watch", "--interval", "100ms"}, "TIME events=0 pending=0 due=0 running=0"},
		{"json", []string{"stats", "--watch", "--json", "--interval", "100ms"}, `{"now":"TIME","events":0`},
	} {
		out := &notify{do: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }}
		var errs bytes.Buffer
		code := run(append([]string{"--database-url", w.url, "--schema", w.schema}, c.args...), out, &errs)
		if text := w.mask(out.String()); code != exitDone || errs.Len() > 0 || !strings.HasPrefix(text, c.starts) {
			t.Errorf("%s: exit %d, stderr %q, output %q", c.name, code, errs.String(), text)
		}
	}
}

// A database that is away for a while does not end stats --watch: it says so
// once, and once that it is back.
func TestWatchOutlivesOutage(t *testing.T) {
	w := newWorld(t)
	w.migrate(t)
	g := startGate(t, w)
	ctx, cancel := context.WithCancel(context.Background())
	said := make(chan string, 100)
	a := &app{out: &notify{do: g.shut}, err: lines(said)}
	done := make(chan int, 1)
	go func() {
		done <- a.run(ctx, []string{"--database-url", g.url, "--schema", w.schema, "stats", "--watch", "--interval", "100ms"})
	}()
	if line := <-said; !strings.HasSuffix(line, "; looking again until the database answers\n") {
		t.Fatalf("it said %q", line)
	}
	for refused := g.refused.Load(); g.refused.Load() < refused+5; { // looks that fail in silence
		time.Sleep(10 * time.Millisecond)
	}
	g.open.Store(true)
	if line := <-said; line != "relaybus: the database answers again\n" {
		t.Errorf("it said %q", line)
	}
	cancel()
	if code := <-done; code != exitDone || len(said) > 0 {
		t.Errorf("exit %d, %d more lines", code, len(said))
	}
}

// lines sends each line that is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// gate stands before the world's server, and lets connections pass while it is
// open.
type gate struct {
	url     string
	open    atomic.Bool
	refused atomic.Int64
	mu      sync.Mutex
	passed  []net.Conn
}

func startGate(t *testing.T, w *world) *gate {
	t.Helper()
	u, err := url.Parse(w.url)
	must(t, err)
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	u.Host = l.Addr().String()
	g := &gate{url: u.String()}
	g.open.Store(true)
	t.Cleanup(func() { _ = l.Close(); g.shut() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			g.pass(client, server)
		}
	}()
	return g
}

func (g *gate) pass(client net.Conn, address string) {
	var server net.Conn
	if g.open.Load() {
		server, _ = net.Dial("tcp", address)
	}
	if server == nil {
		g.refused.Add(1)
		_ = client.Close()
		return
	}
	g.mu.Lock()
	g.passed = append(g.passed, client, server)
	g.mu.Unlock()
	go func() { _, _ = io.Copy(server, client) }()
	go func() { _, _ = io.Copy(client, server) }()
}

// shut cuts what has passed and lets nothing more through.
func (g *gate) shut() {
	g.open.Store(false)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range g.passed {
		_ = conn.Close()
	}
}

// On a terminal each look clears the screen first.
func TestWatchRepaints(t *testing.T) {
	w := newWorld(t)
	w.migrate(t)
	ctx, cancel := context.WithCancel(context.Background())
	out := &notify{do: cancel}
	a := &app{out: out, err: io.Discard, paints: true}
	code := a.run(ctx, []string{"--database-url", w.url, "--schema", w.schema, "stats", "--watch", "--interval", "100ms"})
	if code != exitDone || !strings.HasPrefix(out.String(), "\x1b[H\x1b[2J") {
		t.Fatalf("exit %d, %q", code, out.String())
	}
}

// Long work draws a bar where there is a terminal, and says a line now and
// then where there is none.
func TestProgress(t *testing.T) {
	for _, draws := range []bool{true, false} {
		var errs bytes.Buffer
		p := (&app{err: &errs, draws: draws}).progress("requeued", 4)
		p.said = p.said.Add(-sayEvery)
		time.Sleep(150 * time.Millisecond) // a bar is drawn at most ten times a second
		p.at(3)
		p.end()
		want := "requeued: 3 so far\n"
		if draws {
			want = "3/4"
		}
		if !strings.Contains(errs.String(), want) {
			t.Errorf("want %q in %q", want, errs.String())
		}
	}
}

// An interrupt in the middle of work says so, and exits with 1.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	w.migrate(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var errs bytes.Buffer
	a := &app{out: io.Discard, err: &errs}
	code := a.run(ctx, []string{"--database-url", w.url, "--schema", w.schema, "verify"})
	if code != exitFailed || !strings.HasPrefix(errs.String(), "relaybus: interrupted") || strings.Count(errs.String(), "\n") != 1 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
}

// refusing is a server that lets nobody in.
func refusing(t *testing.T, code, message string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(conn, conn)
			if _, err := b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: message})
				_ = b.Flush()
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// Who is not let in learns why in one sentence, and the password of the URL is
// in none of them.
func TestNotLetIn(t *testing.T) {
	t.Setenv("RELAYBUS_SCHEMA", "")
	for _, c := range []struct {
		code, message, says string
		exit                int
	}{
		{"28P01", `password authentication failed for user "app"`, `relaybus: the server refuses the password of user "app"`, exitBad},
		{"28000", `no pg_hba.conf entry with password hunter2`, `relaybus: the server does not let user "app" in: `, exitBad},
		{"3D000", `database "shop" does not exist`, `relaybus: there is no database "shop" on 127.0.0.1:`, exitBad},
		{"42501", `permission denied for database "shop"`, `relaybus: user "app" may not connect to database "shop": it needs GRANT CONNECT ON DATABASE`, exitBad},
		{"53300", `sorry, too many clients already`, `relaybus: the server lets nobody in now: `, exitFailed},
	} {
		t.Setenv("RELAYBUS_DATABASE_URL", "postgres://app:hunter2@"+refusing(t, c.code, c.message)+"/shop?sslmode=disable")
		for _, args := range [][]string{{"stats"}, {"migrate", "up"}, {"migrate", "list"}, {"stats", "--help"}} {
			var out, errs bytes.Buffer
			code := run(args, &out, &errs)
			if strings.Contains(out.String()+errs.String(), "hunter2") {
				t.Errorf("%s %v: the password is in the output: %s%s", c.code, args, out.String(), errs.String())
			}
			if args[len(args)-1] != "--help" && (code != c.exit || !strings.HasPrefix(errs.String(), c.says) || strings.Count(errs.String(), "\n") != 1) {
				t.Errorf("%s %v: exit %d, %q", c.code, args, code, errs.String())
			}
		}
	}
}

// A role without rights is told which GRANT it lacks, command by command.
func TestMissingRights(t *testing.T) {
	w := newWorld(t)
	w.migrate(t)
	role := fmt.Sprintf("relaybus_cli_%d", os.Getpid())
	w.sql(t, "drop role if exists "+role)
	w.sql(t, "create role "+role+" login password 'hunter2'")
	t.Cleanup(func() { w.sql(t, "drop owned by "+role); w.sql(t, "drop role "+role) })
	u, err := url.Parse(w.url)
	must(t, err)
	u.User = url.UserPassword(role, "hunter2")
	powerless := &world{url: u.String(), schema: w.schema}
	for _, c := range []struct{ args, says string }{
		{"stats", `needs GRANT USAGE ON SCHEMA "SCHEMA"`},
		{"list", `needs GRANT USAGE ON SCHEMA "SCHEMA"`},
		{"migrate up", "GRANT USAGE ON SCHEMA"},
		{"migrate up --schema another_" + w.schema, "GRANT CREATE ON DATABASE"},
	} {
		powerless.wantBad(t, c.args, c.says)
	}
	w.sql(t, "grant usage on schema SCHEMA to "+role)
	powerless.wantBad(t, "stats", "as operator GRANT SELECT ON relaybus_migrations")
	w.sql(t, "grant select on SCHEMA.relaybus_migrations to "+role)
	for args, table := range map[string]string{
		"stats": "deliveries|events|lanes|completions|subscriptions", "list": "deliveries|events|lanes", "verify": "deliveries", "lanes": "lanes",
		"subscriptions": "subscriptions", "show 1": "deliveries|events|lanes", "requeue --all --yes": "deliveries|events", "purge --dead-after 1d --yes": "subscriptions|deliveries",
		"unsubscribe a b": "subscriptions", "migrate validate": "slots",
	} {
		text := powerless.wantBad(t, args, "as operator GRANT SELECT")
		named := false
		for _, name := range strings.Split(table, "|") {
			named = named || strings.Contains(text, "permission denied for table "+name+" ")
		}
		if !named {
			t.Errorf("%s names none of %s: %s", args, table, text)
		}
	}
}

func (w *world) wantBad(t *testing.T, args, says string) string {
	t.Helper()
	text := w.command(words(t, args)...)
	if !strings.Contains(text, says) || !strings.HasSuffix(text, "exit 2\n") || strings.Count(text, "\n") != 2 || strings.Contains(text, "hunter2") {
		t.Errorf("%s: want one sentence with %q and exit 2, got %s", args, says, text)
	}
	return text
}

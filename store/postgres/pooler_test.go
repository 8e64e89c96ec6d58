package postgres_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/internal/pgcluster"
	"github.com/relaybus-go/relaybus/store/postgres"
	"github.com/relaybus-go/relaybus/store/storetest"
)

// TestConformanceThroughPgBouncer runs the suite behind transaction pooling
// without prepared statements, which is what poolers before PgBouncer 1.21
// leave.
func TestConformanceThroughPgBouncer(t *testing.T) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Log("no pgbouncer on the PATH: the store is not tested behind a transaction pooler")
		return
	}
	if testing.Short() {
		t.Log("-short: the store is not tested behind a transaction pooler")
		return
	}
	fewerSequences(t)
	port := startPgBouncer(t, bin, open(t, postgres.Options{}).pool.Config().ConnConfig)
	storetest.Run(t, harnessOf(func(t testing.TB) *opened { return openThrough(t, port) }))
}

// fewerSequences leaves a fifth of the random commands: what may differ behind a
// pooler is how statements are sent, which every sequence shows.
func fewerSequences(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	n, err := strconv.Atoi(before)
	if err == nil {
		err = checks.Set(strconv.Itoa(max(n/5, 1)))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Set(before) })
	t.Logf("%s of %s random sequences behind the pooler", checks, before)
}

// openThrough is open with a pool behind the pooler; the schema was made
// before, on a direct connection.
func openThrough(t testing.TB, port int) *opened {
	t.Helper()
	s := open(t, postgres.Options{})
	config := s.pool.Config()
	config.ConnConfig.Host, config.ConnConfig.Port = "127.0.0.1", uint16(port)
	config.ConnConfig.Fallbacks, config.ConnConfig.TLSConfig = nil, nil
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s.pooled = true
	s.place = &place{pool: pool, schema: s.schema, gate: s.gate}
	if s.store, err = postgres.NewWith(pool, postgres.Options{Schema: s.schema, Hook: s.pauses.reached}); err != nil {
		t.Fatal(err)
	}
	return s
}

// startPgBouncer starts a pooler before a server, until the test ends or this
// process does.
func startPgBouncer(t *testing.T, bin string, server *pgx.ConnConfig) (port int) {
	t.Helper()
	port, err := pgcluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "relaybus-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "pgbouncer.ini")
	password := ""
	if server.Password != "" {
		password = " password=" + server.Password
	}
	text := fmt.Sprintf(`[databases]
%s = host=%s port=%d user=%s%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 300
default_pool_size = 40
`, server.Database, server.Host, server.Port, server.User, password, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The shell ends the pooler with this process, and ends when it ends.
	const beside = `exec 3<&0
"$@" 3<&- & pid=$!
{ read -r line; kill $pid; } <&3 >/dev/null 2>&1 &
wait $pid`
	cmd := exec.Command("/bin/sh", "-c", beside, "sh", bin, "-q", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody(t), Setpgid: true}
	var words bytes.Buffer
	cmd.Stderr = &words
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-ended
	})
	for {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = conn.Close()
			return port
		}
		select {
		case <-ended:
			t.Fatalf("pgbouncer ended at its start: %s", words.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// nobody is the user that a pooler of root's runs as: pgbouncer refuses root.
func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		t.Fatalf("user nobody: %+v", u)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

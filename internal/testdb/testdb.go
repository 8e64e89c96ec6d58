// Package testdb finds or starts the database servers that tests talk to, and
// fails with one sentence when there is none. Nothing is skipped silently:
// RELAYBUS_TEST_STORES=postgres narrows the set on purpose.
//
// PostgreSQL is looked for in this order: the server that
// RELAYBUS_TEST_POSTGRES_URL names; server binaries on the PATH or in the usual
// folders, of which a private cluster in a temporary folder is started; and
// what internal/localdb brings, a program of a module of its own that
// downloads binaries or talks to a container engine.
//
// A server that was started ends with the test process, however that ends: a
// shell beside it waits for the end of its standard input.
package testdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Version is a release of PostgreSQL to test on.
type Version string

// The versions that are tested.
const (
	// Local is what the machine has, or the environment names.
	Local Version = "local"
	// Newest is the newest release that can be had.
	Newest Version = "newest"
)

// Server is a PostgreSQL server for tests.
type Server struct {
	// URL connects as a superuser to an empty database.
	URL string
	// Says tells in words where the server comes from.
	Says string

	own *cluster // nil for a server that somebody else runs
}

var servers = struct {
	sync.Mutex
	running map[Version]*Server
	failed  map[Version]error
}{running: map[Version]*Server{}, failed: map[Version]error{}}

// Postgres returns the server of a version, which all tests of a process
// share: each works in a schema of its own.
func Postgres(t testing.TB, v Version) *Server {
	t.Helper()
	servers.Lock()
	defer servers.Unlock()
	if err := servers.failed[v]; err != nil {
		t.Fatal(err)
	}
	if s := servers.running[v]; s != nil {
		return s
	}
	s, err := find(v)
	if err != nil {
		servers.failed[v] = err
		t.Fatal(err)
	}
	servers.running[v] = s
	t.Logf("PostgreSQL: %s", s.Says)
	return s
}

// Private starts a server of the test's own, which it may stop and start. A
// server that the environment names is nobody's to stop.
func Private(t testing.TB) *Server {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	c, err := startCluster(bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	return c.server(bin)
}

// Wanted reports whether tests of a store are to run. A set that was narrowed
// says so.
func Wanted(t testing.TB, store string) bool {
	t.Helper()
	only := os.Getenv("RELAYBUS_TEST_STORES")
	if only == "" || slices.Contains(strings.Split(only, ","), store) {
		return true
	}
	t.Logf("RELAYBUS_TEST_STORES=%s: tests of %s are left out on purpose", only, store)
	return false
}

func find(v Version) (*Server, error) {
	if v == Newest {
		return fromProgram("postgres", "newest")
	}
	if url := os.Getenv("RELAYBUS_TEST_POSTGRES_URL"); url != "" {
		return &Server{URL: url, Says: "the server of RELAYBUS_TEST_POSTGRES_URL"}, nil
	}
	bin, err := binaries()
	if err != nil {
		s, again := fromProgram("postgres", "15")
		if again != nil {
			return nil, fmt.Errorf("%w; and %w", err, again)
		}
		return s, nil
	}
	c, err := startCluster(bin)
	if err != nil {
		return nil, err
	}
	return c.server(bin), nil
}

// ErrNoServer is the sentence of a machine without PostgreSQL.
var ErrNoServer = errors.New("no PostgreSQL for the tests: set RELAYBUS_TEST_POSTGRES_URL, or install the server (initdb and postgres)")

// binaries finds the folder with initdb and postgres: on the PATH, or the
// newest of the usual folders.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if complete(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	} {
		dirs, _ := filepath.Glob(pattern)
		found = append(found, dirs...)
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return !complete(dir) })
	if len(found) == 0 {
		return "", ErrNoServer
	}
	return found[len(found)-1], nil
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres", "pg_ctl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// cluster is a server in a temporary folder.
type cluster struct {
	bin, dir string
	port     int
	as       *syscall.Credential // the user that it runs as, nil: this one

	stop io.WriteCloser // of the shell beside the server
	done chan struct{}
}

func (c *cluster) server(bin string) *Server {
	return &Server{
		URL:  fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port),
		Says: "a cluster of " + filepath.Base(filepath.Dir(bin)) + " on port " + strconv.Itoa(c.port),
		own:  c,
	}
}

// startCluster makes a cluster and starts it.
func startCluster(bin string) (*cluster, error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "relaybus-postgres-")
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bin, dir: dir, as: as}
	if err := c.prepare(); err != nil {
		c.remove()
		return nil, err
	}
	if err := c.start(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// unprivileged returns the user that the server runs as: initdb refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("the tests run as root, PostgreSQL does not, and there is no user postgres, nobody or daemon to run it as")
}

func (c *cluster) prepare() error {
	if c.as != nil {
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	out, err := c.command("initdb", "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	c.port, err = freePort()
	return err
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	if c.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	}
	return cmd
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// beside starts the server and waits for the end of standard input, which
// comes when the test process ends. The folder goes with the server unless a
// line came before.
const beside = `"$@" >"$0/log" 2>&1 & server=$!
keep=
while read -r line; do keep=$line; done
kill -QUIT $server 2>/dev/null; wait $server
[ -n "$keep" ] || rm -rf "$0"`

// start starts the server and waits until it answers.
func (c *cluster) start() error {
	cmd := exec.Command("/bin/sh", "-c", beside, c.dir,
		filepath.Join(c.bin, "postgres"), "-D", c.data(), "-p", strconv.Itoa(c.port), "-k", c.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-c", "fsync=off", "-c", "full_page_writes=off")
	cmd.Dir = c.dir
	if c.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.stop, c.done = in, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(c.done)
	return c.await()
}

// await waits until the server answers.
func (c *cluster) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		cmd := c.command("pg_ctl", "status", "-D", c.data())
		if cmd.Run() == nil && c.accepts() {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("postgres ended at its start:\n%s", c.log())
		case <-ctx.Done():
			return fmt.Errorf("postgres did not start within a minute:\n%s", c.log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// accepts reports whether the server lets somebody in: it writes so into the
// last line of its pid file.
func (c *cluster) accepts() bool {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	return err == nil && strings.Contains(string(text), "ready")
}

func (c *cluster) log() string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	return string(text)
}

func (c *cluster) remove() {
	if c.stop != nil {
		_ = c.stop.Close()
		<-c.done
	}
	_ = os.RemoveAll(c.dir)
}

// Stop ends a private server at once, as a power cut would (immediate), and
// returns when it is gone.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	_, _ = io.WriteString(s.own.stop, "keep\n")
	_ = s.own.stop.Close()
	<-s.own.done
}

// Start starts a private server again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.own.start(); err != nil {
		t.Fatal(err)
	}
}

// fromProgram runs internal/localdb, which prints the server's URL and keeps it
// until its standard input ends.
func fromProgram(args ...string) (*Server, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("testdb does not know where its source is")
	}
	dir := filepath.Join(filepath.Dir(filepath.Dir(file)), "localdb")
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("internal/localdb is not beside the source: %w", err)
	}
	cmd := exec.Command("go", append([]string{"run", "-C", dir, "."}, args...)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	if _, err := cmd.StdinPipe(); err != nil { // stays open as long as this process
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		return nil, fmt.Errorf("internal/localdb started no server: %s", strings.TrimSpace(problems.String()))
	}
	url, says, _ := strings.Cut(strings.TrimSpace(line), " ")
	return &Server{URL: url, Says: says}, nil
}

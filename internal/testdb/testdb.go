// Package testdb finds or starts the database servers that tests talk to, and
// fails with one sentence when there is none. Nothing is skipped silently:
// RELAYBUS_TEST_STORES=postgres narrows the set on purpose.
//
// PostgreSQL is looked for in this order: the server that
// RELAYBUS_TEST_POSTGRES_URL names (RELAYBUS_TEST_POSTGRES_NEWEST_URL for
// Newest); server binaries on the PATH or in the usual folders, of which a
// private cluster in a temporary folder is started (not for Newest: they are
// rarely that); and what internal/localdb brings, a program of a module of its
// own that downloads binaries or talks to a container engine.
//
// A server that was started ends with the test process, however that ends.
package testdb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/relaybus-go/relaybus/internal/pgcluster"
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

// instead is what internal/localdb brings for Local where the machine has
// nothing.
const instead = "15"

// Server is a PostgreSQL server for tests.
type Server struct {
	// URL connects as a superuser to an empty database.
	URL string
	// Says tells in words where the server comes from.
	Says string

	own   *pgcluster.Cluster // nil for a server that this process did not start itself
	stdin io.Closer          // of the program that keeps the server
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
func Private(t testing.TB) *Server { return privateOf(t, pgcluster.New) }

// Durable is Private with fsync and full-page images, for measurements.
func Durable(t testing.TB) *Server { return privateOf(t, pgcluster.NewDurable) }

func privateOf(t testing.TB, start starter) *Server {
	t.Helper()
	s, err := private(start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.own.Remove)
	return s
}

// Small is Private with one volume on a disk of so many MiB, which Fill fills.
// It returns nil, and says so, where no disk can be mounted.
func Small(t testing.TB, v pgcluster.Volume, mib int) *Server {
	t.Helper()
	s, err := private(func(bin string) (*pgcluster.Cluster, error) { return pgcluster.NewSmall(bin, v, mib) })
	if errors.Is(err, pgcluster.ErrNoMount) {
		t.Logf("not tested here, on a real disk that is full: %v", err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.own.Remove)
	return s
}

func private(start starter) (*Server, error) {
	bin, err := pgcluster.Binaries()
	if err == nil {
		return startFrom(bin, start)
	}
	return startDownloaded(err, start)
}

// Standby makes a streaming standby of a private server, which is stopped at
// once for it and started again.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	c, err := s.own.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Remove)
	return serverOf(c, "a standby of "+s.Says)
}

// Wanted reports whether tests of a store are to run. A set that was narrowed
// says so.
func Wanted(t testing.TB, store string) bool {
	t.Helper()
	only := os.Getenv("RELAYBUS_TEST_STORES")
	if only == "" || slices.Contains(strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' }), store) {
		return true
	}
	t.Logf("RELAYBUS_TEST_STORES=%s: tests of %s are left out on purpose", only, store)
	return false
}

// find looks for a server in the order that the package's comment says.
func find(v Version) (*Server, error) {
	variable, release := "RELAYBUS_TEST_POSTGRES_URL", instead
	if v == Newest {
		variable, release = "RELAYBUS_TEST_POSTGRES_NEWEST_URL", string(Newest)
	}
	if url := os.Getenv(variable); url != "" {
		return &Server{URL: url, Says: "the server of " + variable}, nil
	}
	var missing error
	if v == Local {
		s, err := startLocal()
		if !errors.Is(err, pgcluster.ErrNoBinaries) {
			return s, err
		}
		missing = err
	}
	s, err := fromProgram("postgres", release)
	if err != nil {
		return nil, noServer("set "+variable, errors.Join(missing, err))
	}
	return s, nil
}

// noServer is the one sentence of a machine without PostgreSQL.
func noServer(do string, why error) error {
	return fmt.Errorf("no PostgreSQL for the tests: %s, or install the server, or leave its tests out with RELAYBUS_TEST_STORES (%s)",
		do, strings.ReplaceAll(strings.TrimSpace(why.Error()), "\n", "; "))
}

func startLocal() (*Server, error) {
	bin, err := pgcluster.Binaries()
	if err != nil {
		return nil, err
	}
	return startFrom(bin, pgcluster.New)
}

// starter makes a cluster of binaries.
type starter func(bin string) (*pgcluster.Cluster, error)

func startFrom(bin string, start starter) (*Server, error) {
	c, err := start(bin)
	if err != nil {
		return nil, err
	}
	return serverOf(c, "a cluster of the binaries in "+bin), nil
}

func serverOf(c *pgcluster.Cluster, says string) *Server {
	return &Server{URL: c.URL(), Says: says, own: c}
}

// startDownloaded starts a cluster of binaries that internal/localdb brings.
func startDownloaded(missing error, start starter) (*Server, error) {
	p, err := run("binaries", instead)
	if err != nil { // a URL would not help: the test stops its server
		return nil, noServer("put initdb and postgres on the PATH", errors.Join(missing, err))
	}
	_ = p.stdin.Close()
	return startFrom(p.line, start)
}

// Stop ends a private server at once, as a power cut would (immediate), and
// returns when it is gone.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.own.Stop()
}

// Start starts a private server again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.own.Start(); err != nil {
		t.Fatal(err)
	}
}

// Ended reports whether a private server ended by itself since it was started.
func (s *Server) Ended() bool { return s.own.Ended() }

// Fill leaves nothing free on the disk of a Small server.
func (s *Server) Fill(t testing.TB) {
	t.Helper()
	if err := s.own.Fill(); err != nil {
		t.Fatal(err)
	}
}

// Free gives back what Fill took.
func (s *Server) Free(t testing.TB) {
	t.Helper()
	if err := s.own.Free(); err != nil {
		t.Fatal(err)
	}
}

// fromProgram lets internal/localdb start a server, which it keeps until its
// standard input ends: with this process at the latest.
func fromProgram(args ...string) (*Server, error) {
	p, err := run(args...)
	if err != nil {
		return nil, err
	}
	url, says, _ := strings.Cut(p.line, " ")
	return &Server{URL: url, Says: says, stdin: p.stdin}, nil
}

// program is internal/localdb at work.
type program struct {
	line  string // the first that it printed
	stdin io.Closer
}

// run starts internal/localdb and returns when it has printed a line.
func run(args ...string) (*program, error) {
	_, file, _, ok := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(filepath.Dir(file)), "localdb")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); !ok || err != nil {
		return nil, errors.New("internal/localdb is not beside the source of the tests")
	}
	// The parent's flags, -race and -mod say, are not for this module.
	cmd := exec.Command("go", append([]string{"run", "-C", dir, "."}, args...)...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var problems strings.Builder
	cmd.Stderr = &problems
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("internal/localdb cannot be run: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		return nil, fmt.Errorf("internal/localdb: %s", strings.TrimSpace(problems.String()))
	}
	return &program{line: strings.TrimSpace(line), stdin: in}, nil
}

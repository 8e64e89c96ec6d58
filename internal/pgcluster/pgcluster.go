// Package pgcluster starts PostgreSQL servers in temporary folders, for tests
// and demonstrations, from server binaries that are on the machine.
//
// A server ends with the process that started it, however that ends, and its
// folder goes with it: a shell beside the server waits for the end of its
// standard input, in a process group of its own, which a terminal's interrupt
// does not reach. What it does not survive is SIGKILL of that shell.
//
// The servers listen on the loopback address alone, trust whoever connects,
// and do without fsync: a crash of the server loses nothing, a crash of the
// machine everything.
package pgcluster

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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is a server in a temporary folder. Its methods are for one goroutine
// at a time.
type Cluster struct {
	bin, dir string
	port     int
	as       *syscall.Credential // the user that it runs as, nil: this one
	small    Volume              // the part on a small disk, "" when there is none
	durable  bool                // with fsync and full-page images

	stop  io.WriteCloser // of the shell beside the server
	ended chan struct{}  // closed when the server has ended
	gone  chan struct{}  // closed when the shell has
}

// New makes a cluster from the binaries in bin and starts its server.
func New(bin string) (*Cluster, error) {
	c, err := newFolder(bin)
	if err != nil {
		return nil, err
	}
	return c.started(c.initialise())
}

// NewDurable is New with fsync and full-page images, for measurements.
func NewDurable(bin string) (*Cluster, error) {
	c, err := newFolder(bin)
	if err != nil {
		return nil, err
	}
	c.durable = true
	return c.started(c.initialise())
}

// newFolder makes the folder of a cluster and nothing in it.
func newFolder(bin string) (*Cluster, error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "relaybus-postgres-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, as: as}
	if as != nil {
		err = os.Chown(dir, int(as.Uid), int(as.Gid))
	}
	return c, err
}

// started starts the server of a cluster whose data are made, and removes it
// when one of both failed.
func (c *Cluster) started(err error) (*Cluster, error) {
	if err == nil {
		err = c.startSomewhere()
	}
	if err != nil {
		c.Remove()
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
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres, nobody or daemon to run it as")
}

func (c *Cluster) initialise(more ...string) error {
	return c.run(filepath.Join(c.bin, "initdb"), append([]string{"-D", c.data(), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync"}, more...)...)
}

func (c *Cluster) run(name string, args ...string) error {
	out, err := c.command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C") // macOS refuses to start without a locale
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true}
	return cmd
}

// startSomewhere starts the server on a free port. Another process may take
// the port between the look and the start.
func (c *Cluster) startSomewhere() (err error) {
	for range 3 {
		if c.port, err = FreePort(); err != nil {
			return err
		}
		if err = c.Start(); err == nil || !strings.Contains(c.log(), "could not bind") {
			return err
		}
		c.end("keep\n")
	}
	return err
}

// FreePort returns a port of the loopback address that nobody listened on just
// now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// beside starts the server, says so when it ends, and ends it at the end of
// standard input. The folder goes with it unless a line came before.
const beside = `exec 3<&0
"$@" >"$0/log" 2>&1 3<&- & server=$!
{ rm -f "$0/keep"; while read -r line; do : >"$0/keep"; done; kill -QUIT $server; } <&3 2>/dev/null & reader=$!
wait $server
(echo ended) 2>/dev/null # in a shell of its own: nobody may listen any more
wait $reader
[ -e "$0/keep" ] || { cd /; rm -rf "$0"; }`

// Start starts the server, again after Stop, and waits until it lets somebody
// in.
func (c *Cluster) Start() error {
	args := []string{"-c", beside, c.dir,
		filepath.Join(c.bin, "postgres"), "-D", c.data(), "-p", strconv.Itoa(c.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=300"}
	if !c.durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	cmd := c.command("/bin/sh", args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.stop, c.ended, c.gone = in, make(chan struct{}), make(chan struct{})
	go watch(cmd, out, c.ended, c.gone)
	return c.await()
}

func watch(cmd *exec.Cmd, out io.Reader, ended, gone chan struct{}) {
	_, _ = bufio.NewReader(out).ReadString('\n')
	close(ended)
	_ = cmd.Wait()
	close(gone)
}

// await waits until the server lets somebody in.
func (c *Cluster) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		select {
		case <-c.ended:
			return fmt.Errorf("postgres ended at its start:\n%s", c.log())
		case <-ctx.Done():
			return fmt.Errorf("postgres did not start within two minutes:\n%s", c.log())
		case <-time.After(20 * time.Millisecond):
		}
		if c.ready() {
			return nil
		}
	}
}

// ready reports whether the server lets somebody in: it writes so into the
// last line of its pid file. A file that an immediate stop left behind names
// another start of the server.
func (c *Cluster) ready() bool {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil || !strings.Contains(string(text), "ready") {
		return false
	}
	conn, err := net.Dial("tcp", c.address())
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (c *Cluster) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }

func (c *Cluster) log() string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	return string(text)
}

// URL connects as a superuser to an empty database.
func (c *Cluster) URL() string {
	return "postgres://postgres@" + c.address() + "/postgres?sslmode=disable"
}

// Dir is the cluster's folder, which belongs to the user that the server runs
// as.
func (c *Cluster) Dir() string { return c.dir }

// Ended reports whether the server ended by itself since it was started.
func (c *Cluster) Ended() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Stop ends the server at once, as a power cut would (immediate), and returns
// when it is gone. Its data stay for Start.
func (c *Cluster) Stop() { c.end("keep\n") }

// Remove ends the server and deletes its folder.
func (c *Cluster) Remove() {
	c.end("")
	c.unmount()
	_ = os.RemoveAll(c.dir) // when it was stopped before
}

func (c *Cluster) end(last string) {
	if c.stop == nil {
		return
	}
	_, _ = io.WriteString(c.stop, last)
	_ = c.stop.Close()
	<-c.gone
	c.stop = nil
}

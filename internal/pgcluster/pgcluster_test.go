package pgcluster

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bin finds the binaries, or says why this package has nothing to test here.
func bin(t *testing.T) string {
	t.Helper()
	dir, err := Binaries()
	if err != nil {
		t.Skipf("%v: clusters of downloaded binaries are tested by internal/localdb", err)
	}
	return dir
}

func dial(t *testing.T, c *Cluster) error {
	t.Helper()
	conn, err := net.Dial("tcp", c.address())
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func TestStopAndStart(t *testing.T) {
	c, err := New(bin(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Remove()
	if err := dial(t, c); err != nil {
		t.Fatalf("a started server does not answer: %v", err)
	}
	c.Stop()
	if dial(t, c) == nil {
		t.Error("a stopped server answers")
	}
	if err := c.Start(); err != nil {
		t.Fatalf("start after an immediate stop: %v", err)
	}
	if err := dial(t, c); err != nil {
		t.Errorf("a server that was started again does not answer: %v", err)
	}
	c.Remove()
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Remove left %s: %v", c.dir, err)
	}
}

// TestEndsWithItsProcess starts a server in a child, kills the child, and
// waits until neither server nor folder is left.
func TestEndsWithItsProcess(t *testing.T) {
	const child = "RELAYBUS_TEST_CLUSTER_CHILD"
	if os.Getenv(child) != "" {
		c, err := New(bin(t))
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("cluster " + c.dir + " " + c.address() + "\n")
		select {}
	}
	bin(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var words []string
	for scan := bufio.NewScanner(out); len(words) != 3 && scan.Scan(); {
		if strings.HasPrefix(scan.Text(), "cluster ") {
			words = strings.Fields(scan.Text())
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if len(words) != 3 {
		t.Fatal("the child started no cluster")
	}
	for { // without an end of its own: go test has one
		if _, err := os.Stat(words[1]); errors.Is(err, os.ErrNotExist) {
			break // the shell beside the server deletes it last
		}
	}
	if conn, err := net.Dial("tcp", words[2]); err == nil {
		_ = conn.Close()
		t.Error("the server outlived the process that started it")
	}
}

func TestSaysWhyAServerEnded(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("initdb", "exit 0")
	script("postgres", "echo 'the disk is on fire' >&2; exit 1")
	c := &Cluster{bin: dir, dir: t.TempDir()}
	defer c.Remove()
	if err := c.startSomewhere(); err == nil || !strings.Contains(err.Error(), "the disk is on fire") {
		t.Errorf("got %v, want the server's last words", err)
	}
}

func TestBinaries(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"9.6/initdb", "9.6/postgres", "15/initdb", "15/postgres", "18/initdb"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if dir, err := newest([]string{root + "/*"}); err != nil || filepath.Base(dir) != "15" {
		t.Errorf("got %s, %v, want the newest folder that is complete, 15", dir, err)
	}
	if _, err := newest([]string{root + "/none/*"}); !errors.Is(err, ErrNoBinaries) {
		t.Errorf("got %v, want ErrNoBinaries", err)
	}
}

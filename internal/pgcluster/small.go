package pgcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Volume is a part of a server's data that can have a disk of its own. It is
// the name of its folder too.
type Volume string

// The volumes. What a full one does differs: tables that cannot grow are an
// ERROR to the statement, a write-ahead log that cannot is the server's end.
const (
	Tables   Volume = "data"
	WriteLog Volume = "wal"
)

// ErrNoMount: no file system can be mounted, which takes root and Linux.
var ErrNoMount = errors.New("a disk of limited size cannot be mounted here")

// NewSmall is New with one volume on a disk of so many MiB, in memory. A
// process that is killed leaves its mount behind, empty.
func NewSmall(bin string, v Volume, mib int) (*Cluster, error) {
	c, err := newFolder(bin)
	if err != nil {
		return nil, err
	}
	if err := c.mount(v, mib); err != nil {
		return c.started(err)
	}
	// The smallest segments: a log is on its disk in steps of one.
	return c.started(c.initialise("-X", filepath.Join(c.dir, string(WriteLog)), "--wal-segsize=1"))
}

func (c *Cluster) mount(v Volume, mib int) error {
	dir := filepath.Join(c.dir, string(v))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	options := fmt.Sprintf("size=%dm,mode=0700", mib)
	if c.as != nil {
		options += fmt.Sprintf(",uid=%d,gid=%d", c.as.Uid, c.as.Gid)
	}
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %w: %s", ErrNoMount, err, strings.Join(strings.Fields(string(out)), " "))
	}
	c.small = v
	return nil
}

func (c *Cluster) unmount() {
	if c.small != "" {
		_ = exec.Command("umount", filepath.Join(c.dir, string(c.small))).Run()
	}
	c.small = ""
}

// filler is the file that fills a disk. The server does not mind it among its
// own.
func (c *Cluster) filler() string { return filepath.Join(c.dir, string(c.small), "filler") }

// Fill leaves nothing free on the small disk.
func (c *Cluster) Fill() error {
	f, err := os.OpenFile(c.filler(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for zeros := make([]byte, 64<<10); ; {
		if _, err := f.Write(zeros); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Free gives back what Fill took.
func (c *Cluster) Free() error { return os.Remove(c.filler()) }

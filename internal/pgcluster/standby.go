package pgcluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// Standby makes a streaming standby of the cluster and starts it: asynchronous,
// hot, promoted by pg_promote. The cluster stops for the copy, at once, and
// starts again: pg_basebackup, which needs no stop, is not among the binaries
// that can be downloaded.
func (c *Cluster) Standby() (*Cluster, error) {
	s, err := newFolder(c.bin)
	if err != nil {
		return nil, err
	}
	c.Stop()
	err = s.copyOf(c)
	if starting := c.Start(); err == nil {
		err = starting
	}
	return s.started(err)
}

// copyOf makes a cluster's data those of a standby of another that is stopped.
func (c *Cluster) copyOf(primary *Cluster) error {
	if err := c.run("cp", "-R", "-p", primary.data(), c.data()); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(c.data(), "postmaster.pid")) // an immediate stop may leave it
	if err := c.run("touch", filepath.Join(c.data(), "standby.signal")); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'\n", primary.port)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

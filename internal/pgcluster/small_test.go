package pgcluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestSmallDisk: a disk that was filled takes nothing more, one that was freed
// does, and Remove leaves neither folder nor mount.
func TestSmallDisk(t *testing.T) {
	c, err := NewSmall(bin(t), Tables, 64)
	if errors.Is(err, ErrNoMount) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Remove()
	write := func() error {
		return os.WriteFile(filepath.Join(c.data(), "more"), make([]byte, 100<<10), 0o600)
	}
	if err := c.Fill(); err != nil {
		t.Fatal(err)
	}
	if write() == nil {
		t.Error("a full disk takes more")
	}
	if err := c.Free(); err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Error(err)
	}
	c.Remove()
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Remove left %s: %v", c.dir, err)
	}
}

func TestStandby(t *testing.T) {
	c, err := New(bin(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Remove()
	s, err := c.Standby()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Remove()
	if dial(t, c) != nil || dial(t, s) != nil {
		t.Error("one of both does not answer")
	}
	if c.Ended() || s.Ended() {
		t.Error("one of both has ended")
	}
}

package testdb

import (
	"errors"
	"testing"
)

func TestNoServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := binaries(); err != nil && !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v, want the sentence or a server in a usual folder", err)
	}
}

func TestPrivateServerStopsAndStarts(t *testing.T) {
	if !Wanted(t, "postgres") {
		return
	}
	s := Private(t)
	s.Stop(t)
	s.Start(t)
}

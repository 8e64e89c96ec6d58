package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/internal/pgcluster"
	"github.com/relaybus-go/relaybus/internal/testdb"
)

// TestTablesDiskFull: statements that need room are refused, the others go on.
// The store is not away, and a handler that cannot write has failed.
func TestTablesDiskFull(t *testing.T) {
	server := testdb.Small(t, pgcluster.Tables, 96)
	if server == nil {
		return
	}
	s := newSurvivor(t, server, survivorConfig{retry: engine.Exponential{}})
	f := &flood{s: s}
	s.survive(t, &trouble{
		works: true, // with what needs no room
		begin: func(t *testing.T, s *survivor) {
			server.Fill(t)
			var refused *pgconn.PgError
			if err := f.run(1); !errors.As(err, &refused) || refused.Code != "53100" || errors.Is(err, engine.ErrCommitUnknown) {
				t.Errorf("publishing on a full disk: %v", err)
			}
		},
		end: func(t *testing.T, s *survivor) { server.Free(t) },
	})
	// By the default policy a delivery is tried once or twice in that time;
	// every 20 ms makes 250 and more.
	if n := s.log.count(slog.LevelWarn, "relaybus: handler failed"); n == 0 || n > 150 || !strings.Contains(s.log.text(), "53100") {
		t.Errorf("%d attempts failed, want a few, for want of room:\n%s", n, s.log.text())
	}
	f.judge(t)
}

// TestLogDiskFull: a server that cannot write its log ends in the middle of
// COMMITs, and does not start before there is room. Outcomes are unknown, and
// settled.
func TestLogDiskFull(t *testing.T) {
	server := testdb.Small(t, pgcluster.WriteLog, 96)
	if server == nil {
		return
	}
	s := newSurvivor(t, server, survivorConfig{})
	f := &flood{s: s}
	s.survive(t, &trouble{
		says: true,
		begin: func(t *testing.T, s *survivor) {
			server.Fill(t)
			if err := f.run(4); !errors.Is(err, engine.ErrCommitUnknown) {
				t.Errorf("no COMMIT met the end of the server: %v", err)
			}
		},
		end: func(t *testing.T, s *survivor) {
			t.Logf("the server has given up: %v", server.Ended()) // or tries to recover still
			server.Free(t)
			server.Stop(t)
			server.Start(t)
		},
	})
	f.judge(t)
}

// flood publishes until the server refuses.
type flood struct {
	s            *survivor
	acknowledged atomic.Int64
	refused      []engine.Message
}

// run publishes from n goroutines, events that nobody handles, each until it
// fails.
func (f *flood) run(n int) error {
	errs := make([]error, n)
	f.refused = make([]engine.Message, n)
	var all sync.WaitGroup
	for g := range n {
		all.Go(func() {
			for i := 0; errs[g] == nil; i++ {
				f.refused[g] = engine.Message{ID: fmt.Sprint("flood", g, "-", i), Type: "nobody's", Payload: noise()}
				if errs[g] = f.s.bus.PublishNow(context.Background(), f.refused[g]); errs[g] == nil {
					f.acknowledged.Add(1)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// noise is a payload that the server cannot compress.
func noise() []byte {
	b := make([]byte, 6000)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// judge publishes what was refused once more: all is there once, whatever
// became of the try before.
func (f *flood) judge(t *testing.T) {
	ctx := context.Background()
	if err := f.s.bus.PublishNow(ctx, f.refused...); err != nil {
		t.Error(err)
	}
	want := f.acknowledged.Load() + int64(len(f.refused))
	var stored int64
	err := f.s.pool.QueryRow(ctx, "select count(*) from "+f.s.schema+".events where type = $1", "nobody's").Scan(&stored)
	if err != nil || stored != want {
		t.Errorf("%d events of %d are there, %v", stored, want, err)
	}
}

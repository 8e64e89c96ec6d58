package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestManyPublicationsOneHint: hints are coalesced, and a server that does not
// answer holds up nobody.
func TestManyPublicationsOneHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		answer := make(chan struct{})
		n := notices{send: func(context.Context, **pgx.Conn) error {
			sent.Add(1)
			<-answer
			return nil
		}}
		for range 1000 {
			n.give()
		}
		synctest.Wait()
		if n := sent.Load(); n != 1 {
			t.Fatalf("%d hints on their way, want 1", n)
		}
		for range 1000 {
			n.give()
		}
		close(answer)
		time.Sleep(2 * noticeIdle) // until the goroutine has ended
		if n := sent.Load(); n != 2 {
			t.Errorf("%d hints sent, want 2: one for what came while the first was on its way", n)
		}
		n.give()
		time.Sleep(2 * noticeIdle)
		if n := sent.Load(); n != 3 {
			t.Errorf("%d hints sent, want 3: one after the goroutine had ended", n)
		}
	})
}

// TestFailingHintsBackOff: a full queue is not asked for every publication,
// and the hint that failed is made up for by the next.
func TestFailingHintsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var full atomic.Bool
		full.Store(true)
		n := notices{send: func(context.Context, **pgx.Conn) error {
			tries.Add(1)
			if full.Load() {
				return errors.New("too many notifications in the NOTIFY queue")
			}
			return nil
		}}
		const publications = 60_000
		for range publications { // a minute of one every millisecond
			n.give()
			time.Sleep(time.Millisecond)
		}
		if n := tries.Load(); n < 2 || n > 10 {
			t.Errorf("%d tries in a minute, want a few with growing pauses", n)
		}
		full.Store(false)
		tries.Store(0)
		n.give()
		time.Sleep(2 * (mostNoticePause + noticeIdle))
		if tries.Load() == 0 {
			t.Error("no hint after the queue had room again")
		}
	})
}

package postgres

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestManyPublicationsOneHint: hints are coalesced, and a server that does not
// answer holds up nobody.
func TestManyPublicationsOneHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, answer := 0, make(chan struct{})
		n := notices{send: func(context.Context, **pgx.Conn) error {
			sent++
			<-answer
			return nil
		}}
		for range 1000 {
			n.give()
		}
		synctest.Wait()
		if sent != 1 {
			t.Fatalf("%d hints on their way, want 1", sent)
		}
		for range 1000 {
			n.give()
		}
		close(answer)
		time.Sleep(2 * noticeIdle) // until the goroutine has ended
		if sent != 2 {
			t.Errorf("%d hints sent, want 2: one for what came while the first was on its way", sent)
		}
		n.give()
		time.Sleep(2 * noticeIdle)
		if sent != 3 {
			t.Errorf("%d hints sent, want 3: one after the goroutine had ended", sent)
		}
	})
}

// TestFailingHintsBackOff: a full queue is not asked for every publication,
// and the hint that failed is made up for by the next.
func TestFailingHintsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, full := 0, true
		n := notices{send: func(context.Context, **pgx.Conn) error {
			tries++
			if full {
				return errors.New("too many notifications in the NOTIFY queue")
			}
			return nil
		}}
		const publications = 60_000
		for range publications { // a minute of one every millisecond
			n.give()
			time.Sleep(time.Millisecond)
		}
		if tries < 2 || tries > 10 {
			t.Errorf("%d tries in a minute, want a few with growing pauses", tries)
		}
		full, tries = false, 0
		n.give()
		time.Sleep(2 * (mostNoticePause + noticeIdle))
		if tries == 0 {
			t.Error("no hint after the queue had room again")
		}
	})
}

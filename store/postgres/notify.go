package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// NOTIFY inside a publisher's transaction would take a lock that all notifying
// commits of the server share, and fail the commit when the server's queue is
// full: ADR 25. So hints are sent after the commit, from a connection of their
// own, many publications to one hint.

const (
	// noticeGap is the least time between two hints of a process.
	noticeGap = 5 * time.Millisecond
	// noticeIdle is how long the sending connection stays open unused.
	noticeIdle = time.Minute
	// noticeTimeout bounds the sending of one hint.
	noticeTimeout = 5 * time.Second
	// After a hint that could not be sent none is tried for a while.
	firstNoticePause = 250 * time.Millisecond
	mostNoticePause  = 30 * time.Second
	// listenCheck is how long a listening connection may stay silent before
	// it is asked whether it is alive.
	listenCheck = 30 * time.Second
)

// Notify implements [engine.Notifier]: it hints to other processes that
// something was published, when [Options.Notify] is set. The bus calls it;
// whoever publishes without a bus may. It neither blocks nor fails.
func (s *Store) Notify() {
	if s.options.Notify {
		s.notices.give()
	}
}

// channel is what hints are sent on: the schema's name, whose length limit is
// that of a channel.
func (s *Store) channel() string { return s.options.Schema }

// notices sends hints in a goroutine that lives while there are any.
type notices struct {
	send func(ctx context.Context, conn **pgx.Conn) error

	mu      sync.Mutex
	wanted  chan struct{} // holds one when a hint is to be sent
	sending bool          // the goroutine lives
}

// give asks for a hint. One that waits already says the same.
func (n *notices) give() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wanted == nil {
		n.wanted = make(chan struct{}, 1)
	}
	select {
	case n.wanted <- struct{}{}:
	default:
	}
	if !n.sending {
		n.sending = true
		go n.run()
	}
}

func (n *notices) run() {
	var conn *pgx.Conn
	defer func() { shut(conn) }()
	pause := firstNoticePause
	idle := time.NewTimer(noticeIdle)
	defer idle.Stop()
	for {
		select {
		case <-n.wanted:
		case <-idle.C:
			if n.over() {
				return
			}
		}
		idle.Reset(noticeIdle)
		if err := n.sendOne(&conn); err != nil {
			shut(conn)
			conn = nil
			time.Sleep(pause)
			pause = min(2*pause, mostNoticePause)
			continue
		}
		pause = firstNoticePause
		time.Sleep(noticeGap)
	}
}

// over ends the goroutine unless a hint has come meanwhile.
func (n *notices) over() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending = len(n.wanted) > 0
	return !n.sending
}

func (n *notices) sendOne(conn **pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancel()
	return n.send(ctx, conn)
}

func shut(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// notify sends a hint, and opens the connection first when there is none.
func (s *Store) notify(ctx context.Context, conn **pgx.Conn) (err error) {
	if *conn == nil {
		if *conn, err = s.dial(ctx, nil); err != nil {
			return err
		}
	}
	_, err = (*conn).Exec(ctx, "select pg_notify($1, '')", pgx.QueryExecModeExec, s.channel())
	return err
}

// Listen implements [engine.Waker] on a connection of its own. Without
// [Options.Notify] it waits for the end of ctx and does nothing. Hints do not
// say which group they are for: every bus of the schema looks.
func (s *Store) Listen(ctx context.Context, _ string, wake func()) error {
	if !s.options.Notify {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	conn, err := s.dial(ctx, s.options.Listener)
	if err != nil {
		return classify("listen", err)
	}
	defer shut(conn)
	if _, err := conn.Exec(ctx, "listen "+quoted(s.channel())); err != nil {
		return classify("listen", err)
	}
	wake() // what was published before is not repeated
	for {
		switch err := s.await(ctx, conn); {
		case err == nil:
			wake()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case conn.IsClosed():
			return classify("listen", err)
		default: // silence
			if err := conn.Ping(ctx); err != nil {
				return classify("listen", err)
			}
		}
	}
}

// dial opens a connection beside the pool, as the pool would where config is
// nil.
func (s *Store) dial(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	if config != nil {
		return pgx.ConnectConfig(ctx, config.Copy())
	}
	pool := s.pool.Config() // a copy
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, pool.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, pool.ConnConfig)
}

func (s *Store) await(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	_, err := conn.WaitForNotification(ctx)
	return err
}

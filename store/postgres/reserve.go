package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// reserveConns is how many connections are kept for calls about leases: a bus
// has one Claim or Relinquish and one ExtendLease under way.
const reserveConns = 2

// reserved are the calls that the reserve is for, by name. What gives back is
// among them: a bus that stops while its pool is used up would otherwise leave
// leases to expire, and have deliveries charged that nobody has run.
var reserved = map[string]bool{"claim": true, "extend lease": true, "release": true, "relinquish": true, "clock": true}

// reserve is a small pool beside the user's, for calls about leases: handlers
// and publishers that use up every connection of theirs must not cost a lease.
type reserve struct {
	mu     sync.Mutex
	pool   *pgxpool.Pool
	closed bool
}

var errClosed = errors.New("postgres: the store is closed")

// acquire returns a connection for a call, of the user's pool or of the reserve.
// A call that gets none was not sent.
func (s *Store) acquire(ctx context.Context, call string) (*pgxpool.Conn, error) {
	pool := s.pool
	if reserved[call] {
		var err error
		if pool, err = s.reserve.open(s.pool); err != nil {
			return nil, unsent(call, err)
		}
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, unsent(call, err)
	}
	return conn, nil
}

// open makes the pool at its first use, so that a store which runs no bus has
// none. Connections are made as the user's are.
func (r *reserve) open(like *pgxpool.Pool) (*pgxpool.Pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	if r.pool == nil {
		config := like.Config()
		config.MinConns, config.MinIdleConns, config.MaxConns = 0, 0, reserveConns
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return nil, err
		}
		r.pool = pool
	}
	return r.pool, nil
}

// Close gives back the connections that the store made beside the pool it was
// given: at most two, for claims and renewals and for what gives back, so that a
// pool that is used up cannot cost a lease. They are made at the first claim and, like the pool's,
// closed when they are idle for long. The pool stays open. Claims of a closed
// store fail.
func (s *Store) Close() {
	s.reserve.mu.Lock()
	pool := s.reserve.pool
	s.reserve.pool, s.reserve.closed = nil, true
	s.reserve.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
}

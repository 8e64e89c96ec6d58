package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// reserveConns is how many connections are kept for calls about leases: a bus
// has one Claim and one ExtendLease under way.
const reserveConns = 2

// reserve is a small pool beside the user's, for claims and renewals: handlers
// and publishers that use up every connection of theirs must not cost a lease.
type reserve struct {
	mu     sync.Mutex
	pool   *pgxpool.Pool
	closed bool
}

var errClosed = errors.New("postgres: the store is closed")

// acquire returns a connection of the user's pool, or of the reserve.
func (s *Store) acquire(ctx context.Context, forLease bool) (*pgxpool.Conn, error) {
	if !forLease {
		return s.pool.Acquire(ctx)
	}
	pool, err := s.reserve.open(s.pool)
	if err != nil {
		return nil, err
	}
	return pool.Acquire(ctx)
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
// given: at most two, for claims and renewals, so that a pool that is used up
// cannot cost a lease. They are made at the first claim and, like the pool's,
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

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/picks"
)

// Options are the settings of a [Store]. The zero value works.
type Options struct {
	// Schema holds the tables; default "relaybus".
	Schema string
	// History keeps a row of the table completions for each completed
	// delivery; default off. It costs a row written per delivery, and Purge
	// must be told to delete them.
	History bool
	// SynchronousClaims makes claims, takeovers and renewals wait for the
	// server's disk like everything else; default off. Losing one costs a
	// repeated run at most.
	SynchronousClaims bool
	// PublishIdle bounds how long a transaction that published events with
	// keys may stay idle: it holds the slots of its keys. Default one minute;
	// negative leaves the transaction's own setting alone. A shorter setting
	// of the transaction is never raised.
	PublishIdle time.Duration
	// Notify wakes other processes when something was published, with NOTIFY,
	// and listens for their hints; default off. Each process then keeps up to
	// two connections beside the pool. LISTEN does not work through a
	// transaction pooler: see Listener. Polling finds everything without it,
	// only later.
	Notify bool
	// Listener is how the listening connection is made; default the pool's
	// own configuration. Behind a transaction pooler it must name the server
	// itself.
	Listener *pgx.ConnConfig
	// Hook is called at the named points inside calls; only tests have a
	// reason to set it.
	Hook func(ctx context.Context, call, step string)
}

const (
	defaultSchema      = "relaybus"
	defaultPublishIdle = time.Minute
	// ownIdle bounds how long the store's own transactions may stay idle
	// between two round trips: a client host that vanishes must not keep its
	// locks.
	ownIdle = 10 * time.Second
	// mostWait bounds a call whose context has no deadline.
	mostWait = 30 * time.Second
)

// Store is the protocol's state in a PostgreSQL database. It is safe for
// concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	options Options
	sql     statements

	reserve reserve
	checked atomic.Bool // the schema is of this release
	// subscribers is the set of subscriptions that was read last; nil: none.
	subscribers atomic.Pointer[subscribers]
	notices     notices

	opened time.Time

	mu    sync.Mutex
	hints picks.Hints
	seen  *marks
}

var (
	_ engine.TxStore[pgx.Tx] = (*Store)(nil)
	_ engine.Operator        = (*Store)(nil)
	_ engine.Waker           = (*Store)(nil)
	_ engine.Notifier        = (*Store)(nil)
)

// New returns a store over a pool, with the default options. It does not talk
// to the server: a schema that is missing, of another version or foreign is
// reported by Subscribe, which a bus calls first.
func New(pool *pgxpool.Pool) (*Store, error) { return NewWith(pool, Options{}) }

// NewWith is New with options.
func NewWith(pool *pgxpool.Pool, o Options) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("postgres: %w: no pool", engine.ErrInvalid)
	}
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Store{pool: pool, options: o, sql: statementsFor(o.Schema), opened: time.Now()}
	s.notices.send = s.notify
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	if o.PublishIdle == 0 {
		o.PublishIdle = defaultPublishIdle
	}
	if o.Hook == nil {
		o.Hook = func(context.Context, string, string) {}
	}
	return o
}

// Validate reports the first setting that cannot work; the error wraps
// [engine.ErrInvalid].
func (o Options) Validate() error {
	return checkSchema(o.withDefaults().Schema)
}

// work is one transaction of the store's own. Statements are queued and sent
// together, the first ones behind BEGIN and the last ones before COMMIT.
type work struct {
	s        *Store
	call     string
	conn     *pgxpool.Conn
	queue    *pgx.Batch
	settings []any // nil once BEGIN was sent
	async    bool
	ending   bool      // COMMIT was sent
	began    time.Time // the server's clock behind BEGIN
}

// transact runs fn in a transaction. fn returns with everything done but the
// last statements, which may still be queued: they share a round trip with
// COMMIT.
//
// The server bounds what it waits for by what is left of the call's time, which
// the engine keeps below half of the lease: one wait and one idle stretch of a
// client that is gone end before the lease does. A fifth of it, less than a
// tenth of the lease, is for a lock.
func (s *Store) transact(ctx context.Context, call string, async bool, lockWait time.Duration, fn func(w *work) error) error {
	conn, err := s.acquire(ctx, call)
	if err != nil {
		return err
	}
	defer conn.Release()
	w := &work{s: s, call: call, conn: conn, queue: &pgx.Batch{}, async: async && !s.options.SynchronousClaims}
	most := mostWait
	if deadline, ok := ctx.Deadline(); ok {
		most = max(time.Until(deadline), time.Millisecond)
	}
	w.settings = []any{millis(min(lockWait, most/5)), millis(most), millis(min(ownIdle, most))}
	err = fn(w)
	if err == nil {
		err = w.commit(ctx)
	}
	if err != nil {
		w.abandon()
	}
	return err
}

// millis returns a duration as PostgreSQL's settings take it: at least 1 ms,
// since 0 means no limit.
func millis(d time.Duration) string { return fmt.Sprint(max(d.Milliseconds(), 1)) }

// lockWait is how long a call may wait for locks beside a lease.
func lockWait(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return mostWait
	}
	return max(ttl/10, 10*time.Millisecond)
}

// later queues a statement of sql/; read takes its rows when the queue is sent.
func (w *work) later(name string, read func(pgx.Rows) error, args ...any) {
	for i := range args {
		args[i] = known(args[i])
	}
	q := w.queue.Queue(w.s.sql.named(name), args...)
	if read != nil {
		q.Query(read)
	}
}

// known makes an empty array of a nil slice, since as null it would make every
// comparison with it unknown, and gives the types of the protocol names that
// pgx knows without asking the server, which it does not do behind a pooler.
func known(arg any) any {
	switch list := arg.(type) {
	case []protocol.LaneID:
		return numbers[int32](list)
	case []protocol.DeliveryID:
		return numbers[int64](list)
	case [][16]byte:
		return uuids(list)
	case protocol.LaneID:
		return int32(list)
	case protocol.DeliveryID:
		return int64(list)
	case []int64:
		return append([]int64{}, list...)
	case []int32:
		return append([]int32{}, list...)
	case []string:
		return append([]string{}, list...)
	}
	return arg
}

func uuids(list [][16]byte) []pgtype.UUID {
	all := make([]pgtype.UUID, len(list))
	for i, v := range list {
		all[i] = pgtype.UUID{Bytes: v, Valid: true}
	}
	return all
}

func numbers[To, From ~int32 | ~int64](list []From) []To {
	all := make([]To, len(list))
	for i, v := range list {
		all[i] = To(v)
	}
	return all
}

// send sends what is queued and reads the answers.
func (w *work) send(ctx context.Context) error {
	batch, first := w.queue, w.settings != nil
	w.queue = &pgx.Batch{}
	if w.settings != nil {
		batch = w.begin(batch)
	}
	if batch.Len() == 0 {
		return nil
	}
	err := w.conn.SendBatch(ctx, batch).Close()
	switch {
	case err == nil:
		return nil
	case first && pgconn.SafeToRetry(err) && !unencodable(err):
		return unsent(w.call, err) // the connection had ended while it was idle
	}
	return w.failed(err)
}

// begin puts BEGIN and the settings before the queued statements.
func (w *work) begin(queued *pgx.Batch) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	name := "settings"
	if w.async {
		name = "settings_async"
	}
	b.Queue(w.s.sql.named(name), w.settings...).Query(w.readBegan)
	w.settings = nil
	b.QueuedQueries = append(b.QueuedQueries, queued.QueuedQueries...)
	return b
}

// readBegan reads the clock, the first column of the settings' row.
func (w *work) readBegan(rows pgx.Rows) error {
	for rows.Next() {
		columns := make([]any, len(rows.FieldDescriptions()))
		columns[0] = &w.began
		if err := rows.Scan(columns...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// commit sends what is queued and COMMIT with it.
func (w *work) commit(ctx context.Context) error {
	if w.settings != nil && w.queue.Len() == 0 {
		return nil
	}
	w.queue.Queue("commit")
	w.ending = true
	return w.send(ctx)
}

// failed says what an error means for the transaction.
func (w *work) failed(err error) error {
	if w.ending {
		err, _ = classifyCommit(w.call, err)
		return err
	}
	return classify(w.call, err)
}

// abandon rolls back what is open, so that the connection can be used again.
func (w *work) abandon() {
	if w.settings != nil || w.conn.Conn().IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = w.conn.Exec(ctx, "rollback") // on failure the pool drops the connection
}

// pause calls the test's hook.
func (w *work) pause(ctx context.Context, step string) { w.s.options.Hook(ctx, w.call, step) }

// InTx implements [engine.TxStore]: a READ COMMITTED transaction.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.InTxWith(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// InTxWith is InTx with options of the caller's choice, an isolation level say.
func (s *Store) InTxWith(ctx context.Context, o pgx.TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) error {
	conn, err := s.acquire(ctx, "begin")
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		conn.Release()
	}
	if pgconn.SafeToRetry(err) {
		return unsent("begin", err)
	}
	if err != nil {
		return classify("begin", err)
	}
	// The locks of a handler that hangs must not outlive its run: the server
	// rolls back when the connection ends. Only the socket may be touched
	// while another goroutine uses the connection. Nor may the handler keep
	// its place in the pool: a few of its kind would use up all of it for good.
	socket, closed := conn.Conn().PgConn().Conn(), make(chan *pgx.Conn, 1)
	stop := context.AfterFunc(ctx, func() {
		_ = socket.Close()
		closed <- conn.Hijack()
	})
	returned := false
	defer func() {
		if returned || stop() {
			conn.Release()
			return
		}
		_ = (<-closed).Close(ctx) // fn has panicked
	}()
	err = fn(ctx, tx)
	returned = true
	if !stop() {
		_ = (<-closed).Close(ctx)
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		rollback(tx)
		return err
	}
	return commit(ctx, tx)
}

func rollback(tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx) // on failure the pool drops the connection
}

func commit(ctx context.Context, tx pgx.Tx) error {
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed):
		return fmt.Errorf("postgres: commit: rolled back, because an earlier statement failed: %w", err)
	}
	err, unknown := classifyCommit("commit", err)
	if !unknown {
		return err
	}
	return fmt.Errorf("%w: %w", engine.ErrCommitUnknown, err)
}

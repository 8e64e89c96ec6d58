package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/relaybus-go/relaybus/engine"
)

// ErrTooLate: the call was served after its NotAfter and changed nothing.
var ErrTooLate = fmt.Errorf("postgres: %w", engine.ErrTooLate)

// kind is what an ERROR of the server means for the call that met it.
type kind uint8

const (
	// definite: nothing was applied, and trying again would meet it again.
	definite kind = iota
	// retryable: nothing was applied, and the same call may succeed.
	retryable
	// away: nothing was applied, and no other call would fare better. It goes
	// out unmarked, like a connection that failed, so that the engine takes
	// the store for away: one warning, and a pause before the next try.
	away
)

// kinds has the error codes that are not definite, by code or by class; a code
// goes before its class. PostgreSQL's appendix A lists them all. Everything
// else is definite: a value, a constraint, what a trigger raises, a damaged
// row.
var kinds = map[string]kind{
	"08":    away,      // connection exceptions
	"25006": away,      // read only: a standby, or a database that was set so
	"25P03": away,      // idle in a transaction for too long
	"26":    away,      // a prepared statement is gone: a pooler without support for them
	"28":    away,      // who connects is refused
	"3D":    away,      // no such database
	"3F":    away,      // no such schema
	"40":    retryable, // 40001 serialization failure, 40P01 deadlock
	"42":    away,      // no such table, no right to it: not migrated
	"53":    away,      // disk full, out of memory, too many connections
	"55P03": retryable, // a lock was not had in time
	"57":    away,      // 57014 a statement's time is over, 57P01 to 57P03 the server stops or starts
	"58":    away,      // the server's own files fail
	"F0":    away,      // its configuration
}

// kindOf looks an error of the server up. Only severity ERROR leaves the
// connection open. What a function raised, a trigger that the user put on a
// table say, speaks of the row at hand and not of the store.
func kindOf(err *pgconn.PgError) kind {
	if err.SeverityUnlocalized != "ERROR" {
		return away
	}
	k, known := kinds[err.Code]
	if !known {
		k = kinds[err.Code[:min(2, len(err.Code))]]
	}
	if k == away && err.Where != "" && (err.Code[:2] == "42" || err.Code[:2] == "3F") {
		return definite
	}
	return k
}

// refusal returns the server's ERROR to a statement. A server that refuses a
// connection has answered no statement.
func refusal(err error) (*pgconn.PgError, bool) {
	var refused *pgconn.PgError
	var connecting *pgconn.ConnectError
	return refused, errors.As(err, &refused) && !errors.As(err, &connecting)
}

// classify says what an error means that came before COMMIT was sent: nothing
// was applied. Only what the server answered to a statement is marked as
// retryable or definite. A connection that fails is not: by that the engine tells
// an outage from a conflict. One that was not had is [unsent].
func classify(call string, err error) error {
	if isOurs(err) {
		return err
	}
	if errors.Is(err, pgx.ErrTxClosed) {
		return fmt.Errorf("postgres: %s: %w", call, engine.ErrTxDone)
	}
	refused, ok := refusal(err)
	if !ok && unencodable(err) {
		return engine.Definite(fmt.Errorf("postgres: %s: not sent: %w", call, err))
	}
	if !ok {
		return fmt.Errorf("postgres: %s: no answer: %w", call, err)
	}
	switch kindOf(refused) {
	case definite:
		return engine.Definite(fmt.Errorf("postgres: %s: %w", call, refused))
	case retryable:
		return fmt.Errorf("postgres: %s: %w: %w", call, engine.ErrRetryable, refused)
	default:
		return fmt.Errorf("postgres: %s: %w", call, explained(refused))
	}
}

// unsent says of a call that it had no connection: the pool had none free in
// time, or the server took no new one. A pool that was closed goes out unmarked:
// it gives none ever again, and leases whose runs can never be ended must run
// out, which those of unsent ends do not.
func unsent(call string, err error) error {
	if errors.Is(err, errClosed) || poolClosed(err) {
		return fmt.Errorf("postgres: %s: no connection: %w", call, err)
	}
	return fmt.Errorf("postgres: %s: %w: %w", call, engine.ErrNotSent, err)
}

// poolClosed: pgxpool hands on an error of the pool that it is made of, and has
// no name of its own for it.
func poolClosed(err error) bool { return err.Error() == "closed pool" }

// classifyCommit says what an error means when COMMIT was among what was sent,
// and whether that leaves the outcome unknown. An ERROR of the server ends the
// transaction before it commits; a connection that ends, by FATAL say, may do so
// behind the commit.
func classifyCommit(call string, err error) (classified error, unknown bool) {
	refused, ok := refusal(err)
	if ok && refused.SeverityUnlocalized == "ERROR" || isOurs(err) || pgconn.SafeToRetry(err) || unencodable(err) {
		return classify(call, err), false
	}
	return fmt.Errorf("postgres: %s: outcome unknown: %w", call, err), true
}

// unencodable reports whether the driver found no way to send an argument. It
// encodes all of a call before it sends any, and has no type for this error
// that it returns in each of its modes.
func unencodable(err error) bool {
	var connecting *pgconn.ConnectError
	return !errors.As(err, &connecting) && strings.Contains(err.Error(), "unable to encode ")
}

// isOurs reports whether an error was classified before.
func isOurs(err error) bool {
	return errors.Is(err, engine.ErrRetryable) || errors.Is(err, engine.ErrInvalid) || engine.IsDefinite(err)
}

// inDoubt is the error of a call of which a part was committed before: it must
// not say that nothing was.
func inDoubt(call string, err error) error {
	if errors.Is(err, engine.ErrRetryable) || engine.IsDefinite(err) {
		return fmt.Errorf("postgres: %s: a part of it was applied, then: %v", call, err) // unmarked on purpose
	}
	return err
}

// advice says what to do about an error of the server.
var advice = map[string]string{
	"42P01": "the schema is missing or of another version: run relaybus migrate up",
	"42703": "the schema is missing or of another version: run relaybus migrate up",
	"3F000": "the schema is missing or of another version: run relaybus migrate up",
	"25006": "the server takes no writes: it is a standby, or set to read only; promote it, or let the pool find the primary with several hosts and target_session_attrs=read-write",
}

// Codes of PostgreSQL's appendix A that are looked for by name.
const (
	codeNoPrivilege     = "42501"
	codeUndefinedColumn = "42703"
)

// explained adds to an error of the server what to do about it.
func explained(err *pgconn.PgError) error {
	hint := advice[err.Code]
	if err.Code == codeNoPrivilege {
		hint = missingGrant(err)
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}

package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/relaybus-go/relaybus/engine"
)

// ErrTooLate: the call was served after its NotAfter and changed nothing.
var ErrTooLate = fmt.Errorf("postgres: %w", engine.ErrTooLate)

// codes of errors after which the same call may succeed, although their class
// says otherwise; see PostgreSQL's appendix A.
const (
	codeLockNotAvailable = "55P03"
	codeReadOnly         = "25006"
	codeUndefinedTable   = "42P01"
	codeUndefinedColumn  = "42703"
	codeInvalidSchema    = "3F000"
	codeNoPrivilege      = "42501"
)

// unsent is the error of a call that never reached the server.
func unsent(call string, err error) error {
	return fmt.Errorf("postgres: %s: %w: %w", call, engine.ErrRetryable, err)
}

// classify says what an error means that came before COMMIT was sent: nothing
// was applied. What the server refuses by its nature, a constraint or a value
// that it cannot hold, is definite; all else may be tried again.
func classify(call string, err error) error {
	var refused *pgconn.PgError
	switch {
	case isOurs(err):
		return err
	case errors.Is(err, pgx.ErrTxClosed):
		return fmt.Errorf("postgres: %s: %w", call, engine.ErrTxDone)
	case errors.As(err, &refused) && isDefinite(refused.Code):
		return engine.Definite(fmt.Errorf("postgres: %s: %w", call, explained(refused)))
	case errors.As(err, &refused):
		return fmt.Errorf("postgres: %s: %w: %w", call, engine.ErrRetryable, explained(refused))
	}
	return fmt.Errorf("postgres: %s: %w: %w", call, engine.ErrRetryable, err)
}

// classifyCommit says what an error means when COMMIT was among what was sent.
// An ERROR of the server ends the transaction before it commits; a connection
// that ended leaves the outcome unknown.
func classifyCommit(call string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Severity == "ERROR" || isOurs(err) || pgconn.SafeToRetry(err) {
		return classify(call, err)
	}
	return fmt.Errorf("postgres: %s: outcome unknown: %w", call, err)
}

// isOurs reports whether an error was classified before.
func isOurs(err error) bool {
	return errors.Is(err, engine.ErrRetryable) || errors.Is(err, engine.ErrInvalid) || engine.IsDefinite(err)
}

// isDefinite reports whether an error of the server would come again: data and
// constraint errors, what a trigger raises, syntax and rights, limits, and
// what a damaged row causes.
func isDefinite(code string) bool {
	switch code {
	case codeLockNotAvailable, codeReadOnly:
		return false
	}
	switch code[:min(2, len(code))] {
	case "0A", "21", "22", "23", "2F", "38", "39", "3F", "42", "44", "54", "P0", "XX":
		return true
	}
	return false
}

// explained adds to an error of the server what to do about it.
func explained(err *pgconn.PgError) error {
	hint := ""
	switch err.Code {
	case codeUndefinedTable, codeUndefinedColumn, codeInvalidSchema:
		hint = "the schema is missing or of another version: run relaybus migrate up"
	case codeNoPrivilege:
		hint = missingGrant(err)
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}

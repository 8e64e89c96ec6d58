package postgres

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/relaybus-go/relaybus/engine"
)

func TestClassify(t *testing.T) {
	server := func(code string) error {
		return &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: code}
	}
	fatal := func(code string) error {
		return &pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code}
	}
	inTrigger := func(code string) error {
		return &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code, Where: "PL/pgSQL function mine() line 1"}
	}
	for _, c := range []struct {
		name    string
		err     error
		want    kind
		unknown bool // when COMMIT was sent
	}{
		{"serialization failure", server("40001"), retryable, false},
		{"deadlock", server("40P01"), retryable, false},
		{"lock timeout", server("55P03"), retryable, false},
		{"statement timeout", server("57014"), away, false},
		{"disk full", server("53100"), away, false},
		{"too many connections", server("53300"), away, false},
		{"read only", server("25006"), away, false},
		{"a failed transaction", server("25P02"), definite, false},
		{"shutting down", fatal("57P01"), away, true},
		{"starting up", fatal("57P03"), away, true},
		{"a conflict with recovery", fatal("40001"), away, true},
		{"unique violation", server("23505"), definite, false},
		{"raised by a trigger", server("P0001"), definite, false},
		{"a code of a trigger's own", server("RB001"), definite, false},
		{"a trigger that is broken", inTrigger("42P01"), definite, false},
		{"no table", server("42P01"), away, false},
		{"no right", server("42501"), away, false},
		{"a value out of range", server("22003"), definite, false},
		{"a damaged row", server("XX001"), definite, false},
		{"a code that is too short", server("4"), definite, false},
		{"an argument without an encoding", errors.New("unable to encode 1 into text format"), definite, false},
		{"a dial that is refused", &pgconn.ConnectError{Config: &pgconn.Config{}}, away, true},
		{"a connection that ends", io.ErrUnexpectedEOF, away, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := classify("test", fmt.Errorf("wrapped: %w", c.err))
			if kindOfMarked(got) != c.want {
				t.Errorf("%v is marked %d, want %d", got, kindOfMarked(got), c.want)
			}
			if !errors.Is(got, c.err) {
				t.Errorf("%v hides its cause", got)
			}
			if got, unknown := classifyCommit("test", c.err); unknown != c.unknown {
				t.Errorf("with COMMIT: %v, unknown %v, want %v", got, unknown, c.unknown)
			}
		})
	}
	if err := classify("test", pgx.ErrTxClosed); !errors.Is(err, engine.ErrTxDone) {
		t.Error(err)
	}
	if err := inDoubt("test", classify("test", server("40001"))); errors.Is(err, engine.ErrRetryable) {
		t.Errorf("%v says that nothing was applied", err)
	}
}

func kindOfMarked(err error) kind {
	switch {
	case engine.IsDefinite(err):
		return definite
	case errors.Is(err, engine.ErrRetryable):
		return retryable
	}
	return away
}

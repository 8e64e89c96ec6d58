package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitBad    = 2
)

// errFound ends a command that printed what it found wrong.
var errFound = errors.New("something was found")

// inputError is the user's to mend.
type inputError struct{ err error }

func (e inputError) Error() string { return e.err.Error() }
func (e inputError) Unwrap() error { return e.err }

func badInput(format string, args ...any) error {
	return inputError{fmt.Errorf(format, args...)}
}

// codeError ends a command that has said everything already.
type codeError int

func (e codeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func endedWith(code int) error {
	if code == exitDone {
		return nil
	}
	return codeError(code)
}

// report prints an error as one line and returns the exit code.
func (a *app) report(err error) int {
	var code codeError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errFound):
		return exitFailed
	}
	fmt.Fprintln(a.err, "relaybus: "+a.sentence(err))
	if isBad(err) {
		return exitBad
	}
	return exitFailed
}

// sentence is the error on one line, without a password.
func (a *app) sentence(err error) string {
	text := strings.TrimPrefix(err.Error(), "postgres: ")
	if errors.Is(err, context.Canceled) {
		text = "interrupted: " + text
	}
	if a.password != "" {
		text = strings.ReplaceAll(text, a.password, "xxxxx")
	}
	return printable(strings.Join(strings.Fields(text), " "))
}

// isBad reports whether the input, the rights or the schema are to blame.
func isBad(err error) bool {
	var bad inputError
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &bad), errors.Is(err, engine.ErrInvalid), errors.Is(err, postgres.ErrSchema):
		return true
	case !errors.As(err, &refused):
		return false
	}
	switch refused.Code {
	case "42501", "3D000", "3F000", "42P01", "42703": // rights, and names of what is not there
		return true
	}
	return strings.HasPrefix(refused.Code, "28") // who the user is
}

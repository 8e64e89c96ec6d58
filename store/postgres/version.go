package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/relaybus-go/relaybus/engine"
)

// ErrSchema marks an error that says what is wrong with the schema and what
// to run: it is missing, of another version, or holds foreign tables.
var ErrSchema = errors.New("the schema does not fit this release")

// versionTable holds the versions of the schema, as goose writes them.
const versionTable = "relaybus_migrations"

// tables are what the newest version makes.
var tables = []string{"completions", "deliveries", "events", "groups", "lanes", "slots", "subscriptions", "subscriptions_version"}

// Latest is the version of the schema that this release works with.
func Latest() int64 {
	list := scripts()
	return list[len(list)-1].version
}

// found is what stands in the place of a schema.
type found struct {
	schema   bool   // it exists
	versions bool   // it has a table of versions
	foreign  string // a table of a name of ours
	version  int64
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readVersion looks into the catalog first, which anybody may read, so that a
// missing right is told from a missing table.
func readVersion(ctx context.Context, db querier, schema string) (at found, err error) {
	err = db.QueryRow(ctx, catalogSQL, schema, versionTable, tables).Scan(&at.schema, &at.versions, &at.foreign)
	if err != nil || !at.versions {
		return at, versionError(err)
	}
	err = db.QueryRow(ctx, "select coalesce(max(version_id), 0) from "+quoted(schema)+"."+versionTable).Scan(&at.version)
	return at, versionError(err)
}

const catalogSQL = `select exists (select from pg_catalog.pg_namespace where nspname = $1),
       exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where n.nspname = $1 and c.relname = $2),
       coalesce((select min(c.relname::text) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                  where n.nspname = $1 and c.relname = any($3)), '')`

func versionError(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Code == codeUndefinedColumn:
		return engine.Definite(fmt.Errorf("postgres: %w: its table %s is not of relaybus: use another schema", ErrSchema, versionTable))
	}
	return classify("read the schema's version", err)
}

// refused says why the schema must not be touched: it is of a newer release,
// or its tables are not ours.
func (f found) refused(schema string, latest int64) error {
	switch {
	case f.version == 0 && f.foreign != "":
		return schemaError("schema %q holds a table %q that is not of relaybus: use another schema (--schema, Options.Schema)", schema, f.foreign)
	case f.version > latest:
		return schemaError("schema %q is at version %d, made by a newer release than this one, which works with %d: run the newer release", schema, f.version, latest)
	}
	return nil
}

func (f found) missing(schema string) error {
	return schemaError("there is no schema %q with the tables of relaybus in this database: run relaybus migrate up, or call postgres.Migrate", schema)
}

// usable says why the store cannot work with the schema, and what to run.
func (f found) usable(schema string, latest int64) error {
	if err := f.refused(schema, latest); err != nil {
		return err
	}
	switch {
	case f.version == 0:
		return f.missing(schema)
	case f.version < latest:
		return schemaError("schema %q is at version %d, this release works with %d: run relaybus migrate up, or call postgres.Migrate", schema, f.version, latest)
	}
	return nil
}

func schemaError(format string, args ...any) error {
	return engine.Definite(fmt.Errorf("postgres: %w: "+format, append([]any{ErrSchema}, args...)...))
}

// CheckSchema reports whether this release can work with the schema; an error
// that wraps [ErrSchema] says what to run. The bus asks when it starts.
func (s *Store) CheckSchema(ctx context.Context) error {
	conn, err := s.acquire(ctx, "read the schema's version")
	if err != nil {
		return err
	}
	defer conn.Release()
	at, err := readVersion(ctx, conn, s.options.Schema)
	if err != nil {
		return err
	}
	return at.usable(s.options.Schema, Latest())
}

// checkOnce is CheckSchema until it succeeded: a schema that moves on while
// this release runs is the operator's decision.
func (s *Store) checkOnce(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	err := s.CheckSchema(ctx)
	s.checked.Store(err == nil)
	return err
}

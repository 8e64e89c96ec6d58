package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/relaybus-go/relaybus/engine"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationFiles are the files of migrations/, one a version.
func migrationFiles() fs.FS {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the files are part of this package
	}
	return files
}

// Migration is one version of the schema.
type Migration struct {
	Version int64
	Name    string // of its file
	Applied bool
}

// lockSeconds is how long a migration waits for another one to end.
const lockSeconds = 300

// Migrate brings the schema to the newest version; a schema that does not
// exist is created. Many processes may call it at once: an advisory lock, one
// per schema, lets one of them work and the others wait, at most 5 minutes.
// Each version is one transaction, so that a crash leaves the schema at one
// version or the next. A schema of a newer release, or one that holds foreign
// tables of the same names, is refused with an error that wraps [ErrSchema].
//
// It opens connections of its own, which must reach the server directly: a
// transaction pooler would give the lock to somebody else.
func Migrate(ctx context.Context, pool *pgxpool.Pool, o Options) error {
	return migrating(ctx, pool, o, true, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// MigrateDown takes back the versions above the one given; 0 removes every
// table of relaybus and all that is in them. The empty table of versions stays.
func MigrateDown(ctx context.Context, pool *pgxpool.Pool, o Options, version int64) error {
	if version < 0 || version > Latest() {
		return fmt.Errorf("postgres: migrate: %w: no version %d: there are 0 to %d", engine.ErrInvalid, version, Latest())
	}
	return migrating(ctx, pool, o, false, func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, version)
		return err
	})
}

// Migrations returns all versions that this release knows, and which of them
// the schema has. It writes nothing.
func Migrations(ctx context.Context, pool *pgxpool.Pool, o Options) ([]Migration, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	at, err := readVersion(ctx, pool, o.Schema)
	if err != nil {
		return nil, err
	}
	if err := at.refused(o.Schema, Latest()); err != nil {
		return nil, err
	}
	list := scripts()
	versions := make([]Migration, len(list))
	for i, s := range list {
		versions[i] = Migration{Version: s.version, Name: s.name, Applied: s.version <= at.version}
	}
	return versions, nil
}

// migrating runs fn with a connection whose search path is the schema, which
// it creates when it may.
func migrating(ctx context.Context, pool *pgxpool.Pool, o Options, create bool, fn func(*goose.Provider) error) error {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	db := openFor(pool, o.Schema)
	defer db.Close()
	if err := prepare(ctx, pool, db, o.Schema, create); err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID(o.Schema)), lock.WithLockTimeout(1, lockSeconds))
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrationFiles(),
		goose.WithSessionLocker(locker), goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	if err := fn(p); err != nil {
		return migrateError(o.Schema, err)
	}
	return nil
}

// openFor opens connections as the pool would, with the schema as search path.
func openFor(pool *pgxpool.Pool, schema string) *sql.DB {
	c := pool.Config()
	config := c.ConnConfig.Copy()
	config.RuntimeParams["search_path"] = quoted(schema)
	var options []stdlib.OptionOpenDB
	if c.BeforeConnect != nil {
		options = append(options, stdlib.OptionBeforeConnect(c.BeforeConnect))
	}
	if c.AfterConnect != nil {
		options = append(options, stdlib.OptionAfterConnect(c.AfterConnect))
	}
	return stdlib.OpenDB(*config, options...)
}

// lockID keeps migrations of one schema apart from those of another, and from
// the user's own, which may run relaybus's among them.
func lockID(schema string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("relaybus migrations of " + schema))
	return int64(h.Sum64())
}

// prepare refuses what must not be migrated, and creates the schema.
func prepare(ctx context.Context, pool *pgxpool.Pool, db *sql.DB, schema string, create bool) error {
	at, err := readVersion(ctx, pool, schema)
	if err != nil {
		return err
	}
	switch {
	case !at.schema && create:
		return createSchema(ctx, pool, db, schema)
	case !at.schema:
		return at.missing(schema)
	}
	return at.refused(schema, Latest())
}

func createSchema(ctx context.Context, pool *pgxpool.Pool, db *sql.DB, schema string) error {
	_, err := db.ExecContext(ctx, "create schema if not exists "+quoted(schema))
	if err == nil {
		return nil
	}
	// Two that create it at once may both find it missing.
	if at, again := readVersion(ctx, pool, schema); again == nil && at.schema {
		return at.refused(schema, Latest())
	}
	return migrateError(schema, err)
}

func migrateError(schema string, err error) error {
	var refused *pgconn.PgError
	switch {
	case !errors.As(err, &refused):
	case refused.Code == codeNoPrivilege:
		return fmt.Errorf("postgres: migrate schema %q: %w: the role that migrates needs GRANT CREATE ON DATABASE to make a schema, and must own the schema and its tables to change them", schema, refused)
	default:
		err = refused
	}
	return fmt.Errorf("postgres: migrate schema %q: %w", schema, err)
}

package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migration is one version of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// Migrate brings the schema to the newest version; a schema that does not
// exist is created. Many processes may call it at once: an advisory lock lets
// one of them work. It needs a direct connection, not a transaction pooler.
func Migrate(ctx context.Context, pool *pgxpool.Pool, o Options) error {
	return migrating(ctx, pool, o, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// MigrateDown takes back the versions above the one given; 0 removes every
// table of relaybus and all that is in them.
func MigrateDown(ctx context.Context, pool *pgxpool.Pool, o Options, version int64) error {
	return migrating(ctx, pool, o, func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, version)
		return err
	})
}

// Migrations returns all versions that this release knows, and which of them
// the schema has.
func Migrations(ctx context.Context, pool *pgxpool.Pool, o Options) (list []Migration, err error) {
	err = migrating(ctx, pool, o, func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, m := range states {
			list = append(list, Migration{Version: m.Source.Version, Name: m.Source.Path, Applied: m.State == goose.StateApplied})
		}
		return err
	})
	return list, err
}

// migrating runs fn with a connection whose search path is the schema.
func migrating(ctx context.Context, pool *pgxpool.Pool, o Options, fn func(*goose.Provider) error) error {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	config := pool.Config().ConnConfig.Copy()
	config.RuntimeParams["search_path"] = quoted(o.Schema)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if _, err := db.ExecContext(ctx, "create schema if not exists "+quoted(o.Schema)); err != nil {
		return fmt.Errorf("postgres: migrate: create schema %s: %w", o.Schema, err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithTableName("relaybus_migrations"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	if err := fn(p); err != nil {
		return fmt.Errorf("postgres: migrate schema %s: %w", o.Schema, err)
	}
	return nil
}

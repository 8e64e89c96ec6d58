package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// CatalogText is what catalog.sql finds, in the form of schema.txt.
func CatalogText(ctx context.Context, pool *pgxpool.Pool, o Options) (string, error) {
	s, err := NewWith(pool, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = s.look(ctx, "catalog", func(tx pgx.Tx) error {
		is, err := s.catalog(ctx, tx)
		for _, name := range slices.Sorted(maps.Keys(is)) {
			b.WriteString(name + ": " + is[name] + "\n")
		}
		return err
	})
	return b.String(), err
}

// VersionError is what a release that works with one version says to another.
func VersionError(version, latest int64) error {
	return found{schema: true, versions: true, version: version}.usable("s", latest)
}

package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// CatalogText is what catalog.sql finds, in the form of schema.txt.
func CatalogText(ctx context.Context, pool *pgxpool.Pool, o Options) (string, error) {
	s, err := NewWith(pool, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = s.look(ctx, "catalog", func(tx pgx.Tx, _ protocol.Time) error {
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

// Plan explains a reading statement as the store runs it.
func (s *Store) Plan(ctx context.Context, name string, args ...any) (string, error) {
	var b strings.Builder
	s.sql["explained"] = "explain (verbose, costs off) " + s.sql.named(name)
	err := s.look(ctx, "explain", func(tx pgx.Tx, _ protocol.Time) error {
		return s.each(ctx, tx, "explained", func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			b.WriteString(line + "\n")
			return err
		}, args...)
	})
	return b.String(), err
}

// ListArguments are those of list.sql.
func ListArguments(in engine.ListInput) []any { return listArguments(in) }

// Rewrite replaces a part of a statement in one store, so that a test can stop
// inside of it, or leave a rule out. It reports whether the part was there.
// No call may be under way.
func (s *Store) Rewrite(name, part, instead string) bool {
	text := s.sql.named(name)
	s.sql = maps.Clone(s.sql)
	s.sql[name] = strings.Replace(text, part, instead, 1)
	return strings.Contains(text, part)
}

// SendWith makes an effect and sends an argument behind it, with COMMIT or
// before it.
func (s *Store) SendWith(ctx context.Context, arg any, withCommit bool) error {
	return s.transact(ctx, "test", false, mostWait, func(w *work) error {
		w.queue.Queue("insert into " + s.options.Schema + ".effects values ('a', 'b')")
		w.queue.Queue("select $1::bigint", arg)
		if withCommit {
			return nil
		}
		return w.send(ctx)
	})
}

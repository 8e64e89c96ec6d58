package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine/protocol"
)

// schemaText is what catalog.sql finds in a schema of the newest version, a
// line for each thing; a test compares it with what the migrations make.
//
//go:embed schema.txt
var schemaText string

// slotCount is how many slots a publisher may lock.
const slotCount = 65536

// ValidateSchema compares the schema with what this release expects: tables,
// columns, types, collations, defaults, indexes, constraints, triggers, storage
// parameters, sequences with their cache, and the rows that
// migrations put there. It returns a
// sentence for each difference, none when the schema is as it should be, and
// writes nothing. A schema that is missing, foreign or of another version is an
// error that wraps [ErrSchema].
func ValidateSchema(ctx context.Context, pool *pgxpool.Pool, o Options) ([]string, error) {
	s, err := NewWith(pool, o)
	if err != nil {
		return nil, err
	}
	if err := s.CheckSchema(ctx); err != nil {
		return nil, err
	}
	var differences []string
	err = s.look(ctx, "validate", func(tx pgx.Tx, _ protocol.Time) error {
		is, err := s.catalog(ctx, tx)
		if err != nil {
			return err
		}
		want, err := expected(ctx, tx)
		if err != nil {
			return err
		}
		differences = compared(is, want)
		missing, err := s.missingRows(ctx, tx)
		differences = append(differences, missing...)
		return err
	})
	return differences, err
}

// missingRows tells what lacks of the rows that migrations put there.
func (s *Store) missingRows(ctx context.Context, tx pgx.Tx) (list []string, err error) {
	schema := quoted(s.options.Schema)
	var slots, versions int
	err = tx.QueryRow(ctx, "select (select count(*) from "+schema+".slots where slot between 0 and $1), (select count(*) from "+schema+".subscriptions_version)",
		slotCount-1).Scan(&slots, &versions)
	if err != nil {
		return nil, err
	}
	if slots != slotCount {
		list = append(list, fmt.Sprintf("table slots: holds %d of %d slots: run insert into %s.slots select generate_series(0, %d) on conflict do nothing",
			slots, slotCount, schema, slotCount-1))
	}
	if versions != 1 {
		list = append(list, fmt.Sprintf("table subscriptions_version: is empty: run insert into %s.subscriptions_version (version) values (md5(clock_timestamp()::text)::uuid)", schema))
	}
	return list, nil
}

// catalog reads what the tables look like, by name of the thing.
func (s *Store) catalog(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
	is := map[string]string{}
	err := s.each(ctx, tx, "catalog", func(rows pgx.Rows) error {
		var name, what string
		err := rows.Scan(&name, &what)
		is[name] = what
		return err
	}, s.options.Schema, tables)
	return is, err
}

// expected is schema.txt as far as the server knows what it names.
func expected(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
	want := map[string]string{}
	for line := range strings.Lines(schemaText) {
		name, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		want[name] = what
	}
	var version int
	err := tx.QueryRow(ctx, "select current_setting('server_version_num')::int").Scan(&version)
	if version < 130000 {
		delete(want, "storage parameter deliveries.autovacuum_vacuum_insert_scale_factor")
	}
	return want, err
}

func compared(is, want map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch what, there := is[name]; {
		case !there:
			list = append(list, fmt.Sprintf("%s: missing, want %s", name, want[name]))
		case what != want[name]:
			list = append(list, fmt.Sprintf("%s: is %s, want %s", name, what, want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, known := want[name]; !known {
			list = append(list, fmt.Sprintf("%s: not of relaybus (%s)", name, is[name]))
		}
	}
	return list
}

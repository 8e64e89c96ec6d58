package postgres

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/engine"
)

//go:embed sql/*.sql
var files embed.FS

// statements are the files of sql/ by name, for one schema.
type statements map[string]string

// The files name their tables as relaybus.name, so that they can be run by
// hand; the schema of the options takes that place.
func statementsFor(schema string) statements {
	all := statements{}
	names, err := files.ReadDir("sql")
	if err != nil {
		panic(err) // the files are part of this package
	}
	for _, f := range names {
		text, err := files.ReadFile("sql/" + f.Name())
		if err != nil {
			panic(err)
		}
		all[strings.TrimSuffix(f.Name(), path.Ext(f.Name()))] = inSchema(string(text), schema)
	}
	return all
}

// inSchema puts a schema in the place of relaybus, also where a name stands in
// a literal of its own.
func inSchema(text, schema string) string {
	name := quoted(schema) + "."
	return strings.NewReplacer("'relaybus.", "'"+strings.ReplaceAll(name, "'", "''"), "relaybus.", name).Replace(text)
}

// named returns a statement.
func (s statements) named(name string) string {
	text, ok := s[name]
	if !ok {
		panic("postgres: no statement " + name)
	}
	return text
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// maxSchema is PostgreSQL's limit of an identifier, in bytes.
const maxSchema = 63

func checkSchema(name string) error {
	switch {
	case name == "" || len(name) > maxSchema || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("postgres: %w: schema name %q: want 1 to %d bytes of UTF-8 without control characters", engine.ErrInvalid, name, maxSchema)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("postgres: %w: schema name %q: PostgreSQL keeps names that begin with pg_ for itself", engine.ErrInvalid, name)
	}
	return nil
}

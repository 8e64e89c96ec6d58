package postgres

import (
	"embed"
	"fmt"
	"path"
	"strings"

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
		all[strings.TrimSuffix(f.Name(), path.Ext(f.Name()))] = strings.ReplaceAll(string(text), "relaybus.", quoted(schema)+".")
	}
	return all
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
	if name == "" || len(name) > maxSchema || strings.ContainsAny(name, "\x00'") {
		return fmt.Errorf("postgres: %w: schema name %q: want 1 to %d bytes without NUL and quotes", engine.ErrInvalid, name, maxSchema)
	}
	return nil
}

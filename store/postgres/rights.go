package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/relaybus-go/relaybus/engine"
)

// Duty is what a database role does with relaybus.
type Duty string

// The duties. One role may have several.
const (
	// Publisher publishes events and starts no bus.
	Publisher Duty = "publisher"
	// Worker starts buses with handlers; it may publish too.
	Worker Duty = "worker"
	// Operator runs what engine.Operator has, and the relaybus command but
	// for its migrations, which the owner of the schema runs.
	Operator Duty = "operator"
)

// Duties are all duties.
func Duties() []Duty { return []Duty{Publisher, Worker, Operator} }

// right is what a duty may do with one object of the schema.
type right struct{ object, privileges string }

var rights = map[Duty][]right{
	Publisher: {
		{"events", "select, insert, update"},
		{"deliveries", "insert"},
		{"subscriptions", "select"},
		{"subscriptions_version", "select"},
		{"slots", "select, update"},
		{"delivery_ids", "usage"},
	},
	Worker: {
		{"events", "select, insert, update"},
		{"deliveries", "select, insert, update, delete"},
		{"lanes", "select, insert, update"},
		{"groups", "select, insert, update"},
		{"subscriptions", "select, insert, update"},
		{"subscriptions_version", "select"},
		{"slots", "select, update"},
		{"completions", "insert"},
		{"delivery_ids", "usage"},
		{versionTable, "select"},
	},
	Operator: {
		{"events", "select, update, delete"},
		{"deliveries", "select, update, delete"},
		{"lanes", "select, update"},
		{"groups", "select"},
		{"subscriptions", "select, update"},
		{"subscriptions_version", "select"},
		{"slots", "select"},
		{"completions", "select, update, delete"},
		{versionTable, "select"},
	},
}

// Grants returns the statements that give a role exactly what a duty needs, for
// the owner of the schema to run. UPDATE is there also where rows are only
// locked.
func Grants(o Options, duty Duty, role string) ([]string, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	list, known := rights[duty]
	if !known {
		return nil, fmt.Errorf("postgres: grants: %w: no duty %q: there are %q", engine.ErrInvalid, duty, Duties())
	}
	if role == "" || strings.ContainsRune(role, 0) {
		return nil, fmt.Errorf("postgres: grants: %w: role %q", engine.ErrInvalid, role)
	}
	grants := []string{fmt.Sprintf("grant usage on schema %s to %s;", quoted(o.Schema), quoted(role))}
	for _, r := range list {
		grants = append(grants, fmt.Sprintf("grant %s on %s %s.%s to %s;", r.privileges, classOf(r.object), quoted(o.Schema), r.object, quoted(role)))
	}
	return grants, nil
}

func classOf(object string) string {
	if object == "delivery_ids" {
		return "sequence"
	}
	return "table"
}

var deniedOn = regexp.MustCompile(`(schema|table|sequence) "?([^"]+?)"?$`)

// missingGrant says which GRANT a refused role lacks.
func missingGrant(err *pgconn.PgError) string {
	const all = "relaybus migrate print-grants prints all that a role needs"
	found := deniedOn.FindStringSubmatch(err.Message)
	switch {
	case found == nil:
		return "the role lacks a right: " + all
	case found[1] == "schema":
		return fmt.Sprintf("the role needs GRANT USAGE ON SCHEMA %s; %s", quoted(found[2]), all)
	}
	var needs []string
	for _, duty := range Duties() {
		for _, r := range rights[duty] {
			if r.object == found[2] {
				needs = append(needs, fmt.Sprintf("as %s GRANT %s ON %s", duty, strings.ToUpper(r.privileges), r.object))
			}
		}
	}
	if len(needs) == 0 {
		return "the role lacks a right: " + all
	}
	return "the role needs " + strings.Join(slices.Compact(needs), ", ") + "; " + all
}

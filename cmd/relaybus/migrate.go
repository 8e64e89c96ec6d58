package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/store/postgres"
)

func migrateCommand(a *app) *cli.Command {
	return &cli.Command{
		Name:   "migrate",
		Usage:  "make, change and check the tables",
		Action: func(_ context.Context, c *cli.Command) error { return needsSubcommand(c) },
		Commands: []*cli.Command{
			{Name: "up", Usage: "bring the schema to the newest version; it is made when it is missing", Action: noArguments(a.migrateUp)},
			{
				Name: "down", Usage: "take back versions; 0 removes every table and all that is in it", Action: noArguments(a.migrateDown),
				Flags: []cli.Flag{
					&cli.Int64Flag{Name: "to", Usage: "the version to go back to", DefaultText: "the one before", Value: -1},
					yesFlag(),
				},
			},
			{Name: "list", Usage: "list the versions, and which of them the schema has", Action: noArguments(a.migrateList)},
			{Name: "validate", Usage: "compare the tables with what this release expects; exit code 1 if they differ", Action: noArguments(a.migrateValidate)},
			{
				Name: "print-sql", Usage: "print the SQL of up or down, to be run by hand; needs no database", ArgsUsage: "[up|down]", Action: a.migratePrintSQL,
				Flags: []cli.Flag{
					&cli.Int64Flag{Name: "from", Usage: "the version the schema has", DefaultText: "0 for up, the newest for down", Value: -1},
					&cli.Int64Flag{Name: "to", Usage: "the version to go to", DefaultText: "the newest for up, 0 for down", Value: -1},
				},
			},
			{
				Name: "print-grants", Usage: "print the GRANTs that a role needs; needs no database", ArgsUsage: "ROLE", Action: a.migratePrintGrants,
				Flags: []cli.Flag{&cli.StringSliceFlag{Name: "duty", Usage: "publisher, worker or operator; may be repeated", Value: []string{"worker"}}},
			},
		},
	}
}

func (a *app) migrateUp(ctx context.Context, c *cli.Command) error {
	pool, err := a.pool(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool, options(c)); err != nil {
		return err
	}
	return a.printMigrations(ctx, c, pool)
}

func (a *app) migrateDown(ctx context.Context, c *cli.Command) error {
	pool, err := a.pool(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	list, err := postgres.Migrations(ctx, pool, options(c))
	if err != nil {
		return err
	}
	to := c.Int64("to")
	if !c.IsSet("to") {
		to = before(list)
	}
	question := fmt.Sprintf("This takes schema %q back to version %d.", c.String(flagSchema), to)
	if to == 0 {
		question = fmt.Sprintf("This removes all tables of schema %q with every event and delivery in them.", c.String(flagSchema))
	}
	if err := a.confirm(ctx, c, question); err != nil {
		return err
	}
	if err := postgres.MigrateDown(ctx, pool, options(c), to); err != nil {
		return err
	}
	return a.printMigrations(ctx, c, pool)
}

// before is the version before the newest that was applied.
func before(list []postgres.Migration) int64 {
	at := int64(0)
	for i, m := range list {
		if m.Applied && i > 0 {
			at = list[i-1].Version
		}
	}
	return at
}

func (a *app) migrateList(ctx context.Context, c *cli.Command) error {
	pool, err := a.pool(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	return a.printMigrations(ctx, c, pool)
}

type migrationView struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (a *app) printMigrations(ctx context.Context, c *cli.Command, pool *pgxpool.Pool) error {
	list, err := postgres.Migrations(ctx, pool, options(c))
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		views := []migrationView{}
		for _, m := range list {
			views = append(views, migrationView(m))
		}
		return a.printJSON(map[string]any{"schema": c.String(flagSchema), "migrations": views})
	}
	t := newTable(a.out, "VERSION", "NAME", "APPLIED")
	for _, m := range list {
		t.row(m.Version, m.Name, yes(m.Applied))
	}
	return t.Flush()
}

func (a *app) migrateValidate(ctx context.Context, c *cli.Command) error {
	pool, err := a.pool(ctx, c)
	if err != nil {
		return err
	}
	defer pool.Close()
	differences, err := postgres.ValidateSchema(ctx, pool, options(c))
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		err = a.printJSON(map[string]any{"schema": c.String(flagSchema), "version": postgres.Latest(), "differences": append([]string{}, differences...)})
	} else {
		for _, d := range differences {
			fmt.Fprintln(a.out, printable(d))
		}
		fmt.Fprintf(a.out, "schema %s, version %d: %s\n", c.String(flagSchema), postgres.Latest(), count(len(differences), "difference"))
	}
	if len(differences) > 0 {
		return errFound
	}
	return err
}

func (a *app) migratePrintSQL(_ context.Context, c *cli.Command) error {
	from, to := int64(0), postgres.Latest()
	switch direction := c.Args().First(); {
	case c.NArg() > 1:
		return badInput("%s takes one argument: up or down", c.FullName())
	case direction == "down":
		from, to = to, from
	case direction != "" && direction != "up":
		return badInput("%q is no direction: want up or down", direction)
	}
	if c.IsSet("from") {
		from = c.Int64("from")
	}
	if c.IsSet("to") {
		to = c.Int64("to")
	}
	text, err := postgres.MigrationSQL(options(c), from, to)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		return a.printJSON(map[string]any{"schema": c.String(flagSchema), "from": from, "to": to, "sql": text})
	}
	_, err = fmt.Fprint(a.out, text)
	return err
}

func (a *app) migratePrintGrants(_ context.Context, c *cli.Command) error {
	if c.NArg() != 1 {
		return badInput("which role? Use: %s ROLE", c.FullName())
	}
	grants := []string{}
	for _, duty := range c.StringSlice("duty") {
		list, err := postgres.Grants(options(c), postgres.Duty(duty), c.Args().First())
		if err != nil {
			return err
		}
		grants = append(grants, list...)
	}
	if c.Bool(flagJSON) {
		return a.printJSON(map[string]any{"schema": c.String(flagSchema), "role": c.Args().First(), "grants": grants})
	}
	for _, g := range grants {
		fmt.Fprintln(a.out, g)
	}
	return nil
}

// count says how many of something there are.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

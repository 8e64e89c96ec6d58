// Command relaybus looks after the tables of relaybus in a PostgreSQL
// database: it makes them, shows what is in them, requeues, purges and
// verifies.
//
//	export RELAYBUS_DATABASE_URL=postgres://user:password@host:5432/database
//	relaybus migrate up
//	relaybus stats --watch
//	relaybus list --status dead
//
// Every subcommand prints tables for people, and with --json one JSON document
// on one line. relaybus help lists the subcommands.
//
// Exit codes: 0 done; 1 verify or validate found something, or the work failed;
// 2 bad input, a wrong URL or password, missing rights, or a schema of another
// version.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{in: os.Stdin, out: stdout, err: stderr, asks: isTerminal(os.Stdin), paints: isTerminal(stdout), draws: isTerminal(stderr)}
	return a.run(ctx, args)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// app is one invocation.
type app struct {
	in     io.Reader
	out    io.Writer
	err    io.Writer
	asks   bool // somebody is there to answer a question
	paints bool // the output is a terminal
	draws  bool // the error output is one: bars may be drawn on it

	password string // never to be printed
}

// subcommands are in the order of the help. Each file of a subcommand has one
// of these functions.
var subcommands = []func(*app) *cli.Command{
	migrateCommand,
	statsCommand,
	listCommand,
	showCommand,
	lanesCommand,
	subscriptionsCommand,
	requeueCommand,
	purgeCommand,
	unsubscribeCommand,
	verifyCommand,
	benchCommand,
	versionCommand,
}

// Names of the flags that every subcommand has.
const (
	flagURL    = "database-url"
	flagSchema = "schema"
	flagJSON   = "json"
)

func (a *app) root() *cli.Command {
	root := &cli.Command{
		Name:                   "relaybus",
		Usage:                  "look after the tables of relaybus in a PostgreSQL database",
		Writer:                 a.out,
		ErrWriter:              a.err,
		ExitErrHandler:         func(context.Context, *cli.Command, error) {},
		HideVersion:            true,
		UseShortOptionHandling: false,
		Flags: []cli.Flag{
			// The default is what the variable holds, a password maybe.
			&cli.StringFlag{Name: flagURL, Usage: "postgres://user:password@host:port/database", Sources: cli.EnvVars("RELAYBUS_DATABASE_URL"), HideDefault: true},
			&cli.StringFlag{Name: flagSchema, Usage: "the schema with the tables", Value: "relaybus", Sources: cli.EnvVars("RELAYBUS_SCHEMA")},
			&cli.BoolFlag{Name: flagJSON, Usage: "print one JSON document on one line"},
		},
		Action: func(_ context.Context, c *cli.Command) error { return needsSubcommand(c) },
	}
	for _, sub := range subcommands {
		root.Commands = append(root.Commands, sub(a))
	}
	refuseUsage(root)
	return root
}

// What the libraries below write into errors of usage.
var (
	parsedBy  = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": |time: `)
	flagNamed = regexp.MustCompile(` -+(\w[\w-]*)`)
)

// refuseUsage makes every error of usage one sentence in our words.
func refuseUsage(c *cli.Command) {
	c.OnUsageError = func(_ context.Context, _ *cli.Command, err error, _ bool) error {
		text := flagNamed.ReplaceAllString(parsedBy.ReplaceAllString(err.Error(), ""), " --$1")
		return badInput("%s: see %s --help", text, c.FullName())
	}
	for _, sub := range c.Commands {
		refuseUsage(sub)
	}
}

func needsSubcommand(c *cli.Command) error {
	if name := c.Args().First(); name != "" {
		return badInput("no command %q: see %s help", name, c.FullName())
	}
	return badInput("which command? See %s help", c.FullName())
}

func (a *app) run(ctx context.Context, args []string) int {
	err := a.root().Run(ctx, append([]string{"relaybus"}, args...))
	return a.report(err)
}

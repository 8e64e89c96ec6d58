package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/internal/bench"
)

// benchCommand measures. It reads its flags itself, because it runs itself as
// worker processes.
func benchCommand(a *app) *cli.Command {
	return &cli.Command{
		Name:            "bench",
		Usage:           "measure a PostgreSQL server with this release; relaybus bench -h lists the scenarios",
		SkipFlagParsing: true,
		Action: func(_ context.Context, c *cli.Command) error {
			return endedWith(runBench(c.Args().Slice(), a.out, a.err))
		},
	}
}

// runBench is the subcommand bench. It exits with 1 when a run was not valid
// or failed, and with 2 when it was asked for something that cannot be.
func runBench(args []string, stdout, stderr io.Writer) int {
	var o bench.Options
	flags := flag.NewFlagSet("relaybus bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.URL, "database-url", os.Getenv("RELAYBUS_DATABASE_URL"), "the `URL` of the database; a schema is made in it and dropped again")
	flags.StringVar(&o.Scenario, "scenario", "dispatch", "what to measure: `name`, see the list below")
	flags.IntVar(&o.Events, "events", 0, "how many events to publish; 0: the scenario's own number")
	flags.DurationVar(&o.Window, "window", 0, "how long the scenarios with a rate run; default 10s")
	flags.IntVar(&o.Processes, "processes", 1, "worker processes")
	flags.IntVar(&o.Rounds, "rounds", 0, "rounds of which the median counts; default 3")
	flags.BoolVar(&o.Tuned, "tuned", false, "larger claims than the defaults")
	baseline := flags.String("baseline", "", "raw: interleave the bare loop of the protocol")
	asJSON := flags.Bool("json", false, "print JSON")
	worker := flags.Bool("worker", false, "be a worker process of a run (internal)")
	flags.Usage = func() { benchUsage(flags) }
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *worker {
		return failed(stderr, bench.Serve(ctx, os.Stdin, stdout))
	}
	if *baseline != "" && *baseline != "raw" || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "relaybus bench: -baseline is %q and there are %d further words: the one baseline is raw, and words are not expected\n", *baseline, flags.NArg())
		return 2
	}
	o.Raw = *baseline == "raw"
	if err := o.Validate(); err != nil {
		fmt.Fprintln(stderr, "relaybus", err)
		return 2
	}
	if self, err := os.Executable(); err == nil {
		o.Worker = []string{self, "bench", "-worker"}
	}
	result, err := bench.Run(ctx, o)
	if err != nil {
		return failed(stderr, err)
	}
	return printResult(result, *asJSON, stdout, stderr)
}

func failed(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "relaybus", err)
	return 1
}

func benchUsage(flags *flag.FlagSet) {
	w := flags.Output()
	fmt.Fprintln(w, "usage: relaybus bench [flags]\n\nFlags:")
	flags.PrintDefaults()
	fmt.Fprintln(w, "\nScenarios:")
	names := make([]string, 0, len(bench.Scenarios))
	for name := range bench.Scenarios {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "  %-13s %s\n", name, bench.Scenarios[name])
	}
}

func printResult(r bench.Result, asJSON bool, stdout, stderr io.Writer) int {
	if asJSON {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		if err := out.Encode(r); err != nil {
			return failed(stderr, err)
		}
	} else {
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, f := range r.Figures {
			fmt.Fprintf(table, "%s\t%s\t %s\t\n", f.Name, bench.Format(f.Value), f.Unit)
		}
		_ = table.Flush()
	}
	if r.Valid {
		return 0
	}
	fmt.Fprintln(stderr, "INVALID: what was measured is not what was promised")
	for _, fault := range r.Faults {
		fmt.Fprintln(stderr, " ", fault)
	}
	return 1
}

// Command river runs the same jobs through relaybus and through River, in
// turns on one database, and prints one table.
//
//	go run -C bench/river . -database-url URL
//
// It is a module of its own, so that nobody who imports relaybus downloads
// River.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"

	"github.com/relaybus-go/relaybus/internal/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("river", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("database-url", os.Getenv("RELAYBUS_DATABASE_URL"), "the `URL` of the database")
	events := flags.Int("events", 30_000, "jobs per round")
	rounds := flags.Int("rounds", 3, "rounds; the median counts")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *url == "" || *events < 100 || *rounds < 1 {
		fmt.Fprintln(stderr, "river: give -database-url (or RELAYBUS_DATABASE_URL), at least 100 events and a round")
		return 2
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "settings\trelaybus/s\tRiver/s\tratio\trelaybus WAL B\tRiver WAL B\t")
	for _, tuned := range []bool{false, true} {
		c, err := compare(ctx, *url, tuned, *events, *rounds)
		if err != nil {
			fmt.Fprintln(stderr, "river:", err)
			return 1
		}
		name := "default"
		if tuned {
			name = "tuned"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t%s\t%s\t\n", name, bench.Format(c.ours), bench.Format(c.theirs), c.ours/c.theirs,
			bench.Format(c.walOurs), bench.Format(c.walTheirs))
	}
	_ = table.Flush()
	return 0
}

// comparison holds medians: deliveries per second, and bytes of WAL from the
// first claim to the last completion.
type comparison struct{ ours, theirs, walOurs, walTheirs float64 }

// compare measures both in turns. A run that was not valid is an error.
func compare(ctx context.Context, url string, tuned bool, n, rounds int) (c comparison, err error) {
	var ours, theirs, walOurs, walTheirs []float64
	for range rounds {
		r, err := bench.Run(ctx, bench.Options{URL: url, Scenario: "dispatch", Events: n, Rounds: 1, Tuned: tuned})
		if err != nil {
			return c, err
		}
		if !r.Valid {
			return c, fmt.Errorf("INVALID: %v", r.Faults)
		}
		rate, _ := r.Figure("relaybus")
		wal, _ := r.Figure("WAL per delivery")
		ours, walOurs = append(ours, rate), append(walOurs, wal)
		one, err := river(ctx, url, tuned, n)
		if err != nil {
			return c, fmt.Errorf("River: %w", err)
		}
		theirs, walTheirs = append(theirs, one.rate), append(walTheirs, one.wal)
	}
	return comparison{bench.Median(ours), bench.Median(theirs), bench.Median(walOurs), bench.Median(walTheirs)}, nil
}

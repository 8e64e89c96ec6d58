package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
)

func purgeCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "purge", Usage: "delete what is old enough, in small batches", Action: noArguments(a.purge),
		Description: "A kind without an age is kept. Ages are such as 90m, 36h or 30d. Events go when they are old and no delivery of them is left, pending or dead; " +
			"their age must exceed the time within which an id may be published again, for after it the id is new. What was done before an error or an interrupt stands.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "events-after", Usage: "age of events, since they were published"},
			&cli.StringFlag{Name: "dead-after", Usage: "age of dead letters, since they died"},
			&cli.StringFlag{Name: "history-after", Usage: "age of rows of the completion history"},
			&cli.IntFlag{Name: "batch", Usage: "rows of one transaction", Value: engine.DefaultBatch},
			yesFlag(),
		},
	}
}

// maxBatch keeps one transaction of purge short.
const maxBatch = 100_000

func (a *app) purge(ctx context.Context, c *cli.Command) error {
	in, err := purgeInput(c)
	if err != nil {
		return err
	}
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := a.confirm(ctx, c, fmt.Sprintf("This deletes %s for good from schema %q.", purged(&in), c.String(flagSchema))); err != nil {
		return err
	}
	p := a.progress("purged", -1)
	reply, err := s.PurgeWith(ctx, in, func(r engine.PurgeReply) { p.at(r.Dead + r.Events + r.History) })
	p.end()
	if err != nil && reply == (engine.PurgeReply{}) {
		return err
	}
	if c.Bool(flagJSON) {
		return firstError(err, a.printJSON(map[string]int{"events": reply.Events, "dead": reply.Dead, "history": reply.History, "swept": reply.Swept}))
	}
	fmt.Fprintf(a.out, "purged %s, %s, %s of the history; buried %s of removed handlers\n",
		count(reply.Events, "event"), count(reply.Dead, "dead letter"), count(reply.History, "row"), count(reply.Swept, "pending one"))
	return err
}

func purgeInput(c *cli.Command) (in engine.PurgeInput, err error) {
	given := false
	for name, to := range map[string]*time.Duration{"events-after": &in.EventsAfter, "dead-after": &in.DeadAfter, "history-after": &in.HistoryAfter} {
		if !c.IsSet(name) {
			continue
		}
		given = true
		if *to, err = ageOf("--"+name, c.String(name)); err != nil {
			return in, err
		}
		if *to == 0 {
			return in, badInput("--%s %s: want an age above 0", name, c.String(name))
		}
	}
	if in.Batch = c.Int("batch"); in.Batch < 1 || in.Batch > maxBatch {
		return in, badInput("--batch %d: want 1 to %d", in.Batch, maxBatch)
	}
	if !given {
		return in, badInput("what is to go? Give --events-after, --dead-after or --history-after")
	}
	return in, nil
}

func purged(in *engine.PurgeInput) string {
	text := ""
	for _, part := range []struct {
		what  string
		after time.Duration
	}{{"events", in.EventsAfter}, {"dead letters", in.DeadAfter}, {"completions", in.HistoryAfter}} {
		if part.after > 0 && text != "" {
			text += ", "
		}
		if part.after > 0 {
			text += fmt.Sprintf("%s older than %v", part.what, part.after)
		}
	}
	return text
}

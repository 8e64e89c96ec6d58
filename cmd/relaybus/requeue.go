package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
)

func requeueCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "requeue", Usage: "bring dead letters back to pending, with nothing charged", ArgsUsage: "[ID...]", Action: a.requeue,
		Description: "By ids, or by a filter, or --all. What is not dead is left alone. It works in batches: what was done before an error or an interrupt stands.",
		Flags: append(filterFlags(),
			&cli.BoolFlag{Name: "all", Usage: "every dead letter"},
			&cli.IntFlag{Name: "limit", Usage: "at most so many", DefaultText: "no limit"},
			yesFlag()),
	}
}

func (a *app) requeue(ctx context.Context, c *cli.Command) error {
	in, err := requeueInput(c)
	if err != nil {
		return err
	}
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	total := -1
	switch {
	case in.All:
		if err := a.confirm(ctx, c, fmt.Sprintf("This requeues every dead letter of schema %q.", c.String(flagSchema))); err != nil {
			return err
		}
	case len(in.IDs) > 0:
		total = len(in.IDs)
	}
	p := a.progress("requeued", total)
	reply, err := s.RequeueWith(ctx, in, func(r engine.RequeueReply) { p.at(r.Requeued) })
	p.end()
	if err != nil && reply.Requeued == 0 {
		return err
	}
	if c.Bool(flagJSON) {
		return firstError(err, a.printJSON(map[string]int{"requeued": reply.Requeued}))
	}
	fmt.Fprintf(a.out, "requeued %s\n", count(reply.Requeued, "dead letter"))
	if left := len(in.IDs) - reply.Requeued; left > 0 && err == nil && in.Limit == 0 {
		fmt.Fprintf(a.out, "%d of the ids named no dead letter\n", left)
	}
	return err
}

// firstError: what was done is printed also when the rest failed.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func requeueInput(c *cli.Command) (in engine.RequeueInput, err error) {
	if in.Filter, err = filterOf(c); err != nil {
		return in, err
	}
	for _, text := range c.Args().Slice() {
		id, err := idOf(text)
		if err != nil {
			return in, err
		}
		in.IDs = append(in.IDs, id)
	}
	in.All, in.Limit = c.Bool("all"), c.Int("limit")
	filtered := in.Filter != engine.Filter{}
	switch {
	case in.Limit < 0:
		return in, badInput("--limit %d: want a positive number", in.Limit)
	case len(in.IDs) > 0 && (filtered || in.All):
		return in, badInput("ids and a filter together: give one of them")
	case filtered && in.All:
		return in, badInput("--all and a filter together: give one of them")
	case len(in.IDs) == 0 && !filtered && !in.All:
		return in, badInput("which dead letters? Give ids, a filter, or --all")
	}
	return in, nil
}

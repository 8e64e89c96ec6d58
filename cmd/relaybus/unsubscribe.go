package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
)

func unsubscribeCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "unsubscribe", Usage: "remove a handler of an event type for good", ArgsUsage: "EVENT-TYPE HANDLER", Action: a.unsubscribe,
		Description: "Deploy workers without the handler first. What is pending for it becomes dead letters, or goes with --delete.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "delete", Usage: "delete what is pending instead of burying it"}, yesFlag()},
	}
}

func (a *app) unsubscribe(ctx context.Context, c *cli.Command) error {
	if c.NArg() != 2 {
		return badInput("which handler of which event type? Use: %s EVENT-TYPE HANDLER", c.FullName())
	}
	for _, arg := range c.Args().Slice() {
		if _, err := textOf("argument", arg); err != nil {
			return err
		}
	}
	in := engine.UnsubscribeInput{EventHandler: engine.EventHandler{Event: c.Args().Get(0), Handler: c.Args().Get(1)}, Bury: !c.Bool("delete")}
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	if !in.Bury {
		question := fmt.Sprintf("This deletes every pending delivery of handler %q for events %q.", in.Handler, in.Event)
		if err := a.confirm(ctx, c, question); err != nil {
			return err
		}
	}
	reply, err := s.Unsubscribe(ctx, in)
	if err != nil && reply.Swept == 0 {
		return err
	}
	if c.Bool(flagJSON) {
		return firstError(err, a.printJSON(map[string]any{"swept": reply.Swept, "buried": in.Bury}))
	}
	what := "buried"
	if !in.Bury {
		what = "deleted"
	}
	fmt.Fprintf(a.out, "%s %s\n", what, count(reply.Swept, "pending delivery"))
	return err
}

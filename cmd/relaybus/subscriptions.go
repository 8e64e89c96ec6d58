package main

import (
	"context"

	"github.com/urfave/cli/v3"
)

func subscriptionsCommand(a *app) *cli.Command {
	return &cli.Command{Name: "subscriptions", Usage: "list which handler subscribes to what", Action: noArguments(a.subscriptions)}
}

type subscriptionView struct {
	Event   string  `json:"event_type"`
	Handler string  `json:"handler"`
	Group   string  `json:"group"`
	SeenAt  *string `json:"seen_at"`
	Removed bool    `json:"removed"`
}

func (a *app) subscriptions(ctx context.Context, c *cli.Command) error {
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	reply, err := s.Subscriptions(ctx)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		views := []subscriptionView{}
		for _, n := range reply.Subscriptions {
			views = append(views, subscriptionView{n.Event, n.Handler, n.Group, jsonTime(n.SeenAt), n.Removed})
		}
		return a.printJSON(map[string]any{"now": jsonTime(reply.Now), "subscriptions": views})
	}
	t := newTable(a.out, "EVENT TYPE", "HANDLER", "GROUP", "SEEN", "REMOVED")
	for _, n := range reply.Subscriptions {
		t.row(n.Event, n.Handler, n.Group, ago(reply.Now, n.SeenAt), yes(n.Removed))
	}
	return t.Flush()
}

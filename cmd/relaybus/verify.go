package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
)

func verifyCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "look for what no interleaving can excuse; exit code 1 if there is any", Action: noArguments(a.verify),
		Description: "Reads one snapshot of every delivery and every lane and writes nothing: some seconds per million deliveries.",
	}
}

type findingView struct {
	Check    string            `json:"check"`
	Delivery engine.DeliveryID `json:"delivery"`
	Lane     engine.LaneID     `json:"lane"`
	Detail   string            `json:"detail"`
}

func (a *app) verify(ctx context.Context, c *cli.Command) error {
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	reply, err := s.Verify(ctx)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		views := []findingView{}
		for _, f := range reply.Findings {
			views = append(views, findingView(f))
		}
		err = a.printJSON(map[string]any{"now": jsonTime(reply.Now), "deliveries": reply.Deliveries, "lanes": reply.Lanes, "findings": views})
	} else {
		err = a.printFindings(&reply)
	}
	if err == nil && len(reply.Findings) > 0 {
		return errFound
	}
	return err
}

func (a *app) printFindings(reply *engine.VerifyReply) error {
	if len(reply.Findings) > 0 {
		t := newTable(a.out, "CHECK", "DELIVERY", "LANE", "DETAIL")
		for _, f := range reply.Findings {
			id := ""
			if f.Delivery != 0 {
				id = fmt.Sprint(f.Delivery)
			}
			t.row(f.Check, id, f.Lane, f.Detail)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.out, "looked at %d deliveries in %d lanes: %s\n", reply.Deliveries, reply.Lanes, count(len(reply.Findings), "finding"))
	return err
}

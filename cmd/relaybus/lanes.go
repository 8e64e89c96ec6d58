package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

func lanesCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "lanes", Usage: "list lanes with their holders and what they run", Action: noArguments(a.lanes),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "held", Usage: "only those with a live lease"},
			&cli.BoolFlag{Name: "expired", Usage: "only those whose lease ran out and that nobody took over"},
			&cli.BoolFlag{Name: "stuck", Usage: "only those with deliveries whose end the server refuses"},
		},
	}
}

func (a *app) lanes(ctx context.Context, c *cli.Command) error {
	state := postgres.AnyLane
	for _, s := range []postgres.LaneState{postgres.HeldLane, postgres.ExpiredLane, postgres.StuckLane} {
		if c.Bool(string(s)) && state != postgres.AnyLane {
			return badInput("--%s and --%s together select nothing sensible: give one", state, s)
		}
		if c.Bool(string(s)) {
			state = s
		}
	}
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	reply, err := s.Lanes(ctx, state)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		views := []laneView{}
		for i := range reply.Lanes {
			views = append(views, laneViewOf(&reply.Lanes[i]))
		}
		return a.printJSON(map[string]any{"now": jsonTime(reply.Now), "lanes": views})
	}
	return a.printLanes(&reply)
}

// listedIDs is how many ids a cell shows.
const listedIDs = 4

func (a *app) printLanes(reply *postgres.LanesReply) error {
	t := newTable(a.out, "LANE", "GROUP", "OWNER", "HOLDER", "EPOCH", "CLAIM", "LEASE", "IN FLIGHT", "STUCK")
	for i := range reply.Lanes {
		l := &reply.Lanes[i]
		ids := make([]engine.DeliveryID, len(l.InFlight))
		for n, f := range l.InFlight {
			ids[n] = f.Delivery
		}
		t.row(l.ID, l.Group, l.Owner, short(l.Holder, 9), l.Epoch, l.Claim, lease(l, reply.Now), listed(ids), listed(l.Stuck))
	}
	return t.Flush()
}

func lease(l *postgres.Lane, now engine.StoreTime) string {
	switch {
	case l.Holder == "":
		return "free"
	case l.Expired:
		return "expired " + ago(now, l.ExpiresAt)
	}
	return "held, ends " + ago(now, l.ExpiresAt)
}

func listed(ids []engine.DeliveryID) string {
	var parts []string
	for _, id := range ids[:min(len(ids), listedIDs)] {
		parts = append(parts, fmt.Sprint(id))
	}
	if more := len(ids) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("+%d", more))
	}
	return strings.Join(parts, " ")
}

type laneView struct {
	Lane      engine.LaneID       `json:"lane"`
	Group     string              `json:"group"`
	Holder    string              `json:"holder"`
	Owner     string              `json:"owner"`
	Epoch     int64               `json:"epoch"`
	Claim     int64               `json:"claim"`
	ExpiresAt *string             `json:"expires_at"`
	Expired   bool                `json:"expired"`
	InFlight  []inFlightView      `json:"in_flight"`
	Stuck     []engine.DeliveryID `json:"stuck"`
}

type inFlightView struct {
	Delivery engine.DeliveryID `json:"delivery"`
	Claim    int64             `json:"claim"`
}

func laneViewOf(l *postgres.Lane) laneView {
	v := laneView{l.ID, l.Group, l.Holder, l.Owner, l.Epoch, l.Claim, jsonTime(l.ExpiresAt), l.Expired, []inFlightView{}, append([]engine.DeliveryID{}, l.Stuck...)}
	for _, f := range l.InFlight {
		v.InFlight = append(v.InFlight, inFlightView(f))
	}
	return v
}

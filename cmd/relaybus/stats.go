package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// minInterval keeps a watcher from being the load that it watches: each look
// reads every delivery once.
const minInterval = 100 * time.Millisecond

func statsCommand(a *app) *cli.Command {
	return &cli.Command{
		Name:        "stats",
		Usage:       "count what the store holds",
		Description: "Counts are exact. One look reads every delivery, every event and every row of the completion history once: about a second per million deliveries.",
		Action:      noArguments(a.stats),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "look again and again, until interrupted, also after looks that fail"},
			&cli.DurationFlag{Name: "interval", Usage: "between two looks of --watch", Value: 2 * time.Second},
		},
	}
}

func (a *app) stats(ctx context.Context, c *cli.Command) error {
	every := c.Duration("interval")
	if every < minInterval {
		return badInput("--interval %v: want at least %v", every, minInterval)
	}
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	if c.Bool("watch") {
		return a.watch(ctx, c, s, every)
	}
	t, err := s.Statistics(ctx)
	if err != nil {
		return err
	}
	if c.Bool(flagJSON) {
		return a.printJSON(statsView(&t))
	}
	return a.printStats(&t)
}

// watch repaints a terminal, and writes a line for each look otherwise. An
// interrupt is its proper end; looks that fail are no reason to end.
func (a *app) watch(ctx context.Context, c *cli.Command, s *postgres.Store, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failed := false; ; {
		t, err := s.Statistics(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case isBad(err):
			return err
		}
		a.tell(err, failed)
		if failed = err != nil; !failed {
			if err := a.printLook(c, &t); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tell says once that looks fail, and once that they do no longer.
func (a *app) tell(err error, before bool) {
	switch {
	case err != nil && !before:
		fmt.Fprintf(a.err, "relaybus: %s; looking again until the database answers\n", a.sentence(err))
	case err == nil && before:
		fmt.Fprintln(a.err, "relaybus: the database answers again")
	}
}

func (a *app) printLook(c *cli.Command, t *engine.Statistics) error {
	switch {
	case c.Bool(flagJSON):
		return a.printJSON(statsView(t))
	case a.paints:
		fmt.Fprint(a.out, "\x1b[H\x1b[2J")
		return a.printStats(t)
	}
	_, err := fmt.Fprintf(a.out, "%s events=%d pending=%d due=%d running=%d waiting=%d dead=%d stuck=%d completed=%d held=%d expired=%d\n",
		at(t.Now), t.Events, t.Pending, t.Due, t.Running, t.Waiting, t.Dead, t.Stuck, t.Completed, t.Held, t.Expired)
	return err
}

func (a *app) printStats(t *engine.Statistics) error {
	w := newTable(a.out)
	w.row("now", at(t.Now))
	w.row("events", t.Events)
	w.row("pending", t.Pending, fmt.Sprintf("%d due%s", t.Due, oldest(t)))
	w.row("running", t.Running, fmt.Sprintf("%d more wait behind them in their chain", t.Waiting))
	w.row("dead", t.Dead)
	w.row("stuck", t.Stuck)
	w.row("completed", t.Completed, "rows of the completion history")
	w.row("lanes held", t.Held, fmt.Sprintf("%d expired", t.Expired))
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	w = newTable(a.out, "HANDLER", "PENDING", "DUE", "DEAD", "SEEN", "SUBSCRIBED")
	for _, h := range t.Handlers {
		w.row(h.Handler, h.Pending, h.Due, h.Dead, ago(t.Now, h.SeenAt), subscribed(h.Subscribed, h.Removed))
	}
	return w.Flush()
}

func oldest(t *engine.Statistics) string {
	if t.OldestDue == 0 {
		return ""
	}
	return ", the oldest since " + t.Now.Sub(t.OldestDue).Round(time.Second).String()
}

// subscribed: a handler of several event types may be both.
func subscribed(is, removed bool) string {
	switch {
	case is && removed:
		return "in part"
	case removed:
		return "removed"
	}
	return yes(is)
}

type handlerView struct {
	Handler    string  `json:"handler"`
	Pending    int     `json:"pending"`
	Due        int     `json:"due"`
	Dead       int     `json:"dead"`
	SeenAt     *string `json:"seen_at"`
	Subscribed bool    `json:"subscribed"`
	Removed    bool    `json:"removed"`
}

type statistics struct {
	Now       *string       `json:"now"`
	Events    int           `json:"events"`
	Pending   int           `json:"pending"`
	Due       int           `json:"due"`
	OldestDue *string       `json:"oldest_due"`
	Running   int           `json:"running"`
	Waiting   int           `json:"waiting"`
	Dead      int           `json:"dead"`
	Stuck     int           `json:"stuck"`
	Completed int           `json:"completed"`
	Held      int           `json:"lanes_held"`
	Expired   int           `json:"lanes_expired"`
	Handlers  []handlerView `json:"handlers"`
}

func statsView(t *engine.Statistics) statistics {
	v := statistics{jsonTime(t.Now), t.Events, t.Pending, t.Due, jsonTime(t.OldestDue), t.Running, t.Waiting, t.Dead, t.Stuck, t.Completed, t.Held, t.Expired, []handlerView{}}
	for _, h := range t.Handlers {
		v.Handlers = append(v.Handlers, handlerView{h.Handler, h.Pending, h.Due, h.Dead, jsonTime(h.SeenAt), h.Subscribed, h.Removed})
	}
	return v
}

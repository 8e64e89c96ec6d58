package main

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// filterFlags select deliveries.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "handler", Usage: "of this handler"},
		&cli.StringFlag{Name: "key", Usage: "of events with this key"},
		&cli.StringFlag{Name: "event-type", Usage: "of events of this type"},
		&cli.StringFlag{Name: "event-id", Usage: "of the event with this id"},
		&cli.StringFlag{Name: "died-since", Usage: "that died at this time or later: RFC 3339, or an age such as 90m or 2d"},
		&cli.StringFlag{Name: "died-until", Usage: "that died before this time"},
	}
}

func filterOf(c *cli.Command) (f engine.Filter, err error) {
	for name, to := range map[string]*string{"handler": &f.Handler, "key": &f.Key, "event-type": &f.EventType, "event-id": &f.EventID} {
		if *to, err = textOf("--"+name, c.String(name)); err != nil {
			return f, err
		}
		if c.IsSet(name) && *to == "" {
			return f, badInput("--%s is empty: leave it out to select everything", name)
		}
	}
	now := time.Now()
	if f.DiedSince, err = timeOf("--died-since", c.String("died-since"), now); err == nil {
		f.DiedUntil, err = timeOf("--died-until", c.String("died-until"), now)
	}
	return f, err
}

// textOf refuses what no stored text can hold.
func textOf(name, text string) (string, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "", badInput("%s %q: want UTF-8 without NUL", name, text)
	}
	return text, nil
}

// timeOf reads a time, or an age before now.
func timeOf(name, text string, now time.Time) (engine.StoreTime, error) {
	if text == "" {
		return 0, nil
	}
	if age, err := ageOf(name, text); err == nil {
		return protocol.Time(now.Add(-age).UnixNano()), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0, badInput("%s %q: want a time such as 2026-01-31T08:00:00Z, or an age such as 90m or 2d", name, text)
	}
	return protocol.Time(t.UnixNano()), nil
}

// maxAge keeps ages within what both sides can compute with.
const maxAge = 100 * 365 * 24 * time.Hour

// ageOf reads a duration; d stands for days of 24 hours.
func ageOf(name, text string) (time.Duration, error) {
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		n, err = strconv.ParseInt(days, 10, 32)
		age = time.Duration(min(n, math.MaxInt64/int64(24*time.Hour))) * 24 * time.Hour
	}
	if err != nil || age < 0 || age > maxAge {
		return 0, badInput("%s %q: want a positive duration of at most 100 years, such as 90m, 36h or 30d", name, text)
	}
	return age, nil
}

// idOf reads the id of a delivery.
func idOf(text string) (engine.DeliveryID, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, badInput("%q is no delivery: want a positive number", text)
	}
	return engine.DeliveryID(n), nil
}

// noArguments wraps an action that takes none.
func noArguments(action cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		if c.Args().Present() {
			return badInput("%s takes no argument: %q", c.FullName(), c.Args().First())
		}
		return action(ctx, c)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// shownBytes is how much of a payload or an error show prints without --full.
const shownBytes = 2048

func showCommand(a *app) *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show one delivery with its event and its lane", ArgsUsage: "ID", Action: a.show,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "full", Usage: "do not cut the payload and the last error"}},
	}
}

func (a *app) show(ctx context.Context, c *cli.Command) error {
	if c.NArg() != 1 {
		return badInput("which delivery? Use: %s ID", c.FullName())
	}
	id, err := idOf(c.Args().First())
	if err != nil {
		return err
	}
	s, closeStore, err := a.store(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	shown, err := s.Show(ctx, id)
	switch {
	case err != nil:
		return err
	case shown.Listed == nil && shown.Completed == nil:
		return badInput("there is no delivery %d: it completed, was purged, or never was", id)
	case c.Bool(flagJSON):
		return a.printJSON(shownView(&shown, c.Bool("full")))
	case shown.Listed == nil:
		return a.printCompleted(shown.Completed)
	}
	return a.printShown(&shown, c.Bool("full"))
}

func (a *app) printCompleted(d *postgres.Completion) error {
	t := newTable(a.out)
	t.row("delivery", d.Delivery)
	t.row("status", "completed")
	t.row("completed at", at(d.CompletedAt))
	t.row("event", d.EventID)
	t.row("handler", d.Handler)
	t.row("key", d.Key)
	t.row("failed attempts", d.Attempts)
	return t.Flush()
}

func (a *app) printShown(shown *postgres.Shown, full bool) error {
	l := shown.Listed
	d := &l.Delivery
	t := newTable(a.out)
	t.row("delivery", d.ID)
	t.row("handler", d.Handler)
	t.row("key", d.Key)
	t.row("status", d.Status)
	if d.Status == protocol.Dead {
		t.row("died", at(d.DiedAt)+", "+ago(shown.Now, d.DiedAt))
	} else {
		t.row("due", at(d.AvailableAt)+", "+ago(shown.Now, d.AvailableAt))
	}
	t.row("attempts", d.Attempts)
	t.row("takeovers", d.Takeovers)
	t.row("in flight", inFlight(shown))
	t.row("stuck", yes(shown.Stuck))
	lane(t, shown)
	event(t, l.Event)
	if err := t.Flush(); err != nil {
		return err
	}
	a.section("last error", d.LastError, full)
	if l.Event != nil {
		form, text := payload(l.Event.Payload)
		a.section(fmt.Sprintf("payload, %d bytes of %s", len(l.Event.Payload), form), text, full)
	}
	return nil
}

func inFlight(shown *postgres.Shown) string {
	switch {
	case !shown.InFlight:
		return "no"
	case shown.Listed.Running:
		return fmt.Sprintf("yes, by claim %d of %s", shown.Claim, shown.Listed.Owner)
	}
	return fmt.Sprintf("listed under claim %d, but the lease ran out: whoever takes the lane over charges it", shown.Claim)
}

func lane(t table, shown *postgres.Shown) {
	n := shown.Lane
	if n == nil {
		t.row("lane", fmt.Sprintf("%d, which has no row: see relaybus verify", shown.Listed.Delivery.Lane))
		return
	}
	t.row("lane", fmt.Sprintf("%d of group %s, epoch %d, claim %d", n.ID, n.Group, n.Epoch, n.Claim))
	t.row("lease", lease(n, shown.Now))
}

func event(t table, e *protocol.Event) {
	if e == nil {
		t.row("event", "missing: see relaybus verify")
		return
	}
	t.row("event", e.ID)
	t.row("type", e.Type)
	t.row("published", at(e.PublishedAt))
	t.row("handlers", strings.Join(e.Handlers, ", "))
	for _, h := range e.Headers {
		t.row("header "+printable(h.Name), h.Value)
	}
}

// section prints a longer text below a head of its own, line by line so that a
// terminal obeys nothing in it.
func (a *app) section(head, text string, full bool) {
	if text == "" {
		return
	}
	text, left := cut(text, full)
	fmt.Fprintf(a.out, "\n%s:\n", head)
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintln(a.out, "  "+printable(strings.ReplaceAll(line, "\t", "    ")))
	}
	if left > 0 {
		fmt.Fprintf(a.out, "  (%d more bytes: --full shows them)\n", left)
	}
}

// cut returns the start of a text, and how many bytes it left out.
func cut(text string, full bool) (string, int) {
	if full || len(text) <= shownBytes {
		return text, 0
	}
	end := shownBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], len(text) - end
}

// payload returns the form of a payload and its text: JSON indented, text as it
// is, and anything else in hex.
func payload(data []byte) (form, text string) {
	var indented bytes.Buffer
	switch {
	case json.Indent(&indented, data, "", "  ") == nil:
		return "JSON", indented.String()
	case utf8.Valid(data) && !bytes.ContainsRune(data, 0):
		return "text", string(data)
	}
	return "binary", hex.Dump(data)
}

type eventView struct {
	ID          string       `json:"id"`
	Type        string       `json:"type"`
	Key         string       `json:"key"`
	PublishedAt *string      `json:"published_at"`
	Handlers    []string     `json:"handlers"`
	Headers     []headerView `json:"headers"`
	Bytes       int          `json:"payload_bytes"`
	Form        string       `json:"payload_form"` // json, text or hex
	Payload     any          `json:"payload"`      // null: too long without --full
}

type headerView struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func eventViewOf(e *protocol.Event, full bool) *eventView {
	if e == nil {
		return nil
	}
	v := &eventView{e.ID, e.Type, e.Key, jsonTime(e.PublishedAt), e.Handlers, []headerView{}, len(e.Payload), "hex", nil}
	for _, h := range e.Headers {
		v.Headers = append(v.Headers, headerView{h.Name, h.Value})
	}
	var data any
	switch {
	case json.Valid(e.Payload):
		v.Form, data = "json", json.RawMessage(e.Payload)
	case utf8.Valid(e.Payload):
		v.Form, data = "text", string(e.Payload)
	default:
		data = hex.EncodeToString(e.Payload)
	}
	if full || len(e.Payload) <= shownBytes {
		v.Payload = data
	}
	return v
}

func shownView(shown *postgres.Shown, full bool) any {
	type completed struct {
		ID          engine.DeliveryID `json:"id"`
		Handler     string            `json:"handler"`
		Key         string            `json:"key"`
		EventID     string            `json:"event_id"`
		Attempts    int               `json:"attempts"`
		CompletedAt *string           `json:"completed_at"`
	}
	if d := shown.Completed; shown.Listed == nil {
		return map[string]any{"now": jsonTime(shown.Now), "completed": completed{d.Delivery, d.Handler, d.Key, d.EventID, d.Attempts, jsonTime(d.CompletedAt)}}
	}
	v := struct {
		Now      *string      `json:"now"`
		Delivery deliveryView `json:"delivery"`
		InFlight bool         `json:"in_flight"`
		Claim    int64        `json:"claim"`
		Stuck    bool         `json:"stuck"`
		Lane     *laneView    `json:"lane"`
		Event    *eventView   `json:"event"`
	}{jsonTime(shown.Now), viewOf(shown.Listed), shown.InFlight, shown.Claim, shown.Stuck, nil, eventViewOf(shown.Listed.Event, full)}
	if shown.Lane != nil {
		l := laneViewOf(shown.Lane)
		v.Lane = &l
	}
	return v
}

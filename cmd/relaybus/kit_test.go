package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// world is a schema of a test's own.
type world struct {
	url    string
	pool   *pgxpool.Pool
	schema string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("RELAYBUS_DATABASE_URL", "")
	t.Setenv("RELAYBUS_SCHEMA", "")
	server := testdb.Postgres(t, testdb.Local)
	pool, err := pgxpool.New(context.Background(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(t.Name()), "_")
	w := &world{url: server.URL, pool: pool, schema: fmt.Sprintf("%s_%d", name[max(0, len(name)-40):], os.Getpid())}
	w.sql(t, "drop schema if exists SCHEMA cascade")
	t.Cleanup(func() {
		w.sql(t, "drop schema if exists SCHEMA cascade")
		pool.Close()
	})
	return w
}

func (w *world) sql(t *testing.T, text string) {
	t.Helper()
	text = strings.ReplaceAll(text, "SCHEMA", pgx.Identifier{w.schema}.Sanitize())
	if _, err := w.pool.Exec(context.Background(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func (w *world) migrate(t *testing.T) {
	t.Helper()
	if err := postgres.Migrate(context.Background(), w.pool, postgres.Options{Schema: w.schema}); err != nil {
		t.Fatal(err)
	}
}

// fill puts a delivery of each kind into the schema: 1 in flight, 2 completed,
// 3 put off after a failure, 4 and 5 dead, 6 pending with a payload that is no
// text, 7 with text, and 8 in a lane whose lease ran out.
func (w *world) fill(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	s, err := postgres.NewWith(w.pool, postgres.Options{Schema: w.schema, History: true})
	must(t, err)
	sub, err := s.Subscribe(ctx, engine.SubscribeInput{Group: "shop", Handlers: []engine.EventHandler{{Event: "order.placed", Handler: "mail"}, {Event: "order.paid", Handler: "ledger"}}})
	must(t, err)
	publish := func(events ...protocol.Event) {
		must(t, s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := s.Publish(ctx, tx, events)
			return err
		}))
	}
	for i := range 5 {
		publish(protocol.Event{ID: fmt.Sprintf("o-%d", i+1), Type: "order.placed", Key: fmt.Sprintf("customer-%d", i+1), Payload: fmt.Appendf(nil, `{"n":%d,"item":"tea"}`, i+1),
			Headers: []protocol.Header{{Name: "trace", Value: "abc"}}})
	}
	number := int64(0)
	claim := func(holder byte, handler string) map[engine.DeliveryID]engine.Lease {
		number += 2
		reply, err := s.Claim(ctx, engine.ClaimInput{Holder: protocol.Holder{holder}, Owner: fmt.Sprintf("worker-%d", holder), Group: sub.Group, Number: number, TTL: time.Hour,
			NotAfter: sub.Now.Add(time.Hour), Handlers: []engine.HandlerRoom{{Name: handler, Room: 10}}, Room: 10, Limit: 10, MaxLanes: 10})
		must(t, err)
		leases := map[engine.DeliveryID]engine.Lease{}
		for _, p := range reply.Picks {
			leases[p.Delivery.ID] = p.Lease
		}
		return leases
	}
	leases := claim(1, "mail")
	_, err = s.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{leases[2]}})
	must(t, err)
	_, err = s.Reschedule(ctx, engine.RescheduleInput{Lease: leases[3], Delay: time.Hour, Error: "smtp: 421 try again later\nsecond line"})
	must(t, err)
	for _, id := range []engine.DeliveryID{4, 5} {
		_, err = s.Bury(ctx, engine.BuryInput{Lease: leases[id], Error: "no such address \x1b[31m", Charge: true})
		must(t, err)
	}
	publish(protocol.Event{ID: "p-6", Type: "order.paid", Key: "a", Payload: []byte{0, 1, 2, 0xff}},
		protocol.Event{ID: "p-7", Type: "order.paid", Key: "b", Payload: []byte(strings.Repeat("plain text ", 300))})
	publish(protocol.Event{ID: "p-8", Type: "order.paid", Payload: []byte("null")})
	w.sql(t, `with d as (select lane from SCHEMA.deliveries where id = 8)
		update SCHEMA.lanes set holder = '02000000-0000-0000-0000-000000000000', owner = 'worker-2', epoch = 3, claim = 7, in_flight = '{8}', in_flight_claims = '{7}',
		       lease_expires_at = now() - interval '1 minute' where lane = (select lane from d)`)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// command runs relaybus on the world; nobody answers its questions.
func (w *world) command(args ...string) string {
	return w.with(&app{}, args...)
}

func (w *world) with(a *app, args ...string) string {
	var out, errs bytes.Buffer
	a.out, a.err = &out, &errs
	code := a.run(context.Background(), append([]string{"--database-url", w.url, "--schema", w.schema}, args...))
	text := out.String()
	if errs.Len() > 0 {
		text += "stderr: " + errs.String()
	}
	return w.mask(text) + fmt.Sprintf("exit %d\n", code)
}

var (
	stamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
	ages   = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`)
	spaces = regexp.MustCompile(`(\S) {2,}`)
	builds = regexp.MustCompile(`go1\.[\w.]+|[0-9a-f]{40}|\(devel\)|v0\.0\.0-\S+`)
)

// mask hides what differs from run to run: times, and the columns that follow
// from their width.
func (w *world) mask(text string) string {
	text = stamps.ReplaceAllString(text, "TIME")
	text = ages.ReplaceAllString(text, "AGE")
	text = builds.ReplaceAllString(text, "BUILD")
	text = strings.ReplaceAll(text, w.schema, "SCHEMA")
	if u, err := url.Parse(w.url); err == nil {
		text = strings.ReplaceAll(text, u.Host, "HOST:PORT")
	}
	return spaces.ReplaceAllString(text, "$1  ")
}

// words splits a line at spaces; a word in double quotes is a Go string.
func words(t *testing.T, line string) (list []string) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			must(t, err)
			text, err := strconv.Unquote(quoted)
			must(t, err)
			list, line = append(list, text), line[len(quoted):]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		list, line = append(list, word), rest
	}
	return list
}

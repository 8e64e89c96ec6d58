package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
	"github.com/relaybus-go/relaybus/internal/testdb"
	"github.com/relaybus-go/relaybus/store/postgres"
)

// proxy stands between a pool and its server. When it is armed it cuts the
// connection once: instead of passing on the server's answer to a COMMIT, or
// instead of passing on what a client asks.
type proxy struct {
	listener net.Listener
	server   string // host:port
	cutReply atomic.Bool
	cutCall  atomic.Bool
	cuts     atomic.Int64
	serving  sync.WaitGroup
}

func startProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: server}
	p.serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.serving.Wait() })
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var up sync.WaitGroup
	up.Go(func() {
		p.forward(server, client)
		_ = server.Close()
	})
	p.answer(client, server)
	_ = client.Close()
	up.Wait()
}

// forward passes on what the client asks.
func (p *proxy) forward(server io.Writer, client io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		// What the driver says on its own account is no call: greetings and cancel
		// requests, which have no type, farewells, pings.
		small := n > 0 && (buffer[0] == 0 || buffer[0] == 'X' || bytes.Contains(buffer[:n], []byte("-- ping")))
		if n > 0 && !small && p.cutCall.CompareAndSwap(true, false) {
			p.cuts.Add(1)
			return
		}
		if n > 0 {
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// answer passes on the server's messages: a type, a length, a body.
func (p *proxy) answer(client io.Writer, server io.Reader) {
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if head[0] == 'C' && string(body) == "COMMIT\x00" && p.cutReply.CompareAndSwap(true, false) {
			p.cuts.Add(1)
			return
		}
		if _, err := client.Write(append(slices.Clone(head), body...)); err != nil {
			return
		}
	}
}

// proxied is a store behind a proxy; direct is the same schema without.
type proxied struct {
	*opened
	proxy  *proxy
	direct *postgres.Store
}

func openProxied(t *testing.T, events ...protocol.Event) *proxied {
	s := seeded(t, postgres.Options{}, events...)
	server, err := url.Parse(testdb.Postgres(t, testdb.Local).URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxied{opened: s, proxy: startProxy(t, server.Host), direct: s.store}
	server.Host = p.proxy.listener.Addr().String()
	query := server.Query()
	query.Set("sslmode", "disable") // the proxy reads along
	server.RawQuery = query.Encode()
	pool, err := pgxpool.New(context.Background(), server.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if s.store, err = postgres.NewWith(pool, postgres.Options{Schema: s.schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.store.Close)
	if _, err := s.store.ExtendLease(context.Background(), engine.ExtendLeaseInput{Holder: engine.Holder{9}}); err != nil {
		t.Fatal(err) // connections are there before one is cut
	}
	return p
}

// unknown fails unless an error leaves the outcome open.
func (p *proxied) unknown(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, engine.ErrRetryable) || engine.IsDefinite(err) {
		t.Fatalf("%s: %v, want an error that leaves the outcome open", what, err)
	}
	if p.proxy.cuts.Load() == 0 {
		t.Fatalf("%s: nothing was cut", what)
	}
}

func (p *proxied) publishOnce(events ...protocol.Event) (results []engine.PublishResult, err error) {
	err = p.store.InTx(context.Background(), func(ctx context.Context, tx pgx.Tx) (err error) {
		results, err = p.store.Publish(ctx, tx, events)
		return err
	})
	return results, err
}

// The answer to COMMIT is lost. The call must not claim to know, and asking
// again must give what was done.
func TestReplyLostAfterCommit(t *testing.T) {
	ctx := context.Background()
	event := protocol.Event{ID: "a", Type: "e", Key: "k"}
	lease := func(t *testing.T, p *proxied) (*worker, engine.Lease) {
		w := newWorker(t, p.opened, 1)
		return w, w.claim().Picks[0].Lease
	}
	for name, play := range map[string]func(t *testing.T, p *proxied){
		"Claim": func(t *testing.T, p *proxied) {
			w := newWorker(t, p.opened, 1)
			in := engine.ClaimInput{
				Holder: w.holder, Number: 2, TTL: time.Hour, Handlers: []engine.HandlerRoom{{Name: "h", Room: 10}}, Room: 10, Limit: 10, MaxLanes: 256,
			}
			p.proxy.cutReply.Store(true)
			_, err := p.store.Claim(ctx, in)
			p.unknown(t, "claim", err)
			in.Number, in.AllMine = 4, true
			reply, err := p.store.Claim(ctx, in)
			if err != nil || len(reply.Picks) != 1 || reply.Picks[0].Lease.Claim != 4 || reply.Picks[0].Delivery.Attempts != 0 {
				t.Errorf("%+v, %v, want the delivery again, uncharged", reply.Picks, err)
			}
		},
		"CompleteMany": func(t *testing.T, p *proxied) {
			_, l := lease(t, p)
			in := engine.CompleteManyInput{Leases: []engine.Lease{l}}
			p.proxy.cutReply.Store(true)
			_, err := p.store.CompleteMany(ctx, in)
			p.unknown(t, "complete", err)
			reply, err := p.store.CompleteMany(ctx, in)
			if err != nil || reply.Ended[0].Verdict != engine.Applied {
				t.Errorf("%+v, %v", reply.Ended, err)
			}
		},
		"Reschedule": func(t *testing.T, p *proxied) {
			_, l := lease(t, p)
			in := engine.RescheduleInput{Lease: l, Error: "it failed"}
			p.proxy.cutReply.Store(true)
			_, err := p.store.Reschedule(ctx, in)
			p.unknown(t, "reschedule", err)
			p.onceMore(t, 1, func() (engine.EndReply, error) { return p.store.Reschedule(ctx, in) })
		},
		"Snooze": func(t *testing.T, p *proxied) {
			_, l := lease(t, p)
			in := engine.SnoozeInput{Lease: l}
			p.proxy.cutReply.Store(true)
			_, err := p.store.Snooze(ctx, in)
			p.unknown(t, "snooze", err)
			p.onceMore(t, 0, func() (engine.EndReply, error) { return p.store.Snooze(ctx, in) })
		},
		"Bury": func(t *testing.T, p *proxied) {
			_, l := lease(t, p)
			in := engine.BuryInput{Lease: l, Error: "no more", Charge: true}
			p.proxy.cutReply.Store(true)
			_, err := p.store.Bury(ctx, in)
			p.unknown(t, "bury", err)
			p.onceMore(t, 1, func() (engine.EndReply, error) { return p.store.Bury(ctx, in) })
		},
		"Release": func(t *testing.T, p *proxied) {
			w, l := lease(t, p)
			p.proxy.cutReply.Store(true)
			_, err := p.store.Release(ctx, engine.ReleaseInput{Leases: []engine.Lease{l}})
			p.unknown(t, "release", err)
			reply := w.claim(engine.LaneEpoch{Lane: l.Lane, Epoch: l.Epoch})
			if len(reply.Picks) != 1 || reply.Picks[0].Delivery.Attempts != 0 {
				t.Errorf("%+v, want the delivery again, uncharged", reply.Picks)
			}
		},
		"Relinquish": func(t *testing.T, p *proxied) {
			w, l := lease(t, p)
			p.proxy.cutReply.Store(true)
			_, err := p.store.Relinquish(ctx, engine.RelinquishInput{Holder: w.holder, Number: 10, Lanes: []engine.LaneEpoch{{Lane: l.Lane, Epoch: l.Epoch}}})
			p.unknown(t, "relinquish", err)
			if reply := newWorker(t, p.opened, 2).claim(); len(reply.Picks) != 1 {
				t.Errorf("%+v, want that another worker has it", reply.Picks)
			}
		},
		"ExtendLease": func(t *testing.T, p *proxied) {
			w, l := lease(t, p)
			in := engine.ExtendLeaseInput{Holder: w.holder, Lanes: []engine.LaneEpoch{{Lane: l.Lane, Epoch: l.Epoch}}, TTL: time.Hour}
			p.proxy.cutReply.Store(true)
			_, err := p.store.ExtendLease(ctx, in)
			p.unknown(t, "extend", err)
			reply, err := p.store.ExtendLease(ctx, in)
			if err != nil || reply.Verdicts[0] != engine.Applied {
				t.Errorf("%+v, %v", reply, err)
			}
		},
		"Publish": func(t *testing.T, p *proxied) {
			next := protocol.Event{ID: "b", Type: "e"}
			p.proxy.cutReply.Store(true)
			_, err := p.publishOnce(next)
			p.unknown(t, "publish", err)
			results, err2 := p.publishOnce(next)
			if !errors.Is(err, engine.ErrCommitUnknown) || err2 != nil || results[0] != protocol.Known {
				t.Errorf("%v, then %v, %v, want that the outcome is unknown and the event known", err, results, err2)
			}
		},
		"InTx with Complete": func(t *testing.T, p *proxied) {
			_, l := lease(t, p)
			p.proxy.cutReply.Store(true)
			err := p.store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				if err := p.put(ctx, tx, "a", ""); err != nil {
					return err
				}
				_, err := p.store.Complete(ctx, tx, engine.CompleteInput{Lease: l, TTL: time.Hour})
				return err
			})
			p.unknown(t, "commit", err)
			settled, err2 := p.store.Snooze(ctx, engine.SnoozeInput{Lease: l, Settle: true})
			n, err3 := p.count(ctx, "a")
			if !errors.Is(err, engine.ErrCommitUnknown) || err2 != nil || settled.Verdict != engine.LeaseLost || err3 != nil || n != 1 {
				t.Errorf("%v; settled %v, %v; %d effects, %v", err, settled.Verdict, err2, n, err3)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, openProxied(t, event))
		})
	}
}

// onceMore repeats an end that was applied: nothing is charged twice.
func (p *proxied) onceMore(t *testing.T, attempts int32, end func() (engine.EndReply, error)) {
	t.Helper()
	again, err := end()
	if err != nil || again.Verdict != engine.LeaseLost {
		t.Errorf("once more: %v, %v", again.Verdict, err)
	}
	list, err := p.direct.List(context.Background(), engine.ListInput{})
	if err != nil || len(list.Deliveries) != 1 || list.Deliveries[0].Delivery.Attempts != attempts {
		t.Errorf("%+v, %v, want %d attempts", list.Deliveries, err, attempts)
	}
}

// The connection ends before the server hears of the call. That is an outage to
// the engine, and no conflict. A connection that could not be made carried none.
func TestCallLost(t *testing.T) {
	p := openProxied(t, protocol.Event{ID: "a", Type: "e"})
	ctx := context.Background()
	l := newWorker(t, p.opened, 1).claim().Picks[0].Lease
	for name, call := range map[string]func() error{
		"complete": func() error {
			_, err := p.store.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{l}})
			return err
		},
		"reschedule": func() error { _, err := p.store.Reschedule(ctx, engine.RescheduleInput{Lease: l}); return err },
		"publish":    func() error { _, err := p.publishOnce(protocol.Event{ID: "b", Type: "e"}); return err },
		"extend": func() error {
			_, err := p.store.ExtendLease(ctx, engine.ExtendLeaseInput{Holder: l.Holder, TTL: time.Hour})
			return err
		},
	} {
		p.proxy.cutCall.Store(true)
		err := call()
		p.unknown(t, name, err)
		if errors.Is(err, engine.ErrCommitUnknown) {
			t.Errorf("%s: %v, but COMMIT was not sent", name, err)
		}
		p.proxy.cuts.Store(0)
	}
	_ = p.proxy.listener.Close()
	_, store := p.again(t, func(c *pgxpool.Config) {
		c.ConnConfig.Host, c.ConnConfig.Port = "127.0.0.1", 1 // nobody listens there
		c.ConnConfig.Fallbacks = nil                          // of a URL that leaves TLS to chance
	})
	_, err := store.CompleteMany(ctx, engine.CompleteManyInput{Leases: []engine.Lease{l}})
	if !errors.Is(err, engine.ErrNotSent) || engine.IsDefinite(err) || !strings.Contains(err.Error(), "postgres: complete") {
		t.Errorf("no server: %v", err)
	}
	err = store.InTx(ctx, func(context.Context, pgx.Tx) error { return nil })
	if !errors.Is(err, engine.ErrNotSent) || errors.Is(err, engine.ErrCommitUnknown) {
		t.Errorf("no server: %v", err)
	}
}

package simstore

import (
	"testing"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/engine/protocol"
)

// spoil writes a row behind the protocol's back.
func spoil[K comparable, V any](b *bench, tab *table[K, V], key K, value *V) {
	b.Helper()
	b.alone = true
	tx := must(b.Begin(ctx))(b)
	st := must(tx.statement(ctx, "spoil"))(b)
	must(upsert(&st, tab, key, func(*V) *V { return value }))(b)
	if value == nil {
		erase(tx, tab, key)
	}
	if err := tx.Commit(ctx); err != nil {
		b.Fatal(err)
	}
}

// damages are what Verify must find, and how to do it to delivery #1, which is
// in flight.
var damages = map[string]func(b *bench, d protocol.Delivery, l protocol.Lane){
	"event missing": func(b *bench, d protocol.Delivery, _ protocol.Lane) { spoil(b, b.db.events, d.Event, nil) },
	"impossible status": func(b *bench, d protocol.Delivery, _ protocol.Lane) {
		d.Status = 7
		spoil(b, b.db.deliveries, d.ID, &d)
	},
	"dead in flight": func(b *bench, d protocol.Delivery, _ protocol.Lane) {
		d.Status, d.DiedAt = protocol.Dead, 1
		spoil(b, b.db.deliveries, d.ID, &d)
	},
	"duplicate delivery": func(b *bench, d protocol.Delivery, _ protocol.Lane) {
		d.ID = 99
		spoil(b, b.db.deliveries, d.ID, &d)
	},
	"wrong lane": func(b *bench, d protocol.Delivery, _ protocol.Lane) {
		d.Lane = (d.Lane + 1) % 4
		spoil(b, b.db.deliveries, d.ID, &d)
	},
	"lane missing": func(b *bench, _ protocol.Delivery, l protocol.Lane) { spoil(b, b.db.lanes, l.ID, nil) },
	"epoch went back": func(b *bench, _ protocol.Delivery, l protocol.Lane) {
		l.Epoch--
		spoil(b, b.db.lanes, l.ID, &l)
	},
	"claim went back": func(b *bench, _ protocol.Delivery, l protocol.Lane) {
		l.Claim--
		spoil(b, b.db.lanes, l.ID, &l)
	},
	"stuck": func(b *bench, d protocol.Delivery, l protocol.Lane) {
		l.Stuck = []protocol.DeliveryID{d.ID}
		spoil(b, b.db.lanes, l.ID, &l)
	},
	"handler without subscription": func(b *bench, d protocol.Delivery, _ protocol.Lane) {
		spoil(b, b.db.subscriptions, protocol.EventHandler{Event: "e", Handler: d.Handler}, nil)
	},
}

func TestVerifyFindsDamage(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, mode protocol.Semantics) {
				b := newBench(t, mode)
				b.start("a/k")
				if v := must(b.Verify(ctx))(b); len(v.Findings) != 0 || v.Deliveries != 1 || v.Lanes != 4 {
					t.Fatalf("before the damage: %+v", v)
				}
				damage(b, b.row(1), b.laneOf(1))
				v := must(b.Verify(ctx))(b)
				if len(v.Findings) != 1 || v.Findings[0].Check != name || v.Findings[0].Detail == "" {
					t.Fatalf("found %+v, want one %q", v.Findings, name)
				}
			})
		})
	}
}

// TestVerifyExcuses: what an Unsubscribe buried in flight stays listed until
// the holder's next claim, and a crash may take a lane back.
func TestVerifyExcuses(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		b := newBench(t, mode, func(o *Options) { o.AsyncClaims = true })
		b.subscribe("h")
		b.publish("a/k")
		before := b.Position()
		b.worker("one", "h").claim()
		clean := func(when string) {
			if v := must(b.Verify(ctx))(b); len(v.Findings) != 0 {
				t.Fatalf("%s: %+v", when, v.Findings)
			}
		}
		clean("in flight")
		if mode == protocol.Locking {
			b.crash(before)
			clean("after a crash that took the claim back")
			b.worker("two", "h").claim()
		}
		must(b.Unsubscribe(ctx, engine.UnsubscribeInput{EventHandler: protocol.EventHandler{Event: "e", Handler: "h"}, Bury: true}))(b)
		clean("buried in flight")
	})
}

func TestRewrite(t *testing.T) {
	both(t, func(t *testing.T, mode protocol.Semantics) {
		b := newBench(t, mode)
		w := b.start("a/k")
		w.reschedule(1)
		b.alone = true
		if b.MakeDue(ctx, 1) != nil || b.row(1).AvailableAt > b.script.now {
			t.Errorf("not due: %+v", b.row(1))
		}
		if b.ExpireLane(ctx, b.laneOf(1).ID) != nil || b.laneOf(1).ExpiresAt >= b.script.now {
			t.Errorf("not expired: %+v", b.laneOf(1))
		}
		if b.MakeDue(ctx, 9) == nil || b.ExpireLane(ctx, 99) == nil {
			t.Error("rows that are not there were rewritten")
		}
	})
}

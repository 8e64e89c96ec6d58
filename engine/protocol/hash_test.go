package protocol

import (
	"fmt"
	"reflect"
	"testing"
)

// built returns a State in which rows of every kind stand.
func built(t *testing.T, semantics Semantics) *scene {
	s := newScene(t, semantics)
	s.must(Subscribe{Group: "reports", Handlers: []EventHandler{{"order", "audit"}}, Lanes: []LaneID{2, 3}})
	s.taken()
	return s
}

// TestHashForgetsHistory: two ways to the same state give one hash.
func TestHashForgetsHistory(t *testing.T) {
	publish := func(s *State, id DeliveryID) {
		p := PublishEvent{Event: Event{ID: fmt.Sprint("e", id), Type: "order", PublishedAt: 1}, Subscribed: []string{"audit", "mail"}}
		for i, handler := range p.Subscribed {
			d := Delivery{ID: id + DeliveryID(i), Event: p.Event.ID, Handler: handler, Sequence: int64(id) + int64(i)}
			d.Lane = LaneOf(0, 2, "", d.Event)
			p.Deliveries = append(p.Deliveries, d)
		}
		if o := s.Publish(Publish{Events: []PublishEvent{p}})[0]; !o.OK() {
			t.Fatal(o)
		}
	}
	subscribe := func(s *State, lanes []LaneID, handlers ...string) {
		for _, handler := range handlers {
			if o := s.Subscribe(Subscribe{Group: "default", Handlers: []EventHandler{{"order", handler}}, Lanes: lanes}); !o.OK() {
				t.Fatal(o)
			}
		}
	}
	forth, back := NewState(Locking, 2), NewState(Locking, 2)
	subscribe(forth, []LaneID{0, 1}, "mail", "audit")
	subscribe(back, []LaneID{1, 0}, "audit", "mail")
	for id := DeliveryID(1); id < 20; id += 2 {
		publish(forth, id)
		publish(back, 20-id)
	}
	if forth.Hash() != back.Hash() {
		t.Error("the order of insertion shows in the hash")
	}

	// What came and went leaves no trace: a delivery completed, one requeued.
	before := forth.Hash()
	publish(forth, 99)
	forth.Unsubscribe(Unsubscribe{EventHandler: EventHandler{"order", "mail"}, Swept: []DeliveryID{100}})
	forth.Unsubscribe(Unsubscribe{EventHandler: EventHandler{"order", "audit"}, Swept: []DeliveryID{99}})
	forth.Purge(Purge{Events: []string{"e99"}, EventsTo: 2})
	forth.Subscribe(Subscribe{Group: "default", Handlers: []EventHandler{{"order", "mail"}, {"order", "audit"}}, Revive: true})
	if forth.Hash() != before {
		t.Error("a delivery that is gone shows in the hash")
	}
}

// TestHashSeesEveryField changes each field of each kind of row: a field that
// the hash leaves out would hide a difference from the determinism gate.
func TestHashSeesEveryField(t *testing.T) {
	for _, semantics := range []Semantics{Locking, Snapshot} {
		s := built(t, semantics).s
		rows := map[string]any{
			"event":        &s.events[0].Event,
			"delivery":     &s.rows[0].Delivery,
			"lane":         s.lanes[0],
			"subscription": s.subscriptions[0],
		}
		for _, kind := range []string{"event", "delivery", "lane", "subscription"} {
			row := reflect.ValueOf(rows[kind]).Elem()
			for i := range row.NumField() {
				if row.Type().Field(i).Type == reflect.TypeFor[Due]() {
					continue // an input of Publish; TestDueIsNotKept
				}
				before, kept := s.Hash(), reflect.New(row.Field(i).Type()).Elem()
				kept.Set(row.Field(i))
				change(row.Field(i))
				if s.Hash() == before {
					t.Errorf("%v: the hash does not see %s.%s", semantics, kind, row.Type().Field(i).Name)
				}
				row.Field(i).Set(kept)
			}
		}
	}
}

// change gives a field another value.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Array:
		change(v.Index(v.Len() - 1))
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

// TestHashIsTheSameEverywhere pins one hash: it must not depend on the
// machine, its word size or the version of Go. It moves when the State gains a
// field; then say so in the commit.
func TestHashIsTheSameEverywhere(t *testing.T) {
	for semantics, want := range []uint64{0x2e92f83654e71fc0, 0x751e610332bc3659} {
		if got := built(t, Semantics(semantics)).s.Hash(); got != want {
			t.Errorf("%v: hash %#x, want %#x", Semantics(semantics), got, want)
		}
	}
}

// TestCloneIsApart: a clone is equal, and neither sees what happens to the
// other. The simulator replays from clones after a store crash.
func TestCloneIsApart(t *testing.T) {
	for _, semantics := range []Semantics{Locking, Snapshot} {
		s := built(t, semantics)
		state, ledger := s.s.Clone(), s.l.Clone()
		before, cut := s.s.Hash(), len(s.log)
		if state.Hash() != before {
			t.Fatalf("%v: the clone differs", semantics)
		}
		if semantics == Snapshot {
			s.must(s.filled(ChargeLost{Lane: 0}))
		}
		s.grant(s.claimOf(s.w2, 2, 5))
		s.must(s.filled(CompleteMany{Leases: []Lease{s.lease(5)}}))
		s.must(Requeue{IDs: []DeliveryID{6}, Requeued: []DeliveryID{6}, Now: s.now})
		s.deliver("eight", s.key)
		if state.Hash() != before {
			t.Errorf("%v: the clone moved with the original", semantics)
		}
		if v := Check(state, ledger); v != nil {
			t.Errorf("%v: the clone of the history moved with the original: %v", semantics, v)
		}

		// The clone goes on by itself and arrives at the same place.
		other := &scene{world: &world{s: state, l: ledger}, t: t}
		for _, a := range s.log[cut:] {
			other.must(a)
		}
		if state.Hash() != s.s.Hash() {
			t.Errorf("%v: the clone, given the same actions, arrives elsewhere", semantics)
		}
	}
}

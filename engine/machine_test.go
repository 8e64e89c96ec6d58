package engine

import (
	"reflect"
	"strings"
	"testing"
)

// Perform knows the input of every method of Store, and answers with a pointer
// to that method's reply.
func TestPerformMakesEveryCall(t *testing.T) {
	bus, store := newTestBus(t, Config{})
	must(t, Handle(bus, Handler{Event: "a", Name: "h"}, nothing))
	m, err := NewMachine(bus)
	must(t, err)
	methods := reflect.TypeFor[Store]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		input := reflect.Zero(method.Type.In(1)).Interface()
		got := m.Perform(t.Context(), Call{ID: 9, Input: input})
		if want := reflect.PointerTo(method.Type.Out(0)); got.ID != 9 || got.Err != nil || reflect.TypeOf(got.Reply) != want {
			t.Errorf("%s: %+v, want a reply of type %v", method.Name, got, want)
		}
		if last := store.calls[len(store.calls)-1]; reflect.TypeOf(last) != reflect.TypeOf(input) {
			t.Errorf("%s: the store got a %T", method.Name, last)
		}
	}
	store.away = true
	if got := m.Perform(t.Context(), Call{ID: 1, Input: ClaimInput{}}); got.Err == nil || got.Reply != nil {
		t.Errorf("a failed call: %+v", got)
	}
}

// The texts of failures reach the store clean, whoever made them.
func TestPerformCleansErrorTexts(t *testing.T) {
	bus, store := newTestBus(t, Config{})
	must(t, Handle(bus, Handler{Event: "a", Name: "h"}, nothing))
	m, err := NewMachine(bus)
	must(t, err)
	dirty := "a\x00" + strings.Repeat("x", 1<<20)
	m.Perform(t.Context(), Call{Input: RescheduleInput{Error: dirty}})
	m.Perform(t.Context(), Call{Input: BuryInput{Error: dirty}})
	for _, text := range []string{callsOf[RescheduleInput](store)[0].Error, callsOf[BuryInput](store)[0].Error} {
		if text != CleanText(dirty) {
			t.Errorf("the store got %d bytes %.10q", len(text), text)
		}
	}
}

func TestMachineIsOneInstance(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	must(t, Handle(bus, Handler{Event: "a", Name: "h"}, nothing))
	one, err := NewMachine(bus)
	must(t, err)
	two, err := NewMachine(bus)
	must(t, err)
	if one.Holder() == two.Holder() || one.Holder().IsZero() {
		t.Errorf("holders %v and %v", one.Holder(), two.Holder())
	}
	effects := one.Step(Instant{Wall: 1}, Start{})
	if len(effects) == 0 || one.Hash() == two.Hash() {
		t.Errorf("after Start: %d effects, hashes %x and %x", len(effects), one.Hash(), two.Hash())
	}
	in, ok := effects[0].(Call).Input.(SubscribeInput)
	if !ok || len(in.Handlers) != 1 || in.Group != "default" {
		t.Errorf("first call: %+v", effects[0])
	}
}

package engine

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("text lacks %q:\n%s", part, text)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	c := bus.cfg
	if c.Lease != 30*time.Second || c.Poll != time.Second || c.Window != 2*time.Millisecond ||
		c.CallTimeout != 10*time.Second || c.StopTimeout != 30*time.Second {
		t.Errorf("default times: %v %v %v %v %v", c.Lease, c.Poll, c.Window, c.CallTimeout, c.StopTimeout)
	}
	if c.Concurrency != 100 || c.ClaimLimit != 100 || c.LanesPerClaim != 8 || c.Group != "default" {
		t.Errorf("default counts: %d %d %d, group %q", c.Concurrency, c.ClaimLimit, c.LanesPerClaim, c.Group)
	}
	if !regexp.MustCompile(`.:\d+$`).MatchString(c.Owner) {
		t.Errorf("owner %q is not hostname:pid", c.Owner)
	}
	if first, second := c.NewHolder(), c.NewHolder(); first == second {
		t.Error("two instances got the same holder")
	}
}

// A user who only shortens the lease must not have to think about the rest.
func TestConfigFollowsTheLease(t *testing.T) {
	for _, lease := range []time.Duration{100 * time.Millisecond, 2 * time.Second, time.Hour} {
		if err := (Config{Lease: lease}).Validate(); err != nil {
			t.Errorf("lease %v alone: %v", lease, err)
		}
	}
	if got := (Config{Lease: 2 * time.Second}).withDefaults().Poll; got != 100*time.Millisecond {
		t.Errorf("poll of a 2s lease: %v", got)
	}
}

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		says string
	}{
		"poll above a twentieth of the lease": {Config{Poll: 2 * time.Second}, "a twentieth of the lease, 1.5s"},
		"poll below a millisecond":            {Config{Poll: time.Microsecond}, "Config.Poll"},
		"poll negative":                       {Config{Poll: -time.Second}, "Config.Poll"},
		"lease too short":                     {Config{Lease: time.Millisecond}, "between 100ms and 1h0m0s"},
		"lease of a day":                      {Config{Lease: 24 * time.Hour}, "Config.Lease"},
		"lease negative":                      {Config{Lease: -1}, "Config.Lease"},
		"window of seconds":                   {Config{Window: 2 * time.Second}, "Config.Window"},
		"window negative":                     {Config{Window: -1}, "Config.Window"},
		"call timeout as long as the lease":   {Config{CallTimeout: 30 * time.Second}, "half of the lease, 15s"},
		"call timeout tiny":                   {Config{CallTimeout: time.Millisecond}, "Config.CallTimeout"},
		"stop timeout negative":               {Config{StopTimeout: -1}, "Config.StopTimeout"},
		"stop timeout of a week":              {Config{StopTimeout: 7 * 24 * time.Hour}, "Config.StopTimeout"},
		"concurrency negative":                {Config{Concurrency: -1}, "between 1 and 100000"},
		"concurrency absurd":                  {Config{Concurrency: 1 << 30}, "Config.Concurrency"},
		"claim limit absurd":                  {Config{ClaimLimit: 1 << 30}, "Config.ClaimLimit"},
		"lanes per claim above all lanes":     {Config{LanesPerClaim: 257}, "between 1 and 256"},
		"completion batch absurd":             {Config{CompletionBatch: 5000}, "Config.CompletionBatch"},
		"group too long":                      {Config{Group: strings.Repeat("g", 129)}, "has 129 bytes, at most 128"},
		"group with NUL":                      {Config{Group: "a\x00b"}, "NUL"},
		"owner not UTF-8":                     {Config{Owner: "\xff"}, "not valid UTF-8"},
		"middleware nil":                      {Config{Middleware: []Middleware{nil}}, "Config.Middleware[0] is nil"},
		"publish middleware nil":              {Config{PublishMiddleware: []PublishMiddleware{nil}}, "Config.PublishMiddleware[0] is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.cfg.Validate()
			wantInvalid(t, err, c.says)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one sentence: %v", err)
			}
			if _, err := New(&fakeStore{}, c.cfg); err == nil {
				t.Error("New accepted what Validate refuses")
			}
		})
	}
}

func TestNewWithoutStore(t *testing.T) {
	_, err := New[*fakeTx](nil, Config{})
	wantInvalid(t, err, "needs a store")
	_, err = New((*fakeStore)(nil), Config{})
	wantInvalid(t, err, "needs a store")
}

func TestMachineRefusesZeroHolder(t *testing.T) {
	bus, _ := newTestBus(t, Config{NewHolder: func() Holder { return Holder{} }})
	must(t, Handle(bus, Handler{Event: "e", Name: "h"}, func(context.Context, Event[[]byte]) error { return nil }))
	_, err := NewMachine(bus)
	wantInvalid(t, err, "NewHolder")
}

func TestMachineRefusesABusWithoutHandlers(t *testing.T) {
	bus, _ := newTestBus(t, Config{})
	_, err := NewMachine(bus)
	wantInvalid(t, err, "call Handle or HandleTx")
	wantInvalid(t, bus.Run(t.Context()), "call Handle or HandleTx")
}

func TestUUID(t *testing.T) {
	pattern := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	a, b := newUUID(), newUUID()
	if !pattern.MatchString(a) || a == b {
		t.Errorf("ids %q, %q are not two UUIDs of version 7", a, b)
	}
	if id := uuidAt(0x0123456789ab); !strings.HasPrefix(id, "01234567-89ab-7") {
		t.Errorf("time is not the prefix of %s", id)
	}
	if uuidAt(1) > uuidAt(2) {
		t.Error("a later id sorts before an earlier one")
	}
}

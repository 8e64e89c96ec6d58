package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relaybus-go/relaybus/spec/internal/command"
)

// Every corruption has its chance: one that no trace offers checks nothing.
func TestCorruptionsAreOffered(t *testing.T) {
	found, err := files([]string{simulated(t, 150)})
	if err != nil {
		t.Fatal(err)
	}
	offered := make([]int, len(corruptions))
	for _, file := range found {
		trace, err := readTrace(file, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range corruptions {
			for _, e := range trace.events {
				if c.offer(trace, e) != nil {
					offered[i]++
					break
				}
			}
		}
	}
	for i, n := range offered {
		if n == 0 {
			t.Errorf("corruption %d, for guard %q, is never offered", i, corruptions[i].guard)
		}
	}
}

// A change is one field of one event, it is drawn by the seed alone, and it is
// told.
func TestCorrupt(t *testing.T) {
	file := filepath.Join("testdata", "example", "4.ndjson")
	different := map[string]bool{}
	for seed := range uint64(20) {
		var told []string
		for range 2 {
			changed, err := readTrace(file, 0)
			if err != nil {
				t.Fatal(err)
			}
			changes, err := corruptSome([]*trace{changed}, 1, seed)
			if err != nil {
				t.Fatal(err)
			}
			original, err := readTrace(file, 0)
			if err != nil {
				t.Fatal(err)
			}
			var edited []*event
			for i, e := range changed.events {
				if e.text() != original.events[i].text() {
					edited = append(edited, e)
				}
			}
			c := changes[changed]
			if len(edited) != 1 || edited[0] != c.event || c.from == c.to {
				t.Errorf("seed %d: %d events were changed, told %+v", seed, len(edited), c)
			}
			told = append(told, strings.Join([]string{c.event.action, c.field, c.from, c.to, c.guard}, " "))
		}
		if told[0] != told[1] {
			t.Errorf("seed %d: %q and %q", seed, told[0], told[1])
		}
		different[told[0]] = true
	}
	if len(different) < 10 {
		t.Errorf("20 seeds made only %d changes", len(different))
	}
}

// Whatever is not exactly as it should be fails.
func TestReportCorrupted(t *testing.T) {
	changed, plain := &trace{file: "changed"}, &trace{file: "plain"}
	changes := map[*trace]change{changed: {event: &event{line: 5, action: "Claim"}, field: "Number", guard: "number"}}
	good := verdict{line: 5, action: "Claim", guard: "number"}
	accepted := verdict{accepted: true}
	for _, c := range []struct {
		story          string
		changed, plain verdict
		want           int
		says           string
	}{
		{"as it should be", good, accepted, command.Expected, "1 of 1 changed traces"},
		{"accepted", accepted, accepted, command.Unexpected, "<- accepted"},
		{"refused elsewhere", verdict{line: 6, guard: "number"}, accepted, command.Unexpected, "<- refused at line 6"},
		{"refused by another guard", verdict{line: 5, guard: "holder"}, accepted, command.Unexpected, "<- refused by another guard"},
		{"the other one refused", good, good, command.Unexpected, "unchanged"},
	} {
		var out bytes.Buffer
		s := &settings{stdout: &out}
		code := s.reportCorrupted([]*trace{changed, plain}, changes, map[*trace]verdict{changed: c.changed, plain: c.plain})
		if code != c.want || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit %d\n%s", c.story, code, &out)
		}
	}
}

package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/relaybus-go/relaybus/engine"
	"github.com/relaybus-go/relaybus/faults"
)

func TestReadWorkloadNamesTheBadLine(t *testing.T) {
	const good = `{"at":100,"id":"a","type":"t","key":"k"}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty file", "", "no events"},
		{"not JSON", good + "at=3\n", "line 2: not a JSON object"},
		{"an array", "[]\n", "line 1: not a JSON object"},
		{"no time", `{"id":"a","type":"t"}`, "line 1: at is missing"},
		{"a date", `{"at":"2026-01-01","id":"a","type":"t"}`, "line 1:"},
		{"an absurd time", `{"at":99999999999999,"id":"a","type":"t"}`, "want Unix seconds"},
		{"no id", `{"at":1,"type":"t"}`, "line 1: id is missing or empty"},
		{"no type", `{"at":1,"id":"a"}`, "line 1: type is missing or empty"},
		{"id twice", good + good, `line 2: id "a" stands in line 1 already`},
		{"long id", `{"at":1,"id":"` + strings.Repeat("x", engine.MaxID+1) + `","type":"t"}`, "id has 513 bytes"},
		{"long key", `{"at":1,"id":"a","type":"t","key":"` + strings.Repeat("x", engine.MaxKey+1) + `"}`, "key has 513 bytes"},
		{"NUL in a type", `{"at":1,"id":"a","type":"t\u0000"}`, "without NUL"},
		{"long payload", `{"at":1,"id":"a","type":"t","payload":"` + strings.Repeat("x", engine.MaxPayload) + `"}`, "payload has"},
		{"long line", good + strings.Repeat("x", maxLine+1), "line 2: longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadWorkload(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// Every recorded event reaches both handlers, in virtual time with long pauses
// cut.
func TestRecordedWorkload(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"at":1000,"id":"first","type":"order.placed","key":"k","payload":{"n":1}}` + "\n\n")
	text.WriteString(`{"at":90000,"id":"second","type":"order.paid","key":"k"}` + "\n")
	text.WriteString(`{"at":90001,"id":"third","type":"order.paid"}` + "\n")
	recorded, err := ReadWorkload(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if recorded.Len() != 3 || recorded.events[1].pause != longestPause || recorded.events[2].pause != time.Second {
		t.Fatalf("events %+v", recorded.events)
	}
	for seed := range uint64(fewer(40)) {
		set, _ := faults.Parse("crash,expire,losereply,losecommit")
		rep := One(Options{Seed: seed, Faults: set, Workload: recorded})
		wantClean(t, &rep)
		if rep.Deliveries != 6 || rep.Completed+rep.Dead != 6 {
			t.Errorf("seed %d: %d deliveries, %d completed, %d dead", seed, rep.Deliveries, rep.Completed, rep.Dead)
		}
	}
}

package sim

import (
	"strings"
	"testing"
)

const scheduleHead = "format: 1\nseed: 7\nknobs: store=pg lanes=2 workers=1\nfaults: crash\n"

func TestParseScheduleRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "format: 1 is missing"},
		{"another format", "format: 99\n", `line 1: format "99" is not known to this version, which reads format 1`},
		{"no header", "latency.statement client=1 n=1 value=2\n", "line 1: not a schedule"},
		{"no knobs", "format: 1\nseed: 7\n", "the line knobs: is missing"},
		{"bad seed", "format: 1\nseed: seven\n", "line 2:"},
		{"unknown header", "format: 1\ncolour: red\n", `line 2: unknown header "colour"`},
		{"unknown knob", "format: 1\nknobs: wheels=4\n", `line 2: unknown knob "wheels"`},
		{"knob out of range", "format: 1\nknobs: workers=400\n", "workers=400: want a number from 1 to 16"},
		{"knob of the wrong kind", "format: 1\nknobs: lease=soon\n", "lease=soon: want a duration"},
		{"unknown store", "format: 1\nknobs: store=oracle\n", "store=oracle: want pg or mongo"},
		{"unknown fault", "format: 1\nfaults: meteor\n", `unknown fault "meteor"`},
		{"choice without a value", scheduleHead + "fault.crash worker=1 n=2\n", "line 5:"},
		{"choice without a number", scheduleHead + "fault.crash worker=one n=2 value=1\n", `"worker=one": want a whole number`},
		{"choice about something else", scheduleHead + "fault.crash lane=1 n=2 value=1\n", "fault.crash has no such part"},
		{"word without a value", scheduleHead + "fault.crash worker n=2 value=1\n", `"worker": want name=value`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseSchedule(strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// A schedule outlives the names it uses: what is not known any more is
// counted and skipped.
func TestParseScheduleCountsWhatItDoesNotKnow(t *testing.T) {
	s, err := ParseSchedule(strings.NewReader(scheduleHead +
		"fault.meteor n=1 value=1\nlatency.request client=1 call=Teleport n=1 value=2\nfault.crash worker=1 n=2 value=1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Unknown != 2 || len(s.Choices) != 1 {
		t.Errorf("%d unknown, %d choices", s.Unknown, len(s.Choices))
	}
	if got := s.Choices[0].String(); got != "fault.crash worker=1 n=2 value=1" {
		t.Errorf("the choice reads %q", got)
	}
}

func TestKnobsRoundTrip(t *testing.T) {
	for seed := range uint64(200) {
		k, _ := knobsOf(&Options{Seed: seed})
		read, err := parseKnobs(k.String())
		if err != nil {
			t.Fatal(err)
		}
		if read != k {
			t.Errorf("%v read back as %v", k, read)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	f.Add(scheduleHead + "fault.crash worker=1 n=2 value=1\n")
	f.Add("format: 1\nknobs: \n# comment\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := ParseSchedule(strings.NewReader(s.String()))
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, s)
		}
		if again.String() != s.String() {
			t.Fatalf("written twice:\n%s\n%s", s, again)
		}
	})
}

package bench

import (
	"strings"
	"testing"
	"time"
)

// A run that lost an event, handled one twice, invented one or broke the order
// of a key must not pass as a measurement.
func TestJudgeFindsWhatIsNotAsPromised(t *testing.T) {
	one := func(int) string { return "k" }
	for _, c := range []struct {
		name string
		runs []int
		key  func(int) string
		want string
	}{
		{"as promised", []int{0, 1, 2}, one, ""},
		{"another order without keys", []int{2, 0, 1}, noKey, ""},
		{"lost", []int{0, 2}, noKey, "event 1 was handled 0 times"},
		{"twice", []int{0, 1, 2, 1}, noKey, "event 1 was handled 2 times"},
		{"invented", []int{0, 1, 2, 7}, noKey, "1 events were handled that were not published"},
		{"out of order", []int{0, 2, 1}, one, `event 1 of key "k" ran after event 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &run{result: Result{Valid: true}}
			var seen report
			for i, event := range c.runs {
				seen.Runs = append(seen.Runs, sighting{event, int64(i)})
			}
			r.judge([]report{seen}, 0, 3, c.key)
			if r.result.Valid != (c.want == "") {
				t.Errorf("valid is %v, faults %v", r.result.Valid, r.result.Faults)
			}
			if got := strings.Join(r.result.Faults, "; "); !strings.Contains(got, c.want) {
				t.Errorf("the faults are %q, want %q", got, c.want)
			}
		})
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	good := Options{URL: "postgres://x", Scenario: "dispatch"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		"no database":             func(o *Options) { o.URL = "" },
		`no scenario "x"`:         func(o *Options) { o.Scenario = "x" },
		"-1 events":               func(o *Options) { o.Events = -1 },
		"65 processes":            func(o *Options) { o.Processes = 65 },
		"runs in one process":     func(o *Options) { o.Processes, o.Scenario = 2, "idle" },
		"against scenario dispat": func(o *Options) { o.Raw, o.Scenario = true, "idle" },
		"101 rounds":              func(o *Options) { o.Rounds = 101 },
		"a window of -1s":         func(o *Options) { o.Window = -time.Second },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that says %q", err, want)
		}
	}
}

func TestRateLeavesOutBothEnds(t *testing.T) {
	var times []int64
	for i := range 100 {
		times = append(times, int64(i)*int64(time.Millisecond))
	}
	times[0], times[99] = -int64(time.Hour), int64(time.Hour)
	if got := Rate(times); got != 1000 {
		t.Errorf("the rate is %v, want 1000 a second", got)
	}
}
